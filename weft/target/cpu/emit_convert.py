"""Conversions: between memory and computing types, and the casts of the language.

Narrow floats are computed in float32. bfloat16 is the upper half of a float32; float16 is
converted by instruction where the machine has one, else, as those of 8 bits, by integer arithmetic, because LLVM
would call a function of the C library.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from weft.ir.dtype import OTHER_FLOATS, DType
from weft.target.cpu.emit_context import Function, compute_type
from weft.target.cpu.llvm_values import Value, constant, vector


def emit_constant(value: int | float | bool, dtype: DType) -> Value:
    if dtype.is_narrow_float:
        value = round_number(float(value), dtype)
    if dtype.kind == "uint" and int(value) >= 1 << (dtype.bits - 1):
        value = int(value) - (1 << dtype.bits)
    return constant(compute_type(dtype), value)


def round_number(value: float, dtype: DType) -> float:
    """``value`` rounded to a narrow float, once: on the exact ratio, subnormals included."""
    digits, least, largest, has_infinity = dtype.shape
    if value != value or value == 0 or (math.isinf(value) and has_infinity):
        return value
    if not math.isinf(value):
        exponent = max(math.frexp(value)[1] - 1, least) - digits
        rounded = math.ldexp(round(math.ldexp(value, -exponent)), exponent)
        if abs(rounded) <= largest:
            return math.copysign(rounded, value)
    return math.copysign(largest if dtype.saturates else math.inf, value)


def widen_from_memory(f: Function, bits: Value, dtype: DType) -> Value:
    """A loaded element (storage type) as a value (computing type)."""
    if dtype.is_bool:
        return f.b.icmp("ne", bits, constant(bits.type, 0))
    if not dtype.is_narrow_float:
        return bits
    if dtype.kind == "bfloat":
        high = f.b.shl(f.b.zext(bits, "i32"), constant(vector("i32", bits.lanes), 16))
        return f.b.bitcast(high, "float")
    if dtype.bits == 16 and f.machine.has_float16:
        return f.b.fpext(f.b.bitcast(bits, "half"), "float")
    return _small_bits_to_float(f, bits, dtype)


def narrow_to_memory(f: Function, value: Value, dtype: DType) -> Value:
    """A value (computing type, representable in ``dtype``) as it is stored."""
    if dtype.is_bool:
        return f.b.zext(value, "i8")
    if not dtype.is_narrow_float:
        return value
    if dtype.kind == "bfloat":
        bits = f.b.bitcast(value, "i32")
        return f.b.trunc(f.b.lshr(bits, constant(bits.type, 16)), "i16")
    return _round_to_bits(f, value, dtype)


def _round_to_bits(f: Function, value: Value, dtype: DType) -> Value:
    """The bits of the narrow float nearest to a float."""
    if dtype.kind == "bfloat":
        return _float_to_bfloat_bits(f, value)
    if dtype.bits == 16 and f.machine.has_float16:
        return f.b.bitcast(f.b.fptrunc(value, "half"), "i16")
    return _float_to_small_bits(f, value, dtype)


def round_to(f: Function, value: Value, dtype: DType) -> Value:
    """A float rounded to what ``dtype`` can represent; nothing to do for float32 and float64."""
    if not dtype.is_narrow_float:
        return value
    return widen_from_memory(f, _round_to_bits(f, value, dtype), dtype)


def emit_cast(f: Function, value: Value, source: DType, target: DType) -> Value:
    """``value`` of type ``source`` converted to ``target``."""
    if source.scalar == target.scalar:
        return value
    if target.is_bool:
        zero = constant(value.type, 0)
        return f.b.fcmp("une", value, zero) if source.is_float else f.b.icmp("ne", value, zero)
    if source.is_float and target.is_float:
        return _float_to_float(f, value, source, target)
    if source.is_float:
        return _float_to_integer(f, value, target)
    if target.is_float:
        return _integer_to_float(f, value, source, target)
    return _integer_to_integer(f, value, source, target)


def _float_to_integer(f: Function, value: Value, target: DType) -> Value:
    """Toward zero, the ends of the range beyond it, NaN to 0."""
    if value.lanes == 1:
        return f.b.float_to_integer(value, f"i{target.bits}", signed=target.is_signed)
    b, digits = f.b, 53 if "double" in value.type else 24
    least, most = target.min_value, target.max_value
    beyond = most + 1
    near = float(most) if beyond <= 1 << digits else float(beyond - (beyond >> digits))
    low, high = constant(value.type, float(least)), constant(value.type, near)
    kept = b.select(b.fcmp("ogt", value, low), value, low)
    kept = b.select(b.fcmp("olt", kept, high), kept, high)
    if target.bits < 32:
        converted = b.trunc(b.fptosi(kept, "i32"), f"i{target.bits}")
    else:
        converted = b.fptosi(kept, f"i{target.bits}") if target.is_signed else b.fptoui(kept, f"i{target.bits}")
        if near != most:
            is_beyond = b.fcmp("oge", value, constant(value.type, float(beyond)))
            converted = b.select(is_beyond, constant(converted.type, most if target.is_signed else -1), converted)
    return b.select(b.fcmp("uno", value, value), constant(converted.type, 0), converted)


def _integer_to_float(f: Function, value: Value, source: DType, target: DType) -> Value:
    convert = f.b.sitofp if source.is_signed else f.b.uitofp
    if target.kind not in OTHER_FLOATS or source.bits < 32:
        return round_to(f, convert(value, "double" if target.bits == 64 else "float"), target)
    wide = convert(value, "double")
    if source.bits == 64:
        wide = _wide_integer_to_double(f, value, source, wide)
    return round_to(f, _double_to_float_odd(f, wide), target)


def _wide_integer_to_double(f: Function, value: Value, source: DType, direct: Value) -> Value:
    """A 64-bit integer beyond 2**53 with its low bits as one sticky bit, so that rounding again rounds once."""
    b = f.b
    low = b.and_(value, constant(value.type, 0xFFFF))
    sticky = b.zext(b.icmp("ne", low, constant(value.type, 0)), "i64")
    high = b.binary("ashr" if source.is_signed else "lshr", value, constant(value.type, 16))
    top = (b.sitofp if source.is_signed else b.uitofp)(b.or_(high, sticky), "double")
    scaled = b.fmul(top, constant(top.type, 65536.0))
    exact = b.fcmp("olt", b.intrinsic("fabs", direct), constant(top.type, 2.0**53))
    return b.select(exact, direct, scaled)


def _integer_to_integer(f: Function, value: Value, source: DType, target: DType) -> Value:
    element = f"i{target.bits}"
    if target.bits <= source.bits:
        return f.b.trunc(value, element)
    return f.b.sext(value, element) if source.is_signed else f.b.zext(value, element)


def _float_to_float(f: Function, value: Value, source: DType, target: DType) -> Value:
    if target.bits == 64:
        return f.b.fpext(value, "double")
    if source.bits < 64:
        return round_to(f, value, target)
    if target.bits == 32:
        return f.b.fptrunc(value, "float")
    return round_to(f, _double_to_float_odd(f, value), target)


def _double_to_float_odd(f: Function, value: Value) -> Value:
    """float64 to float32 rounded to odd, so that rounding the result once more is rounding once."""
    b = f.b
    near = b.fptrunc(value, "float")
    back = b.fpext(near, "double")
    bits = b.bitcast(near, "i32")
    too_big = b.fcmp("ogt", b.intrinsic("fabs", back), b.intrinsic("fabs", value))
    toward_zero = b.sub(bits, b.zext(too_big, "i32"))
    odd = b.or_(toward_zero, constant(bits.type, 1))
    return b.bitcast(b.select(b.fcmp("one", back, value), odd, bits), "float")


def _float_to_bfloat_bits(f: Function, value: Value) -> Value:
    """Round to nearest even on the bits; a NaN keeps its sign and becomes quiet."""
    b = f.b
    bits = b.bitcast(value, "i32")
    i32 = bits.type
    lowest = b.and_(b.lshr(bits, constant(i32, 16)), constant(i32, 1))
    rounded = b.add(bits, b.add(lowest, constant(i32, 0x7FFF)))
    quiet = b.or_(bits, constant(i32, 0x400000))
    return b.trunc(b.lshr(b.select(b.fcmp("uno", value, value), quiet, rounded), constant(i32, 16)), "i16")


@dataclass(frozen=True, slots=True)
class _Bits:
    """The bits of a float16 or smaller: their ``count``, those right of the exponent, what is added to an exponent; the
    bits of the largest number, of infinity (or what stands for it), of what is no number."""

    count: int
    digits: int
    bias: int
    largest: int
    infinity: int
    nan: int

    @property
    def shift(self) -> int:
        """How far the fraction is from where float32 has it."""
        return 23 - self.digits

    @property
    def sign(self) -> int:
        return 1 << (self.count - 1)

    @staticmethod
    def of(dtype: DType) -> _Bits:
        digits, least, _, has_infinity = dtype.shape
        most = (1 << (dtype.bits - 1)) - 1
        infinity = (most >> digits) << digits
        if has_infinity:
            largest = infinity - 1
            return _Bits(
                dtype.bits,
                digits,
                1 - least,
                largest,
                largest if dtype.saturates else infinity,
                infinity | 1 << (digits - 1),
            )
        return _Bits(dtype.bits, digits, 1 - least, most - 1, most - 1, most)


def _small_bits_to_float(f: Function, bits: Value, dtype: DType) -> Value:
    """Exponent and fraction moved in place and scaled by a power of two, which also normalizes subnormals."""
    b, own = f.b, _Bits.of(dtype)
    wide = b.zext(bits, "i32")
    i32 = wide.type
    sign = b.shl(b.and_(wide, constant(i32, own.sign)), constant(i32, 32 - own.count))
    magnitude = b.shl(b.and_(wide, constant(i32, own.sign - 1)), constant(i32, own.shift))
    scaled = b.fmul(b.bitcast(magnitude, "float"), constant(vector("float", bits.lanes), 2.0 ** (127 - own.bias)))
    special = b.icmp("ugt", magnitude, constant(i32, own.largest << own.shift))
    finite = b.bitcast(scaled, "i32")
    number = b.select(special, b.or_(magnitude, constant(i32, 0x7F800000)), finite)
    return b.bitcast(b.or_(number, sign), "float")


def _float_to_small_bits(f: Function, value: Value, dtype: DType) -> Value:
    """Round to nearest even: normal results on the bits, subnormal ones by adding a power of two whose last bit is
    their last one, and keeping the fraction."""
    b, own = f.b, _Bits.of(dtype)
    bits = b.bitcast(value, "i32")
    i32 = bits.type
    magnitude = b.and_(bits, constant(i32, 0x7FFFFFFF))
    sign = b.and_(b.lshr(bits, constant(i32, 32 - own.count)), constant(i32, own.sign))
    lowest = b.and_(b.lshr(magnitude, constant(i32, own.shift)), constant(i32, 1))
    rebias = constant(i32, (1 << (own.shift - 1)) - 1 - ((127 - own.bias) << 23))
    normal = b.lshr(b.add(magnitude, b.add(lowest, rebias)), constant(i32, own.shift))
    unit = 2.0 ** (1 - own.bias + own.shift)
    raised = b.fadd(b.bitcast(magnitude, "float"), constant(vector("float", value.lanes), unit))
    tiny = b.sub(b.bitcast(raised, "i32"), constant(i32, _float_bits(unit)))
    small = b.icmp("ult", magnitude, constant(i32, (128 - own.bias) << 23))
    largest = _float_bits(dtype.shape.largest)
    huge = b.icmp("ugt", magnitude, constant(i32, largest if dtype.saturates else largest | (1 << own.shift) - 1))
    finite = b.select(huge, constant(i32, own.infinity), b.select(small, tiny, normal))
    if dtype.saturates and dtype.shape.has_infinity:
        is_infinite = b.icmp("eq", magnitude, constant(i32, 0x7F800000))
        finite = b.select(is_infinite, constant(i32, own.largest + 1), finite)
    is_nan = b.icmp("ugt", magnitude, constant(i32, 0x7F800000))
    return b.trunc(b.or_(b.select(is_nan, constant(i32, own.nan), finite), sign), f"i{own.count}")


def _float_bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
