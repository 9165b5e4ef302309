"""Copies that run on their own (``cp.async``): where a thread waits for them, as statements.

Hints say which buffers are filled so, and which copies are a group that is used some groups later. A barrier is where
threads see what others copied, so before each one a thread waits until all its groups but the youngest have arrived:
``async_commit(2)`` says that the barrier before the use of a group comes after one more was started, and one that comes
after this iteration's own group was started after two: unless what the iteration uses is used before that, so that the
barrier is the one before the use of the next group. Machines without such copies, and loops that start some but have no
barrier to wait at, have no hints any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.ir.expr import AddressOf, Const, idx
from weft.ir.nesting import flat, sequence, statements_in
from weft.ir.stmt import Barrier, Evaluate, For, Kernel, Stmt, hint
from weft.ir.visit import Node, map_statements, mentions, rewrite, walk
from weft.passes.analysis.loop_ranges import constant_extent, is_serial_loop
from weft.passes.analysis.thread_reductions import is_reduction
from weft.passes.analysis.thread_shapes import WARP

_ABOUT_COPIES = ("async_fill", "async_commit")


def place_waits(kernel: Kernel, *, has_async_copies: bool) -> Kernel:
    """``kernel``, in grid form, with waits before its barriers."""

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block":
            return _in_launch(s, has_async_copies)
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


def _in_launch(launch: Stmt, has_async_copies: bool) -> Stmt:
    commits = _committed(launch)
    if not commits:
        return launch
    if not has_async_copies or not _are_waited_for(launch):
        return rewrite(launch, _without)
    distance = min(commits)
    if len({*commits}) > 1:
        return before_barriers(launch, _wait(distance - 1))
    return _with_waits(launch, distance, _filled(launch))


def _wait(groups: int) -> Stmt:
    return hint("async_wait", idx(groups))


def _with_waits(s: Stmt, distance: int, rings: frozenset[str]) -> Stmt:
    """``s`` with waits before its barriers, all of whose groups fill ``rings``, used ``distance`` groups later."""
    if isinstance(s, Barrier) or is_reduction(s):
        return sequence([_wait(distance - 1), s])
    if isinstance(s, For) and is_serial_loop(s) and len(_committed(s)) == 1:
        parts = flat(s.body)
        at = next((n for n, part in enumerate(parts) if _is_commit(part)), len(parts))
        before = (_with_waits(part, distance, rings) for part in parts[:at])
        of_next = _is_used_first(parts[at:], rings)
        after = (before_barriers(part, _wait(distance - of_next)) for part in parts[at:])
        return replace(s, body=sequence([*before, *after]))
    return map_statements(s, lambda n: _with_waits(n, distance, rings))


def _filled(s: Stmt) -> frozenset[str]:
    """Buffers that copies in ``s`` fill on their own."""
    calls = (n.call for n in walk(s) if isinstance(n, Evaluate) and n.call.name == "async_fill")
    return frozenset(e.buffer.name for call in calls for e in call.args if isinstance(e, AddressOf))


def _is_used_first(parts: Sequence[Stmt], rings: frozenset[str]) -> bool:
    """Whether ``parts`` of an iteration use one of ``rings`` before all threads meet."""
    for part in parts:
        if rings & mentions(part).loaded:
            return True
        if any(isinstance(n, Barrier) and n.scope != "warp" for n in walk(part)) or is_reduction(part):
            return False
    return False


def _is_commit(s: Stmt) -> bool:
    return isinstance(s, Evaluate) and s.call.name == "async_commit"


def before_barriers(s: Stmt, first: Stmt) -> Stmt:
    """``s`` with the statement ``first`` wherever the threads of a block are about to meet."""
    if isinstance(s, Barrier) or is_reduction(s):
        return sequence([first, s])
    return map_statements(s, lambda n: before_barriers(n, first))


def _committed(s: Stmt) -> list[int]:
    calls = (n.call for n in statements_in(s, Evaluate) if _is_commit(n))
    return [int(e.value) for call in calls for e in call.args if isinstance(e, Const)]


def _are_waited_for(launch: Stmt) -> bool:
    """Whether every loop that starts a group has a barrier of all that copy; of a warp where that is all there is."""
    loops = statements_in(launch, For)
    threads = prod(constant_extent(n) or 2 * WARP for n in loops if n.kind == "thread")
    scopes = ({n.scope for n in statements_in(x, Barrier)} for x in loops if is_serial_loop(x) and _committed(x))
    return all(found - {"warp"} or (found and threads <= WARP) for found in scopes)


def _without(n: Node) -> Node | None:
    return sequence([]) if isinstance(n, Evaluate) and n.call.name in _ABOUT_COPIES else None
