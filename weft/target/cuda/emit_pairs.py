"""Small integers of two lanes computed at once, in the halves of a word, where floats of 16 bits are made of them.

Weights of 4 bits, say: two bytes of a word are put 16 bits apart by one instruction, and every shift and mask then
serves two of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Cast, Const, Expr, Select, Var, idx
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Store
from weft.ir.visit import substitute
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.target.c_text.emit_expr import emit_pointer
from weft.target.cuda.emit_context import Function

#: A word with a number in both halves, and the most that a half and a byte hold.
BOTH, MOST, BYTE = 0x10001, 0xFFFF, 0xFF


#: How many integers side by side floats have for one exponent.
_TOGETHER = {"bfloat16": 128, "float16": 1024}


@dataclass(frozen=True, slots=True)
class Bytes:
    """What lanes load of a buffer of bytes, so many ``bytes`` at a time from ``source`` on.

    ``sharing`` lanes side by side have the same one.
    """

    buffer: str
    sharing: int
    bytes: int
    source: str


def emit_pairs(f: Function, loop: For, s: Store, bytes: int, loads: Mapping[Expr, Bytes]) -> bool:
    """Small integers as floats, an element of each half of the lanes at a time, stored by ``bytes``; False where ``s``
    does not store such."""
    ranges = {**f.ranges, loop.var.name: loop_range(loop, f.ranges)}
    least, extent = _least_of(s.value, s.buffer, ranges), constant_extent(loop) or 0
    if least is None or loop.lo != idx(0):
        return False
    names = {load: f.fresh(f"{given.buffer}_words") for load, given in loads.items()}
    pairs = Pairs(loop.var, ranges, {load: (names[load], given.sharing) for load, given in loads.items()})
    words = [pairs.word(s.value, n, n + extent // 2, least) for n in range(extent // 2)]
    if None in words:
        return False
    for load, given in loads.items():
        f.line(f"unsigned {names[load]}[{extent // given.sharing // 4}];")
        f.line(f"{f.use('load')}<{given.bytes}>({names[load]}, reinterpret_cast<const unsigned*>({given.source}));")
    array, small = f.fresh(f"{s.buffer.name}_v"), f.use(f"small_pair_{s.buffer.dtype.name}")
    f.line(f"const unsigned {array}[{len(words)}] = {{")
    for word in words:
        f.line(f"  {small}<{least}>({word}),")
    f.line("};")
    first = tuple(simplify(substitute(i, {loop.var: loop.lo}), f.ranges) for i in s.indices)
    pointer = f"reinterpret_cast<unsigned*>({emit_pointer(f, s.buffer, first)})"
    f.line(f"{f.use('store')}<{bytes}>({pointer}, {array});")
    return True


def _least_of(value: Expr, buffer: Buffer, ranges: Mapping[str, Interval]) -> int | None:
    """The least of integers that ``buffer`` has as floats of 16 bits; None where they are not such, or too many."""
    most = _TOGETHER.get(buffer.dtype.name, 0)
    if not isinstance(value, Cast) or not value.operand.dtype.is_integer:
        return None
    values = bounds(value.operand, ranges)
    if values.lo is None or values.hi is None or values.lo < -most or values.hi >= values.lo + most:
        return None
    return values.lo


@dataclass(frozen=True, slots=True)
class Field:
    """Some bits of ``word`` in both of its halves, from bit ``shift`` on: as many as ``mask`` has."""

    word: str
    shift: int
    mask: int

    @property
    def text(self) -> str:
        moved = f"{self.word} >> {self.shift}" if self.shift else self.word
        return f"({moved} & {self.mask * BOTH:#x}u)"

    def rest(self, divisor: int) -> Field:
        return Field(self.word, self.shift, self.mask & (divisor - 1))

    def quotient(self, divisor: int) -> Field:
        bits = divisor.bit_length() - 1
        return Field(self.word, self.shift + bits, self.mask >> bits)


@dataclass(frozen=True, slots=True)
class Pairs:
    """Lanes are values of ``lane``; ``bytes_of`` tells for what they load which array has its words, and how many lanes
    have the same byte."""

    lane: Var
    ranges: Mapping[str, Interval]
    bytes_of: Mapping[Expr, tuple[str, int]]

    def word(self, value: Expr, one: int, other: int, least: int) -> str | None:
        """The integers of two lanes that ``value`` makes floats of, less ``least``; None where they are not computed
        alike."""
        assert isinstance(value, Cast)
        e, added = value.operand, -least
        while isinstance(e, Binary) and e.op in ("+", "-") and isinstance(e.right, Const) and e.dtype.bits >= 32:
            added += int(e.right.value) if e.op == "+" else -int(e.right.value)
            e = e.left
        field = self._field(e, one, other)
        if field is None or not bounds(e, self.ranges).within(max(0, -added), MOST - max(0, added)):
            return None
        return field.text if added == 0 else f"{field.text} + {added % (1 << 32)}u * {BOTH:#x}u"

    def _field(self, e: Expr, one: int, other: int) -> Field | None:
        """``e`` of two lanes, each from 0 to 65535."""
        if e in self.bytes_of:
            array, sharing = self.bytes_of[e]
            return _two_bytes(array, one // sharing, other // sharing)
        match e:
            case Cast(operand=operand) if operand.dtype.is_integer:
                field = self._field(operand, one, other)
                return field if field is not None and bounds(operand, self.ranges).within(0, e.type.max_value) else None
            case Select():
                chosen = {self._chosen(e, lane) for lane in (one, other)}
                return self._field(chosen.pop(), one, other) if len(chosen) == 1 and e not in chosen else None
            case Binary(op="%" | "//", right=Const(value=int(divisor))) if divisor > 0 and divisor & (divisor - 1) == 0:
                field = self._field(e.left, one, other)
                return None if field is None else field.rest(divisor) if e.op == "%" else field.quotient(divisor)
        return None

    def _chosen(self, e: Select, lane: int) -> Expr:
        """What a lane takes, where that is told by its number alone."""
        condition = simplify(substitute(e.condition, {self.lane: idx(lane)}), self.ranges)
        if isinstance(condition, Const):
            return e.then if condition.value else e.otherwise
        return e


def _two_bytes(array: str, one: int, other: int) -> Field:
    """Bytes of ``array``, 16 bits apart: of one word as they lie, if they do."""
    low, high = one % 4, other % 4
    if one + 2 == other and low < 2:
        return Field(f"{array}[{one // 4}]", 8 * low, BYTE)
    if one // 4 == other // 4:
        return Field(f"__byte_perm({array}[{one // 4}], 0, 0x4{high}4{low})", 0, BYTE)
    return Field(f"__byte_perm({array}[{one // 4}], {array}[{other // 4}], 0x0{high + 4}0{low})", 0, BYTE)
