"""Tensor programs: an operator defined once, and everything derived from the definition."""
