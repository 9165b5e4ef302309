"""How many different elements of a tensor a specialized program touches.

Nearly every access covers a box: a set of subscripts per dimension, found from its affine
form. Boxes that differ in one dimension merge; what is left is marked element by element
where that is affordable, and bounded by the sum of the parts where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Const, Expr
from weft.ir.solve import Form, variables
from weft.ir.visit import free_vars, loads
from weft.tensor.access import statement_reads
from weft.tensor.array_arithmetic import Array
from weft.tensor.evaluate import infer_box
from weft.tensor.evaluate_expr import Point, evaluate_expr
from weft.tensor.program import Statement, TensorProgram, axes_for
from weft.tensor.recurrences import constant_of

#: Marking takes a byte per element and a subscript per point; beyond this many, a bound is given instead.
MARK_LIMIT = 1 << 24

#: The subscripts of one dimension: evenly spaced, or listed in order.
Side = range | Array
Box = tuple[Side, ...]


def count_touched(program: TensorProgram, buffer: Buffer, *, writes: bool) -> int:
    """Elements of ``buffer`` that the program writes, or reads, each counted once."""
    shape = tuple(constant_of(s) for s in buffer.shape)
    if math.prod(shape) == 0:
        return 0
    boxes: list[Box] = []
    marks: Array | None = None
    bound = 0
    for statement, indices in _accesses(program, buffer, writes):
        box = _box(statement, indices, shape)
        marked = _mark(statement, indices, shape) if box is None else None
        if box is not None:
            boxes.append(box)
        elif marked is not None:
            marks = marked if marks is None else marks | marked
        else:
            bound += math.prod(len(r) for r in infer_box(_axes_of(statement, indices), {}).values())
    return min(math.prod(shape), _count(_merge(boxes), marks, shape) + bound)


def _accesses(program: TensorProgram, buffer: Buffer, writes: bool) -> list[tuple[Statement, tuple[Expr, ...]]]:
    accesses = []
    for statement in program.statements:
        if writes and statement.target.name == buffer.name:
            accesses.append((statement, statement.indices))
        if not writes:
            reads = [r.indices for r in statement_reads(statement) if r.buffer.name == buffer.name]
            if statement.target.name == buffer.name and statement.op != "=" and not statement.initialize:
                reads.append(statement.indices)
            accesses += [(statement, indices) for indices in dict.fromkeys(reads)]
    return accesses


def _box(statement: Statement, indices: Sequence[Expr], shape: tuple[int, ...]) -> Box | None:
    """The subscripts per dimension, where no other dimension uses the same axes."""
    used: set[str] = set()
    sides = []
    for subscript, size in zip(indices, shape):
        axes = {a.var.name for a in _axes_of(statement, [subscript])}
        side = None if used & axes else _side(statement, subscript, size)
        if side is None:
            return None
        used |= axes
        sides.append(side)
    return tuple(sides)


def _side(statement: Statement, subscript: Expr, size: int) -> Side | None:
    """The values of a subscript that are below ``size``; None where data decide or there are too many points."""
    form = affine_form(subscript)
    plain = [a for a in statement.all_axes if isinstance(a.lo, Const) and isinstance(a.hi, Const)]
    ranges = {a.var.name: range(constant_of(a.lo), constant_of(a.hi)) for a in plain}
    if form is not None and ranges.keys() >= {*variables(form)}:
        return _image(form, ranges, size)
    marked = _mark(statement, [subscript], (size,))
    return None if marked is None else np.flatnonzero(marked)


def _image(form: Form, ranges: dict[str, range], size: int) -> Side | None:
    """Which of the subscripts below ``size`` the form takes."""
    terms = [(c, ranges[name]) for name, c in form.items() if name]
    if any(len(r) == 0 for _, r in terms):
        return range(0)
    base = form.get("", 0) + sum(min(c * r[0], c * r[-1]) for c, r in terms)
    steps = sorted((abs(c), len(r)) for c, r in terms if len(r) > 1)
    even = _even_image(base, steps)
    if even is not None:
        return _clip(even, size)
    values = np.asarray([base])
    for step, count in steps:
        if values.size * count > MARK_LIMIT:
            return None
        values = np.unique(np.add.outer(values, np.arange(count) * step))
    return values[(values >= 0) & (values < size)]


def _even_image(base: int, steps: Sequence[tuple[int, int]]) -> range | None:
    """The sums as one progression, where each step fits in what the smaller ones cover."""
    unit = math.gcd(*(step for step, _ in steps)) or 1
    covered = 0
    for step, count in steps:
        if step // unit > covered + 1:
            return None
        covered += step // unit * (count - 1)
    return range(base, base + covered * unit + 1, unit)


def _clip(values: range, size: int) -> range:
    first = max(0, -(-(0 - values.start) // values.step))
    last = max(first, min(len(values), -(-(size - values.start) // values.step)))
    return values[first:last]


def _mark(statement: Statement, indices: Sequence[Expr], shape: tuple[int, ...]) -> Array | None:
    """Which elements are touched, one by one; None where data decide or there are too many."""
    if any(loads(i) for i in indices):
        return None
    axes = _axes_of(statement, indices)
    box = infer_box(axes, {})
    points = math.prod(len(r) for r in box.values())
    if points > MARK_LIMIT or math.prod(shape) > MARK_LIMIT:
        return None
    marks = np.zeros(shape, bool)
    if points == 0:
        return marks
    point = Point.over(axes, box, {}, wide=False)
    subscripts = [point.select(evaluate_expr(i, point)) for i in indices]
    inside = np.ones(subscripts[0].shape if subscripts else (1,), bool)
    for values, size in zip(subscripts, shape):
        inside &= (values >= 0) & (values < size)
    marks[tuple(values[inside] for values in subscripts)] = True
    return marks


def _axes_of(statement: Statement, indices: Sequence[Expr]) -> tuple[Axis, ...]:
    return axes_for((name for i in indices for name in free_vars(i)), statement.all_axes)


def _merge(boxes: list[Box]) -> list[Box]:
    """Boxes that differ in one dimension joined, until none do."""
    merged: list[Box] = []
    for box in boxes:
        current = box
        position = 0
        while position < len(merged):
            joined = _join(merged[position], current)
            if joined is None:
                position += 1
            else:
                merged.pop(position)
                current, position = joined, 0
        merged.append(current)
    return merged


def _join(a: Box, b: Box) -> Box | None:
    """The union, where it is a box and can be written down."""
    differing = [d for d, (x, y) in enumerate(zip(a, b)) if not _equal(x, y)]
    if len(differing) > 1:
        return None
    sides = list(a)
    for d in differing:
        union = _union(a[d], b[d])
        if union is None:
            return None
        sides[d] = union
    return tuple(sides)


def _equal(a: Side, b: Side) -> bool:
    if isinstance(a, range) and isinstance(b, range):
        return a == b
    return len(a) == len(b) and bool(np.array_equal(np.asarray(a), np.asarray(b)))


def _union(a: Side, b: Side) -> Side | None:
    if isinstance(a, range) and isinstance(b, range):
        first, second = sorted((a, b), key=lambda r: (r.start, -len(r)))
        even = first.step == second.step or len(second) <= 1
        if (
            even
            and (second.start - first.start) % first.step == 0
            and second.start <= first.start + first.step * len(first)
        ):
            return range(first.start, max(first.stop, (second[-1] if second else first.start) + 1), first.step)
    if len(a) + len(b) > MARK_LIMIT:
        return None
    return np.union1d(np.asarray(a, np.int64), np.asarray(b, np.int64))


def _count(boxes: list[Box], marks: Array | None, shape: tuple[int, ...]) -> int:
    if marks is None and len(boxes) > 1 and math.prod(shape) <= MARK_LIMIT:
        marks = np.zeros(shape, bool)
    if marks is None:
        return sum(math.prod(map(len, box)) for box in boxes)
    for box in boxes:
        marks[np.ix_(*(np.asarray(side, np.int64) for side in box))] = True
    return int(marks.sum())
