"""Expressions as Python closures over a thread's variables.

Each expression is translated once, so running it dispatches on nothing. A vector is
translated lane by lane into scalar closures: laziness then needs no masks, as a lane whose
side of a ``Select`` is not chosen is simply not evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from weft.ir import expr as ex
from weft.ir.dtype import DType, float32
from weft.ir.errors import ProgramError
from weft.ir.interpret_memory import STRAND, Env, Memory, Scope, Site, is_concurrent
from weft.ir.interpret_scalar import Function2, binary_op, call_op, cast_op, compare_op, scalar_value, unary_op

Evaluator: TypeAlias = Callable[[Env], Any]
Address: TypeAlias = Callable[[Env, Memory], int]


def compile_expr(expr: ex.Expr, scope: Scope) -> Evaluator:
    """A closure that gives the value; a tuple of lanes for a vector."""
    if expr.dtype.lanes == 1:
        return compile_lane(expr, scope, 0)
    lanes = [compile_lane(expr, scope, lane) for lane in range(expr.dtype.lanes)]
    return lambda env: tuple([lane(env) for lane in lanes])


def compile_lane(expr: ex.Expr, scope: Scope, lane: int) -> Evaluator:
    """A closure that gives lane ``lane``; a scalar has the same value in every lane."""
    return _COMPILERS[type(expr)](expr, scope, lane)


def _const(expr: ex.Const, scope: Scope, lane: int) -> Evaluator:
    value = scalar_value(expr.dtype.scalar, expr.value)
    return lambda env: value


def _var(expr: ex.Var, scope: Scope, lane: int) -> Evaluator:
    slot = scope.var_slot(expr)
    if expr.dtype.lanes > 1:
        return lambda env: env[slot][lane]
    return lambda env: env[slot]


def _load(expr: ex.Load, scope: Scope, lane: int) -> Evaluator:
    slot = scope.buffer_slot(expr.buffer, expr.span)
    site = scope.site(expr.buffer, "read", expr.span)
    indices = [compile_lane(i, scope, lane) for i in expr.indices]
    address = compile_address(indices, site)
    if expr.buffer.name in scope.tracked:
        return _tracked_load(slot, address, site, indices)

    def load(env: Env) -> Any:
        memory = env[slot]
        value = memory.data[address(env, memory)]
        return value if value is not None else site.uninitialized(env, [i(env) for i in indices])

    return load


def _tracked_load(slot: int, address: Address, site: Site, indices: Sequence[Evaluator]) -> Evaluator:
    def load(env: Env) -> Any:
        memory = env[slot]
        flat = address(env, memory)
        strand = env[STRAND]
        for earlier in (memory.writers[flat], memory.atomics[flat]):
            if earlier is not None and earlier[0] is not strand and is_concurrent(earlier[0], strand):
                site.race(env, [i(env) for i in indices], earlier)
        reader = memory.readers[flat]
        if reader is None or (reader[0] is not strand and not is_concurrent(reader[0], strand)):
            memory.readers[flat] = site.snapshot(env)
        value = memory.data[flat]
        return value if value is not None else site.uninitialized(env, [i(env) for i in indices])

    return load


def compile_address(indices: Sequence[Evaluator], site: Site) -> Address:
    """From indices, each checked against its own dimension, to the position of an element."""
    if len(indices) == 1:
        (first,) = indices

        def address1(env: Env, memory: Memory) -> int:
            i: int = first(env)
            if not 0 <= i < memory.shape[0]:
                site.out_of_bounds(env, memory, (i,))
            return memory.start + i * memory.strides[0]

        return address1
    if len(indices) == 2:
        row, column = indices

        def address2(env: Env, memory: Memory) -> int:
            i: int = row(env)
            j: int = column(env)
            rows, columns = memory.shape
            if not (0 <= i < rows and 0 <= j < columns):
                site.out_of_bounds(env, memory, (i, j))
            down, along = memory.strides
            return memory.start + i * down + j * along

        return address2
    return _address(tuple(indices), site)


def _address(indices: tuple[Evaluator, ...], site: Site) -> Address:
    def address(env: Env, memory: Memory) -> int:
        values = [i(env) for i in indices]
        flat = memory.start
        for i, size, step in zip(values, memory.shape, memory.strides):
            if not 0 <= i < size:
                site.out_of_bounds(env, memory, values)
            flat += i * step
        return flat

    return address


def _unary(expr: ex.Unary, scope: Scope, lane: int) -> Evaluator:
    fn, operand = unary_op(expr.op, expr.dtype.scalar), compile_lane(expr.operand, scope, lane)
    return lambda env: fn(operand(env))


def _binary(expr: ex.Binary, scope: Scope, lane: int) -> Evaluator:
    left, right = compile_lane(expr.left, scope, lane), compile_lane(expr.right, scope, lane)
    if expr.op == "&&":
        return lambda env: left(env) and right(env)
    if expr.op == "||":
        return lambda env: left(env) or right(env)
    dtype = expr.dtype.scalar
    if expr.op in ("+", "*") and not dtype.is_narrow_float:
        return _fast_arithmetic(expr.op, dtype, left, right)
    fn = binary_op(expr.op, dtype)
    return lambda env: fn(left(env), right(env))


def _fast_arithmetic(op: str, dtype: DType, left: Evaluator, right: Evaluator) -> Evaluator:
    """Sums and products, most of what index arithmetic and contractions run, without a further call."""
    if dtype.is_float:
        return (lambda env: left(env) + right(env)) if op == "+" else (lambda env: left(env) * right(env))
    low, high, fix = dtype.min_value, dtype.max_value, binary_op("+", dtype)

    def add(env: Env) -> Any:
        value = left(env) + right(env)
        return value if low <= value <= high else fix(value, 0)

    def multiply(env: Env) -> Any:
        value = left(env) * right(env)
        return value if low <= value <= high else fix(value, 0)

    return add if op == "+" else multiply


def _compare(expr: ex.Compare, scope: Scope, lane: int) -> Evaluator:
    left, right = compile_lane(expr.left, scope, lane), compile_lane(expr.right, scope, lane)
    fn = compare_op(expr.op)
    return lambda env: fn(left(env), right(env))


def _select(expr: ex.Select, scope: Scope, lane: int) -> Evaluator:
    condition, then, otherwise = (compile_lane(e, scope, lane) for e in (expr.condition, expr.then, expr.otherwise))
    return lambda env: then(env) if condition(env) else otherwise(env)


def _cast(expr: ex.Cast, scope: Scope, lane: int) -> Evaluator:
    fn, operand = cast_op(expr.operand.dtype, expr.dtype), compile_lane(expr.operand, scope, lane)
    return lambda env: fn(operand(env))


def _call(expr: ex.Call, scope: Scope, lane: int) -> Evaluator:
    argument = expr.args[0].dtype if expr.args else expr.dtype
    fn = call_op(expr.name, argument, expr.dtype, expr.span or scope.span)
    args = [compile_lane(a, scope, lane) for a in expr.args]
    return lambda env: fn(*[a(env) for a in args])


def _ramp(expr: ex.Ramp, scope: Scope, lane: int) -> Evaluator:
    base, stride = compile_lane(expr.base, scope, 0), compile_lane(expr.stride, scope, 0)
    fix = binary_op("+", expr.dtype.scalar)
    return lambda env: fix(base(env), lane * stride(env))


def _shuffle(expr: ex.Shuffle, scope: Scope, lane: int) -> Evaluator:
    position = expr.positions[lane]
    for vector in expr.vectors:
        if position < vector.dtype.lanes:
            return compile_lane(vector, scope, position)
        position -= vector.dtype.lanes
    raise ProgramError(f"a shuffle picks lane {expr.positions[lane]}, which does not exist", span=expr.span)


def _reduce(expr: ex.Reduce, scope: Scope, lane: int) -> Evaluator:
    """Combines in program order; narrow floats accumulate in float32 and are rounded once."""
    dtype = expr.dtype.scalar
    wide = float32 if dtype.is_narrow_float else dtype
    op = {"+": "max", "*": "min"}.get(expr.op, expr.op) if dtype.is_bool else expr.op
    start, fn = scalar_value(wide, ex.identity(expr.op, dtype).value), binary_op(op, wide)
    fold = _fold(expr.axes, expr.value, scope, lane, fn)
    finish = cast_op(wide, dtype)
    return lambda env: finish(fold(env, start))


def _fold(axes: tuple[ex.Axis, ...], value: ex.Expr, scope: Scope, lane: int, fn: Function2) -> Function2:
    if not axes:
        item = compile_lane(value, scope, lane)
        return lambda env, total: fn(total, item(env))
    lo, hi = compile_expr(axes[0].lo, scope), compile_expr(axes[0].hi, scope)
    inner_scope, slot = scope.with_loop(axes[0].var)
    inner = _fold(axes[1:], value, inner_scope, lane, fn)

    def fold(env: Env, total: Any) -> Any:
        for i in range(lo(env), hi(env)):
            env[slot] = i
            total = inner(env, total)
        return total

    return fold


_COMPILERS: dict[type[ex.Expr], Callable[[Any, Scope, int], Evaluator]] = {
    ex.Const: _const,
    ex.Var: _var,
    ex.Load: _load,
    ex.Unary: _unary,
    ex.Binary: _binary,
    ex.Compare: _compare,
    ex.Select: _select,
    ex.Cast: _cast,
    ex.Call: _call,
    ex.Reduce: _reduce,
    ex.Ramp: _ramp,
    ex.Broadcast: lambda expr, scope, lane: compile_lane(expr.value, scope, 0),
    ex.Shuffle: _shuffle,
}
