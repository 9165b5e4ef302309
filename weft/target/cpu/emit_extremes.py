"""Minima and maxima of floats: NaN wins; under strict numerics -0 is less than 0 as well.

With that the order in which an extremum is found does not show, so that schedules may change it. x86 has no such
instruction: its own gives the second operand where both are zeros. Fast numerics leave the sign of a zero open and take
that one instruction.
"""

from __future__ import annotations

from typing import Literal

from weft.target.cpu.emit_context import Function
from weft.target.cpu.llvm_values import Value, bits_of, constant

Extreme = Literal["min", "max"]
_WINS = {"min": "olt", "max": "ogt"}


def emit_extreme(f: Function, op: Extreme, a: Value, b: Value) -> Value:
    """The new value (``b``) is tested for NaN, so that a running extreme (``a``) has the short way."""
    if not f.machine.is_x86:
        return f.b.intrinsic("minimum" if op == "min" else "maximum", a, b)
    if f.program.zeros_are_alike:
        return _either_zero(f, op, a, b)
    a, b = (b, a) if _literal(b) is None else (a, b)
    number = _literal(b)
    if number == _bits(0.0) and op == "max":
        return f.b.binary("fadd", _either_zero(f, op, a, b), b)  # -0 + 0 is 0
    if number is None or (number == _bits(-0.0) and op == "min"):
        return _told_apart(f, op, a, b)
    return _either_zero(f, op, a, b)  # where both are zeros ``a`` is right


def _either_zero(f: Function, op: Extreme, a: Value, b: Value) -> Value:
    """``a`` where both are zeros."""
    extreme = f.b.select(f.b.fcmp(_WINS[op], b, a), b, a)  # one instruction, which gives a where b is NaN
    return f.b.select(f.b.fcmp("ord", b, b), extreme, b)  # with masks, that same instruction in some lanes


def _told_apart(f: Function, op: Extreme, a: Value, b: Value) -> Value:
    """Both ways round: they differ in zeros, whose signs bits bring together, and in NaNs."""
    bits = f"i{bits_of(a.element)}"
    one, other = (f.b.bitcast(f.b.select(f.b.fcmp(_WINS[op], x, y), x, y), bits) for x, y in ((a, b), (b, a)))
    if op == "min":
        return f.b.bitcast(f.b.or_(one, other), a.type)  # of a NaN and a number a NaN too
    extreme = f.b.bitcast(f.b.and_(one, other), a.type)
    return f.b.select(f.b.fcmp("uno", a, b), constant(a.type, float("nan")), extreme)


def _bits(number: float) -> str:
    return constant("double", number).text


def _literal(value: Value) -> str | None:
    """The digits of a float that is a literal, repeated over the lanes or not; NaN is none."""
    text = value.text
    if text.startswith("splat"):
        text = text[len("splat (") : -1].split()[-1]
    return text if text.startswith("0x") and text != _bits(float("nan")) else None
