"""Which tensors must be filled before a program runs, and with what.

Elements a program never writes are zero, and a tensor whose first statement accumulates
starts at the identity; a fill costs a pass over memory, so tensors whose first statements
provably write every element get none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Const, Expr, Load, Var, const, identity, idx
from weft.ir.simplify import simplify
from weft.ir.visit import free_vars, substitute
from weft.tensor.access import first_writers, is_scatter, statement_reads, written_axes
from weft.tensor.program import Recurrence, Statement, TensorProgram
from weft.tensor.recurrences import first_of_block, steps_behind

#: For each dimension the half-open range of subscripts that is written.
Box = tuple[tuple[Expr, Expr], ...]


@dataclass(frozen=True, slots=True)
class Fill:
    """``value`` into all of ``buffer`` before statement number ``position``."""

    buffer: Buffer
    value: Const
    position: int


def infer_fills(program: TensorProgram) -> tuple[Fill, ...]:
    """The fills of a normalized program, in the order of the statements they precede."""
    first = first_writers(program)
    fills = []
    for buffer in (*program.outputs, *program.temporaries):
        if buffer.name in program.carried:
            continue
        writer = first.get(buffer.name)
        value = _fill_value(program, buffer, writer)
        if value is not None:
            use = _first_use(program, buffer, writer or 0)
            fills.append(Fill(buffer, value, first_of_block(program.statements, use)))
    return tuple(sorted(fills, key=lambda f: f.position))


def initialization(statement: Statement) -> Statement:
    """What sets the identity before ``op=!``: every element of a scatter's target, else those updated."""
    start = identity(statement.op, statement.target.dtype)
    target = statement.target
    if is_scatter(statement):
        axes = tuple(Axis(Var(f"i{d}"), idx(0), size) for d, size in enumerate(target.shape))
        indices: tuple[Expr, ...] = tuple(a.var for a in axes)
    else:
        indices, axes = statement.indices, written_axes(statement)
    return Statement(target, indices, "=", False, start, axes, statement.recurrences, span=statement.span)


def initial_value(program: TensorProgram, name: str) -> Const | None:
    """What a carried output starts from where the caller gives none; None where the caller must give it."""
    for statement in program.statements:
        read = any(load.buffer.name == name for load in statement_reads(statement))
        if read or (statement.target.name == name and statement.op == "="):
            return None
        if statement.target.name == name:
            return identity(statement.op, statement.target.dtype)
    return None


def infer_homes(program: TensorProgram, fills: Sequence[Fill]) -> dict[Buffer, tuple[Recurrence, ...]]:
    """Temporaries that live no longer than one step of a block, with the blocks around all that touches them."""
    filled = {f.buffer.name for f in fills}
    homes: dict[Buffer, tuple[Recurrence, ...]] = {}
    for buffer in program.temporaries:
        users = [s for s in program.statements if buffer.name in {s.target.name, *_names_read(s)}]
        first = users[0] if users else None
        if first is None or buffer.name in filled or not _sets_all(first, buffer):
            continue
        shared = [len(_common(first.recurrences, s.recurrences)) for s in users]
        if min(shared):
            homes[buffer] = first.recurrences[: min(shared)]
    return homes


def _names_read(statement: Statement) -> set[str]:
    return {load.buffer.name for load in statement_reads(statement)}


def _common(a: tuple[Recurrence, ...], b: tuple[Recurrence, ...]) -> tuple[Recurrence, ...]:
    return tuple(x for x, y in takewhile(lambda pair: pair[0] == pair[1], zip(a, b)))


def _sets_all(statement: Statement, buffer: Buffer) -> bool:
    """Whether a statement sets every element of ``buffer`` at each step, whatever was there."""
    sets = statement.target.name == buffer.name and (statement.op == "=" or statement.initialize)
    box = (
        written_box(replace(statement, recurrences=())) if sets and buffer.name not in _names_read(statement) else None
    )
    return box is not None and covers([box], buffer.shape)


def _fill_value(program: TensorProgram, buffer: Buffer, writer: int | None) -> Const | None:
    if writer is None:
        return const(0, buffer.dtype)
    statement = program.statements[writer]
    if statement.op != "=" and not statement.initialize:
        return identity(statement.op, buffer.dtype)
    if statement.initialize and is_scatter(statement) and not statement.recurrences:
        return None
    if buffer.name in {b.name for b in program.temporaries} and reads_follow(program, buffer.name, writer):
        return None
    boxes = [box for s in _leading_setters(program, buffer, writer) if (box := written_box(s)) is not None]
    return None if covers(boxes, buffer.shape) else const(0, buffer.dtype)


def reads_follow(program: TensorProgram, name: str, writer: int) -> bool:
    """Whether one statement, number ``writer``, sets elements of a tensor, and all reads run over just those points."""
    own = program.statements[writer]
    axes = {a.var: a for a in own.axes}
    if len({i for i in own.indices if i in axes}) < len(own.indices):
        return False
    if any(s.target.name == name for s in program.statements if s is not own):
        return False
    for position, statement in enumerate(program.statements):
        reads = [load for load in statement_reads(statement) if load.buffer.name == name]
        if reads and statement.recurrences[: len(own.recurrences)] != own.recurrences:
            return False
        if reads and (position <= writer or not all(_same_points(own, read, statement) for read in reads)):
            return False
    return True


def _same_points(own: Statement, read: Load, reader: Statement) -> bool:
    """Whether the axes that subscript ``read`` have the ranges of those that subscript what ``own`` writes."""
    axes, theirs = ({a.var: a for a in s.axes} for s in (own, reader))
    renamed = {a: b for a, b in zip(own.indices, read.indices) if isinstance(a, Var) and isinstance(b, Var)}
    if len(set(renamed.values())) < len(own.indices) or not theirs.keys() >= set(renamed.values()):
        return False
    free = {v for v in axes if v not in renamed}  # a range that depends on one of these is a union of ranges
    for a, b in ((axes[a], theirs[b]) for a, b in renamed.items()):
        if any(v.name in {*free_vars(a.lo), *free_vars(a.hi)} for v in free):
            return False
        if (substitute(a.lo, dict(renamed)), substitute(a.hi, dict(renamed))) != (b.lo, b.hi):
            return False
    return True


def _first_use(program: TensorProgram, buffer: Buffer, writer: int) -> int:
    reads = (
        position
        for position, s in enumerate(program.statements[:writer])
        if any(load.buffer.name == buffer.name for load in statement_reads(s))
    )
    return min(reads, default=writer)


def _leading_setters(program: TensorProgram, buffer: Buffer, writer: int) -> list[Statement]:
    """Statements that set elements of ``buffer`` before anything depends on elements not yet set."""
    found = []
    for position in range(first_of_block(program.statements, writer), len(program.statements)):
        statement = program.statements[position]
        reads = [load for load in statement_reads(statement) if load.buffer.name == buffer.name]
        own = statement.target.name == buffer.name and reads_only_earlier(statement, reads)
        if reads and not own and not _reads_earlier_steps(program, position, reads):
            break
        if statement.target.name != buffer.name:
            continue
        if is_scatter(statement) or not (statement.op == "=" or statement.initialize):
            break
        found.append(statement)
    return found


def _reads_earlier_steps(program: TensorProgram, position: int, reads: Sequence[Load]) -> bool:
    """Whether what a statement of a block reads is behind all that its block writes, along one dimension."""
    around = program.statements[position].recurrences
    names = {read.buffer.name for read in reads}
    writers = [(p, s) for p, s in enumerate(program.statements) if s.target.name in names and s.recurrences == around]
    if not around or not writers:
        return False
    for read in reads:
        behind = [(p, steps_behind(s, read)) for p, s in writers]
        if not set.intersection(*({d for d, k in steps.items() if k >= (p >= position)} for p, steps in behind)):
            return False
    return True


def reads_only_earlier(statement: Statement, reads: Sequence[Load]) -> bool:
    """Whether a recurrence reads its target only behind the point it writes, in one dimension.

    Together with boxes laid end to end in the order of the statements, such reads meet written elements alone.
    """
    order = [i.name for i in statement.indices if isinstance(i, Var)]
    if statement.op != "=" or order != [a.var.name for a in statement.axes] or len(order) != len(statement.indices):
        return False
    for read in reads:
        behind = [simplify(own - index) for own, index in zip(statement.indices, read.indices)]
        steps = [e.value if isinstance(e, Const) else -1 for e in behind]
        if sum(step > 0 for step in steps) != 1 or min(steps) < 0:
            return False
    return True


def written_box(statement: Statement) -> Box | None:
    """The box of elements a statement sets, where it is one: subscripts ``axis + offset`` or constants."""
    ranges = {a.var.name: (a.lo, a.hi) for a in statement.all_axes}
    if not all(_moves_or_runs(statement, r.axis) for r in statement.recurrences):
        return None
    fixed = {n for n, (lo, hi) in ranges.items() if not ranges.keys() & {*free_vars(lo), *free_vars(hi)}}
    box, used = [], set[str]()
    for index in statement.indices:
        mentioned = [n for n in free_vars(index) if n in ranges]
        if not mentioned:
            box.append((index, simplify(index + idx(1))))
            continue
        form = affine_form(index)
        name = mentioned[0]
        single = form is not None and len(mentioned) == 1 and form[name] == 1
        if not single or name in used or name not in fixed:
            return None
        used.add(name)
        offset = simplify(substitute(index, {Var(name): idx(0)}))
        lo, hi = ranges[name]
        box.append((simplify(lo + offset), simplify(hi + offset)))
    return tuple(box)


def _moves_or_runs(statement: Statement, step: Axis) -> bool:
    """Whether each step writes elements of its own, or there certainly is one."""
    extent = simplify(step.hi - step.lo)
    return any(step.var.name in free_vars(i) for i in statement.indices) or (
        isinstance(extent, Const) and extent.value > 0
    )


def covers(boxes: Sequence[Box], shape: Sequence[Expr]) -> bool:
    """Whether boxes laid end to end along one dimension, in the order given, provably fill ``shape``."""
    if any(_is_full(box, shape, skip=None) for box in boxes):
        return True
    return any(
        _chain_covers([box[d] for box in boxes if _is_full(box, shape, skip=d)], size) for d, size in enumerate(shape)
    )


def _is_full(box: Box, shape: Sequence[Expr], skip: int | None) -> bool:
    sides = [(lo, hi, size) for d, ((lo, hi), size) in enumerate(zip(box, shape)) if d != skip]
    return all(_same(lo, idx(0)) and _same(hi, size) for lo, hi, size in sides)


def _chain_covers(sides: Sequence[tuple[Expr, Expr]], size: Expr) -> bool:
    reached: Expr = idx(0)
    for lo, hi in sides:
        if _at_most(lo, reached) and not _at_most(hi, reached):
            reached = hi
    return _same(reached, size)


def _same(a: Expr, b: Expr) -> bool:
    difference = simplify(a - b)
    return isinstance(difference, Const) and difference.value == 0


def _at_most(a: Expr, b: Expr) -> bool:
    difference = simplify(b - a)
    return isinstance(difference, Const) and difference.value >= 0
