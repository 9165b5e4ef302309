"""Whether the iterations of a loop touch different memory, so that they may run in any order."""

from __future__ import annotations

from weft.ir.affine import affine_form
from weft.ir.expr import Expr, Load, Var
from weft.ir.stmt import Alloc, Assign, Atomic, For, Let, Store
from weft.ir.visit import bound_names, walk


def check_independent(loop: For) -> str | None:
    """Why iterations of ``loop`` may depend on each other, or None where they cannot.

    For each buffer written, one dimension must be indexed by the same injective function of the
    loop's variable in every access: then no two iterations meet. Buffers do not overlap.
    """
    nodes = list(walk(loop.body))
    private = {n.buffer.name for n in nodes if isinstance(n, Alloc)}
    local = {n.var.name for n in nodes if isinstance(n, Let)}
    for n in nodes:
        if isinstance(n, Atomic):
            return f"it updates `{n.buffer.name}` atomically"
        if isinstance(n, Assign) and n.var.name not in local:
            return f"it assigns `{n.var.name}`, which lives longer than an iteration"
    inner = {name for n in nodes for name in bound_names(n)}
    written = {n.buffer.name for n in nodes if isinstance(n, Store)} - private
    for name in sorted(written):
        accesses = [n.indices for n in nodes if isinstance(n, (Load, Store)) and n.buffer.name == name]
        if not any(_separates(column, loop.var.name, inner) for column in zip(*accesses)):
            return f"iterations may meet in `{name}`"
    return None


def _separates(column: tuple[Expr, ...], var: str, inner: set[str]) -> bool:
    """Whether one dimension's index, over all accesses, is one function of ``var`` that never repeats."""
    first = column[0]
    if any(e != first for e in column[1:]) or any(isinstance(n, Var) and n.name in inner for n in walk(first)):
        return False
    form = affine_form(first)
    return form is not None and form.coefficients.get(var, 0) != 0
