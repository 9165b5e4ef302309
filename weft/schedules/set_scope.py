"""``set_scope``: in which memory a temporary lives: ``global``, ``shared``, ``local``, ``register`` or another."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Scope
from weft.ir.expr import Const
from weft.ir.memory import APART, SCOPES, storage_scopes
from weft.ir.printer import print_expr
from weft.ir.stmt import Alloc, For, Kernel
from weft.ir.visit import replace_buffers
from weft.poly.leaves import leaves
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_alloc, find_buffer, loops_around
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_set_scope(kernel: Kernel, buffer: str, scope: Scope, *, numerics: Numerics) -> Verdict:
    """Only temporaries move; registers have a fixed size, and memory of a thread is not shared with others."""
    if buffer in {b.name for b in kernel.buffers}:
        return refuse(f"`{buffer}` is a parameter: it lives where the caller has it")
    find_buffer(kernel, buffer)
    if scope not in storage_scopes():
        return refuse(f"{scope!r} is no scope for temporaries", alternatives=_scopes(buffer))
    alloc = find_alloc(kernel, buffer)
    variable = [size for size in alloc.buffer.shape if not isinstance(size, Const)]
    if (scope == "register" or SCOPES[scope].addressed_by == "block") and variable:
        return refuse(f"its size {print_expr(variable[0])} is not a constant, so it does not fit a {scope} buffer")
    return _check_threads(kernel, alloc, scope)


def _scopes(buffer: str) -> tuple[str, ...]:
    return tuple(f's.set_scope("{buffer}", "{s}")' for s in storage_scopes())


def _check_threads(kernel: Kernel, alloc: Alloc, scope: str) -> Verdict:
    depth = len(loops_around(kernel, alloc))
    apart = APART[SCOPES[scope].addressed_by]
    for leaf in leaves(kernel, alloc):
        if not any(a.buffer.name == alloc.buffer.name for a in leaf.accesses):
            continue
        for loop in leaf.loops[depth:]:
            if isinstance(loop.node, For) and loop.kind in apart:
                return refuse(f"the iterations of `{loop.name}` run on threads of their own and share it")
    return OK


@primitive(check_set_scope, "cannot keep `{0}` in {1} memory")
def set_scope(kernel: Kernel, buffer: str, scope: Scope) -> Rewrite:
    """``buffer`` lives in ``scope`` memory from here on."""
    alloc = find_alloc(kernel, buffer)
    moved = replace(alloc.buffer, scope=scope)
    body = replace_buffers(alloc.body, {alloc.buffer: moved})
    return Rewrite(replace_stmt(kernel, alloc, Alloc(moved, body, span=alloc.span)))
