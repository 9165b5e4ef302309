"""Machines: a description of each, and a generator that turns loop programs into its code."""
