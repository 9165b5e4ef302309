"""What the loop primitives ask about a loop before they change it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Const, Expr, idx
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import exits, statement_kinds
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Barrier, For, If, Kernel, Stmt
from weft.ir.verify import find_misplaced, find_problems
from weft.ir.verify_expr import Problem
from weft.ir.visit import free_vars, loads, stores
from weft.poly.verdict import OK, Verdict, refuse

Ranges = Mapping[str, Interval]


def extent(loop: For, ranges: Ranges) -> Expr:
    """How often the loop runs; negative where ``hi`` is below ``lo``."""
    if isinstance(loop.lo, Const) and isinstance(loop.hi, Const):
        return idx(int(loop.hi.value) - int(loop.lo.value))
    return simplify(Binary("-", loop.hi, loop.lo), ranges)


def trip_count(loop: For, ranges: Ranges) -> int | None:
    """How often the loop runs, where that is a known number."""
    count = extent(loop, ranges)
    return max(int(count.value), 0) if isinstance(count, Const) else None


def most_trips(loop: For, ranges: Ranges) -> int | None:
    """How often the loop runs at most; it may end at the lesser of two places."""
    ends = (loop.hi.left, loop.hi.right) if isinstance(loop.hi, Binary) and loop.hi.op == "min" else (loop.hi,)
    counts = [bounds(simplify(end - loop.lo, ranges), ranges).hi for end in ends]
    return min((max(n, 0) for n in counts if n is not None), default=None)


def not_negative(e: Expr, ranges: Ranges) -> Expr:
    """``e``, or 0 where it is negative."""
    least = bounds(e, ranges).lo
    return e if least is not None and least >= 0 else simplify(Binary("max", e, idx(0)), ranges)


def is_multiple(e: Expr, factor: int, ranges: Ranges) -> bool:
    return simplify(Binary("%", e, idx(factor)), ranges) == idx(0)


def is_true(e: Expr) -> bool:
    return e == Const(True, dt.bool_)


def is_guard(s: Stmt) -> bool:
    """Whether ``s`` only decides whether what is inside runs, from loop variables and sizes."""
    return isinstance(s, If) and s.otherwise is None and not loads(s.condition)


def has_barrier(s: Stmt) -> bool:
    return Barrier in statement_kinds(s)


def check_number(what: str, value: object, least: int) -> Verdict:
    """Whether an argument is a whole number of at least ``least``."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return OK
    return refuse(f"the {what} is {value!r}; it is a whole number of at least {least}")


def check_runs_through(loop: For) -> Verdict:
    """Whether every iteration of ``loop`` runs to its end and its range stays as it is while it runs."""
    name = loop.var.name
    if exits(loop.body):
        return refuse(f"a break, continue or return in the body of `{name}` leaves it early")
    if isinstance(loop.lo, Const) and isinstance(loop.hi, Const):
        return OK
    read = {b.buffer.name for e in (loop.lo, loop.hi) for b in loads(e)}
    changed = sorted(read & {w.buffer.name for w in stores(loop.body)}) if read else []
    assigned = assigned_names(loop.body)
    changed += [v for e in (loop.lo, loop.hi) for v in free_vars(e) if v in assigned]
    if changed:
        return refuse(f"the range of `{name}` depends on `{changed[0]}`, which the loop changes")
    return OK


def check_no_barrier(loop: For, doing: str) -> Verdict:
    if has_barrier(loop):
        return refuse(f"{doing} would let some threads miss the barrier inside `{loop.var.name}`")
    return OK


def check_valid(kernel: Kernel) -> Verdict:
    """Whether a rewritten kernel keeps the rules of the loop program."""
    return _first_of(find_problems(kernel))


def check_places(kernel: Kernel) -> Verdict:
    """The same of a kernel in which only the kinds of loops are new: whatever a name meant, it still means."""
    return _first_of(find_misplaced(kernel))


def _first_of(problems: list[Problem]) -> Verdict:
    return refuse(problems[0].text) if problems else OK


def first_no(verdicts: Iterable[Verdict]) -> Verdict:
    """The first refusal, or a yes."""
    return next((v for v in verdicts if not v.ok), OK)
