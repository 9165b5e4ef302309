"""Small integers of two lanes computed at once, in the halves of a word, where floats of 16 bits are made of them.

Weights of 4 bits, say: two bytes of a word are put 16 bits apart by one instruction, and every shift and mask then
serves two of them. `pair_formulas` tells what formulas are such.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Cast, Const, Expr, Select, Var, idx
from weft.ir.interval import Interval, bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Store
from weft.ir.visit import substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.target.c_text.emit_expr import emit_expr, emit_pointer
from weft.target.cuda.emit_context import Function
from weft.target.cuda.pair_formulas import CODE, TOGETHER, is_float4_of, is_narrow, least_of, power_of, split_scale

#: A word with a number in both halves, and the most that a half and a byte hold.
BOTH, MOST, BYTE = 0x10001, 0xFFFF, 0xFF


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
    """Small integers, or floats of 4 bits, as floats, an element of each half of the lanes at a time, stored by
    ``bytes``; also times what is the same for all of them. False where ``s`` does not store such."""
    ranges = {**f.ranges, loop.var.name: loop_range(loop, f.ranges)}
    extent = constant_extent(loop) or 0
    made, scale = split_scale(s.value, loop.var, loads)
    if made is None or loop.lo != idx(0) or s.buffer.dtype.name not in TOGETHER:
        return False
    names = {load: f.fresh(f"{given.buffer}_words") for load, given in loads.items()}
    pairs = Pairs(loop.var, ranges, {load: (names[load], given.sharing) for load, given in loads.items()})
    words = _converted(f, pairs, made, s.buffer.dtype.name, extent // 2)
    if words is None:
        return False
    for load, given in loads.items():
        f.line(f"unsigned {names[load]}[{extent // given.sharing // 4}];")
        f.line(f"{f.use('load')}<{given.bytes}>({names[load]}, reinterpret_cast<const unsigned*>({given.source}));")
    times = ("", "") if scale is None else _times(f, scale, s.buffer)
    array = f.fresh(f"{s.buffer.name}_v")
    f.line(f"const unsigned {array}[{len(words)}] = {{")
    for word in words:
        f.line(f"  {times[0]}{word}{times[1]},")
    f.line("};")
    first = tuple(simplify(substitute(i, {loop.var: loop.lo}), f.ranges) for i in s.indices)
    pointer = f"reinterpret_cast<unsigned*>({emit_pointer(f, s.buffer, first)})"
    f.line(f"{f.use('store')}<{bytes}>({pointer}, {array});")
    return True


def _converted(f: Function, pairs: Pairs, made: Expr, narrow: str, count: int) -> list[str] | None:
    """Calls that make each pair of floats; None where they are neither small integers nor floats of 4 bits."""
    least = least_of(made, narrow, pairs.ranges)
    if least is not None:
        words = [pairs.word(made, n, n + count, least) for n in range(count)]
        function = f"small_pair_{narrow}", f"<{least}>"
    else:
        words = [pairs.code(made, n, n + count) for n in range(count)]
        function = f"float4_pair_{narrow}", ""
    if None in words:
        return None
    return [f"{f.use(function[0])}{function[1]}({word})" for word in words]


def _times(f: Function, scale: Expr, buffer: Buffer) -> tuple[str, str]:
    """What comes before and after a pair that ``scale`` is multiplied with: as floats or, where that is the same, as
    narrow floats."""
    number, narrow = f.fresh("scale"), buffer.dtype.name
    if narrow == "bfloat16" and (power := power_of(scale)) is not None:
        f.line(f"const unsigned {number} = {f.use('power_pair_bfloat16')}({emit_expr(f, power).text});")
        return f"{f.use('multiply_pairs_bfloat16')}(", f", {number})"
    f.line(f"const float {number} = {emit_expr(f, scale).text};")
    if not is_narrow(scale, buffer.dtype):
        return f"{f.use(f'scale_pair_{narrow}')}(", f", {number})"
    both = f.fresh("scales")
    f.line(f"const unsigned {both} = {f.use(f'pack_{narrow}')}({number}, {number});")
    return f"{f.use(f'multiply_pairs_{narrow}')}(", f", {both})"


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
        """The integers of two lanes, less ``least``; None where they are not computed alike."""
        e, added = value, -least
        while isinstance(e, Binary) and e.op in ("+", "-") and isinstance(e.right, Const) and e.dtype.bits >= 32:
            added += int(e.right.value) if e.op == "+" else -int(e.right.value)
            e = e.left
        field = self._field(e, one, other)
        if field is None or not bounds(e, self.ranges).within(max(0, -added), MOST - max(0, added)):
            return None
        return field.text if added == 0 else f"{field.text} + {added % (1 << 32)}u * {BOTH:#x}u"

    def code(self, value: Expr, one: int, other: int) -> str | None:
        """The codes of two lanes whose floats of 4 bits ``value`` is, in the low bits of both halves."""
        for e in walk(value):
            if isinstance(e, Expr) and e.dtype.is_integer and e.dtype.bits >= 32 and is_float4_of(value, e):
                field = self._field(e, one, other)
                return field.text if field is not None and field.mask <= CODE else None
        return None

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
