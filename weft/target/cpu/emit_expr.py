"""Expressions to LLVM values: one small function per node kind, found by the node's type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.dtype import float32, index
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Broadcast, Call, Cast, Compare, Const, Expr, Load, Ramp, Select, Shuffle, Unary, Var
from weft.ir.intrinsics import REINTERPRET
from weft.ir.visit import walk
from weft.target.cpu.emit_arith import emit_binary, emit_compare
from weft.target.cpu.emit_context import Function, fit, fit_all, lane_numbers, storage_type
from weft.target.cpu.emit_convert import emit_cast, emit_constant, narrow_to_memory, round_to, widen_from_memory
from weft.target.cpu.emit_lanes import known_lanes, lanes_mask
from weft.target.cpu.emit_memory import emit_load
from weft.target.cpu.llvm_values import Value, constant, vector


def emit_expr(f: Function, e: Expr) -> Value:
    """``e`` as a value in its computing type: a scalar where it is uniform, else a vector."""
    emit = _EMIT.get(type(e))
    if emit is None:
        raise InternalError(f"no code for a {type(e).__name__} expression", span=e.span)
    if type(e) not in _SHARED or e.dtype == index:  # of index arithmetic the builder knows what is at hand
        return emit(f, e)
    # Names written out in a formula many times over make trees far larger than what there is to compute. What is there
    # for more lanes than are active is there for these.
    for mask in (f.mask, *f.masks_around):
        value = f.b.shared.get((e, mask, f.lane))
        if value is not None:
            return value
    value = emit(f, e)
    f.b.shared[e, f.mask, f.lane] = value
    return value


def must_be_lazy(e: Expr) -> bool:
    """Whether evaluating ``e`` where the program does not could go wrong."""
    return any(isinstance(n, Load) for n in walk(e))


def _emit_unary(f: Function, e: Unary) -> Value:
    value = emit_expr(f, e.operand)
    if e.op == "-":
        return f.b.fneg(value) if e.dtype.is_float else f.b.sub(constant(value.type, 0), value)
    return f.b.not_(value)


def _emit_binary(f: Function, e: Binary) -> Value:
    if e.op in ("&&", "||") and must_be_lazy(e.right):
        return _emit_lazy_logic(f, e)
    left, right = fit_all(f, emit_expr(f, e.left), emit_expr(f, e.right))
    result = emit_binary(f, e.op, left, right, e.dtype)
    return result if e.op in ("min", "max") else round_to(f, result, e.dtype)


def _emit_compare(f: Function, e: Compare) -> Value:
    left, right = fit_all(f, emit_expr(f, e.left), emit_expr(f, e.right))
    return emit_compare(f, e.op, left, right, e.left.dtype)


def _emit_call(f: Function, e: Call) -> Value:
    arguments = fit_all(f, *(emit_expr(f, a) for a in e.args))
    dtype = e.args[0].dtype.scalar
    if e.name == REINTERPRET:
        bits = f.b.bitcast(narrow_to_memory(f, arguments[0], dtype), storage_type(e.type.scalar))
        return widen_from_memory(f, bits, e.type.scalar)
    if e.name == "pow" and _is_two(e.args[1]):  # a product is rounded once, the function a little more
        return round_to(f, f.b.fmul(arguments[0], arguments[0]), e.type)
    result = f.program.math[e.name](f.b, arguments, float32 if dtype.is_narrow_float else dtype)
    return round_to(f, result, e.type)


def _is_two(e: Expr) -> bool:
    return _is_two(e.value) if isinstance(e, Broadcast) else isinstance(e, Const) and e.value == 2


def _emit_ramp(f: Function, e: Ramp) -> Value:
    base, stride = (f.b.splat(emit_expr(f, operand), e.lanes) for operand in (e.base, e.stride))
    numbers = lane_numbers(e.lanes)
    return f.b.add(base, f.b.mul(stride, f.b.trunc(numbers, base.element)))


def _emit_shuffle(f: Function, e: Shuffle) -> Value:
    """One instruction for up to two vectors; of more, lanes are picked one by one and LLVM makes shuffles of it."""
    sources = [emit_expr(f, v) for v in e.vectors]
    whole = all(s.lanes == v.dtype.lanes == sources[0].lanes for s, v in zip(sources, e.vectors))
    if whole and sources[0].lanes > 1 and len(sources) <= 2 and len(e.positions) > 1:
        return f.b.shuffle(sources[0], sources[1] if len(sources) > 1 else None, e.positions)
    lanes = [(s, n) for s, v in zip(sources, e.vectors) for n in range(v.dtype.lanes)]
    picked = [s if s.lanes == 1 else f.b.extract(s, n) for s, n in (lanes[p] for p in e.positions)]
    if len(picked) == 1:
        return picked[0]
    result = Value("poison", vector(sources[0].element, len(picked)))
    for n, item in enumerate(picked):
        result = f.b.insert(result, item, n)
    return result


def _emit_select(f: Function, e: Select) -> Value:
    if not (must_be_lazy(e.then) or must_be_lazy(e.otherwise)):
        return _blend(f, emit_expr(f, e.condition), emit_expr(f, e.then), emit_expr(f, e.otherwise))
    held = known_lanes(f, e.condition)
    if held is not None and len(set(held)) == 1:
        return emit_expr(f, e.then if held[0] else e.otherwise)
    condition = emit_expr(f, e.condition) if held is None else lanes_mask(held)
    if condition.lanes == 1:
        return _emit_branches(f, condition, lambda: emit_expr(f, e.then), lambda: emit_expr(f, e.otherwise))
    _require_lane_mask(f, condition, e)
    with f.masked(condition, is_live=False):
        then = emit_expr(f, e.then)
    with f.masked(f.b.not_(condition) if held is None else lanes_mask([not h for h in held]), is_live=False):
        otherwise = emit_expr(f, e.otherwise)
    return _blend(f, condition, then, otherwise)


def _blend(f: Function, condition: Value, then: Value, otherwise: Value) -> Value:
    if condition.lanes > 1:
        then, otherwise = fit(f, then, condition.lanes), fit(f, otherwise, condition.lanes)
    else:
        then, otherwise = fit_all(f, then, otherwise)
    return f.b.select(condition, then, otherwise)


def _emit_lazy_logic(f: Function, e: Binary) -> Value:
    """``&&`` and ``||`` whose right side must not always be evaluated."""
    left = emit_expr(f, e.left)
    go_on = left if e.op == "&&" else f.b.not_(left)
    if left.lanes > 1:
        _require_lane_mask(f, left, e)
        with f.masked(go_on, is_live=False):
            right = fit(f, emit_expr(f, e.right), left.lanes)
        return emit_binary(f, e.op, left, right, e.dtype)
    shortcut = constant("i1", e.op == "||")
    return _emit_branches(f, go_on, lambda: emit_expr(f, e.right), lambda: shortcut)


def _require_lane_mask(f: Function, condition: Value, e: Expr) -> None:
    """Masks are those of the vector loop; hand-written vectors outside one need a matching context."""
    if f.mask is not None and f.mask.lanes != condition.lanes:
        raise InternalError("a lazy select over lanes other than the loop's", span=e.span)


def _emit_branches(f: Function, condition: Value, then: Callable[[], Value], otherwise: Callable[[], Value]) -> Value:
    """Either value, the other one not computed."""
    labels = [f.b.new_label(hint) for hint in ("then", "else", "join")]
    f.b.cond_branch(condition, labels[0], labels[1])
    ends = []
    for label, side in zip(labels, (then, otherwise)):
        f.b.block(label)
        value = side()
        ends.append((value, f.b.label))
        f.b.branch(labels[2])
    return _join(f, labels[2], ends)


def _join(f: Function, label: str, ends: list[tuple[Value, str]]) -> Value:
    f.b.block(label)
    lanes = {value.lanes for value, _ in ends}
    if len(lanes) == 1:
        return f.b.phi(ends[0][0].type, [(value, block) for value, block in ends])
    # One side is uniform: a phi of scalars and a phi of vectors, told apart by where control came from.
    wide = max(lanes)
    vector_type = next(v.type for v, _ in ends if v.lanes == wide)
    scalar_type = next(v.type for v, _ in ends if v.lanes == 1)
    from_wide = f.b.phi("i1", [(constant("i1", v.lanes == wide), block) for v, block in ends])
    vectors = [(v if v.lanes == wide else constant(vector_type, 0), block) for v, block in ends]
    scalars = [(v if v.lanes == 1 else constant(scalar_type, 0), block) for v, block in ends]
    wide_value, narrow_value = f.b.phi(vector_type, vectors), f.b.phi(scalar_type, scalars)
    return f.b.select(from_wide, wide_value, f.b.splat(narrow_value, wide))


_SHARED = frozenset({Binary, Call, Cast, Compare, Load, Select, Unary})

_EMIT: dict[type, Callable[[Function, Any], Value]] = {
    Const: lambda f, e: emit_constant(e.value, e.type),
    Var: lambda f, e: lane_numbers(f.lanes) if e.name == f.lane else f.read(e.name),
    Load: lambda f, e: emit_load(f, e, emit_expr),
    Unary: _emit_unary,
    Binary: _emit_binary,
    Compare: _emit_compare,
    Select: _emit_select,
    Cast: lambda f, e: emit_cast(f, emit_expr(f, e.operand), e.operand.dtype, e.type),
    Call: _emit_call,
    Ramp: _emit_ramp,
    Broadcast: lambda f, e: f.b.splat(emit_expr(f, e.value), e.lanes),
    Shuffle: _emit_shuffle,
}
