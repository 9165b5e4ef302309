"""Where tests hold: of all values of inner variables, and along an axis.

A test of positions is a sum that must not be negative (`slack`). Inner variables are taken at the end where the sum is
least (or, for what may hold at all, greatest); what is left grows or falls along an axis, so that the test turns once:

    i * 4 + j < n     for all j in 0:4     i * 4 + 3 < n     turns, along i, to false at (n - 4) // 4 + 1
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import NamedTuple

from weft.ir import dtype as dt
from weft.ir.affine import Linear
from weft.ir.expr import Compare, Expr, Load, Var, idx
from weft.ir.interval import Interval
from weft.ir.nesting import inner_statements
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, For, If, Let, LoopKind, Seq, Stmt
from weft.ir.visit import free_vars, substitute, walk
from weft.passes.analysis.conditions import all_of, conjuncts, is_fixed, slack
from weft.passes.analysis.loop_ranges import constant_extent, loop_range

#: What inner variables can be; None of those that nothing is known of.
Inner = Mapping[str, Interval | None]
EVERY_KIND: tuple[LoopKind, ...] = ("serial", "parallel", "unroll", "vector", "block", "thread")


class Asked(NamedTuple):
    """One test of an if without else, and the variables made around it, within what is looked at."""

    test: Expr
    inner: Inner


class Turn(NamedTuple):
    """From ``at`` on along an axis the truth of a test is another: it ``begins`` to hold there, or ends to."""

    at: Expr
    begins: bool


def inner_of(s: Stmt, inner: Inner, kinds: Container[LoopKind] = EVERY_KIND) -> Inner:
    """``inner`` with the variable that ``s`` makes; its range is known of loops of ``kinds`` whose ends are numbers."""
    if isinstance(s, For):
        return {**inner, s.var.name: loop_range(s, {}) if s.kind in kinds and constant_extent(s) else None}
    return {**inner, s.var.name: None} if isinstance(s, Let) else inner


def asked_in(
    s: Stmt, inner: Inner, kinds: Container[LoopKind] = EVERY_KIND, *, in_others: bool = True
) -> Iterator[Asked]:
    """The tests of ifs without else in ``s``, from the outside to the inside; of other loops than of ``kinds`` only
    where they are wanted ``in_others``."""
    if isinstance(s, If) and s.otherwise is None:
        yield from (Asked(test, inner) for test in conjuncts(s.condition))
    inner = inner_of(s, inner, kinds)
    if in_others or isinstance(s, (Seq, Alloc)) or not_other(s, kinds):
        for child in inner_statements(s):
            yield from asked_in(child, inner, kinds, in_others=in_others)


def not_other(s: Stmt, kinds: Container[LoopKind]) -> bool:
    """Whether ``s`` is an if without else, or a loop of ``kinds`` whose ends are numbers."""
    if isinstance(s, For):
        return s.kind in kinds and bool(constant_extent(s))
    return isinstance(s, If) and s.otherwise is None


def least_over(gap: Linear, inner: Inner) -> Linear | None:
    """What is left of ``gap`` where the ``inner`` variables make it least; None where that is not known."""
    least = Linear({}, gap.constant)
    for atom, factor in gap.terms.items():
        if isinstance(atom, Var) and atom.name in inner:
            span = inner[atom.name]
            end = None if span is None else span.scale(factor).lo
            if end is None:
                return None
            least.constant += end
        elif any(name in inner for name in free_vars(atom)):
            return None
        else:
            least.terms[atom] = factor
    return least


def most_over(gap: Linear, inner: Inner) -> Linear | None:
    """What is left of ``gap`` where the ``inner`` variables make it greatest."""
    least = least_over(Linear().add(gap, -1), inner)
    return None if least is None else Linear().add(least, -1)


def for_all_inner(
    test: Expr, inner: Inner, changing: Container[str] = (), stored: Container[str] | None = None
) -> Expr | None:
    """What says that ``test`` holds whatever the ``inner`` variables are; None where that is not known.

    It may be asked earlier than ``test``: that reads no memory, or, where it is known what is ``stored``, none of that.
    """
    if not is_fixed(test, changing, stored):
        return None
    return _at_extreme(test, inner, least_over)


def for_all_lanes(condition: Expr, loop: For) -> Expr | None:
    """What says that ``condition`` holds in all iterations of ``loop``."""
    found = [_at_end(test, inner_of(loop, {}), least_over) for test in conjuncts(condition)]
    return None if None in found else all_of([test for test in found if test is not None])


def for_any_lane(condition: Expr, loop: For) -> Expr | None:
    """What holds at least where ``condition``, which reads no memory, holds in some iteration of ``loop``."""
    found = [_at_end(test, inner_of(loop, {}), most_over) for test in conjuncts(condition)]
    return None if None in found or not is_fixed(condition) else all_of([test for test in found if test is not None])


def _at_extreme(test: Expr, inner: Inner, extreme: Callable[[Linear, Inner], Linear | None]) -> Expr | None:
    if not inner.keys() & free_vars(test).keys():
        return test
    gap = slack(test)
    left = None if gap is None else extreme(gap, inner)
    return None if left is None else simplify(Compare(">=", left.expr(dt.index), idx(0)))


def _at_end(test: Expr, inner: Inner, extreme: Callable[[Linear, Inner], Linear | None]) -> Expr | None:
    """As `_at_extreme`, with the sides of ``test`` as they are: a compiler then sees that a subscript is compared."""
    names = inner.keys() & free_vars(test).keys()
    gap = slack(test) if names else None
    if gap is None or extreme(gap, inner) is None:
        return None if names or any(isinstance(n, Load) for n in walk(test)) else test
    factors = {name: gap.terms.get(Var(name), 0) * (1 if extreme is least_over else -1) for name in names}
    spans = {name: span for name in names if (span := inner[name]) is not None}
    ends = {Var(name): span.lo if factors[name] > 0 else span.hi for name, span in spans.items()}
    return substitute(test, {var: idx(end) for var, end in ends.items() if end is not None})


def for_all_of(
    tests: Iterable[Expr], inner: Inner, changing: Container[str] = (), stored: Container[str] | None = None
) -> list[Expr] | None:
    """`for_all_inner` of all ``tests``; None where it is not known of one."""
    asked = [for_all_inner(test, inner, changing, stored) for test in tests]
    found = [test for test in asked if test is not None]
    return found if len(found) == len(asked) else None


def turn_along(gap: Linear, axis: Expr, inner: Inner, *, for_all: bool = True) -> Turn | None:
    """Where ``gap`` begins or ends along ``axis`` not to be negative: for all values of ``inner``, or for some."""
    factor = gap.terms.get(axis, 0)
    if not factor:
        return None
    rest = Linear({atom: times for atom, times in gap.terms.items() if atom != axis}, gap.constant)
    hidden = {**inner, **dict.fromkeys(free_vars(axis))}
    left = least_over(rest, hidden) if for_all else most_over(rest, hidden)
    if left is None:
        return None
    if factor > 0:  # axis >= -left / factor, rounded up
        return Turn(Linear().add(_over(left, factor), -1).expr(dt.index), begins=True)
    return Turn(Linear({}, 1).add(_over(left, -factor)).expr(dt.index), begins=False)


def _over(sum_: Linear, factor: int) -> Linear:
    """``sum_`` over a number, rounded down."""
    if factor == 1:
        return sum_
    if not sum_.terms:
        return Linear({}, sum_.constant // factor)
    return Linear({sum_.expr(dt.index) // idx(factor): 1})


def turn_at(gap: Linear, axis: Expr) -> tuple[int, bool] | None:
    """`turn_along` where it is a number, since nothing but ``axis`` is in ``gap``; and whether it begins there."""
    if set(gap.terms) != {axis}:
        return None
    factor = gap.terms[axis]
    return (-(gap.constant // factor), True) if factor > 0 else (gap.constant // -factor + 1, False)
