"""p times 2^n in one instruction, where AVX-512 has it: any n, infinities and subnormals included."""

from __future__ import annotations

from weft.target.cpu.builder import Value, constant
from weft.target.cpu.llvm_types import bits_of
from weft.target.cpu.math.formula import Term
from weft.target.cpu.math.registers import WIDEST, by_registers


def can_scale(x: Term) -> bool:
    """Whether the machine multiplies by any power of two in one instruction."""
    return x.b.features.scaling


def scale_by(p: Term, n: Term) -> Term:
    """p * 2^n for a whole number n given as a float, rounded once.

    An infinite n gives infinity or 0, whatever p is: a NaN made on the way to an overflow does no harm.
    """

    def scale(x: Value, y: Value) -> Value:
        bits = x.lanes * bits_of(x.type)
        name = f"llvm.x86.avx512.mask.scalef.{'ps' if x.element == 'float' else 'pd'}.{bits}"
        mask = constant(f"i{max(x.lanes, 8)}", -1)
        rounding = [constant("i32", 4)] if bits == WIDEST else []
        return p.b.call(name, x.type, [x, y, Value("zeroinitializer", x.type), mask, *rounding])

    return Term(p.b, by_registers(p.b, [p.v, n.v], 128, scale))
