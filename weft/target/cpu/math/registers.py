"""Instructions of one register's width applied to values of any number of lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.target.cpu.builder import Builder, Value
from weft.target.cpu.llvm_types import bits_of, vector

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
