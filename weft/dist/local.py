"""A split statement as one rank runs it: its own points, on its own pieces, subscripts counted from their starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from weft.dist.layout import REPLICATED, AxisLayout, Box, Layout, Span, Split, held, nested_piece, owned
from weft.dist.mesh import Mesh
from weft.dist.rules import Choice, LookUp, Share, moving_axes, output_layout, part_operator, share_span, subscript_axes
from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, Compare, Expr, Load, Select, cast, identity, idx
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.ir.visit import loads, rebuild, substitute
from weft.tensor.access import statement_reads
from weft.tensor.program import Statement
from weft.tensor.recurrences import constant_of
from weft.tensor.specialize import axis_ranges


def shape_of(buffer: Buffer) -> tuple[int, ...]:
    return tuple(map(constant_of, buffer.shape))


@dataclass(frozen=True)
class SplitStatement:
    """A statement of a specialized program and what each axis of the mesh does for it.

    ``fixed`` holds the tensors that are read where they lie, in these layouts: those that a block of steps writes.
    """

    statement: Statement
    chosen: tuple[Choice, ...]
    mesh: Mesh
    fixed: Mapping[str, Layout]

    @cached_property
    def output(self) -> Layout:
        return output_layout(self.statement, self.chosen)

    @cached_property
    def reads(self) -> tuple[Load, ...]:
        """Every load, those in the ranges of axes last."""
        in_ranges = (load for a in self.statement.axes for e in (a.lo, a.hi) for load in loads(e))
        return (*statement_reads(self.statement), *in_ranges)

    @cached_property
    def needs(self) -> tuple[Layout, ...]:
        """For each load the layout it is read in."""
        return tuple(self._need(number, load) for number, load in enumerate(self.reads))

    def _need(self, number: int, load: Load) -> Layout:
        fixed = self.fixed.get(load.buffer.name)
        if fixed is not None:
            return fixed
        layout = Layout((REPLICATED,) * len(self.chosen))
        for axis in range(len(self.chosen)):
            layout = layout.changed(axis, self._along(axis, number, load, layout))
        reaches = ((d, *self._reach(d, load, layout)) for d in layout.dims if d != self.looked_up(number))
        return replace(layout, halo=tuple(r for r in reaches if r[1:] != (0, 0)))

    def looked_up(self, number: int) -> int | None:
        """The dimension of a load that ranks look up their own piece of."""
        dims = (c.dim for c in self.chosen if isinstance(c, LookUp) and c.load == number)
        return next(dims, None)

    def _along(self, axis: int, number: int, load: Load, layout: Layout) -> AxisLayout:
        """How a load is read along one axis of the mesh, given how it is along those before."""
        choice = self.chosen[axis]
        if isinstance(choice, LookUp):
            return Split(choice.dim) if choice.load == number else REPLICATED
        moving = moving_axes(self.statement, choice)
        best: tuple[int, AxisLayout] = (0, REPLICATED)
        for dim, index in enumerate(load.indices):
            if loads(index) or not subscript_axes(index) & moving:
                continue
            trial, size = layout.changed(axis, Split(dim)), constant_of(load.buffer.shape[dim])
            before, after = self._reach(dim, load, trial)
            spans = (nested_piece((0, size), trial.splitting(dim), self.mesh, r) for r in range(self.mesh.count))
            most = max(min(hi + after, size) - max(lo - before, 0) for lo, hi in spans)
            if most < size and (best[1] == REPLICATED or before + after < best[0]):
                best = before + after, Split(dim)
        return best[1]

    def reads_locally(self, load: Load) -> bool:
        """Whether every rank has what it reads of a tensor that stays where it lies."""
        shape, layout = shape_of(load.buffer), self.fixed[load.buffer.name]
        for rank in range(self.mesh.count):
            box = owned(shape, layout, self.mesh, rank)
            touched = [self._touched(i, size, rank) for i, size in zip(load.indices, shape)]
            if any(t < own_lo or own_hi < end for (t, end), (own_lo, own_hi) in zip(touched, box) if t < end):
                return False
        return True

    def _reach(self, dim: int, load: Load, layout: Layout) -> tuple[int, int]:
        """How many elements before and after their own pieces ranks read along a dimension."""
        before = after = 0
        size = constant_of(load.buffer.shape[dim])
        for rank in range(self.mesh.count):
            need = self._touched(load.indices[dim], size, rank)
            if need[0] < need[1]:
                lo, hi = nested_piece((0, size), layout.splitting(dim), self.mesh, rank)
                before, after = max(before, lo - need[0]), max(after, need[1] - hi)
        return before, after

    def _touched(self, index: Expr, size: int, rank: int) -> Span:
        ranges = self._ranges[rank]
        if any(r.is_empty for r in ranges.values()):
            return 0, 0
        lo, hi = bounds(index, ranges).intersect(Interval(0, size - 1))
        assert lo is not None
        assert hi is not None
        return lo, max(lo, hi + 1)

    @cached_property
    def _ranges(self) -> list[dict[str, Interval]]:
        """For each rank the values of every axis there."""
        steps = tuple(r.axis for r in self.statement.recurrences)
        return [axis_ranges((*steps, *self.axes(rank))) for rank in range(self.mesh.count)]

    def axes(self, rank: int, change: Callable[[Expr], Expr] = lambda e: e) -> tuple[Axis, ...]:
        """The axes with the ranges they have on ``rank``; ``change`` is made to the bounds they had."""
        axes = {a.var.name: Axis(a.var, change(a.lo), change(a.hi)) for a in self.statement.axes}
        box = owned(shape_of(self.statement.target), self.output, self.mesh, rank)
        for dim in self.output.dims:
            _restrict(axes, self.statement.indices[dim], box[dim])
        for name in {c.axis for c in self.chosen if isinstance(c, Share)}:
            span = share_span(self.statement, name)
            assert span is not None, "only axes with a range are shared out"
            sharing = [a for a, c in enumerate(self.chosen) if c == Share(name)]
            lo, hi = nested_piece(span, sharing, self.mesh, rank)
            axes[name] = _narrowed(axes[name], idx(lo), idx(hi))
        return tuple(axes.values())

    def at(self, rank: int, names: Sequence[str]) -> Statement:
        """The statement that ``rank`` runs, where load number ``n`` reads an array called ``names[n]``."""
        whole = self.statement
        target = owned(shape_of(whole.target), self.output, self.mesh, rank)
        change = _Change(self, rank, names)
        return replace(
            whole,
            target=_local(whole.target, whole.target.name, target),
            indices=tuple(_from(change(i), lo) for i, (lo, _) in zip(whole.indices, target)),
            value=self._own_rows(rank, change(whole.value), change.conditions),
            axes=self.axes(rank, change),
        )

    def _own_rows(self, rank: int, value: Expr, conditions: Sequence[Expr]) -> Expr:
        """The value where the table's row is this rank's, elsewhere what changes nothing."""
        target = self.statement.target
        for condition in conditions:
            neutral = identity(part_operator(self.statement), target.dtype)
            value = Select(condition, value if value.dtype == target.dtype else cast(target.dtype, value), neutral)
        return value


class _Change:
    """Loads of a statement made loads of a rank's own arrays, in the order of `SplitStatement.reads`."""

    def __init__(self, split: SplitStatement, rank: int, names: Sequence[str]) -> None:
        self.split, self.rank, self.names = split, rank, names
        self.numbers = {id(load): n for n, load in reversed([*enumerate(split.reads)])}
        self.conditions: list[Expr] = []

    def __call__(self, e: Expr) -> Expr:
        return self._load(e) if isinstance(e, Load) else rebuild(e, lambda n: self(n) if isinstance(n, Expr) else n)

    def _load(self, load: Load) -> Expr:
        number = self.numbers[id(load)]
        layout, shape = self.split.needs[number], shape_of(load.buffer)
        box = held(shape, layout, self.split.mesh, self.rank)
        indices = tuple(map(self, load.indices))
        looked_up = self.split.looked_up(number)
        if looked_up is not None:
            self.conditions += _is_within(indices[looked_up], box[looked_up], shape[looked_up])
        local = _local(load.buffer, self.names[number], box)
        return Load(local, tuple(_from(i, lo) for i, (lo, _) in zip(indices, box)), span=load.span)


def _local(buffer: Buffer, name: str, box: Box) -> Buffer:
    return replace(buffer, name=name, shape=tuple(idx(hi - lo) for lo, hi in box), strides=None)


def _from(index: Expr, start: int) -> Expr:
    return Binary("-", index, idx(start)) if start else index


def _is_within(index: Expr, span: Span, size: int) -> list[Expr]:
    """That an index is this rank's; the first rank and the last also take what no tensor has, and report it."""
    lo, hi = span
    found: list[Expr] = []
    if lo > 0 or hi == 0:
        found.append(Compare(">=", index, idx(lo)))
    if hi < size or lo == size:
        found.append(Compare("<", index, idx(hi)))
    return found


def _narrowed(axis: Axis, lo: Expr, hi: Expr) -> Axis:
    return Axis(axis.var, simplify(Binary("max", axis.lo, lo)), simplify(Binary("min", axis.hi, hi)))


def _restrict(axes: dict[str, Axis], index: Expr, span: Span) -> None:
    """The points whose subscript ``index`` lies in ``span``: the innermost axis exactly, those around it as far as
    their ranges tell."""
    form = affine_form(index)
    assert form is not None, "only subscripts that are affine are owned"
    inside = [name for name in axes if name in form]
    for name in inside:
        rest = substitute(index, {axes[name].var: idx(0)})
        if name == inside[-1]:
            axes[name] = _narrowed(axes[name], *_solved(form[name], (rest, rest), span))
            continue
        least, most = bounds(rest, axis_ranges(tuple(axes.values())))
        if least is not None and most is not None:
            ends = idx(least), idx(most)
            axes[name] = _narrowed(axes[name], *_solved(form[name], ends, span))


def _solved(factor: int, rest: tuple[Expr, Expr], span: Span) -> tuple[Expr, Expr]:
    """From where and up to where ``factor * v + rest`` is in ``span``, for some rest from the first to the second."""
    lo, hi = span
    least, most = rest
    low, high = Binary("-", idx(lo), most), Binary("-", idx(hi - 1), least)
    if factor < 0:
        low, high = Binary("-", least, idx(hi - 1)), Binary("-", most, idx(lo))
    step = idx(abs(factor))
    start = Binary("-", idx(0), Binary("//", Binary("-", idx(0), low), step))
    return start, Binary("+", Binary("//", high, step), idx(1))
