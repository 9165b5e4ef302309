"""Intel's matrix tiles (AMX) as hardware intrinsics.

One intrinsic adds the product of two panels to 16 by 16 or 32 by 32 sums: ``C += A * B`` over K groups
of 4 bytes (2 bfloat16, 4 int8), B with the members of a group side by side. The sums stay in tile
registers for the whole of K. The 32 by 32 form uses every tile it loads twice, which is what reaches
the peak. int8 is exact; bfloat16 adds in an order of its own, so it is for fast numerics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.ir.hardware import Hardware
from weft.target.cpu.builder import Builder
from weft.target.cpu.emit_context import lane_numbers, literal_of
from weft.target.cpu.llvm_values import Value, constant, vector

_TILE = """
kernel {name}(A: {a}[{size}, K, {group}] strides [lda, {group}, 1],
              B: {a}[K, {size}, {group}] strides [ldb, {group}, 1],
              out C: {c}[{size}, {size}] strides [ldc, 1], K: int64, lda: int64, ldb: int64, ldc: int64) {{
  for m in 0:{size} {{ for n in 0:{size} {{ for ko in 0:K {{ for ki in 0:{group} {{
    C[m, n] = C[m, n] + {c}(A[m, ko, ki]) * {c}(B[ko, n, ki])
  }} }} }} }}
}}"""

I64 = "i64"
#: Rows of a tile, and bytes of a row: 16 groups of 4.
ROWS, ROW_BYTES = Value("16", "i16"), Value("64", "i16")
Operands = Mapping[str, Value]


@dataclass(frozen=True)
class Panels:
    """The operands of one intrinsic, addresses in bytes: ``tiles`` by ``tiles`` tiles of sums."""

    b: Builder
    instruction: str
    tiles: int
    itemsize: int
    operands: Operands
    lda: Value
    ldb: Value
    ldc: Value

    def load(self, at: Value, stride: Value) -> Value:
        return self.b.call("llvm.x86.tileloadd64.internal", "x86_amx", [ROWS, ROW_BYTES, at, stride])

    def at(self, name: str, *offsets: Value) -> Value:
        pointer = self.operands[name]
        for offset in offsets:
            pointer = self.b.gep("i8", pointer, offset, inbounds=False)
        return pointer

    def sums(self) -> list[Value]:
        """Where each tile of C is, row by row."""
        down = [self.b.mul(self.ldc, Value(str(16 * i), I64)) for i in range(self.tiles)]
        return [self.at("C", d, Value(str(64 * j), I64)) for d in down for j in range(self.tiles)]

    def places(self, ko: Value) -> tuple[list[Value], list[Value]]:
        """Where the tiles of A, one below the other, and of B, side by side, are from group ``ko`` on."""
        b, several = self.b, range(self.tiles)
        along, down = b.mul(ko, Value("4", I64)), b.mul(ko, self.ldb)
        rows = [b.mul(self.lda, Value(str(16 * i), I64)) for i in several]
        return [self.at("A", r, along) for r in rows], [self.at("B", down, Value(str(64 * j), I64)) for j in several]

    def multiply(self, totals: list[Value], left: list[Value], right: list[Value]) -> list[Value]:
        pairs = [(x, y) for x in left for y in right]
        name = f"llvm.x86.{self.instruction}.internal"
        shape = [ROWS, ROW_BYTES, ROW_BYTES]
        return [self.b.call(name, "x86_amx", [*shape, t, x, y]) for t, (x, y) in zip(totals, pairs)]

    def step(self, totals: list[Value], ko: Value) -> list[Value]:
        """The totals with 16 groups of K from ``ko`` on added."""
        left, right = self.places(ko)
        tiles = [self.load(at, self.lda) for at in left], [self.load(at, self.ldb) for at in right]
        return self.multiply(totals, *tiles)

    def last_step(self, totals: list[Value], ko: Value, groups: Value) -> list[Value]:
        """The totals with fewer than 16 groups added, the rest of the tiles zero.

        A tile of another shape would need another configuration, which LLVM makes only where all
        shapes are known before the first tile.
        """
        left, right = self.places(ko)
        lanes = [constant(vector(I64, 16), n) for n in range(16)]
        inside = self.b.icmp("slt", lane_numbers(16), self.b.splat(groups, 16))
        valid = [self.b.icmp("slt", lane, self.b.splat(groups, 16)) for lane in lanes]
        row = Value("64", I64)
        tiles_a = [self.load(self.padded(at, self.lda, [inside] * 16), row) for at in left]
        tiles_b = [self.load(self.padded(at, self.ldb, valid), row) for at in right]
        return self.multiply(totals, tiles_a, tiles_b)

    def padded(self, at: Value, stride: Value, masks: list[Value]) -> Value:
        """A dense copy on the stack of a tile at ``at``: of each row the 4-byte groups its mask names, else zeros."""
        b = self.b
        copy = b.alloca("[16 x <16 x i32>]", align=64)
        for n, mask in enumerate(masks):
            source = b.gep("i8", at, b.mul(stride, Value(str(n), I64)), inbounds=False)
            arguments = [source, Value("1", "i32"), mask, Value("zeroinitializer", "<16 x i32>")]
            groups = b.call("llvm.masked.load.v16i32.p0", "<16 x i32>", arguments)
            b.store(groups, b.gep("i8", copy, Value(str(64 * n), I64)), align=64)
        return copy


def _emit_tiles(instruction: str, tiles: int, itemsize: int) -> Callable[[Builder, Operands], None]:
    def emit(b: Builder, operands: Operands) -> None:
        strides = [
            b.mul(operands[n], Value(str(s), I64)) for n, s in (("lda", itemsize), ("ldb", itemsize), ("ldc", 4))
        ]
        panels = Panels(b, instruction, tiles, itemsize, operands, *strides)
        groups = operands["K"]
        whole = b.and_(groups, Value("-16", I64))
        rest = b.sub(groups, whole)
        places = panels.sums()
        totals = [panels.load(at, panels.ldc) for at in places]
        totals = _emit_whole(b, totals, whole, panels.step)
        number = literal_of(groups)
        if number is None or number % 16:
            totals = _emit_rest(b, totals, rest, lambda t: panels.last_step(t, whole, rest))
        for at, total in zip(places, totals):
            b.call("llvm.x86.tilestored64.internal", "void", [ROWS, ROW_BYTES, at, panels.ldc, total])

    return emit


def _emit_whole(
    b: Builder, first: list[Value], end: Value, step: Callable[[list[Value], Value], list[Value]]
) -> list[Value]:
    """``step`` for 0, 16 ... up to ``end``, the totals carried along."""
    body, done = b.new_label("tile"), b.new_label("tiled")
    before = b.label
    b.cond_branch(b.icmp("sgt", end, Value("0", I64)), body, done)
    b.block(body)
    ko = b.phi(I64, [(Value("0", I64), before)])
    totals = [b.phi("x86_amx", [(t, before)]) for t in first]
    summed = step(totals, ko)
    following = b.add(ko, Value("16", I64))
    b.add_incoming(ko, following, b.label)
    for total, new in zip(totals, summed):
        b.add_incoming(total, new, b.label)
    last = b.label
    b.cond_branch(b.icmp("slt", following, end), body, done)
    b.block(done)
    return [b.phi("x86_amx", [(t, before), (s, last)]) for t, s in zip(first, summed)]


def _emit_rest(b: Builder, totals: list[Value], rest: Value, step: Callable[[list[Value]], list[Value]]) -> list[Value]:
    body, done = b.new_label("rest"), b.new_label("rested")
    before = b.label
    b.cond_branch(b.icmp("ne", rest, Value("0", I64)), body, done)
    b.block(body)
    summed = step(totals)
    last = b.label
    b.block(done)
    return [b.phi("x86_amx", [(t, before), (s, last)]) for t, s in zip(totals, summed)]


def _tiles(instruction: str, tiles: int, a: str, c: str, group: int, feature: str) -> Hardware:
    size = 16 * tiles
    name = f"{instruction}_{size}x{size}"
    text = _TILE.format(name=name, a=a, c=c, group=group, size=size)
    emit = _emit_tiles(instruction, tiles, 4 // group)
    return Hardware(name, text, {"cpu": emit}, ("amx-tile", feature), exact=c == "int32")


TILES = (
    _tiles("tdpbf16ps", 1, "bfloat16", "float32", 2, "amx-bf16"),
    _tiles("tdpbf16ps", 2, "bfloat16", "float32", 2, "amx-bf16"),
    _tiles("tdpbssd", 1, "int8", "int32", 4, "amx-int8"),
    _tiles("tdpbssd", 2, "int8", "int32", 4, "amx-int8"),
)
