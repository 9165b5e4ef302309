"""Equality of formulas, decided by their normal form.

A formula is a sum of products of reads; a product is a weighted set of (output index, subscripts), where names and
ranges of summed indices, splits, shifts and orders are gone. `equal.equal` says yes with the steps of the proof, or no
with the place where two formulas differ, or that it does not know. ``docs/algebra.md`` tells how and why.
"""
