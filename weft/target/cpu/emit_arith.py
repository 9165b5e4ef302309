"""Arithmetic with the language's corner cases: no trap, no undefined result, NaN through min and max.

Operands come with equal types, scalar or vector.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.dtype import DType, index
from weft.ir.expr import idx
from weft.ir.fold import fold_binary, fold_compare
from weft.target.cpu.emit_context import I64, Function, add, literal_of, multiply
from weft.target.cpu.emit_extremes import Extreme, emit_extreme
from weft.target.cpu.llvm_values import Value, constant

Emit = Callable[[Function, Value, Value, DType], Value]


def emit_binary(f: Function, op: str, a: Value, b: Value, dtype: DType) -> Value:
    """``a op b``; float results are not yet rounded to a narrow type."""
    if dtype.is_float:
        return _FLOAT[op](f, a, b, dtype)
    if dtype.is_bool:
        return f.b.or_(a, b) if op in ("max", "|", "||") else f.b.xor(a, b) if op == "^" else f.b.and_(a, b)
    if dtype == index and a.lanes == 1:
        return _emit_index(f, op, a, b)
    return _INTEGER[op](f, a, b, dtype)


def emit_compare(f: Function, op: str, a: Value, b: Value, dtype: DType) -> Value:
    x, y = literal_of(a), literal_of(b)
    if dtype == index and x is not None and y is not None and a.lanes == 1:
        return constant("i1", fold_compare(op, idx(x), idx(y)).value)
    if dtype.is_float:
        return f.b.fcmp(_FLOAT_PREDICATES[op], a, b)
    prefix = "" if op in ("==", "!=") else "s" if dtype.is_signed else "u"
    return f.b.icmp(prefix + _PREDICATES[op], a, b)


def _emit_index(f: Function, op: str, a: Value, b: Value) -> Value:
    """Numbers are folded here: a subscript of unrolled variables must come out as a literal."""
    x, y = literal_of(a), literal_of(b)
    if x is not None and y is not None:
        return constant(I64, fold_binary(op, idx(x), idx(y)).value)
    if op in ("+", "*"):
        return add(f, a, b) if op == "+" else multiply(f, a, b)
    return _INTEGER[op](f, a, b, index)


_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_FLOAT_PREDICATES = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}


def _plain(op: str) -> Emit:
    return lambda f, a, b, dtype: f.b.binary(op, a, b)


def _contractible(op: str) -> Emit:
    """An operation that may be fused with its neighbour where the program says so; narrow ones are rounded between."""
    return lambda f, a, b, dtype: f.b.binary(f"{op} contract" if f.program.contract else op, a, b)


def _float_extreme(op: Extreme) -> Emit:
    return lambda f, a, b, dtype: emit_extreme(f, op, a, b)


def _integer_extreme(name: str) -> Emit:
    return lambda f, a, b, dtype: f.b.intrinsic(("s" if dtype.is_signed else "u") + name, a, b)


def _safe_divisor(f: Function, a: Value, b: Value, dtype: DType) -> tuple[Value, Value | None]:
    """A divisor that cannot trap, and where the true one was 0 (None: nowhere)."""
    if literal_of(b) not in (None, 0, -1):
        return b, None
    is_zero = f.b.icmp("eq", b, constant(b.type, 0))
    return f.b.select(is_zero, constant(b.type, 1), b), is_zero


def _zero_where(f: Function, is_zero: Value | None, value: Value) -> Value:
    return value if is_zero is None else f.b.select(is_zero, constant(value.type, 0), value)


def _truncating(f: Function, a: Value, b: Value, dtype: DType) -> tuple[Value, Value, Value | None]:
    """Quotient, remainder, and where the divisor was 0. INT_MIN / -1 wraps."""
    divisor, is_zero = _safe_divisor(f, a, b, dtype)
    if not dtype.is_signed:
        return f.b.udiv(a, divisor), f.b.urem(a, divisor), is_zero
    if is_zero is None:
        return f.b.sdiv(a, divisor), f.b.srem(a, divisor), None
    minus = f.b.icmp("eq", divisor, constant(b.type, -1))
    divisor = f.b.select(minus, constant(b.type, 1), divisor)
    quotient, remainder = f.b.sdiv(a, divisor), f.b.srem(a, divisor)
    negated = f.b.sub(constant(a.type, 0), a)
    return f.b.select(minus, negated, quotient), remainder, is_zero


def _tdiv(f: Function, a: Value, b: Value, dtype: DType) -> Value:
    quotient, _, is_zero = _truncating(f, a, b, dtype)
    return _zero_where(f, is_zero, quotient)


def _tmod(f: Function, a: Value, b: Value, dtype: DType) -> Value:
    _, remainder, is_zero = _truncating(f, a, b, dtype)
    return _zero_where(f, is_zero, remainder)


def _needs_floor(f: Function, remainder: Value, b: Value) -> Value:
    """Where truncation rounded up: a remainder whose sign is not the divisor's."""
    nonzero = f.b.icmp("ne", remainder, constant(b.type, 0))
    opposite = f.b.icmp("slt", f.b.xor(remainder, b), constant(b.type, 0))
    return f.b.and_(nonzero, opposite)


def _floor_divide(f: Function, a: Value, b: Value, dtype: DType) -> Value:
    shift = _power_of_two(b)
    if shift is not None:
        return f.b.binary("ashr" if dtype.is_signed else "lshr", a, constant(a.type, shift))
    quotient, remainder, is_zero = _truncating(f, a, b, dtype)
    if dtype.is_signed:
        lower = f.b.add(quotient, constant(b.type, -1))
        quotient = f.b.select(_needs_floor(f, remainder, b), lower, quotient)
    return _zero_where(f, is_zero, quotient)


def _floor_modulo(f: Function, a: Value, b: Value, dtype: DType) -> Value:
    shift = _power_of_two(b)
    if shift is not None:
        return f.b.and_(a, constant(a.type, (1 << shift) - 1))
    _, remainder, is_zero = _truncating(f, a, b, dtype)
    if dtype.is_signed:
        remainder = f.b.select(_needs_floor(f, remainder, b), f.b.add(remainder, b), remainder)
    return _zero_where(f, is_zero, remainder)


def _power_of_two(value: Value) -> int | None:
    """The exponent where a literal is a power of two."""
    number = literal_of(value)
    return number.bit_length() - 1 if number is not None and number > 0 and number & (number - 1) == 0 else None


def _shift_left(f: Function, a: Value, b: Value, dtype: DType) -> Value:
    in_range = f.b.icmp("ult", b, constant(b.type, dtype.bits))
    amount = f.b.select(in_range, b, constant(b.type, 0))
    return f.b.select(in_range, f.b.shl(a, amount), constant(a.type, 0))


def _shift_right(f: Function, a: Value, b: Value, dtype: DType) -> Value:
    in_range = f.b.icmp("ult", b, constant(b.type, dtype.bits))
    if dtype.is_signed:
        return f.b.ashr(a, f.b.select(in_range, b, constant(b.type, dtype.bits - 1)))
    amount = f.b.select(in_range, b, constant(b.type, 0))
    return f.b.select(in_range, f.b.lshr(a, amount), constant(a.type, 0))


_FLOAT: dict[str, Emit] = {
    "+": _contractible("fadd"),
    "-": _contractible("fsub"),
    "*": _contractible("fmul"),
    "/": _plain("fdiv"),
    "min": _float_extreme("min"),
    "max": _float_extreme("max"),
}
_INTEGER: dict[str, Emit] = {
    "+": _plain("add"),
    "-": _plain("sub"),
    "*": _plain("mul"),
    "&": _plain("and"),
    "|": _plain("or"),
    "^": _plain("xor"),
    "min": _integer_extreme("min"),
    "max": _integer_extreme("max"),
    "tdiv": _tdiv,
    "tmod": _tmod,
    "//": _floor_divide,
    "%": _floor_modulo,
    "<<": _shift_left,
    ">>": _shift_right,
}
