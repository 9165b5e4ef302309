"""Loops as the lanes of vectors: which, how long, and data turned in registers."""
