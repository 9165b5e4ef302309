"""Ranges of index variables, solved from the tensors they subscript.

In rounds: every subscript with exactly one variable of unknown range, in which it is affine, gives
that variable the largest range from 0 that keeps the subscript inside over the variables already
known; several of one round intersect. ``B(2*i)`` gives ``i < (size+1)/2``; ``B(i+k) * K(k)`` gives
``k`` in the first round and ``i < B.0-K.0+1`` in the second. A ``where`` range is taken as it stands.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import LanguageError
from weft.ir.expr import Binary, Cast, Compare, Expr, Load, Var, idx
from weft.ir.span import Span
from weft.ir.visit import Node, children, free_vars, walk
from weft.tensor.boundary import Outside
from weft.tensor.polynomial import Polynomial, atom, constant, floor_div, maximum, minimum
from weft.tensor.program import Requirement
from weft.tensor.text import describe, describe_access


@dataclass(frozen=True, slots=True)
class RangeClause:
    """``var in lo:hi`` of a where clause."""

    var: Var
    lo: Expr
    hi: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Access:
    """A subscripted tensor, read or written, that says something about the ranges of its variables."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Range:
    """Half-open and normalized; bounds may mention variables whose own bounds do not lead back."""

    lo: Polynomial
    hi: Polynomial


@dataclass
class Ranges:
    """The ranges known so far in a statement, and what was assumed in finding them."""

    known: dict[str, Range] = field(default_factory=dict)
    requirements: list[Requirement] = field(default_factory=list)
    #: integer parameters taken to be at least 1 because a variable is multiplied by them
    positive: set[Expr] = field(default_factory=set)
    _ordered: list[str] = field(default_factory=list)

    def is_nonnegative(self, p: Polynomial) -> bool:
        """A sufficient test: no negative term, and no atom that could be negative."""
        if any(c < 0 for c in p.terms.values()):
            return False
        return all(self._atom_nonnegative(a) for m in p.terms for a in m)

    def _atom_nonnegative(self, a: Expr) -> bool:
        match a:
            case Var(name=name, type=dt.index):
                r = self.known.get(name)
                return r is None or self.is_nonnegative(r.lo)
            case Binary(op="//", left=left, right=right) | Binary(op="max", left=left, right=right):
                sides = [self.is_nonnegative(Polynomial.of(s)) for s in (left, right)]
                return any(sides) if a.op == "max" else all(sides)
            case Binary(op="min", left=left, right=right):
                return all(self.is_nonnegative(Polynomial.of(s)) for s in (left, right))
        return a in self.positive

    def at_most(self, a: Polynomial, b: Polynomial) -> bool:
        return self.is_nonnegative(b - a)

    def _order(self) -> list[str]:
        if len(self._ordered) != len(self.known):
            self._ordered = dependency_order(self.known)
        return self._ordered

    def extreme(self, p: Polynomial, greatest: bool) -> Polynomial | None:
        """The least or greatest value of ``p`` over all variables of known range, or None where that is not plain."""
        for name in reversed(self._order()):
            if not any(mentions(a, name) for m in p.terms for a in m):
                continue
            var = Var(name)
            slope = p.coefficient(var)
            if slope is None or any(mentions(a, name) for m in p.without(var).terms for a in m):
                return None
            r = self.known[name]
            if self.is_nonnegative(slope):
                p = p.replace(var, r.hi - 1 if greatest else r.lo)
            elif self.is_nonnegative(-slope):
                p = p.replace(var, r.lo if greatest else r.hi - 1)
            else:
                return None
        return p

    def reach(self, p: Polynomial, greatest: bool, remainders: bool) -> Polynomial | None:
        """Like `extreme`, also through quotients by constants, and remainders taken to be anything below the divisor.

        Only where nothing else depends on the same variables: each part then reaches its extreme by itself.
        """
        for a in p.atoms():
            if isinstance(a, Binary) and mentions_any(a, self.known):
                names = [n for n in self.known if mentions(a, n)]
                shared = [m for m in p.terms if any(mentions(b, n) for b in m for n in names)]
                slope = p.coefficient(a)
                if slope is None or len(shared) != 1:
                    return None
                rising = self.is_nonnegative(slope)
                end = self._quotient_end(a, greatest == rising, remainders)
                if end is None or not (rising or self.is_nonnegative(-slope)):
                    return None
                p = p.replace(a, end)
        return self.extreme(p, greatest)

    def _quotient_end(self, a: Binary, greatest: bool, remainders: bool) -> Polynomial | None:
        n, by = Polynomial.of(a.left), Polynomial.of(a.right).as_int
        least, end = self.extreme(n, greatest=False), self.extreme(n, greatest)
        truncates = a.op in ("tdiv", "tmod")
        if by is None or by <= 0 or end is None or (truncates and (least is None or not self.is_nonnegative(least))):
            return None
        if a.op in ("//", "tdiv"):
            return floor_div(end, constant(by))
        if a.op in ("%", "tmod") and remainders:
            return constant(by - 1 if greatest else 0)
        return None


@lru_cache(maxsize=4096)
def _names_below(e: Expr) -> frozenset[str]:
    return frozenset(free_vars(e))


def mentions(e: Expr, name: str) -> bool:
    return e.name == name if isinstance(e, Var) else name in _names_below(e)


def mentions_any(e: Expr, names: Container[str]) -> bool:
    return e.name in names if isinstance(e, Var) else any(n in names for n in _names_below(e))


def dependency_order(ranges: Mapping[str, Range]) -> list[str]:
    """Names such that bounds mention only earlier ones."""
    order: list[str] = []

    def visit(name: str) -> None:
        if name in order or name not in ranges:
            return
        for bound in (ranges[name].lo, ranges[name].hi):
            for a in bound.atoms():
                for other in (a.name,) if isinstance(a, Var) else sorted(_names_below(a)):
                    if other != name:
                        visit(other)
        if name not in order:
            order.append(name)

    for name in ranges:
        visit(name)
    return order


def accesses_of(node: Node) -> Iterator[Access]:
    """Every load in program order, except those whose outside is defined (their own subscripts still count)."""
    parts = children(node)
    if isinstance(node, Outside):
        parts = (*node.load.indices, *((node.fill,) if node.fill is not None else ()))
    elif isinstance(node, Load):
        yield Access(node.buffer, node.indices, node.span)
    for stmt in parts:
        yield from accesses_of(stmt)


def plain_accesses_of(node: Node) -> Iterator[Access]:
    """The loads whose outside is defined, with only those subscripts that are a variable alone.

    ``A(n, i-1)`` with zeros outside leaves ``i`` open, but ``n`` is most likely meant to run over ``A``.
    """
    for n in walk(node):
        if isinstance(n, Outside):
            indices = tuple(i if isinstance(i, Var) else idx(0) for i in n.load.indices)
            yield Access(n.load.buffer, indices, n.load.span)


def infer_ranges(
    variables: Sequence[Var], accesses: Sequence[Access], where: Sequence[RangeClause], last_resort: Sequence[Access]
) -> Ranges:
    """The range of every variable, or a LanguageError that says what each unknown one needs.

    ``last_resort`` (the written tensor) is asked only where nothing else determines a variable.
    """
    ranges = Ranges({c.var.name: Range(Polynomial.of(c.lo), Polynomial.of(c.hi)) for c in where})
    unknown = {v.name: v for v in variables if v.name not in ranges.known}
    while unknown:
        solved = _solve_round(unknown, accesses, ranges) or _solve_round(unknown, last_resort, ranges)
        if not solved:
            raise _unresolved(unknown, [*accesses, *last_resort])
        for name, hi in solved.items():
            ranges.known[name] = Range(constant(0), hi)
            del unknown[name]
    return ranges


def _solve_round(unknown: Mapping[str, Var], accesses: Sequence[Access], ranges: Ranges) -> dict[str, Polynomial]:
    solved: dict[str, Polynomial] = {}
    for access in accesses:
        for index, size in zip(access.indices, access.buffer.shape):
            names = [n for n in free_vars(index) if n in unknown]
            if len(names) != 1:
                continue
            hi = _solve(unknown[names[0]], Polynomial.of(index), Polynomial.of(size), access, unknown, ranges)
            if hi is not None:
                var = names[0]
                solved[var] = minimum(solved[var], hi, ranges.at_most) if var in solved else hi
    return solved


def _solve(
    var: Var, index: Polynomial, size: Polynomial, access: Access, unknown: Mapping[str, Var], ranges: Ranges
) -> Polynomial | None:
    """The end of the largest range of ``var`` from 0 for which ``0 <= index < size``."""
    if index == atom(var):
        return size
    slope = index.coefficient(var)
    if slope is None or any(mentions(a, var.name) for p in (slope, index.without(var)) for a in p.atoms()):
        return _solve_quotient(var, index, size, access, unknown, ranges)
    for other in index.atoms():
        factor = index.coefficient(other) if isinstance(other, Var) else None
        if factor is not None and (other == var or mentions_any(other, ranges.known)):
            _assume_positive(factor, access, ranges)
    greatest, least = (ranges.reach(index, side, remainders=True) for side in (True, False))
    slacks = [size - 1 - greatest if greatest is not None else None, least]
    ends = [e for s in slacks if s is not None and (e := _end(var, s, access, unknown, ranges)) is not None]
    return None if not ends else ends[0] if len(ends) == 1 else minimum(ends[0], ends[1], ranges.at_most)


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


def _solve_quotient(
    var: Var, index: Polynomial, size: Polynomial, access: Access, unknown: Mapping[str, Var], ranges: Ranges
) -> Polynomial | None:
    """``rest + n // d < size`` is ``n < (size - rest) * d``."""
    inside = [a for a in index.atoms() if mentions(a, var.name)]
    match inside:
        case [Binary(op="//" | "tdiv", left=left, right=right) as quotient]:
            by = Polynomial.of(right).as_int
            slope = index.coefficient(quotient)
            if by is None or by <= 0 or slope is None or slope.as_int != 1:
                return None
            rest = ranges.reach(index.without(quotient), greatest=True, remainders=True)
            if rest is None or any(mentions_any(a, unknown) for a in rest.atoms()):
                return None
            return _solve(var, Polynomial.of(left), (size - rest) * by, access, unknown, ranges)
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


def _unresolved(unknown: Mapping[str, Var], accesses: Sequence[Access]) -> LanguageError:
    """Each variable, the accesses that mention it, and what to add."""
    first = next(iter(unknown.values()))
    plural = "s" if len(unknown) > 1 else ""
    names = ", ".join(f"`{n}`" for n in unknown)
    reasons = [_reason(name, unknown, accesses) for name in unknown]
    clauses = ", ".join(f"{n} in 0:..." for n in unknown)
    return LanguageError(
        f"unknown range of index variable{plural} {names}",
        span=first.span,
        why="; ".join(reasons),
        help=f"add `where {clauses}` with the range you mean",
    )


def _reason(name: str, unknown: Mapping[str, Var], accesses: Sequence[Access]) -> str:
    seen = [a for a in accesses if any(mentions(i, name) for i in a.indices)]
    if not seen:
        return f"no access to a tensor of known size mentions `{name}`"
    texts = list(dict.fromkeys(f"`{_text(a)}`" for a in seen))
    others = [n for n in unknown if n != name and any(mentions(i, n) for a in seen for i in a.indices)]
    if others:
        return f"`{name}` is tied to {', '.join(f'`{o}`' for o in others)} in {', '.join(texts)}"
    return f"`{name}` cannot be solved from {', '.join(texts)}: the subscript is not affine in it"
