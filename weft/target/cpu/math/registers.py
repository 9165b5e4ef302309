"""Instructions of one register's width applied to values of any number of lanes.

AVX-512 has two that others do without: p times 2^n for any n, infinities and subnormals included, and tables of 16
float32 kept in a register, looked up lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.target.cpu.builder import Builder
from weft.target.cpu.llvm_values import Value, bits_of, constant, vector
from weft.target.cpu.math.formula import Term

#: Bits of the widest registers.
WIDEST = 512


def by_registers(b: Builder, values: Sequence[Value], least: int, emit: Callable[..., Value]) -> Value:
    """``emit`` applied to ``values``, all of as many lanes, in pieces of ``least`` bits up to a whole register."""
    lanes = values[0].lanes
    wide = max(least // bits_of(values[0].type), 1 << (lanes - 1).bit_length())
    parts = [emit(*pieces) for pieces in zip(*(_registers(b, v, wide) for v in values))]
    return _first_lanes(b, _joined(b, parts), lanes)


def _registers(b: Builder, value: Value, lanes: int) -> list[Value]:
    """``value`` filled up to ``lanes`` lanes with anything, cut to what one instruction takes."""
    if value.lanes == 1:
        value = b.insert(Value("poison", vector(value.type, lanes)), value, 0)
    elif value.lanes < lanes:
        value = b.shuffle(value, None, [n if n < value.lanes else -1 for n in range(lanes)])
    most = min(lanes, WIDEST // bits_of(value.type))
    if lanes == most:
        return [value]
    return [b.shuffle(value, None, range(start, start + most)) for start in range(0, lanes, most)]


def _joined(b: Builder, parts: list[Value]) -> Value:
    """Registers side by side, a power of two of them."""
    while len(parts) > 1:
        parts = [b.shuffle(x, y, range(x.lanes + y.lanes)) for x, y in zip(parts[::2], parts[1::2])]
    return parts[0]


def _first_lanes(b: Builder, value: Value, lanes: int) -> Value:
    if lanes == value.lanes:
        return value
    return b.extract(value, 0) if lanes == 1 else b.shuffle(value, None, range(lanes))


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


def can_look_up(x: Term) -> bool:
    return x.is_single and x.b.features.tables


def look_up(table: Sequence[float], position: Term) -> Term:
    """The entry of a table of 16 that the low 4 bits of each lane of ``position`` say."""
    entries = ", ".join(f"float {constant('float', entry).text}" for entry in table)
    register = Value(f"<{entries}>", f"<{len(table)} x float>")

    def permute(index: Value) -> Value:
        return position.b.call("llvm.x86.avx512.permvar.sf.512", register.type, [register, index], pure=True)

    return Term(position.b, by_registers(position.b, [position.v], WIDEST, permute))
