"""Reductions across threads: warp shuffles, then shared memory between warps.

A group is a set of digits of the thread number. The part of a digit below 32 is combined by shuffles that leave the
result in every lane; the part above it by one element of each warp in shared memory. Digits that are not powers of
two within a warp are left to the loops that the statement is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Expr, Load, Var, idx
from weft.ir.interval import EVERYTHING, Ranges
from weft.ir.simplify import simplify
from weft.ir.stmt import Assign, For, If, Seq, Stmt, Store, Tensorized
from weft.ir.visit import substitute, walk
from weft.passes.analysis.thread_digits import Digit
from weft.passes.analysis.thread_reductions import Reduction, is_reduction, read_reduction
from weft.target.c_text.c_types import value_type
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_stmt import emit_stmt
from weft.target.cuda.emit_context import Code, Function
from weft.target.cuda.emit_roles import emit_block_barrier
from weft.target.cuda.machine import WARP

FULL_MASK = "0xffffffffu"


@dataclass(frozen=True, slots=True)
class Steps:
    """Distances of the lanes that exchange values, and the digits that are left between warps."""

    lanes: tuple[int, ...]
    warps: tuple[Digit, ...]


def shuffle_steps(group: tuple[Digit, ...]) -> Steps | None:
    """How a group is combined; None where shuffles do not fit it."""
    lanes: list[int] = []
    warps: list[Digit] = []
    for digit in group:
        if digit.stride % WARP == 0:
            warps.append(digit)
            continue
        inside = min(digit.extent, WARP // digit.stride) if WARP % digit.stride == 0 else 0
        if inside == 0 or inside & (inside - 1) or digit.extent % inside:
            return None
        lanes += [digit.stride << n for n in reversed(range(inside.bit_length() - 1))]
        if digit.extent > inside:
            warps.append(Digit(WARP, digit.extent // inside))
    return Steps(tuple(lanes), tuple(warps))


def reductions_shuffle(body: Stmt) -> bool:
    """Whether no reduction across threads in ``body`` uses shared memory for more than an element of each warp."""
    return all(_is_compact(shuffle_steps(read_reduction(n).group)) for n in walk(body) if is_reduction(n))  # type: ignore[arg-type]


def _is_compact(steps: Steps | None) -> bool:
    return steps is not None and bool(steps.lanes) and (not steps.warps or 1 << len(steps.lanes) == WARP)


def emit_reduction(f: Function, s: Tensorized) -> bool:
    """The statement with shuffles; False where its loops are to be written."""
    reduction = read_reduction(s)
    steps = shuffle_steps(reduction.group)
    if steps is None or not steps.lanes:
        return False
    t = reduction.target.dtype
    value = Var(f.fresh("part"), t)
    f.line(f"{value_type(t)} {value.name} = {emit_expr(f, reduction.value).text};")
    with f.bound(value.name, _variable(value), EVERYTHING):
        for step in steps.lanes:
            other = Var(f.fresh("other"), t)
            shuffled = Code(f"__shfl_xor_sync({FULL_MASK}, {value.name}, {step})", wide=_variable(value).wide)
            with f.bound(other.name, shuffled, EVERYTHING):
                both = Binary(reduction.op, value, other)  # type: ignore[arg-type]
                f.line(f"{value.name} = {emit_expr(f, both).text};")
        if steps.warps:
            _emit_between_warps(f, _Pass(s, reduction, steps, value))
        place = Load(reduction.target, reduction.indices)
        result = Binary(reduction.op, place, value)  # type: ignore[arg-type]
        emit_stmt(f, Store(reduction.target, reduction.indices, result, span=s.span))
    return True


def _variable(value: Var) -> Code:
    return Code(value.name, wide=value.dtype == dt.index)


@dataclass(frozen=True, slots=True)
class _Pass:
    """A reduction between warps: ``value`` holds what the lanes of this one have together."""

    statement: Tensorized
    reduction: Reduction
    steps: Steps
    value: Var

    @property
    def number(self) -> Expr:
        """The number of the thread in its block."""
        assert isinstance(self.statement.body, Seq)
        bring = self.statement.body.body[0]
        assert isinstance(bring, Store)
        return bring.indices[0]

    @property
    def is_compact(self) -> bool:
        """Whether a warp needs no more than one element."""
        return _is_compact(self.steps)

    @property
    def scale(self) -> int:
        """How many threads an element stands for."""
        return WARP if self.is_compact else 1

    def own(self) -> Expr:
        """Where this thread's warp, or this thread, has its element."""
        return self.number // idx(WARP) if self.is_compact else self.number

    def leads(self) -> Expr:
        """Whether this lane stores for those it exchanged values with."""
        if self.is_compact:
            return Compare("==", self.number % idx(WARP), idx(0))
        bits = sum(self.steps.lanes)
        return Compare("==", Binary("&", self.number, idx(bits)), idx(0))

    def first(self, ranges: Ranges) -> Expr:
        """Where the first element of this thread's group is."""
        first = self.own()
        for digit in self.steps.warps if self.is_compact else self.reduction.group:
            mine = self.number // idx(digit.stride) % idx(digit.extent)
            first = first - mine * idx(digit.stride // self.scale)
        return simplify(first, ranges)


def _emit_between_warps(f: Function, p: _Pass) -> None:
    """One lane of each warp stores; after a barrier every thread combines the elements of its group.

    Reductions one after the other have places of their own, so that one barrier each is enough; in a loop, the
    elements must have been read before they are written again.
    """
    start = _next_place(f, p) if p.is_compact else 0
    passed = p.reduction.passed
    emit_stmt(f, If(p.leads(), Store(passed, (simplify(p.own() + idx(start)),), p.value)))
    emit_block_barrier(f)
    counters = [Var(f.fresh("w")) for _ in p.steps.warps]
    place: Expr = p.first(f.ranges) + idx(start)
    for counter, digit in zip(counters, p.steps.warps):
        place = place + counter * idx(digit.stride // p.scale)
    zero = {counter: idx(0) for counter in counters}
    f.line(f"{p.value.name} = {emit_expr(f, Load(passed, (simplify(substitute(place, zero)),))).text};")
    sum_up: Stmt = Assign(p.value, Binary(p.reduction.op, p.value, Load(passed, (simplify(place),))))  # type: ignore[arg-type]
    if len(counters) == 1:
        emit_stmt(f, For(counters[0], idx(1), idx(p.steps.warps[0].extent), "unroll", sum_up))
    else:
        first = Compare("!=", sum((c for c in counters[1:]), start=counters[0]), idx(0))
        sum_up = If(first, sum_up)
        for counter, digit in zip(reversed(counters), reversed(p.steps.warps)):
            sum_up = For(counter, idx(0), idx(digit.extent), "unroll", sum_up)
        emit_stmt(f, sum_up)
    if not f.reductions_shuffle or f.serial_depth:
        emit_block_barrier(f)


def _next_place(f: Function, p: _Pass) -> int:
    """The first of the elements, one a warp, that no reduction before used; from the start where all are used."""
    warps = prod(f.threads) // WARP
    name = p.reduction.passed.name
    start = f.places.get(name, 0)
    if start + warps > prod(f.threads):
        emit_block_barrier(f)
        start = 0
    f.places[name] = start + warps
    return start
