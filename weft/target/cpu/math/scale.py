"""p times 2^n in one instruction, where AVX-512 has it: any n, infinities and subnormals included."""

from __future__ import annotations

from weft.target.cpu.builder import Builder, Value, constant
from weft.target.cpu.llvm_types import bits_of, vector
from weft.target.cpu.math.formula import Term


def can_scale(x: Term) -> bool:
    """Whether the machine multiplies by any power of two in one instruction."""
    return x.b.features.scaling


def scale_by(p: Term, n: Term) -> Term:
    """p * 2^n for a whole number n given as a float, rounded once.

    An infinite n gives infinity or 0, whatever p is: a NaN made on the way to an overflow does no harm.
    """
    b, lanes = p.b, p.v.lanes
    wide = max(128 // bits_of(p.v.type), 1 << (lanes - 1).bit_length())
    parts = [_scale_register(b, x, y) for x, y in zip(_registers(b, p.v, wide), _registers(b, n.v, wide))]
    return Term(b, _first_lanes(b, _joined(b, parts), lanes))


def _registers(b: Builder, value: Value, lanes: int) -> list[Value]:
    """``value`` filled up to ``lanes`` lanes with anything, cut to what one instruction takes."""
    if value.lanes == 1:
        value = b.insert(Value("poison", vector(value.type, lanes)), value, 0)
    elif value.lanes < lanes:
        value = b.shuffle(value, None, [n if n < value.lanes else -1 for n in range(lanes)])
    most = min(lanes, 512 // bits_of(value.type))
    if lanes == most:
        return [value]
    return [b.shuffle(value, None, range(start, start + most)) for start in range(0, lanes, most)]


def _scale_register(b: Builder, p: Value, n: Value) -> Value:
    bits = p.lanes * bits_of(p.type)
    name = f"llvm.x86.avx512.mask.scalef.{'ps' if p.element == 'float' else 'pd'}.{bits}"
    mask = constant(f"i{max(p.lanes, 8)}", -1)
    rounding = [constant("i32", 4)] if bits == 512 else []
    return b.call(name, p.type, [p, n, Value("zeroinitializer", p.type), mask, *rounding])


def _joined(b: Builder, parts: list[Value]) -> Value:
    """Registers side by side, a power of two of them."""
    while len(parts) > 1:
        parts = [b.shuffle(x, y, range(x.lanes + y.lanes)) for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def _first_lanes(b: Builder, value: Value, lanes: int) -> Value:
    if lanes == value.lanes:
        return value
    return b.extract(value, 0) if lanes == 1 else b.shuffle(value, None, range(lanes))
