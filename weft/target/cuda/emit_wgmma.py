"""The code of matrix instructions of warp groups: ``wgmma``, which reads both matrices from shared memory itself.

A group is four warps one after another; a warp has 16 of its 64 rows. The thread nest is written in terms of group,
warp and lane first and compared with the meaning of a lane, which gives where the matrices of the group begin. The
instructions run on their own: sums are there after `emit_settled`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from weft.ir.expr import AddressOf, Const, Expr, Var, idx
from weft.ir.hardware import Hardware
from weft.ir.interval import Interval
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Seq, Stmt, Tensorized
from weft.ir.visit import substitute
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_offset import offset_expr
from weft.target.cuda.emit_context import LEVEL, Function
from weft.target.cuda.emit_mma import add_loops_of_one, name_operands
from weft.target.cuda.swizzle import ROW, SWIZZLE_ALIGN

#: Rows of a warp, warps of a group, steps of an instruction, columns of a block of them.
ROWS, WARPS, STEPS, BLOCK = 16, 4, 16, 64
#: The most columns of an instruction.
MOST = 256
#: Elements of a row of shared memory.
LENGTH = ROW // 2

_PLACE = """__device__ __forceinline__ unsigned long long matrix_place(const void* p, int lead) {
  const unsigned at = (unsigned)__cvta_generic_to_shared(p);
  return (unsigned long long)((at & 0x3ffff) >> 4) | (unsigned long long)(lead >> 4) << 16 | 64ull << 32 | 1ull << 62;
}"""
#: For sums that are BLOCK, TILE, HALF and ODD elements apart for each 64 columns, 8 columns, 8 rows and 1 column.
_WGMMA = """template <int BLOCK, int TILE, int HALF, int ODD, bool A_TRANSPOSED, bool B_TRANSPOSED, int B_LEAD>
__device__ __forceinline__ void {name}(float* c, const void* a, const void* b) {{
  asm volatile("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{type}.{type} "
               "{{{outs}}}, "
               "%{count}, %{next}, 1, 1, 1, %{after}, %{last};"
               : {regs}
               : "l"(matrix_place(a, 16)), "l"(matrix_place(b, B_LEAD)),
                 "n"((int)A_TRANSPOSED), "n"((int)B_TRANSPOSED));
}}"""
_START = """__device__ __forceinline__ void wgmma_start() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }"""
_COMMIT = """__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}"""
_WAIT = """template <int PENDING> __device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}"""
#: Sums that instructions work on are not to be moved across this.
_HOLD = """template <int COUNT> __device__ __forceinline__ void hold_sums(float* c) {
#pragma unroll
  for (int i = 0; i < COUNT; ++i) asm volatile("" : "+f"(c[i])::"memory");
}"""


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where the group's part of a matrix begins; ``lead`` is how many elements apart blocks of 64 columns are."""

    place: AddressOf
    is_transposed: bool
    lead: int

    def step(self, n: int) -> int:
        """Elements to the ``n``-th 16 steps of the depth."""
        return n * STEPS * (LENGTH if self.is_transposed else 1)


@dataclass(frozen=True, slots=True)
class GroupProducts:
    """What the nest of a lane is: ``steps`` instructions of 64 by ``columns`` sums, one after another."""

    a: Matrix
    b: Matrix
    sums: AddressOf
    numbers: dict[str, int]
    type: str

    @property
    def steps(self) -> int:
        return self.numbers["KS"]

    @property
    def columns(self) -> int:
        return self.numbers["NB"] * BLOCK


def emit_wgmma(f: Function, s: Tensorized, hardware: Hardware) -> bool:
    """The tensorized nest, finished where it stands; False where matrices are not where they must be."""
    products = read_groups(f, s, hardware)
    if products is None:
        return False
    emit_products(f, products)
    emit_settled(f, products)
    return True


def read_groups(f: Function, s: Tensorized, hardware: Hardware) -> GroupProducts | None:
    """None where threads are not groups of warps, or matrices not in rows of swizzled shared memory."""
    group = _Group.find(f)
    found = None if group is None else group.match(f, hardware, s.body)
    if group is None or found is None:
        return None
    named = name_operands(hardware, found)
    if named is None:
        return None
    places, numbers = named
    sums = places["C"]
    blocks = numbers["b_block"] if numbers["NB"] > 1 else BLOCK * LENGTH
    a = group.matrix(f, places["A"], numbers["a_row"], numbers["a_k"], BLOCK * LENGTH, ROWS * numbers["a_row"])
    b = group.matrix(f, places["B"], numbers["b_col"], numbers["b_k"], blocks, 0)
    own = f.memory(sums.buffer).is_private and numbers["c_row"] == numbers["c_pair"] == 0
    if a is None or b is None or not own or numbers["NB"] * BLOCK > MOST or _varies(sums):
        return None
    return GroupProducts(a, b, sums, numbers, hardware.name.removeprefix("wgmma_"))


def _varies(place: AddressOf) -> bool:
    """Whether it is not one place for all lanes and iterations: sums are in registers, which have no addresses."""
    offset = linear_offset(place.buffer, place.indices)
    return offset is None or bool(offset.terms)


@dataclass(frozen=True, slots=True)
class _Group:
    """The threads of a block as groups: ``values`` has thread variables in terms of group, warp and lane."""

    values: dict[Var, Expr]
    group: Var
    warp: Var
    number: Expr
    count: int

    @staticmethod
    def find(f: Function) -> _Group | None:
        """None where there are no whole groups of threads."""
        loops = [(x.var, int(x.hi.value)) for x in f.thread_loops if isinstance(x.hi, Const) and x.lo == idx(0)]
        threads = prod(count for _, count in loops)
        if len(loops) != len(f.thread_loops) or threads % (32 * WARPS):
            return None
        group, warp, row, pair = (Var(n) for n in ("group_", "warp_", "row_", "pair_"))
        thread: Expr = group * (32 * WARPS) + warp * 32 + row * 4 + pair
        number: Expr = idx(0)
        values: dict[Var, Expr] = {}
        apart = 1
        for var, count in reversed(loops):
            values[var] = thread // apart % count
            number, apart = var * apart + number, apart * count
        return _Group(values, group, warp, simplify(number) // (32 * WARPS), threads // (32 * WARPS))

    def match(self, f: Function, hardware: Hardware, nest: Stmt) -> tuple[Expr, ...] | None:
        """The operands of the intrinsic, addresses those of a warp's first lane."""
        counts = {"row_": 8, "pair_": 4, "warp_": WARPS, "group_": self.count}
        lanes = tuple(For(Var(n), idx(0), idx(counts[n]), "thread", Seq(())) for n in ("row_", "pair_"))
        ranges = {**f.ranges, **{name: Interval(0, count - 1) for name, count in counts.items()}}
        plain = simplify(substitute(nest, self.values), ranges)
        for complete in add_loops_of_one(plain, 6, (0, 2)):
            found = match_hardware(hardware, complete, ranges, lanes)
            if not isinstance(found, Mismatch):
                return found
        return None

    def matrix(self, f: Function, place: AddressOf, row: int, k: int, block: int, per_warp: int) -> Matrix | None:
        """Where a matrix is: ``row`` and ``k`` elements from one row (or column) and step to the next, ``block`` from
        64 of them to the next 64; warps begin ``per_warp`` elements apart."""
        if not f.memory(place.buffer).is_swizzled:
            return None
        is_transposed = k != 1
        start = linear_offset(place.buffer, place.indices)
        if start is None or (row, k) != ((1, LENGTH) if is_transposed else (LENGTH, 1)):
            return None
        if not is_transposed and block != BLOCK * LENGTH:
            return None
        others = [n for atom, n in start.terms.items() if atom != self.warp]
        whole = SWIZZLE_ALIGN // place.buffer.dtype.itemsize
        if start.terms.get(self.warp, 0) != per_warp or any(n % whole for n in (start.constant, block, *others)):
            return None
        first = {self.group: self.number, self.warp: idx(0)}
        indices = tuple(simplify(substitute(i, first), f.ranges) for i in place.indices)
        return Matrix(replace(place, indices=indices), is_transposed, block)


def emit_products(f: Function, products: GroupProducts) -> None:
    """The instructions of a piece, started one after another; the group goes on."""
    n = products.numbers
    f.define("matrix_place", _PLACE)
    name = _define(f, products)
    parts = (n["c_block"] if n["NB"] > 1 else 0, n["c_nj"], n["c_half"], n["c_odd"])
    flags = [str(m.is_transposed).lower() for m in (products.a, products.b)]
    arguments = ", ".join(map(str, (*parts, *flags, 2 * products.b.lead)))
    f.line(f"{f.define('wgmma_start', _START)}();")
    with f.braces():
        matrices = {f.fresh("a_at"): products.a, f.fresh("b_at"): products.b}
        for at, m in matrices.items():
            f.line(f"const auto* const {at} = {_pointer(f, m)};")
        for step in range(products.steps):
            places = ", ".join(f"{at} + {m.step(step)}" for at, m in matrices.items())
            f.line(f"{name}<{arguments}>({_sums(f, products)}, {places});")
    f.line(f"{f.define('wgmma_commit', _COMMIT)}();")


def _define(f: Function, products: GroupProducts) -> str:
    """The instruction of as many columns, as a function."""
    columns, type = products.columns, products.type
    name, count = f"wgmma_{type}_n{columns}", columns // 2
    outs = ", ".join(f"%{i}" for i in range(count))
    tiles = [f"{block} * BLOCK + {tile} * TILE" for block in range(columns // BLOCK) for tile in range(BLOCK // 8)]
    regs = ",\n                 ".join(
        ", ".join(f'"+f"(c[{at}{own}])' for own in ("", " + ODD", " + HALF", " + HALF + ODD")) for at in tiles
    )
    text = _WGMMA.format(
        name=name, n=columns, type=type, outs=outs, regs=regs,
        count=count, next=count + 1, after=count + 2, last=count + 3,
    )  # fmt: skip
    return f.define(name, text)


def emit_done(f: Function, pending: int) -> None:
    """Waits until all instructions of the group but those of the youngest ``pending`` pieces are done."""
    f.line(f"{f.define('wgmma_wait', _WAIT)}<{pending}>();")


def emit_settled(f: Function, products: GroupProducts) -> None:
    """Waits until the sums are there."""
    emit_done(f, 0)
    emit_held(f, products)


def emit_held(f: Function, products: GroupProducts) -> None:
    """Sums stay in their registers from here on, or until here: instructions that are under way work on them."""
    count = f.memory(products.sums.buffer).elements
    f.line(f"{f.define('hold_sums', _HOLD)}<{count}>({f.memory(products.sums.buffer).pointer});")


def _sums(f: Function, products: GroupProducts) -> str:
    pointer = f.memory(products.sums.buffer).pointer
    base = emit_expr(f, offset_expr(products.sums.buffer, products.sums.indices)).text
    return pointer if base == "0" else f"{pointer} + {base}"


def _pointer(f: Function, matrix: Matrix) -> str:
    """Where the pattern of swizzled rows begins, which is no other place than without it."""
    offset = emit_expr(f, offset_expr(matrix.place.buffer, matrix.place.indices))
    return f"{f.memory(matrix.place.buffer).pointer} + {offset.inside(LEVEL['+'])}"
