"""Brings a tensor program into the form that the evaluator, lowering and cost share.

Boundaries become index arithmetic, axes come after those their range depends on, sums and
products of float16 and bfloat16 run in float32, and an ``op=!`` that meets each element once
is a plain ``=``. What the program computes is unchanged; normalizing twice changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.dtype import float32
from weft.ir.expr import Axis, Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var, cast, const, identity, idx
from weft.ir.visit import Node, free_vars, fresh_name, rewrite, walk
from weft.tensor.access import is_injective, is_scatter, pinned_axes, reads_target
from weft.tensor.boundary import Outside, expand_outside
from weft.tensor.normal_form.conversions import push_conversions
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.prove_bounds import GuardedAccess, check_access
from weft.tensor.recurrences import by_recurrence, first_of_block
from weft.tensor.simplify_values import simplify_subscript, simplify_value
from weft.tensor.specialize import axis_ranges


def normalize(program: TensorProgram) -> TensorProgram:
    return widen_accumulators(spell_out(program))[0]


def spell_out(program: TensorProgram) -> TensorProgram:
    """All of normalizing that keeps each statement one statement on its own target."""
    alone = merge_steps(program.statements)
    statements = tuple(set_once(expand_boundaries(order_axes(s))) for s in alone)
    return program if statements == program.statements else replace(program, statements=statements)


def merge_steps(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """A statement alone in a block is one that runs over the steps as over its other axes, in the same order."""
    merged = list(statements)
    for depth in reversed(range(max((len(s.recurrences) for s in statements), default=0))):
        for recurrence, (first, *others) in by_recurrence(merged, range(len(merged)), depth):
            if recurrence is not None and not others and len(merged[first].recurrences) == depth + 1:
                merged[first] = _over_steps(merged[first], recurrence.axis)
    return tuple(merged)


def _over_steps(statement: Statement, steps: Axis) -> Statement:
    """``statement`` with ``steps`` as its first axis, unless what the steps write meets."""
    whole = replace(statement, axes=(steps, *statement.axes), recurrences=statement.recurrences[:-1])
    apart = steps.var.name in pinned_axes(whole) and not (statement.initialize and reads_target(statement))
    adds = statement.op != "=" and not statement.initialize
    return whole if apart or adds else statement


def widen_accumulators(program: TensorProgram) -> tuple[TensorProgram, tuple[int, ...]]:
    """Narrow sums and products through float32 temporaries; also where each statement's replacement begins."""
    taken = {p.name for p in (*program.params, *program.outputs, *program.temporaries, *program.sizes)}
    taken |= {a.var.name for s in program.statements for a in s.all_axes}
    written: set[str] = set(program.carried)
    temporaries = list(program.temporaries)
    statements: list[Statement] = []
    starts: list[int] = []
    for position, statement in enumerate(program.statements):
        starts.append(len(statements))
        name = statement.target.name
        if needs_wide_accumulator(statement):
            wide = Buffer(fresh_name(f"{name}_wide", taken), float32, statement.target.shape)
            temporaries.append(wide)
            if name not in written and statement.recurrences and not statement.initialize:
                # What a step adds to is what earlier steps left, and before the first the identity.
                first = first_of_block(program.statements, position)
                statements.insert(starts[first], _start(statement, taken))
                starts = [s + (p >= first) for p, s in enumerate(starts)]
                written.add(name)
            statements += accumulate_wide(statement, wide, taken, starts=name not in written)
        else:
            statements.append(statement)
        written.add(name)
    if len(statements) == len(program.statements):
        return program, tuple(starts)
    return replace(program, statements=tuple(statements), temporaries=tuple(temporaries)), tuple(starts)


def _start(statement: Statement, taken: set[str]) -> Statement:
    """The identity into all that ``statement`` may add to."""
    indices, axes = _whole(statement.target, taken)
    start = identity(statement.op, statement.target.dtype)
    return Statement(statement.target, indices, "=", False, start, axes, span=statement.span)


def expand_boundaries(statement: Statement) -> Statement:
    """Reads outside a tensor spelled as tests and clamped subscripts; those never outside as plain reads."""
    if not any(isinstance(n, Outside) for e in (*statement.indices, statement.value) for n in walk(e)):
        return statement
    ranges = axis_ranges(statement.all_axes)

    def expand(e: Expr) -> Expr:
        return expand_outside(rewrite(e, lambda n: _plain(n, statement.all_axes)))

    indices = tuple(simplify_subscript(expand(i), ranges) for i in statement.indices)
    value = push_conversions(expand(statement.value))
    return replace(statement, indices=indices, value=simplify_value(value, ranges))


def _plain(node: Node, axes: tuple[Axis, ...]) -> Node | None:
    """The load of a boundary that is never reached."""
    if not isinstance(node, Outside):
        return None
    access = GuardedAccess(node.load.buffer, node.load.indices, axes, (), is_write=False)
    inside = all(check_access(access, d).kind == "proved" for d in range(node.load.buffer.rank))
    return node.load if inside else None


def order_axes(statement: Statement) -> Statement:
    """Axes whose range depends on another axis moved behind it; otherwise in the order given."""
    waiting, ordered = list(statement.axes), list[Axis]()
    while waiting:
        names = {a.var.name for a in waiting}
        ready = next((a for a in waiting if names.isdisjoint({*free_vars(a.lo), *free_vars(a.hi)})), waiting[0])
        waiting.remove(ready)
        ordered.append(ready)
    return statement if tuple(ordered) == statement.axes else replace(statement, axes=tuple(ordered))


def set_once(statement: Statement) -> Statement:
    """``op=!`` over no reduction axes, each element once: the identity is combined with one value, which stays."""
    once = statement.initialize and not statement.reduce_axes and is_injective(statement)
    if not once or reads_target(statement):
        return statement
    return replace(statement, op="=", initialize=False)


def needs_wide_accumulator(statement: Statement) -> bool:
    """Whether several narrow floats are added or multiplied up; min and max round nothing and need no help."""
    several = bool(statement.reduce_axes) or not is_injective(statement)
    narrow = statement.target.dtype.is_narrow_float and statement.op in ("+", "*")
    return narrow and several and not reads_target(statement)


def accumulate_wide(statement: Statement, wide: Buffer, taken: set[str], *, starts: bool) -> list[Statement]:
    """The statement through ``wide``: what the target held, the accumulation, and the one rounding.

    ``starts`` says that nothing was in the target before, so the accumulator is all there is to it.
    """
    target = statement.target
    whole = is_scatter(statement) or (starts and not statement.initialize)
    indices, axes = _whole(target, taken) if whole else (statement.indices, statement.spatial_axes)
    into: list[Statement] = []
    if not starts and not statement.initialize:
        held = cast(float32, Load(target, indices, span=statement.span))
        into = [Statement(wide, indices, "=", False, held, axes, statement.recurrences, span=statement.span)]
    update = replace(statement, target=wide, value=widen(statement.value))
    rounded = cast(target.dtype, Load(wide, indices, span=statement.span))
    end = Statement(target, indices, "=", False, rounded, axes, statement.recurrences, span=statement.span)
    return [*into, update, end]


def _whole(target: Buffer, taken: set[str]) -> tuple[tuple[Expr, ...], tuple[Axis, ...]]:
    """Subscripts and axes that visit every element of ``target``."""
    names = set(taken)
    variables = [Var(fresh_name(f"d{position}", names)) for position in range(target.rank)]
    return tuple(variables), tuple(Axis(v, idx(0), size) for v, size in zip(variables, target.shape))


def widen(value: Expr) -> Expr:
    """``value`` computed in float32 throughout: narrow operands are cast, so products are not rounded."""
    if not value.dtype.is_narrow_float:
        return cast(float32, value)
    match value:
        case Const(value=number):
            return const(number, float32)
        case Unary(op=op, operand=operand):
            return Unary(op, widen(operand), span=value.span)
        case Binary(op=op, left=left, right=right):
            return Binary(op, widen(left), widen(right), span=value.span)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return Select(condition, widen(then), widen(otherwise), span=value.span)
        case Call(name=name, args=args):
            return Call(name, tuple(map(widen, args)), float32, span=value.span)
        case Cast(operand=operand) if not operand.dtype.is_float:
            return cast(float32, operand)
    return cast(float32, value)
