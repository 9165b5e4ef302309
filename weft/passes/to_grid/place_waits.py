"""Copies that run on their own (``cp.async``): where a thread waits for them, as statements.

Hints say which buffers are filled so, and which copies are a group that is used some groups later. A barrier is where
threads see what others copied, so before each one a thread waits until all its groups but the youngest have arrived:
``async_commit(2)`` says that the barrier before the use of a group comes after one more was started. Machines without
such copies, and loops that start some but have no barrier to wait at, have no hints any more.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Const, idx
from weft.ir.nesting import sequence
from weft.ir.stmt import Barrier, Evaluate, For, Kernel, Stmt, hint
from weft.ir.visit import Node, map_statements, rewrite, walk
from weft.passes.analysis.loop_ranges import is_serial_loop
from weft.passes.analysis.thread_reductions import is_reduction

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
    return before_barriers(launch, hint("async_wait", idx(min(commits) - 1)))


def before_barriers(s: Stmt, first: Stmt) -> Stmt:
    """``s`` with the statement ``first`` wherever the threads of a block are about to meet."""
    if isinstance(s, Barrier) or is_reduction(s):
        return sequence([first, s])
    return map_statements(s, lambda n: before_barriers(n, first))


def _committed(s: Stmt) -> list[int]:
    calls = (n.call for n in walk(s) if isinstance(n, Evaluate) and n.call.name == "async_commit")
    return [int(e.value) for call in calls for e in call.args if isinstance(e, Const)]


def _are_waited_for(launch: Stmt) -> bool:
    """Whether every loop that starts a group has a barrier."""
    loops = [n for n in walk(launch) if isinstance(n, For) and is_serial_loop(n)]
    return all(any(isinstance(n, Barrier) for n in walk(loop)) for loop in loops if _committed(loop))


def _without(n: Node) -> Node | None:
    return sequence([]) if isinstance(n, Evaluate) and n.call.name in _ABOUT_COPIES else None
