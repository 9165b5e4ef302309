"""The code of matrix instructions: fragments loaded from shared memory by ``ldmatrix``, then ``mma.sync``.

The thread nest around is a warp's: its innermost loops are the lanes. In grid form their values are digits of thread
variables, so these are written as ``32 * warp + 4 * row + pair`` first; then the nest is compared with the meaning,
which gives where the operands of the warp begin and how they lie.

Fragments are kept twice: those of a step are loaded while the step before is computed. `emit_product_loop` does so
beyond the end of a piece, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

from weft.ir.expr import AddressOf, Const, Expr, Var, idx
from weft.ir.hardware import Hardware
from weft.ir.interval import Interval
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Seq, Stmt, Tensorized
from weft.ir.visit import substitute
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_offset import emit_pointer, offset_expr
from weft.target.cuda.emit_context import Function

#: ``ldmatrix`` takes rows of 16 bytes.
ROW_BYTES = 16

_LOAD = """template <bool TRANSPOSED>
__device__ __forceinline__ void load_matrices_x{n}(unsigned (&x)[4], const void* p) {{
  const unsigned at = (unsigned)__cvta_generic_to_shared(p);
  if constexpr (TRANSPOSED) {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x{n}.trans.shared.b16 {{{outs}}}, [%{n}];" : {regs} : "r"(at));
  }} else {{
    asm volatile("ldmatrix.sync.aligned.m8n8.x{n}.shared.b16 {{{outs}}}, [%{n}];" : {regs} : "r"(at));
  }}
}}"""
#: Words side by side across the depth, which ``ldmatrix`` does not transpose.
_LOAD_WORDS = """template <int SECOND, int THIRD>
__device__ __forceinline__ void load_words(unsigned (&x)[4], const float* p) {
  x[0] = __float_as_uint(p[0]);
  x[1] = __float_as_uint(p[SECOND]);
  x[2] = __float_as_uint(p[THIRD]);
  x[3] = __float_as_uint(p[SECOND + THIRD]);
}"""
_ROUND = """__device__ __forceinline__ void round_tf32(unsigned (&x)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(x[i]) : "f"(__uint_as_float(x[i])));
}"""
_MMA = """__device__ __forceinline__ void {name}(float& c0, float& c1, float& c2, float& c3, const unsigned (&a)[4],
                                         unsigned b0, unsigned b1) {{
  asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.f32.{type}.{type}.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}"""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in shared memory: where the warp's part begins, elements between its rows (or columns) and along k."""

    place: AddressOf
    row: int
    k: int

    @property
    def is_transposed(self) -> bool:
        """Whether what lies side by side is not along k."""
        return self.k != 1

    @property
    def pitch(self) -> int:
        """Elements between what does not lie side by side."""
        return max(self.row, self.k)


@dataclass(frozen=True, slots=True)
class Products:
    """What the nest of a lane is: ``steps`` times ``rows`` by ``columns`` matrix instructions.

    ``sums`` and ``numbers`` tell where a lane's sums are in its own array; ``lane`` is the thread's place in the warp,
    ``names`` what the variables of the code are called.
    """

    a: Operand
    b: Operand
    sums: AddressOf
    numbers: dict[str, int]
    lane: Expr
    type: str
    names: dict[str, str]

    @property
    def steps(self) -> int:
        return self.numbers["KS"]

    @property
    def depth(self) -> int:
        """Steps of one instruction: 32 bytes of each row."""
        return 2 * self.half

    @property
    def half(self) -> int:
        """Elements of 16 bytes, a row that ``ldmatrix`` takes."""
        return ROW_BYTES // self.a.place.buffer.dtype.itemsize

    @property
    def rows(self) -> int:
        return self.numbers["MI"]

    @property
    def columns(self) -> int:
        return self.numbers["NJ"]


def emit_mma(f: Function, s: Tensorized, hardware: Hardware, type: str) -> bool:
    """The tensorized nest as matrix instructions; False where operands are not where they must be."""
    products = read_products(f, s, hardware, type)
    if products is None:
        return False
    with f.braces():
        emit_fragments(f, products)
        emit_places(f, products)
        emit_loads(f, products, 0)
        for step in range(products.steps):
            if step + 1 < products.steps:
                emit_loads(f, products, step + 1)
            for row in range(products.rows):
                emit_row(f, products, step, row)
    return True


def read_products(f: Function, s: Tensorized, hardware: Hardware, type: str) -> Products | None:
    """None where operands are not in shared memory, rows of 16 bytes, or sums not in the registers of the lane."""
    warp = _Warp.find(f)
    found = None if warp is None else warp.match(f, hardware, s.body)
    if warp is None or found is None:
        return None
    named = name_operands(hardware, found)
    if named is None:
        return None
    places, numbers = named
    sums = places["C"]
    a, b = (warp.operand(f, places[n], numbers[row], numbers[k]) for n, row, k in _MATRICES)
    own = f.memory(sums.buffer).is_private and numbers["c_row"] == numbers["c_pair"] == 0
    if a is None or b is None or not own:
        return None
    return Products(a, b, sums, numbers, warp.lane, type, {name: f.fresh(name) for name in _VARIABLES})


def name_operands(hardware: Hardware, found: tuple[Expr, ...]) -> tuple[dict[str, AddressOf], dict[str, int]] | None:
    """The matrices of a matched nest, and its sizes and strides, by name; None where one of these is no number."""
    args = dict(zip((p.name for p in hardware.meaning.params), found))
    places = {name: e for name, e in args.items() if isinstance(e, AddressOf)}
    numbers = {name: int(e.value) for name, e in args.items() if isinstance(e, Const)}
    return (places, numbers) if len(places) + len(numbers) == len(args) else None


_VARIABLES = ("lane", "a", "b", "a_lane", "b_lane", "a_at", "b_at", "a_at_next", "b_at_next", "j")
_MATRICES = (("A", "a_row", "a_k"), ("B", "b_col", "b_k"))


@dataclass(frozen=True, slots=True)
class _Warp:
    """The threads of a block as warps: ``values`` has thread variables in terms of ``number``, ``row`` and ``pair``."""

    values: dict[Var, Expr]
    number: Var
    back: Expr
    lane: Expr
    warps: int

    @staticmethod
    def find(f: Function) -> _Warp | None:
        """None where 32 neighbouring threads are not 8 rows of 4 in the innermost thread loops."""
        w, row, pair = Var("warp_"), Var("row_"), Var("pair_")
        loops = [(loop.var, int(loop.hi.value)) for loop in f.thread_loops if isinstance(loop.hi, Const)]
        if len(loops) != len(f.thread_loops) or not loops or any(loop.lo != idx(0) for loop in f.thread_loops):
            return None
        (x, extent), outer = loops[-1], loops[:-1]
        if extent % 32 == 0:
            return _Warp({x: w * 32 + row * 4 + pair}, w, x // 32, x % 32, extent // 32)
        if extent == 4 and outer and outer[-1][1] % 8 == 0:
            y, count = outer[-1]
            return _Warp({x: pair, y: w * 8 + row}, w, y // 8, y % 8 * 4 + x, count // 8)
        return None

    def match(self, f: Function, hardware: Hardware, nest: Stmt) -> tuple[Expr, ...] | None:
        """The operands of the intrinsic, addresses those of the warp's first lane."""
        lanes = tuple(For(Var(n), idx(0), idx(e), "thread", Seq(())) for n, e in (("row_", 8), ("pair_", 4)))
        ranges = {**f.ranges, "row_": Interval(0, 7), "pair_": Interval(0, 3), "warp_": Interval(0, self.warps - 1)}
        plain = simplify(substitute(nest, self.values), ranges)
        for complete in add_loops_of_one(plain, 6, (0, 1, 3)):
            found = match_hardware(hardware, complete, ranges, lanes)
            if not isinstance(found, Mismatch):
                return found
        return None

    def operand(self, f: Function, place: AddressOf, row: int, k: int) -> Operand | None:
        """Where a matrix is; None where its rows are not aligned or not in shared memory."""
        if place.buffer.scope != "shared" or f.memory(place.buffer).is_swizzled or 1 not in (row, k):
            return None
        start = linear_offset(place.buffer, place.indices)
        pitch, size = max(row, k), place.buffer.dtype.itemsize
        steps = [] if start is None else [pitch, start.constant, *start.terms.values()]
        if start is None or any(step * size % ROW_BYTES for step in steps):
            return None
        indices = tuple(substitute(i, {self.number: self.back}) for i in place.indices)
        return Operand(replace(place, indices=indices), row, k)


def add_loops_of_one(nest: Stmt, count: int, at: tuple[int, ...]) -> list[Stmt]:
    """The nest as ``count`` loops: simplifying takes away those that run once, which those ``at`` some places may."""
    loops: list[For] = []
    s = nest
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    missing = count - len(loops)
    found: list[Stmt] = []
    for places in combinations(at, max(0, missing)):
        rest = iter(loops)
        once = (For(Var(f"once{n}_"), idx(0), idx(1), "serial", s) for n in range(count))
        whole = [next(once) if n in places else next(rest) for n in range(count)]
        body = s
        for loop in reversed(whole):
            body = replace(loop, body=body)
        found.append(body)
    return found


def emit_fragments(f: Function, products: Products) -> None:
    """The fragments of two steps, and where in them the lane begins to load."""
    n, a, b = products.names, products.a, products.b
    lane = n["lane"]
    f.line(f"const int {lane} = {emit_expr(f, products.lane).text};")
    f.line(f"unsigned {n['a']}[2][{products.rows}][4], {n['b']}[2][{(products.columns + 1) // 2}][4];")
    half = products.half
    low, high, middle = f"{lane} % 16", f"{lane} / 16 * {half}", f"{lane} / 8 % 2 * {half}"
    corner = f"{lane} % 8 + {lane} / 16 * 8"
    at_a = f"({corner}) * {a.pitch} + {middle}" if a.is_transposed else f"({low}) * {a.pitch} + {high}"
    at_b = f"({low}) * {b.pitch} + {high}" if b.is_transposed else f"({corner}) * {b.pitch} + {middle}"
    if products.type == "tf32":
        at_a = f"{lane} % 4 * {a.pitch} + {lane} / 4" if a.is_transposed else at_a
        at_b = f"{lane} % 4 * {b.pitch} + {lane} / 4" if b.is_transposed else at_b
    f.line(f"const int {n['a_lane']} = {at_a};")
    f.line(f"const int {n['b_lane']} = {at_b};")


def emit_places(f: Function, products: Products, values: Mapping[Var, Expr] | None = None, after: str = "") -> None:
    """Pointers to what the lane loads first, where variables have ``values``; ``after`` is how their names end."""
    n = products.names
    for name, matrix in (("a", products.a), ("b", products.b)):
        indices = tuple(simplify(substitute(i, values or {}), f.ranges) for i in matrix.place.indices)
        pointer = emit_pointer(f, matrix.place.buffer, indices, emit_expr)
        f.line(f"const auto* const {n[f'{name}_at{after}']} = {pointer} + {n[f'{name}_lane']};")


def emit_loads(f: Function, products: Products, step: int, after: str = "") -> None:
    """Fragments of A, four matrices for 16 rows; of B, four for 16 columns, or two for the last 8."""
    n, a, b, columns = products.names, products.a, products.b, products.columns
    a_at, b_at = n[f"a_at{after}"], n[f"b_at{after}"]
    a_step, b_step = step * products.depth * a.k, step * products.depth * b.k
    a_apart, b_apart = (8, 4 * a.pitch), (4 * b.pitch, 8)  # as an instruction has its words
    for i in range(products.rows):
        place = f"{a_at} + {a_step + 16 * i * a.row}"
        _emit_load(f, products, f"{n['a']}[{step % 2}][{i}]", 4, a_apart if a.is_transposed else None, place)
    for j in range(columns // 2):
        place = f"{b_at} + {b_step + 16 * j * b.row}"
        _emit_load(f, products, f"{n['b']}[{step % 2}][{j}]", 4, b_apart if b.is_transposed else None, place)
    if columns % 2:
        place = f"{b_at} + {b_step + 8 * (columns - 1) * b.row}"
        to = f"{n['b']}[{step % 2}][{columns // 2}]"
        _emit_load(f, products, to, 2, (4 * b.pitch, 0) if b.is_transposed else None, place)


def _emit_load(f: Function, products: Products, to: str, count: int, apart: tuple[int, int] | None, at: str) -> None:
    """A fragment; ``apart`` is how far its words are, where the depth is not what lies side by side."""
    if products.type != "tf32":
        _emit_load_matrices(f, to, count, apart is not None, at)
        return
    if apart is None:
        _emit_load_matrices(f, to, count, False, at)
    else:
        f.line(f"{f.define('load_words', _LOAD_WORDS)}<{apart[0]}, {apart[1]}>({to}, {at});")
    f.line(f"{f.define('round_tf32', _ROUND)}({to});")


def _emit_load_matrices(f: Function, to: str, count: int, transposed: bool, at: str) -> None:
    outs = ", ".join(f"%{i}" for i in range(count))
    regs = ", ".join(f'"=r"(x[{i}])' for i in range(count))
    name = f.define(f"load_matrices_x{count}", _LOAD.format(n=count, outs=outs, regs=regs))
    f.line(f"{name}<{'true' if transposed else 'false'}>({to}, {at});")


def emit_row(f: Function, products: Products, step: int, row: int) -> None:
    """The instructions of 16 rows in one step."""
    name = f"mma_{products.type}"
    f.define(name, _MMA.format(name=name, type=products.type, depth=products.depth))
    base = emit_expr(f, offset_expr(products.sums.buffer, products.sums.indices)).text
    start = f.memory(products.sums.buffer).pointer + ("[" if base == "0" else f"[{base} + ")
    n, at, j = products.names, products.numbers, products.names["j"]
    offsets = (0, at["c_odd"], at["c_half"], at["c_half"] + at["c_odd"])
    f.line("#pragma unroll")
    with f.braces(f"for (int {j} = 0; {j} < {products.columns}; ++{j})"):
        own = ", ".join(f"{start}{j} * {at['c_nj']} + {row * at['c_mi'] + offset}]" for offset in offsets)
        left, right = f"{n['a']}[{step % 2}][{row}]", f"{n['b']}[{step % 2}][{j} / 2]"
        f.line(f"{name}({own}, {left}, {right}[{j} % 2 * 2], {right}[{j} % 2 * 2 + 1]);")
