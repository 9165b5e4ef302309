"""Lowering passes: each takes a kernel and gives back one that means the same, in a form nearer to the machine."""
