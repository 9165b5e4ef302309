"""Formulas that emit code: a `Term` is a value being computed, and its operators append instructions.

``(x * x + 1.0)`` with a Term of type ``<16 x float>`` emits a vector multiply and add; numbers become
constants of the other operand's type. The functions of this package are written over Terms once, for
scalars and any vector width.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.target.cpu.builder import Builder
from weft.target.cpu.llvm_values import Value, constant, lanes_of
from weft.target.cpu.math.coefficients import fitted


@dataclass(frozen=True, slots=True)
class Format:
    """An IEEE format's numbers."""

    type: str
    integer: str
    bits: int
    mantissa: int  # stored fraction bits
    bias: int

    @property
    def magic(self) -> float:
        """Added to a small number, it leaves the nearest integer in the low bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def least_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


F32 = Format("float", "i32", 32, 23, 127)
F64 = Format("double", "i64", 64, 52, 1023)


Number: TypeAlias = "float | int | Term"
Operator: TypeAlias = "Callable[[Term, Number], Term]"


def _operators(float_op: str, int_op: str) -> tuple[Operator, Operator]:
    """An operator with a term on its left, and with a number there."""

    def emit(a: Term, b: Term) -> Term:
        return Term(a.b, a.b.binary(float_op if a.is_float else int_op, a.v, b.v))

    return lambda term, other: emit(term, term.like(other)), lambda term, other: emit(term.like(other), term)


def _comparison(float_op: str, int_op: str) -> Operator:
    def compare(term: Term, other: Number) -> Term:
        b, right = term.b, term.like(other).v
        return Term(b, b.fcmp(float_op, term.v, right) if term.is_float else b.icmp(int_op, term.v, right))

    return compare


class Term:
    """A value in a formula. Comparisons give i1 Terms; ``==`` is identity, use ``equals``."""

    __slots__ = ("b", "v")

    def __init__(self, builder: Builder, value: Value) -> None:
        self.b, self.v = builder, value

    @property
    def format(self) -> Format:
        return F32 if self.v.element == "float" else F64

    @property
    def is_float(self) -> bool:
        return self.v.element in ("float", "double")

    @property
    def is_single(self) -> bool:
        return self.v.element == "float"

    def like(self, number: float | int | Term) -> Term:
        """A number as a constant of this Term's type."""
        return number if isinstance(number, Term) else Term(self.b, constant(self.v.type, number))

    __add__, __radd__ = _operators("fadd", "add")
    __sub__, __rsub__ = _operators("fsub", "sub")
    __mul__, __rmul__ = _operators("fmul", "mul")
    __truediv__, __rtruediv__ = _operators("fdiv", "sdiv")
    __and__, __rand__ = _operators("and", "and")
    __or__, __ror__ = _operators("or", "or")
    __xor__, __rxor__ = _operators("xor", "xor")
    __lshift__, __rlshift__ = _operators("shl", "shl")
    #: Arithmetic: the sign is kept.
    __rshift__, __rrshift__ = _operators("ashr", "ashr")
    __lt__, __le__ = _comparison("olt", "slt"), _comparison("ole", "sle")
    __gt__, __ge__ = _comparison("ogt", "sgt"), _comparison("oge", "sge")
    equals, differs = _comparison("oeq", "eq"), _comparison("une", "ne")

    def __neg__(self) -> Term:
        return Term(self.b, self.b.fneg(self.v)) if self.is_float else 0 - self

    def __invert__(self) -> Term:
        return Term(self.b, self.b.not_(self.v))

    def is_nan(self) -> Term:
        return Term(self.b, self.b.fcmp("uno", self.v, self.v))

    def abs(self) -> Term:
        return Term(self.b, self.b.intrinsic("fabs", self.v))

    def sqrt(self) -> Term:
        return Term(self.b, self.b.intrinsic("sqrt", self.v))

    def with_sign_of(self, other: Term) -> Term:
        return Term(self.b, self.b.intrinsic("copysign", self.v, other.v))

    def flipped_by(self, sign: Term) -> Term:
        """The sign bit xor'ed with an integer that has no other bits."""
        return (self.bits() ^ sign).as_float()

    def bits(self) -> Term:
        return Term(self.b, self.b.bitcast(self.v, self.format.integer))

    def as_float(self) -> Term:
        return Term(self.b, self.b.bitcast(self.v, "float" if self.v.element == "i32" else "double"))

    def widen(self) -> Term:
        return Term(self.b, self.b.fpext(self.v, "double"))

    def narrow(self) -> Term:
        return Term(self.b, self.b.fptrunc(self.v, "float"))


def fma(a: Term, b: Number, c: Number) -> Term:
    """a*b + c, in one rounding where the machine can."""
    return Term(a.b, a.b.fma(a.v, a.like(b).v, a.like(c).v))


def where(condition: Term, a: Number, b: Number) -> Term:
    """At least one of ``a`` and ``b`` is a Term."""
    one = a if isinstance(a, Term) else b
    assert isinstance(one, Term)
    return Term(one.b, one.b.select(condition.v, one.like(a).v, one.like(b).v))


def at_most(x: Term, limit: float) -> Term:
    """A NaN stays."""
    return where(x > limit, limit, x)


def at_least(x: Term, limit: float) -> Term:
    return where(x < limit, limit, x)


def horner(x: Term, coefficients: Sequence[Number]) -> Term:
    """The polynomial with ``coefficients`` from the constant term up."""
    total = x.like(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        total = fma(x, total, c)
    return total


def even_odd(x: Term, coefficients: Sequence[float]) -> Term:
    """The same polynomial in half the latency, for one product more: for long ones on the critical path."""
    square = x * x
    return fma(x, horner(square, coefficients[1::2]), horner(square, coefficients[0::2]))


def pick(x: Term, name: str) -> Sequence[float]:
    """The coefficients called ``name`` for this precision."""
    return fitted(f"{name}_F{x.format.bits}")


def nearest(x: Term, scale: float = 1.0, bias: int = 0) -> tuple[Term, Term]:
    """n = x * scale rounded (it must be small): as a float, and an integer with n + bias in its low bits."""
    magic = x.format.magic + bias
    shifted = x + magic if scale == 1.0 else fma(x, scale, magic)
    return shifted - magic, shifted.bits()


def power_of_two(low_bits: Term) -> Term:
    """2^n from an integer whose low bits hold n + bias, which must be a normal exponent."""
    return (low_bits << (F32 if low_bits.v.element == "i32" else F64).mantissa).as_float()


def integer_to_float(n: Term) -> Term:
    """A small integer as the float of its width; any vector unit can add."""
    fmt = F32 if n.v.element == "i32" else F64
    return (n + float_bits(fmt, fmt.magic)).as_float() - fmt.magic


def float_bits(fmt: Format, number: float) -> int:
    codes = ("<f", "<i") if fmt is F32 else ("<d", "<q")
    return int(struct.unpack(codes[1], struct.pack(codes[0], number))[0])


def sign_mask(fmt: Format) -> int:
    return -(1 << (fmt.bits - 1))


def through_double(function: Callable[..., Term]) -> Callable[..., Term]:
    """Compute float32 in float64 and round once."""

    @functools.wraps(function)
    def wrapped(*args: Term) -> Term:
        if not args[0].is_single:
            return function(*args)
        return function(*(a.widen() for a in args)).narrow()

    return wrapped


def any_lane(mask: Term) -> Value:
    """Whether any lane of an i1 Term is true, as a scalar i1."""
    lanes = lanes_of(mask.v.type)
    if lanes == 1:
        return mask.v
    packed = mask.b.emit(f"i{lanes}", f"bitcast {mask.v.typed} to i{lanes}")
    return mask.b.icmp("ne", packed, constant(packed.type, 0))


def when_any(mask: Term, ordinary: Sequence[Term], rare: Callable[[], Sequence[Term]]) -> list[Term]:
    """``ordinary`` unless some lane has ``mask``: then what ``rare`` computes, for all lanes, behind a branch."""
    b = mask.b
    slow, join = b.new_label("rare"), b.new_label("usual")
    before = b.label
    b.cond_branch(any_lane(mask), slow, join)
    b.block(slow)
    replaced = rare()
    after = b.label
    b.block(join)
    pairs = zip(ordinary, replaced)
    return [Term(b, b.phi(o.v.type, [(o.v, before), (r.v, after)])) for o, r in pairs]
