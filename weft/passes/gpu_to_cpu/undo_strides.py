"""Threads that share the iterations of a longer loop, as one thread for each of them.

``thread t in 0:128 { for i in 0:(n - t + 127) // 128 { A(t + i * 128) } }`` becomes ``thread x in 0:n { A(x) }``. That
threads may run in any order is given; iterations of one thread may as well, where they touch no element that another of
them writes.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.affine import Linear, linear_form
from weft.ir.expr import AddressOf, Binary, Const, Expr, Load, Var, idx
from weft.ir.interval import bounds
from weft.ir.nesting import has_loop, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Atomic, For, Kernel, Let, Stmt, Store
from weft.ir.visit import free_vars, map_statements, mentions, substitute, walk


def undo_strides(kernel: Kernel) -> Kernel:
    """``kernel`` with a thread for each iteration that threads took in turns."""
    return replace(kernel, body=_visit(kernel.body))


def _visit(s: Stmt) -> Stmt:
    if isinstance(s, For) and s.kind == "thread" and not has_loop(s.body, "thread"):
        return _undone(s) or s
    return map_statements(s, _visit)


def _undone(team: For) -> Stmt | None:
    lets, loop = _around(team.body, team.var)
    if loop is None or team.lo != idx(0) or not isinstance(team.hi, Const):
        return None
    end = _end(loop, team)
    if end is None or loop.var.name in free_vars(end):
        return None
    if _at_most(end, team.hi):  # one iteration, or none
        body = simplify(substitute(loop.body, {loop.var: idx(0)}))
    else:
        body = simplify(substitute(loop.body, {team.var: team.var - loop.var * team.hi}))
        if loop.var.name in free_vars(body) or not _are_apart(body, team.var):
            return None
    for let in reversed(lets):
        body = replace(let, body=body)
    return replace(team, hi=end, body=body)


def _around(s: Stmt, thread: Var) -> tuple[list[Let], For | None]:
    """Variables that are the same for all threads, and the loop that they are made for."""
    lets: list[Let] = []
    while isinstance(s := strip(s), Let) and thread.name not in free_vars(s.value):
        lets.append(s)
        s = s.body
    is_loop = isinstance(s, For) and s.kind in ("serial", "unroll") and s.lo == idx(0)
    fixed = not any(let.var.name in assigned_names(s) for let in lets)
    return lets, s if isinstance(s, For) and is_loop and fixed else None


def _end(loop: For, team: For) -> Expr | None:
    """``n``, where the thread ``t`` of ``k`` runs ``(n - t + k - 1) // k`` iterations."""
    trips = linear_form(loop.hi)
    match [*trips.terms.items()]:
        case [(Binary("//", distance, by), 1)] if by == team.hi and linear_form(distance).terms.get(team.var) == -1:
            end = simplify(distance + team.hi * idx(trips.constant) + team.var - team.hi + idx(1))
            return None if team.var.name in free_vars(end) else end
    return None


def _at_most(end: Expr, threads: Const) -> bool:
    most = bounds(end, {}).hi
    return most is not None and most <= int(threads.value)


def _are_apart(body: Stmt, var: Var) -> bool:
    """Whether iterations ``var`` of ``body`` never meet: each has its own stretch of what is written."""
    own = mentions(body)
    if any(isinstance(n, (Atomic, AddressOf)) for n in walk(body)):
        return False
    for name in own.stored - own.allocated:
        accesses = [n for n in walk(body) if isinstance(n, (Load, Store)) and n.buffer.name == name]
        forms = [form for n in accesses if (form := _offset(n)) is not None]
        factors = {form.terms.pop(var, 0) for form in forms}
        rests = {frozenset(form.terms.items()) for form in forms}
        if len(forms) < len(accesses) or len(factors) != 1 or len(rests) != 1:
            return False
        if any(not own.bound.isdisjoint(free_vars(e)) or var.name in free_vars(e) for e, _ in next(iter(rests))):
            return False
        offsets = [form.constant for form in forms]
        if max(offsets) - min(offsets) >= abs(factors.pop()):
            return False
    return not assigned_names(body) - own.bound


def _offset(access: Load | Store) -> Linear | None:
    """Elements from the start of the buffer."""
    total = Linear()
    for index, stride in zip(access.indices, access.buffer.element_strides()):
        if not isinstance(stride, Const):
            return None
        total.add(linear_form(index), int(stride.value))
    return total
