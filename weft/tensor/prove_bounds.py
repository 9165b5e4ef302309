"""Every access in bounds: proved, refused, required of the sizes, or left to a test at the call.

`check_bounds` runs once on the symbolic program: it raises for an access that is wrong at every
size and returns what sizes must satisfy where that decides. `unproved_accesses` runs on the
program to be lowered, best with constant sizes: it raises with a witness iteration for an access
that is certainly wrong, and lists the accesses that only the data can decide (gathers mostly).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from weft.ir.buffer import Buffer
from weft.ir.errors import ShapeError
from weft.ir.expr import Axis, Binary, Cast, Compare, Const, Expr, Load, Var, idx
from weft.ir.inequality import all_of
from weft.ir.interval import Interval, bounds
from weft.ir.span import Span
from weft.ir.visit import free_vars, loads
from weft.tensor.access import written_axes
from weft.tensor.conditions import alternatives
from weft.tensor.facts import Facts
from weft.tensor.find_witness import find_witness
from weft.tensor.guarded_loads import guarded_loads
from weft.tensor.polynomial import Polynomial, minimum
from weft.tensor.program import Requirement, Statement
from weft.tensor.text import describe, describe_access


@dataclass(frozen=True, slots=True)
class GuardedAccess:
    """A subscripted tensor, the axes it is evaluated over and the conditions under which it is."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    axes: tuple[Axis, ...]
    guards: tuple[Expr, ...]
    is_write: bool
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return describe_access(self.buffer.name, self.indices)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``proved``; ``refuted`` with the iteration that goes outside; ``requires`` a condition on sizes; ``unknown``."""

    kind: Literal["proved", "refuted", "requires", "unknown"]
    witness: Mapping[str, Expr] = field(default_factory=dict)
    value: Expr | None = None
    condition: Expr | None = None


def guarded_accesses(statement: Statement) -> Iterator[GuardedAccess]:
    """What a statement reads and writes, subscripts of subscripts included; reads with a defined outside excepted."""
    steps = tuple(r.axis for r in statement.recurrences)
    axes = (*steps, *(written_axes(statement) if statement.initialize else statement.axes))
    yield GuardedAccess(statement.target, statement.indices, axes, (), True, statement.span)
    for e in (*statement.indices, statement.value):
        for read in guarded_loads(e, statement.all_axes):
            load = read.load
            yield GuardedAccess(load.buffer, load.indices, read.axes, read.guards, False, load.span)


def check_access(
    access: GuardedAccess, dimension: int, facts: Iterable[Polynomial] = (), *, assume_no_wrap: bool = False
) -> Verdict:
    """Whether one dimension of an access stays inside; ``facts`` are inequalities on sizes."""
    index, size = access.indices[dimension], access.buffer.shape[dimension]
    return check_index(access, index, idx(0), size, facts, assume_no_wrap=assume_no_wrap)


def check_index(
    access: GuardedAccess, index: Expr, lo: Expr, hi: Expr, known: Iterable[Polynomial], *, assume_no_wrap: bool = False
) -> Verdict:
    """Whether ``lo <= index < hi`` wherever ``access`` is evaluated."""
    if any(index == a.var and a.lo == lo and a.hi == hi for a in access.axes):
        return Verdict("proved")
    facts = Facts.of(access.axes, known)
    intervals = facts.intervals()
    if _is_plain(index, lo, hi, intervals) or _is_empty(access.axes):
        return Verdict("proved")
    value = Polynomial.of(index)
    if not access.guards and any(_is_open(a) for a in value.atoms()):
        return Verdict("unknown")
    goals = [value - Polynomial.of(lo), Polynomial.of(hi) - 1 - value]
    known_ranges = None if assume_no_wrap else intervals
    cases = alternatives(all_of(access.guards), known_ranges) if access.guards else [[]]
    failed = [g for g in goals if not _holds(g, facts, cases)]
    if not failed:
        return Verdict("proved")
    if _is_concrete(access, index, lo, hi):
        witness = find_witness(index, lo, hi, access.axes, access.guards)
        if witness is not None:
            return Verdict("refuted", {n: idx(v) for n, v in witness.point.items()}, idx(witness.value))
        return Verdict("unknown")
    return _judge_box(failed, facts, access)


def _is_concrete(access: GuardedAccess, *exprs: Expr) -> bool:
    """Whether nothing but the axes is left to know (data apart)."""
    axes = {a.var.name for a in access.axes}
    bounds = [b for a in access.axes for b in (a.lo, a.hi)]
    return all(n in axes for e in (*exprs, *bounds, *access.guards) for n in free_vars(e))


def _is_plain(index: Expr, lo: Expr, hi: Expr, intervals: Mapping[str, Interval]) -> bool:
    """The quickest test: constant bounds that interval arithmetic alone keeps."""
    if not isinstance(lo, Const) or not isinstance(hi, Const):
        return False
    return bounds(index, intervals).within(int(lo.value), int(hi.value) - 1)


def _is_open(a: Expr) -> bool:
    """Whether ``a`` is data of a type too wide to say anything: a plain lookup."""
    source = a.operand if isinstance(a, Cast) else a
    return isinstance(source, Load) and source.dtype.bits >= 32


def _is_empty(axes: Sequence[Axis]) -> bool:
    """Whether no point exists at all."""
    extents = [(Polynomial.of(a.hi) - Polynomial.of(a.lo)).as_int for a in axes]
    return any(e is not None and e <= 0 for e in extents)


def _holds(goal: Polynomial, facts: Facts, cases: list[list[Polynomial]]) -> bool:
    return all(facts.proves(goal) if not case else facts.refutes([-goal - 1, *case]) for case in cases)


def _judge_box(failed: Sequence[Polynomial], facts: Facts, access: GuardedAccess) -> Verdict:
    """Where no guard and no dependent range intervenes, the worst corner decides: by a condition on sizes."""
    if access.guards or any(n in facts.ranges.known for a in access.axes for e in (a.lo, a.hi) for n in free_vars(e)):
        return Verdict("unknown")
    conditions: list[Expr] = []
    for goal in failed:
        worst = facts.ranges.extreme(goal, greatest=False)
        if worst is None or any(loads(a) for a in worst.atoms()):
            return Verdict("unknown")
        if facts.proves(-worst - 1):
            return Verdict("refuted", _corner(goal, facts))
        conditions.append(_at_least_zero(worst))
    return Verdict("requires", condition=_unless_empty(all_of(conditions), access.axes))


def _corner(goal: Polynomial, facts: Facts) -> dict[str, Expr]:
    corner: dict[str, Expr] = {}
    for name, r in facts.ranges.known.items():
        slope = goal.coefficient(Var(name))
        if slope is not None and slope.terms:
            low = facts.ranges.is_nonnegative(slope)
            corner[name] = (r.lo if low else r.hi - 1).expr()
    return corner


def _at_least_zero(p: Polynomial) -> Expr:
    """``p >= 0`` with the negative terms moved to the right: ``M >= N + 1``."""
    left = Polynomial({m: c for m, c in p.terms.items() if c > 0})
    return Compare(">=", left.expr(), (left - p).expr())


def _unless_empty(condition: Expr, axes: Sequence[Axis]) -> Expr:
    """Nothing is accessed where an axis is empty, so nothing is required."""
    for a in axes:
        extent = (Polynomial.of(a.hi) - Polynomial.of(a.lo)).as_int
        if extent is None:
            condition = Binary("||", condition, Compare("<=", a.hi, a.lo))
    return condition


def check_bounds(statement: Statement, required: Sequence[Requirement] = ()) -> list[Requirement]:
    """Raises for accesses wrong at every size; what the others need of the sizes."""
    requirements: list[Requirement] = []
    given = inequalities(required)
    for access in guarded_accesses(statement):
        for k in range(access.buffer.rank):
            verdict = check_access(access, k, given, assume_no_wrap=True)
            if verdict.kind == "refuted":
                raise out_of_bounds(access, k, verdict, statement.span)
            if verdict.kind == "requires" and verdict.condition is not None:
                span = access.span or statement.span
                requirements.append(Requirement(verdict.condition, _needs(access, k, verdict.condition), span=span))
    return requirements


def inequalities(requirements: Sequence[Requirement]) -> list[Polynomial]:
    """Requirements that are plain inequalities, as facts."""
    cases = [alternatives(r.condition, None) for r in requirements]
    return [p for case in cases if len(case) == 1 for p in case[0]]


def unproved_accesses(
    statement: Statement, requirements: Sequence[Requirement] = ()
) -> list[tuple[GuardedAccess, int]]:
    """Accesses, each with a dimension, to test while running; raises ShapeError for one that certainly goes outside."""
    unproved: list[tuple[GuardedAccess, int]] = []
    given = inequalities(requirements)
    for access in guarded_accesses(statement):
        for k in range(access.buffer.rank):
            verdict = check_access(access, k, given)
            if verdict.kind == "refuted":
                raise out_of_bounds(access, k, verdict, statement.span)
            if verdict.kind != "proved":
                unproved.append((access, k))
    return unproved


def is_within(statement: Statement, read: Load, dimension: int, lo: Expr, hi: Expr) -> bool:
    """Whether a read of ``statement`` provably has ``lo <= index < hi`` in one dimension, wherever evaluated."""
    for access in guarded_accesses(statement):
        if access.buffer.name == read.buffer.name and access.indices == read.indices and not access.is_write:
            index = access.indices[dimension]
            if check_index(access, index, lo, hi, (), assume_no_wrap=True).kind != "proved":
                return False
    return True


def out_of_bounds(access: GuardedAccess, k: int, verdict: Verdict, fallback: Span | None) -> ShapeError:
    verb = "writes" if access.is_write else "reads"
    at = ", ".join(f"{name}={describe(value)}" for name, value in verdict.witness.items())
    index = access.indices[k]
    value = verdict.value if verdict.value is not None else _at(index, verdict.witness)
    where = f" at {at}" if at else ""
    return ShapeError(
        f"`{access}` {verb} outside `{access.buffer.name}`",
        span=access.span or fallback,
        why=f"{where.strip() + ': ' if at else ''}index {describe(value)} of dimension {k}, which has size "
        f"{describe(access.buffer.shape[k])}",
        help=_remedy(access, k),
    )


def _at(index: Expr, point: Mapping[str, Expr]) -> Expr:
    p = Polynomial.of(index)
    for name, value in point.items():
        p = p.replace(Var(name), Polynomial.of(value))
    return p.expr()


def _remedy(access: GuardedAccess, k: int) -> str:
    names = [a.var.name for a in access.axes if a.var.name in free_vars(access.indices[k])]
    if access.is_write:
        return (
            f"declare `{access.buffer.name}` larger, or narrow the range: `where {names[0] if names else 'i'} in lo:hi`"
        )
    outside = f"say what is there: `where {access.buffer.name} outside zero`"
    if not names:
        return outside
    suggestion = _range_in_bounds(access, k, names[0])
    return f"give the range: `where {names[0]} in {suggestion}`, or {outside}"


def _range_in_bounds(access: GuardedAccess, k: int, name: str) -> str:
    """The part of the present range that keeps ``i + c`` inside, where the subscript is that plain."""
    offset = (Polynomial.of(access.indices[k]) - Polynomial.of(Var(name))).as_int
    axis = next(a for a in access.axes if a.var.name == name)
    lo, hi, size = (Polynomial.of(e) for e in (axis.lo, axis.hi, access.buffer.shape[k]))
    if offset is None or lo.as_int is None:
        return "lo:hi"
    ranges = Facts.of(()).ranges
    return f"{max(-offset, lo.as_int)}:{describe(minimum(hi, size - offset, ranges.at_most).expr())}"


def _needs(access: GuardedAccess, k: int, condition: Expr) -> str:
    verb = "writes" if access.is_write else "reads"
    size = describe(access.buffer.shape[k])
    core = condition
    while isinstance(core, Binary) and core.op == "||":
        core = core.left
    return (
        f"`{access}` {verb} outside dimension {k} of `{access.buffer.name}` (size {size}): {describe(core)} is needed"
    )


__all__ = [
    "GuardedAccess", "Verdict", "check_access", "check_bounds", "guarded_accesses", "is_within",
    "out_of_bounds", "unproved_accesses",
]  # fmt: skip
