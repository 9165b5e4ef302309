"""Angles brought near zero: x minus a multiple of pi or pi/2, accurate even next to the multiple.

Ordinary sizes subtract the multiple in three or four parts; beyond that, a scalar function in the module
multiplies the mantissa with the right 192 bits of 1/(2 pi).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

from weft.target.cpu.builder import Builder, Module
from weft.target.cpu.llvm_values import Value, constant
from weft.target.cpu.math.formula import Term, fma, nearest, when_any, where

#: 1/(2 pi) to 1280 bits, computed by Machin's formula below; 64 zero bits in front for small exponents.
_FRACTION_BITS = 1280
_TABLE_WORDS = (_FRACTION_BITS + 64) // 64
_HELPER = "weft.reduce_turns"


@dataclass(frozen=True, slots=True)
class Angle:
    """``rest`` in about +-step/2, and an integer whose low bits count the steps taken away."""

    rest: Term
    steps: Term


#: pi in parts: full-width ones for fused multiplies, 33-bit ones where products must be exact by themselves.
_PI_FUSED = {
    "float": (3.1415927410125732, -8.742277657347586e-08, -3.4302490200117637e-15),
    "double": (3.141592653589793, 1.2246467991473532e-16, -2.9947698097183397e-33),
}
_PI_SHORT = (3.1415926534682512, 1.2154201012607932e-10, 4.044532497422333e-21, 1.69568553207378e-31)


def reduce_angle(x: Term, *, steps_per_half_turn: int = 1, quarter_turn_added: bool = False) -> Angle:
    """x (not negative) less a multiple of pi / steps_per_half_turn; optionally of x + pi/2 instead."""
    ordinary = _subtract_parts(x, steps_per_half_turn, quarter_turn_added)
    limit = 2.0**17 if x.is_single else 2.0**20
    large = x > limit

    def rare() -> list[Term]:
        rest, steps = _reduce_each_lane(where(large, x, limit), steps_per_half_turn, quarter_turn_added)
        return [where(large, rest, ordinary.rest), where(large, steps, ordinary.steps)]

    rest, steps = when_any(large, [ordinary.rest, ordinary.steps], rare)
    return Angle(rest, steps)


def _subtract_parts(x: Term, per_half_turn: int, quarter: bool) -> Angle:
    if x.is_single and not x.b.features.fma:
        wide = _subtract_parts(x.widen(), per_half_turn, quarter)
        return Angle(wide.rest.narrow(), Term(x.b, x.b.trunc(wide.steps.v, "i32")))
    scale = per_half_turn / math.pi
    count, steps = nearest(fma(x, scale, 0.5)) if quarter else nearest(x, scale)
    if quarter:
        count = count - 0.5
    parts = _PI_FUSED[x.format.type] if x.b.features.fma else _PI_SHORT
    rest = x
    for stmt in parts:
        rest = fma(count, -stmt / per_half_turn, rest)
    return Angle(rest, steps)


def _reduce_each_lane(x: Term, per_half_turn: int, quarter: bool) -> list[Term]:
    """A loop over the lanes, through memory: rare, so small rather than fast."""
    b, lanes = x.b, x.v.lanes
    define_reduction(b.module)
    offset = constant("i64", 1 << 62 if quarter else 0)
    shift = constant("i64", {1: 1, 2: 2}[per_half_turn])
    wide = x.widen() if x.is_single else x
    source, rests, steps = (b.alloca(t, lanes, 8) for t in ("double", "double", "i64"))
    b.store(wide.v, source, 8)
    before, loop, done = b.label, b.new_label("lane"), b.new_label("lanes.done")
    b.block(loop)
    lane = b.phi("i64", [(constant("i64", 0), before)])
    item = b.load("double", b.gep("double", source, lane))
    slot = b.gep("i64", steps, lane)
    rest = b.call(_HELPER, "double", [item, offset, shift, slot])
    b.store(rest, b.gep("double", rests, lane))
    following = b.add(lane, constant("i64", 1))
    b.add_incoming(lane, following, b.label)
    b.cond_branch(b.icmp("slt", following, constant("i64", lanes)), loop, done)
    b.block(done)
    return _results(x, wide, b.load(wide.v.type, rests, 8), b.load(wide.bits().v.type, steps, 8))


def _results(x: Term, wide: Term, rest: Value, steps: Value) -> list[Term]:
    kept = where(wide < math.inf, Term(x.b, rest), math.nan)
    if not x.is_single:
        return [kept, Term(x.b, steps)]
    return [kept.narrow(), Term(x.b, x.b.trunc(steps, "i32"))]


def define_reduction(module: Module) -> None:
    """``double weft.reduce_turns(x, offset, shift, out steps)`` for x >= 1, written once per module.

    With T = x/(2 pi) mod 1 as a 128-bit fraction plus offset * 2^-64: steps = round(T * 2^shift), and the
    result is (T - steps / 2^shift) * 2 pi.
    """
    if _HELPER in module.functions:
        return
    words = [f"i64 {(_inverse_turn() >> (64 * k)) & (2**64 - 1)}" for k in reversed(range(_TABLE_WORDS))]
    table = f"[{_TABLE_WORDS} x i64] [{', '.join(words)}]"
    module.header.append(f"@weft.inverse_turn = private unnamed_addr constant {table}, align 8")
    params = [("double", "x"), ("i64", "offset"), ("i64", "shift"), ("ptr", "steps")]
    b = module.function(_HELPER, "double", params, linkage="internal", attributes="nounwind noinline")
    turn = _fraction_of_turn(b, Term(b, b.bitcast(b.argument("x"), "i64")))
    moved = b.add(turn, b.shl(b.zext(b.argument("offset"), "i128"), constant("i128", 64)))
    steps, rest = _nearest_step(b, moved, b.zext(b.argument("shift"), "i128"))
    b.store(steps, b.argument("steps"))
    b.ret(_fraction_to_double(b, rest))


def _fraction_of_turn(b: Builder, bits: Term) -> Value:
    """x/(2 pi) mod 1 in 128 bits: the mantissa times the 192 table bits that are left of whole turns."""
    # x = mantissa * 2^k; the table starts 64 bits before the point.
    position = Term(b, b.lshr(bits.v, constant("i64", 52))) - (1075 - 64)
    mantissa = ((bits & ((1 << 52) - 1)) | (1 << 52)).v
    start = b.gep("i64", Value("@weft.inverse_turn", "ptr"), (position >> 6).v)
    words = [b.load("i64", b.gep("i64", start, constant("i64", k))) for k in range(4)]
    shift = (position & 63).v
    high, middle, low = (b.intrinsic("fshl", words[k], words[k + 1], shift) for k in range(3))
    factor, word = b.zext(mantissa, "i128"), constant("i128", 64)
    total = b.shl(b.zext(b.mul(mantissa, high), "i128"), word)
    total = b.add(total, b.mul(factor, b.zext(middle, "i128")))
    return b.add(total, b.lshr(b.mul(factor, b.zext(low, "i128")), word))


def _nearest_step(b: Builder, turn: Value, shift: Value) -> tuple[Value, Value]:
    """The number of 1/2^shift turns nearest to ``turn``, and what is left, signed."""
    unit = b.sub(constant("i128", 128), shift)
    half = b.shl(constant("i128", 1), b.sub(unit, constant("i128", 1)))
    count = b.lshr(b.add(turn, half), unit)
    return b.trunc(count, "i64"), b.sub(turn, b.shl(count, unit))


def _fraction_to_double(b: Builder, rest: Value) -> Value:
    """A signed 128-bit fraction of a turn as an angle, rounded from its leading 64 bits."""
    negative = b.icmp("slt", rest, constant("i128", 0))
    size = b.select(negative, b.sub(constant("i128", 0), rest), rest)
    zeros = b.call("llvm.ctlz.i128", "i128", [size, Value("false", "i1")])
    leading = b.trunc(b.lshr(b.shl(size, zeros), constant("i128", 64)), "i64")
    # The low bit is lost so that the value converts as a signed one, cheap on every machine.
    number = b.sitofp(b.lshr(leading, constant("i64", 1)), "double")
    exponent = b.sub(constant("i64", 1023 - 63), b.trunc(zeros, "i64"))
    scale = b.bitcast(b.shl(exponent, constant("i64", 52)), "double")
    angle = b.fmul(b.fmul(number, constant("double", 2.0 * math.pi)), scale)
    return b.select(negative, b.fneg(angle), angle)


@cache
def _inverse_turn() -> int:
    """floor(2^_FRACTION_BITS / (2 pi)), by Machin's formula for pi in integers."""
    guard = 64
    one = 1 << (_FRACTION_BITS + guard)

    def arctangent_of_inverse(n: int) -> int:
        term = total = one // n
        k = 1
        while term:
            term //= -n * n
            k += 2
            total += term // k
        return total

    pi = 4 * (4 * arctangent_of_inverse(5) - arctangent_of_inverse(239))
    return (one * one // (2 * pi)) >> guard
