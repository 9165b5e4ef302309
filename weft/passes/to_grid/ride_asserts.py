"""Tests of indices move to where the indices are used, if each is used once: they need no launch of their own.

    for m { assert Label[m] < N }
    block m { ... ; L[m] = X[m, Label[m]] }          # becomes
    block m { ... ; assert Label[m] < N ; L[m] = X[m, Label[m]] }

A thread whose test fails ends there, so the use must be the last thing its block does. What was written by then stays
written: outputs that the program reads keep their tests in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.ir.expr import Expr, Load, Var
from weft.ir.interval import Interval, bounds, ranges_through
from weft.ir.nesting import find_path, perfect_nest
from weft.ir.stmt import Alloc, Assert, Atomic, For, Kernel, Seq, Stmt, Store
from weft.ir.visit import children, loads, map_statements, mentions, substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent, loop_range


@dataclass(frozen=True, slots=True)
class _Check:
    """A nest that tests what an element ``index`` of memory is, for all values of ``loops``."""

    nest: Stmt
    loops: tuple[For, ...]
    test: Assert
    index: Load


def ride_asserts(kernel: Kernel) -> Kernel:
    """``kernel`` with the tests that its first nests make of indices right in front of their use, where that fits."""
    if (
        not isinstance(kernel.body, Seq)
        or not kernel.body.body
        or any(load.buffer.name in kernel.outputs for load in loads(kernel.body))
    ):
        return kernel
    first, *rest = kernel.body.body
    check = _read_check(first)
    if check is None or check.index.buffer.name in mentions(kernel.body).stored:
        return kernel
    moved = _moved(check, Seq(tuple(rest)))
    return kernel if moved is None else ride_asserts(replace(kernel, body=moved))


def _read_check(s: Stmt) -> _Check | None:
    loops, test = perfect_nest(s, "serial")
    if not isinstance(test, Assert) or not loops or any(constant_extent(f) is None for f in loops):
        return None
    indices = set(loads(test))
    if len(indices) != 1:
        return None
    (index,) = indices
    if not all(isinstance(i, Var) for i in index.indices) or {f.var for f in loops} != set(index.indices):
        return None
    return _Check(s, loops, test, index)


def _moved(check: _Check, rest: Stmt) -> Stmt | None:
    """``rest`` with the test inside; None where it does not fit."""
    uses = [s for s in walk(rest) if isinstance(s, Stmt) and _own_loads(s, check.index)]
    if len(uses) != 1 or not isinstance(use := uses[0], (Store, Atomic)):
        return None
    places = {load.indices for load in _own_loads(use, check.index)}
    path = find_path(rest, use)
    if len(places) != 1 or path is None:
        return None
    values = {i: e for i, e in zip(check.index.indices, places.pop()) if isinstance(i, Var)}
    if not _comes_last(path) or not _visits_each_once(check, path, values):
        return None
    return _with_test(rest, use, substitute(check.test, values))


def _own_loads(s: Stmt, index: Load) -> list[Load]:
    """Loads of the buffer of ``index`` in expressions of ``s`` itself."""
    own = (e for e in children(s) if isinstance(e, Expr))
    return [n for e in own for n in walk(e) if isinstance(n, Load) and n.buffer == index.buffer]


def _comes_last(path: Sequence[Stmt]) -> bool:
    """Whether a block ends with the last statement of ``path``, which runs in blocks and threads alone."""
    launch = next((n for n, s in enumerate(path) if isinstance(s, For)), len(path))
    for s, inner in zip(path[launch:], path[launch + 1 :]):
        if isinstance(s, Seq):
            if s.body[-1] is not inner:
                return False
        elif not isinstance(s, Alloc) and not (isinstance(s, For) and s.kind in ("block", "thread")):
            return False
    return launch < len(path)


def _visits_each_once(check: _Check, path: Sequence[Stmt], values: Mapping[Var, Expr]) -> bool:
    """Whether the loops of ``path`` are as many as those of the test, and none gives an index that is not tested."""
    loops = [s for s in path if isinstance(s, For)]
    ranges, counts = ranges_through(loops, {}), [constant_extent(loop) for loop in loops]
    if None in counts or prod(n or 0 for n in counts) != prod(constant_extent(f) or 0 for f in check.loops):
        return False
    return all(_is_within(bounds(values[f.var], ranges), loop_range(f, {})) for f in check.loops)


def _is_within(inner: Interval, outer: Interval) -> bool:
    return outer.lo is not None and outer.hi is not None and inner.within(outer.lo, outer.hi)


def _with_test(s: Stmt, use: Stmt, test: Assert) -> Stmt:
    if s is use:
        return Seq((test, use), span=use.span)
    return map_statements(s, lambda n: _with_test(n, use, test))
