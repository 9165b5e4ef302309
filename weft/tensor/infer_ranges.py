"""Ranges of index variables, solved from the tensors they subscript.

In rounds: every subscript with exactly one variable of unknown range, in which it is affine, gives
that variable the largest range from 0 that keeps the subscript inside over the variables already
known; several of one round intersect. ``B(2*i)`` gives ``i < (size+1)/2``; ``B(i+k) * K(k)`` gives
``k`` in the first round and ``i < B.0-K.0+1`` in the second. A ``where`` range is taken as it stands.

A read that a test of the variable guards, ``i < N-1 ? A(i+1) : A(i)``, says no more than the test leaves open: here
nothing, and ``A(i)`` decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.ir.expr import Binary, Cast, Compare, Expr, Load, Var, idx
from weft.ir.span import Span
from weft.ir.visit import walk
from weft.tensor.cut_ranges import find_cuts
from weft.tensor.polynomial import Polynomial, atom, constant, floor_div, maximum, minimum
from weft.tensor.program import Requirement
from weft.tensor.ranges import Range, Ranges, dependency_order, mentions, mentions_any
from weft.tensor.subscripts import ENDS, Access, Subscript, by_variable, subscripts_of
from weft.tensor.text import describe, describe_access
from weft.tensor.unresolved import all_tested, unresolved


@dataclass(frozen=True, slots=True)
class RangeClause:
    """``var in lo:hi`` of a where clause."""

    var: Var
    lo: Expr
    hi: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


def infer_ranges(
    variables: Sequence[Var], accesses: Sequence[Access], where: Sequence[RangeClause], last_resort: Sequence[Access]
) -> Ranges:
    """The range of every variable, or a LanguageError that says what each unknown one needs.

    ``last_resort`` (the written tensor) is asked only where nothing else determines a variable; reads that are made
    only where a test of the variable holds come after it, and decide only where they leave no doubt.
    """
    ranges = Ranges({c.var.name: Range(Polynomial.of(c.lo), Polynomial.of(c.hi)) for c in where})
    unknown = {v.name: v for v in variables if v.name not in ranges.known}
    while unknown:
        solved = _solve_round(unknown, accesses, ranges) or _solve_round(unknown, last_resort, ranges)
        solved = solved or _solve_tested(unknown, accesses, ranges)
        if not solved:
            everything = [*accesses, *last_resort]
            allowed = {n: _end_of_tested(s, unknown, ranges) for n, s in all_tested(unknown, everything).items()}
            raise unresolved(unknown, everything, ranges, allowed)
        for name, hi in solved.items():
            ranges.known[name] = Range(constant(0), hi)
            del unknown[name]
    return ranges


def _solve_round(unknown: Mapping[str, Var], accesses: Sequence[Access], ranges: Ranges) -> dict[str, Polynomial]:
    """What reads that no test guards decide; guarded ones narrow it where their tests leave something to exclude."""
    solved: dict[str, Polynomial] = {}
    tested: list[Subscript] = []
    ends: dict[str, list[tuple[Access, Polynomial]]] = {}
    for subscript in subscripts_of(unknown, accesses):
        if subscript.is_tested:
            tested.append(subscript)
        elif (hi := _solve(subscript, unknown, ranges)) is not None:
            _narrow(solved, subscript, hi, ranges)
            ends.setdefault(subscript.var.name, []).append((subscript.access, hi))
    for subscript in tested:
        found = ends.get(subscript.var.name)
        if found is not None and (hi := _solve_beyond_tests(subscript, unknown, ranges)) is not None:
            _narrow(solved, subscript, hi, ranges)
            found.append((subscript.access, hi))
    names = ranges.known.keys() | unknown.keys()
    ranges.cuts += [cut for name, found in ends.items() for cut in find_cuts(unknown[name], found, names)]
    return solved


def _narrow(solved: dict[str, Polynomial], subscript: Subscript, hi: Polynomial | None, ranges: Ranges) -> None:
    name = subscript.var.name
    if hi is not None:
        solved[name] = minimum(solved[name], hi, ranges.at_most) if name in solved else hi


def _solve_tested(unknown: Mapping[str, Var], accesses: Sequence[Access], ranges: Ranges) -> dict[str, Polynomial]:
    """Variables of which every read is tested, where these leave no doubt how far they are meant to go."""
    solved: dict[str, Polynomial] = {}
    for name, subscripts in by_variable(subscripts_of(unknown, accesses)).items():
        hi = _end_of_tested(subscripts, unknown, ranges)
        hi = hi if hi is not None and _is_natural(hi, subscripts) else _own_end(subscripts, ranges)
        if hi is not None:
            solved[name] = hi
    return solved


def _end_of_tested(subscripts: Sequence[Subscript], unknown: Mapping[str, Var], ranges: Ranges) -> Polynomial | None:
    """Where the first read goes outside; None where tests keep all inside."""
    found: dict[str, Polynomial] = {}
    for subscript in subscripts:
        _narrow(found, subscript, _solve_beyond_tests(subscript, unknown, ranges), ranges)
    return next(iter(found.values()), None)


def _own_end(subscripts: Sequence[Subscript], ranges: Ranges) -> Polynomial | None:
    """The size of the one axis that a variable runs over by itself, where its tests do not hold all along that, or do
    hold beyond it, where nothing could be read."""
    size = subscripts[0].size
    plain = [s for s in subscripts if s.is_plain]
    if not plain or any(s.size != size for s in subscripts):
        return None
    if len(plain) == len(subscripts) and not all(s.is_kept_inside(True, c, ranges) for s in plain for c in s.cases()):
        return size
    whole = ranges.with_range(subscripts[0].var, size)
    is_told_by_tests = any(s.tests_hold(whole) for s in plain)
    stays_inside = all(s.is_kept_inside(end, case, whole) for s in subscripts for case in s.cases() for end in ENDS)
    return size if stays_inside and not is_told_by_tests else None


def _is_natural(hi: Polynomial, subscripts: Sequence[Subscript]) -> bool:
    """Whether there are as many points as in each tensor that is read, or as in all of them put end to end."""
    sizes = {(s.access.buffer.name, s.dimension): s.size for s in subscripts}
    total = constant(0)
    for size in sizes.values():
        total = total + size
    return total == hi or all(size == hi for size in sizes.values())


def _solve_beyond_tests(subscript: Subscript, unknown: Mapping[str, Var], ranges: Ranges) -> Polynomial | None:
    """Where a read first goes outside although the tests before it hold.

    Where the test may have ended before that, it depends on sizes: `i == 0 ? A(i+1) : A(i)` is left to the call.
    """
    found: dict[str, Polynomial] = {}
    for case in subscript.cases():
        ends = [greatest for greatest in ENDS if not subscript.is_kept_inside(greatest, case, ranges)]
        hi = _solve(subscript, unknown, ranges, ends) if ends else None
        if hi is not None:
            for start in _starts(subscript.var, case, unknown, ranges):
                hi = maximum(hi, start, ranges.at_most)
            if _lasts_until(subscript.var, hi, case, ranges):
                _narrow(found, subscript, hi, ranges)
    return next(iter(found.values()), None)


def _lasts_until(var: Var, point: Polynomial, case: Sequence[Polynomial], ranges: Ranges) -> bool:
    """Whether no inequality of a test is known to fail from some ``var`` on, or all of these hold at ``point``."""
    for p in case:
        slope = p.coefficient(var)
        falls = slope is not None and bool(slope.terms) and ranges.is_nonnegative(-slope)
        if falls and not ranges.is_nonnegative(p.replace(var, point)):
            return False
    return True


def _starts(var: Var, case: Sequence[Polynomial], unknown: Mapping[str, Var], ranges: Ranges) -> Iterator[Polynomial]:
    """Before which ``var`` the inequalities of a test do not hold, whatever other variables are."""
    for p in case:
        rest = p.without(var)
        varies = any(mentions_any(a, unknown) or mentions_any(a, ranges.known) for a in rest.atoms())
        slope = p.coefficient(var)
        step = None if slope is None else slope.as_int
        if step is not None and step > 0 and not varies:
            yield floor_div(constant(step - 1) - rest, constant(step))


def _solve(
    subscript: Subscript, unknown: Mapping[str, Var], ranges: Ranges, ends: Sequence[bool] = ENDS
) -> Polynomial | None:
    """The end of the largest range of the variable from 0 for which ``0 <= index < size``.

    ``ends`` are those of the tensor that count: its greatest, its least position.
    """
    var, index, size, access = subscript.var, subscript.index, subscript.size, subscript.access
    if index == atom(var):
        return size if True in ends else None
    slope = index.coefficient(var)
    if slope is None or any(mentions(a, var.name) for p in (slope, index.without(var)) for a in p.atoms()):
        return _solve_quotient(subscript, unknown, ranges) if True in ends else None
    for other in index.atoms():
        factor = index.coefficient(other) if isinstance(other, Var) else None
        if factor is not None and (other == var or mentions_any(other, ranges.known)):
            _assume_positive(factor, access, ranges)
    reached = [(greatest, ranges.reach(index, greatest, remainders=True)) for greatest in ends]
    slacks = [size - 1 - p if greatest else p for greatest, p in reached if p is not None]
    solved = [e for slack in slacks if (e := _end(var, slack, access, unknown, ranges)) is not None]
    if len(solved) == 2:
        return minimum(solved[0], solved[1], ranges.at_most)
    return solved[0] if solved else None


def _end(var: Var, slack: Polynomial, access: Access, unknown: Mapping[str, Var], ranges: Ranges) -> Polynomial | None:
    """The first ``var`` with ``slack < 0``, where slack falls as ``var`` rises."""
    slope = slack.coefficient(var)
    if slope is None or not slope.terms or not ranges.is_nonnegative(-slope):
        return None
    room, step = slack.without(var) + 1, -slope
    if any(mentions_any(a, unknown) for p in (room, step) for a in p.atoms()):
        return None
    if step.as_int != 1 and not ranges.is_nonnegative(room):
        _require_room(var, room, access, ranges)
    return constant(1) if room == constant(1) else floor_div(room + step - 1, step)


def _solve_quotient(subscript: Subscript, unknown: Mapping[str, Var], ranges: Ranges) -> Polynomial | None:
    """``rest + n // d < size`` is ``n < (size - rest) * d``."""
    index = subscript.index
    inside = [a for a in index.atoms() if mentions(a, subscript.var.name)]
    match inside:
        case [Binary(op="//" | "tdiv", left=left, right=right) as quotient]:
            by = Polynomial.of(right).as_int
            slope = index.coefficient(quotient)
            if by is None or by <= 0 or slope is None or slope.as_int != 1:
                return None
            rest = ranges.reach(index.without(quotient), greatest=True, remainders=True)
            if rest is None or any(mentions_any(a, unknown) for a in rest.atoms()):
                return None
            whole = replace(subscript, index=Polynomial.of(left), size=(subscript.size - rest) * by)
            return _solve(whole, unknown, ranges)
    return None


def _assume_positive(slope: Polynomial, access: Access, ranges: Ranges) -> None:
    """An integer parameter that multiplies an index variable (a stride, a dilation) must be at least 1."""
    for a in slope.atoms():
        if isinstance(a, Cast) and isinstance(a.operand, Var) and a not in ranges.positive:
            ranges.positive.add(a)
            message = f"`{a.operand.name}` must be at least 1: it multiplies an index in `{_text(access)}`"
            ranges.requirements.append(Requirement(Compare(">=", a, idx(1)), message, span=access.span))


def _require_room(var: Var, room: Polynomial, access: Access, ranges: Ranges) -> None:
    """A rounded-up division hides a negative extent, so it is stated."""
    message = f"`{_text(access)}` leaves no room for `{var.name}`: {describe(room.expr())} must not be negative"
    ranges.requirements.append(Requirement(Compare(">=", room.expr(), idx(0)), message, span=access.span))


def shape_of_target(indices: Sequence[Expr], ranges: Ranges) -> list[Polynomial | None]:
    """One more than the greatest value of each index; None where that is not known (a scatter)."""
    return [_extent(Polynomial.of(i), ranges) for i in indices]


def _extent(index: Polynomial, ranges: Ranges) -> Polynomial | None:
    last = ranges.reach(index, greatest=True, remainders=False)
    if last is None or any(isinstance(n, Load) for a in last.atoms() for n in walk(a)):
        return None
    size = last + 1
    return size if _never_negative(index, ranges) else maximum(size, constant(0), ranges.at_most)


def _never_negative(index: Polynomial, ranges: Ranges) -> bool:
    """Whether the greatest index is -1 at least, given that no extent is negative (an empty range ends at ``lo-1``)."""
    for name in reversed(dependency_order(ranges.known)):
        slope, r = index.coefficient(Var(name)), ranges.known[name]
        if slope is None:
            return False
        index = index.replace(Var(name), r.lo - 1 if ranges.is_nonnegative(slope) else r.lo)
    return ranges.is_nonnegative(index + 1)


def _text(access: Access) -> str:
    return describe_access(access.buffer.name, access.indices)
