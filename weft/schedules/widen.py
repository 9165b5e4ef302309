"""``widen``: a loop whose range depends on another one runs as far as it ever does, and a test leaves out the rest.

::

    for s in 0:32                    for s in 0:32
      for t in 0:s + 1         =>      for t in 0:32
        ...                              if t < s + 1
                                           ...

The two loops then are a rectangle, which can be tiled and reordered like any other.

``trim`` is the other way round: a loop runs only where the tests directly inside it hold.

`reorder` does both (`widen_ranges`, `narrow_ranges`). A loop that is to stand outside one its range depends on, as in a
triangle or after ``skew``, first gets the widest range it can have and a test inside: the same iterations in the same
order. Once the loops have changed places, the test becomes part of the range of the loop it now stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.inequality import slack
from weft.ir.simplify import simplify
from weft.ir.stmt import For, If, Kernel, Stmt
from weft.ir.visit import free_vars
from weft.poly.infer_spans import extremes
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, loops_around, ranges_at
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, first_no, is_guard, is_true
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, simplify_bounds
from weft.schedules.trace import Numerics


def check_widen(kernel: Kernel, loop: str, outer: str, *, numerics: Numerics) -> Verdict:
    """The range must follow from that of ``outer``; what runs stays the same."""
    inner, around = find_loop(kernel, loop), find_loop(kernel, outer)
    if not any(f is around for f in loops_around(kernel, inner)):
        return refuse(f"`{outer}` is not around `{loop}`")
    if outer not in {*free_vars(inner.lo), *free_vars(inner.hi)}:
        return refuse(f"the range of `{loop}` does not depend on `{outer}`")
    if infer_whole(inner, around) is None:
        return refuse(f"how far `{loop}` runs at most is not known")
    return first_no([check_runs_through(inner), check_no_barrier(inner, "widening it"), OK])


@primitive(check_widen, "cannot widen loop `{0}` over `{1}`")
def widen(kernel: Kernel, loop: str, outer: str) -> Rewrite:
    """``loop`` over its widest range, its body under a test."""
    inner, around = find_loop(kernel, loop), find_loop(kernel, outer)
    whole = infer_whole(inner, around)
    assert whole is not None, "the check answers this first"
    ranges = ranges_at(kernel, inner)
    lo, hi = (simplify(e, {n: r for n, r in ranges.items() if n != outer}) for e in whole)
    body = inner.body
    tests = [Compare("<", inner.var, inner.hi)] * (hi != inner.hi) + [Compare("<=", inner.lo, inner.var)] * (
        lo != inner.lo
    )
    for test in tests:
        if not is_true(simplify(test, ranges)):
            body = If(test, body, span=inner.span)
    return Rewrite(replace_stmt(kernel, inner, replace(inner, lo=lo, hi=hi, body=body)))


def infer_whole(inner: For, around: For) -> tuple[Expr, Expr] | None:
    """Where ``inner`` starts and ends over all iterations of ``around``; None where that is not known."""
    if isinstance(around.hi, Const) and isinstance(around.lo, Const) and around.hi.value <= around.lo.value:
        return None
    limits = {around.var.name: (around.lo, around.hi - idx(1))}
    low, high = extremes(inner.lo, limits), extremes(inner.hi, limits)
    if low is None or high is None:
        return None
    ends = (low[0], high[1])
    return None if any(around.var.name in free_vars(e) for e in ends) else ends


def check_trim(kernel: Kernel, loop: str, *, numerics: Numerics) -> Verdict:
    """There must be a test that is a range of the loop."""
    old = find_loop(kernel, loop)
    if _narrowed(old) is old:
        return refuse(f"no test that says where `{loop}` starts or ends stands directly in it")
    if old.kind not in ("serial", "parallel", "vector"):
        return refuse(f"`{loop}` is {old.kind}, its length is fixed")
    return first_no([check_runs_through(old), check_no_barrier(old, "a shorter range")])


@primitive(check_trim, "cannot shorten loop `{0}`")
def trim(kernel: Kernel, loop: str) -> Rewrite:
    old = find_loop(kernel, loop)
    return Rewrite(replace_stmt(kernel, old, simplify_bounds(_narrowed(old), ranges_at(kernel, old))))


def _narrowed(loop: For) -> For:
    tests = []
    inside = loop.body
    while isinstance(inside, If) and is_guard(inside):
        tests.append(inside.condition)
        inside = inside.then
    narrowed = narrow_ranges(loop, tests, deep=False)
    assert isinstance(narrowed, For)
    return loop if narrowed.body is loop.body else narrowed


def widen_ranges(kernel: Kernel, chain: Sequence[For], order: Sequence[str]) -> tuple[Kernel, list[Expr]] | Verdict:
    """``kernel`` with no loop of ``chain`` depending on one that comes after it in ``order``, and the tests it took."""
    tests: list[Expr] = []
    if all(isinstance(loop.lo, Const) and isinstance(loop.hi, Const) for loop in chain):  # most are
        return kernel, tests
    for loop in reversed(chain):
        name = loop.var.name
        inside = [other for other in chain if other.var.name in order[order.index(name) + 1 :]]
        loop_node = find_loop(kernel, name)
        lo, hi = _extreme(loop_node.lo, inside, 0), _extreme(loop_node.hi, inside, 1)
        if lo is None or hi is None:
            needed = {*free_vars(loop_node.lo), *free_vars(loop_node.hi)} & {other.var.name for other in inside}
            return refuse(f"the range of `{name}` depends on `{sorted(needed)[0]}`, which would be inside it")
        if lo == loop_node.lo and hi == loop_node.hi:
            continue
        own: list[Expr] = []
        if lo != loop_node.lo:
            own += _tests(">=", loop_node.var, loop_node.lo)
        if hi != loop_node.hi:
            own += _tests("<", loop_node.var, loop_node.hi)
        body = loop_node.body
        for test in reversed(own):
            body = If(test, body, span=loop_node.span)
        ranges = ranges_at(kernel, loop_node)
        wide = replace(loop_node, lo=simplify(lo, ranges), hi=simplify(hi, ranges), body=body)
        kernel = replace_stmt(kernel, loop_node, wide)
        tests += own
    return kernel, tests


def _extreme(bound: Expr, inside: Sequence[For], side: int) -> Expr | None:
    """The least (0) or greatest (1) value of ``bound`` over the loops ``inside``, or one beyond it; None if unknown."""
    names = {loop.var.name for loop in inside}
    if names.isdisjoint(free_vars(bound)):
        return bound
    ends = extremes(bound, {loop.var.name: (loop.lo, loop.hi - idx(1)) for loop in inside})
    return None if ends is None or not names.isdisjoint(free_vars(ends[side])) else ends[side]


def _is_positive(e: Expr) -> bool:
    return isinstance(e, Const) and int(e.value) > 0


def _tests(op: Literal["<", ">="], value: Expr, bound: Expr) -> list[Expr]:
    """``value op bound`` as tests without quotients, minima and maxima where that is possible."""
    extreme = "min" if op == "<" else "max"
    form = linear_form(bound)
    for part, factor in form.terms.items():
        if factor != 1 or not isinstance(part, Binary):
            continue
        rest = Linear().add(form).add(linear_form(part), -1).expr(bound.dtype)
        if part.op == extreme:
            return [t for side in (part.left, part.right) for t in _tests(op, value, side + rest)]
        if part.op == "//" and _is_positive(part.right):
            # v >= e // n means n * v + n - 1 >= e, and v < e // n means n * v + n - 1 < e.
            last = (value - rest) * part.right + (part.right - idx(1))
            return _tests(op, last, part.left)
    return [Compare(op, value, bound)]


def narrow_ranges(root: Stmt, tests: Sequence[Expr], *, deep: bool = True) -> Stmt:
    """``root`` with each of ``tests`` that stands directly in a loop made part of that loop's range.

    Only of the outermost loop where not ``deep``.
    """
    if isinstance(root, If):
        return replace(root, then=narrow_ranges(root.then, tests))
    if not isinstance(root, For):
        return root
    lo, hi, body = root.lo, root.hi, root.body
    while isinstance(body, If) and body.condition in tests:
        bound = _solve(body.condition, root.var)
        if bound is None:
            break
        least, most = bound
        lo = lo if least is None else Binary("max", lo, least)
        hi = hi if most is None else Binary("min", hi, most)
        body = body.then
    return replace(root, lo=lo, hi=hi, body=narrow_ranges(body, tests) if deep else body)


def _solve(test: Expr, var: Var) -> tuple[Expr | None, Expr | None] | None:
    """Where ``test`` holds: ``var`` from the first on, up to but not including the second."""
    gap = slack(test)
    if gap is None or var.dtype != dt.index:
        return None
    factor = gap.terms.pop(var, 0)
    rest = gap.expr(var.dtype)
    if factor == 0 or var.name in free_vars(rest):
        return None
    if factor > 0:  # var >= ceil(-rest / factor)
        return (-rest if factor == 1 else -Binary("//", rest, idx(factor))), None
    return None, (rest if factor == -1 else Binary("//", rest, idx(-factor))) + idx(1)
