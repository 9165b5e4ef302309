"""The normal form of tensor programs: however a formula is spelled, strategies see one spelling.

`normal_form.normal_form` takes a specialized program there, before it becomes a loop program. Each file is one kind of
rewrite, with a table of what becomes of what and whether that changes a bit (exact: never; fast: as rounding may).
"""
