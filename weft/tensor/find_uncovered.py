"""Elements of outputs of declared size that no statement writes, though no range was stated that leaves them out.

What a stated range leaves out was meant to be left out: looked at are the dimensions that a variable of inferred range
runs through, and there the positions at which nothing is written at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

import numpy as np

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Compare, Const, Expr, Var, const
from weft.ir.interval import bounds
from weft.ir.remark import Remark
from weft.ir.simplify import simplify
from weft.ir.solve import variables
from weft.ir.visit import free_vars, substitute
from weft.tensor.coverage import covers, written_box
from weft.tensor.facts import Facts
from weft.tensor.polynomial import Polynomial
from weft.tensor.program import Doubt, Statement, TensorProgram
from weft.tensor.specialize import axis_ranges
from weft.tensor.text import describe

#: Longer dimensions are not gone through position by position.
_LONGEST = 1 << 24


@dataclass(frozen=True, slots=True)
class _Watched:
    """An output, the statements that write it, and the dimensions that are looked at."""

    output: Buffer
    writers: Sequence[Statement]
    dimensions: Sequence[int]


def find_uncovered(program: TensorProgram) -> Iterator[Remark]:
    """A remark for each output that is not covered whatever the sizes are."""
    for watched in _all_watched(program):
        found = ((d, _never_written(watched, d)) for d in watched.dimensions)
        first = next(((d, place) for d, place in found if place is not None), None)
        if first is not None:
            yield _remark(watched, first[0], describe(first[1].expr()))


def doubt_coverage(program: TensorProgram) -> Iterator[Doubt]:
    """For outputs that one statement writes, the sizes at which it leaves some out, where these can be said."""
    sure = {r.what for r in find_uncovered(program)}
    for watched in _all_watched(program):
        box = written_box(watched.writers[0]) if len(watched.writers) == 1 else None
        for d in watched.dimensions if box is not None else ():
            assert box is not None
            size, hi = watched.output.shape[d], box[d][1]
            if Facts.of(()).proves(Polynomial.of(hi) - Polynomial.of(size)):
                continue
            remark = _remark(watched, d, describe(hi))
            if remark.what not in sure:
                yield Doubt(Compare("<", hi, size), remark)


def uncovered_at(program: TensorProgram, sizes: Mapping[str, int]) -> Iterator[Remark]:
    """A remark for each output that is not covered at ``sizes``."""
    values: dict[Var, Expr] = {v: const(sizes[v.name], v.dtype) for v in (*program.sizes, *program.constants)}
    for watched in _all_watched(program):
        writers = [_at_sizes(s, values) for s in watched.writers]
        shape = [simplify(substitute(size, values)) for size in watched.output.shape]
        extents = [int(size.value) for size in shape if isinstance(size, Const)]
        if len(extents) < len(shape) or not all(extents):
            continue
        for d in watched.dimensions:
            place = _first_left_out([_positions(s, d) for s in writers], extents[d])
            if place is not None:
                ends = (e for s in watched.writers for a in s.all_axes for e in (a.lo, a.hi))
                used = {n for e in (*watched.output.shape, *ends) for n in free_vars(e) if n in sizes}
                given = ", ".join(f"{v.name} = {sizes[v.name]}" for v in values if v.name in used)
                remark = _remark(watched, d, str(place))
                yield remark._replace(why=f"with {given}, {remark.why}" if given else remark.why)
                break


def _all_watched(program: TensorProgram) -> Iterator[_Watched]:
    """Outputs whose sizes inputs give, and that not all is known of at once."""
    inputs = {v for b in program.inputs for size in b.shape for v in free_vars(size)}
    inputs |= {p.name for p in program.scalars}
    through = dict(program.run_through)
    for output in program.outputs:
        writers = [s for s in program.statements if s.target.name == output.name]
        boxes = [box for s in writers if not s.recurrences and (box := written_box(s)) is not None]
        named = {v for size in output.shape for v in free_vars(size)}
        settled = output.name in program.carried or not named <= inputs or covers(boxes, output.shape)
        if output.name in through and writers and not settled:
            yield _Watched(output, writers, through[output.name])


def _never_written(watched: _Watched, d: int) -> Polynomial | None:
    """A position of dimension ``d`` at which no statement writes, whatever the sizes are: the last, the first, or
    between two that are."""
    last = Polynomial.of(watched.output.shape[d]) - 1
    indices = [Polynomial.of(s.indices[d]) for s in watched.writers]
    facts = [Facts.of(s.all_axes) for s in watched.writers]
    if all(f.proves(last - 1 - i) for f, i in zip(facts, indices)):
        return last
    if all(f.proves(i - 1) for f, i in zip(facts, indices)):
        return Polynomial.of(0)
    forms = [affine_form(s.indices[d]) for s in watched.writers]
    names = [{a.var.name for a in s.all_axes} for s in watched.writers]
    known = [f for f, n in zip(forms, names) if f is not None and {*variables(f)} <= n]
    if not known or len(known) < len(forms):
        return None
    first = known[0].get("", 0)
    step = gcd(*(f[v] for f in known for v in variables(f)), *(f.get("", 0) - first for f in known))
    return Polynomial.of((first + 1) % step) if step > 1 else None


def _at_sizes(s: Statement, values: Mapping[Var, Expr]) -> Statement:
    def put(e: Expr) -> Expr:
        return simplify(substitute(e, values))

    axes = [Axis(a.var, put(a.lo), put(a.hi)) for a in s.all_axes]
    return replace(s, indices=tuple(map(put, s.indices)), axes=tuple(axes), recurrences=())


def _positions(s: Statement, d: int) -> range | None:
    """Where a statement of known sizes writes along a dimension, or a range that holds it; None where it may be all."""
    ranges = axis_ranges(s.axes)
    index = s.indices[d]
    names = {n for i in s.indices for n in free_vars(i)}
    if any(ranges[n].is_empty for n in names if n in ranges):
        return range(0)
    form = affine_form(index)
    moving = [] if form is None else variables(form)
    step = abs(form[moving[0]]) if form is not None and len(moving) == 1 else 1
    if not ranges.keys() >= free_vars(index).keys():
        return None
    interval = bounds(index, ranges)
    if interval.lo is None or interval.hi is None:
        return None
    return range(interval.lo, interval.hi + 1, step)


def _first_left_out(written: Sequence[range | None], size: int) -> int | None:
    if None in written or size > _LONGEST:
        return None
    marks = np.zeros(size, bool)
    for places in written:
        if places:
            marks[max(places.start, places.start % places.step) : places.stop : places.step] = True
    return None if marks.all() else int(np.argmin(marks))


def _remark(watched: _Watched, d: int, place: str) -> Remark:
    output, writer = watched.output, watched.writers[0]
    element = ", ".join(place if k == d else "0" for k in range(output.rank))
    ranges = ", ".join(f"`{a.var.name}` in {describe(a.lo)}:{describe(a.hi)}" for a in writer.axes)
    return Remark(
        "uncovered-output",
        f"no statement writes all of `{output.name}`",
        writer.span or output.span,
        f"`{output.name}({element})` stays zero; `{output.name}` is written for {ranges}",
        f"leave out the size of `{output.name}` to have what is written, or state ranges: "
        f"`where {writer.axes[0].var.name if writer.axes else 'i'} in ...`",
    )
