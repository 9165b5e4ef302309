"""The code of matrix instructions: fragments loaded from shared memory by ``ldmatrix``, then ``mma.sync``.

The thread nest around is a warp's: its innermost loops are the lanes. In grid form their values are digits of thread
variables, so these are written as ``32 * warp + 4 * row + pair`` first; then the nest is compared with the meaning,
which gives where the operands of the warp begin and how they lie.
"""

from __future__ import annotations

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
from weft.target.cuda.emit_context import Function
from weft.target.cuda.emit_expr import emit_expr
from weft.target.cuda.emit_offset import emit_pointer, offset_expr

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
_MMA = """__device__ __forceinline__ void {name}(float& c0, float& c1, float& c2, float& c3, const unsigned (&a)[4],
                                         unsigned b0, unsigned b1) {{
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.{type}.{type}.f32 "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}"""


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in shared memory: the pointer to the warp's part, elements between its rows (or columns) and along k."""

    pointer: str
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


def emit_mma(f: Function, s: Tensorized, hardware: Hardware, type: str) -> bool:
    """The tensorized nest as matrix instructions; False where operands are not where they must be."""
    warp = _Warp.find(f)
    found = None if warp is None else warp.match(f, hardware, s.body)
    if warp is None or found is None:
        return False
    args = dict(zip((p.name for p in hardware.meaning.params), found))
    numbers = {name: int(e.value) for name, e in args.items() if isinstance(e, Const)}
    sums = args["C"]
    if any(not isinstance(e, (Const, AddressOf)) for e in args.values()) or not isinstance(sums, AddressOf):
        return False
    a, b = (warp.operand(f, args[n], numbers[row], numbers[k]) for n, row, k in _MATRICES)
    own = f.memory(sums.buffer).is_private and numbers["c_row"] == numbers["c_pair"] == 0
    if a is None or b is None or not own:
        return False
    with f.braces():
        f.line(f"const int lane = {emit_expr(f, warp.lane).text};")
        _emit_steps(f, a, b, sums, numbers, type)
    return True


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
        for complete in _complete(plain):
            found = match_hardware(hardware, complete, ranges, lanes)
            if not isinstance(found, Mismatch):
                return found
        return None

    def operand(self, f: Function, place: Expr, row: int, k: int) -> Operand | None:
        """Where a matrix is; None where its rows are not aligned or not in shared memory."""
        if not isinstance(place, AddressOf) or place.buffer.scope != "shared" or 1 not in (row, k):
            return None
        start = linear_offset(place.buffer, place.indices)
        pitch, size = max(row, k), place.buffer.dtype.itemsize
        steps = [] if start is None else [pitch, start.constant, *start.terms.values()]
        if start is None or any(step * size % ROW_BYTES for step in steps):
            return None
        indices = tuple(substitute(i, {self.number: self.back}) for i in place.indices)
        return Operand(emit_pointer(f, place.buffer, indices, emit_expr), row, k)


def _complete(nest: Stmt) -> list[Stmt]:
    """The nest with loops that simplifying takes away where they run once: over steps, tiles of rows or of columns."""
    loops: list[For] = []
    s = nest
    while isinstance(s, For):
        loops.append(s)
        s = s.body
    missing = 6 - len(loops)
    found: list[Stmt] = []
    for places in combinations((0, 1, 3), max(0, missing)):
        rest = iter(loops)
        once = (For(Var(f"once{n}_"), idx(0), idx(1), "serial", s) for n in range(6))
        whole = [next(once) if n in places else next(rest) for n in range(6)]
        body = s
        for loop in reversed(whole):
            body = replace(loop, body=body)
        found.append(body)
    return found


def _emit_steps(f: Function, a: Operand, b: Operand, sums: AddressOf, numbers: dict[str, int], type: str) -> None:
    """Each step's fragments are loaded while the step before is computed."""
    steps, columns = numbers["KS"], numbers["NJ"]
    f.line(f"unsigned a[2][{numbers['MI']}][4], b[2][{(columns + 1) // 2}][4];")
    low, high, middle = "lane % 16", "lane / 16 * 8", "lane / 8 % 2 * 8"
    corner = f"lane % 8 + {high}"
    at_a = f"({low}) * {a.pitch} + {high}" if not a.is_transposed else f"({corner}) * {a.pitch} + {middle}"
    at_b = f"({corner}) * {b.pitch} + {middle}" if not b.is_transposed else f"({low}) * {b.pitch} + {high}"
    f.line(f"const auto* const a_at = {a.pointer} + ({at_a});")
    f.line(f"const auto* const b_at = {b.pointer} + ({at_b});")
    _emit_loads(f, a, b, numbers, "0")
    f.line("#pragma unroll")
    with f.braces(f"for (int step = 0; step < {steps}; ++step)"):
        if steps > 1:
            with f.braces(f"if (step + 1 < {steps})"):
                _emit_loads(f, a, b, numbers, "step + 1")
        _emit_products(f, sums, numbers, type)


def _emit_loads(f: Function, a: Operand, b: Operand, numbers: dict[str, int], step: str) -> None:
    """Fragments of A, four matrices for 16 rows; of B, four for 16 columns, or two for the last 8."""
    turn = "0" if step == "0" else f"({step}) % 2"
    columns = numbers["NJ"]
    starts = [f"{name}_at" if step == "0" else f"{name}_at + ({step}) * {16 * m.k}" for name, m in (("a", a), ("b", b))]
    for i in range(numbers["MI"]):
        _emit_load(f, f"a[{turn}][{i}]", 4, a.is_transposed, f"{starts[0]} + {16 * i * a.row}")
    for j in range(columns // 2):
        _emit_load(f, f"b[{turn}][{j}]", 4, b.is_transposed, f"{starts[1]} + {16 * j * b.row}")
    if columns % 2:
        _emit_load(f, f"b[{turn}][{columns // 2}]", 2, b.is_transposed, f"{starts[1]} + {8 * (columns - 1) * b.row}")


def _emit_load(f: Function, to: str, count: int, transposed: bool, at: str) -> None:
    outs = ", ".join(f"%{i}" for i in range(count))
    regs = ", ".join(f'"=r"(x[{i}])' for i in range(count))
    name = f.define(f"load_matrices_x{count}", _LOAD.format(n=count, outs=outs, regs=regs))
    f.line(f"{name}<{'true' if transposed else 'false'}>({to}, {at});")


def _emit_products(f: Function, sums: AddressOf, numbers: dict[str, int], type: str) -> None:
    name = f.define(f"mma_{type}", _MMA.format(name=f"mma_{type}", type=type))
    base = emit_expr(f, offset_expr(sums.buffer, sums.indices)).text
    start = f.memory(sums.buffer).pointer
    steps = (0, numbers["c_odd"], numbers["c_half"], numbers["c_half"] + numbers["c_odd"])
    for i in range(numbers["MI"]):
        for j in range(numbers["NJ"]):
            at = i * numbers["c_mi"] + j * numbers["c_nj"]
            own = ", ".join(f"{start}[{at + n}]" if base == "0" else f"{start}[{base} + {at + n}]" for n in steps)
            right = ", ".join(f"b[step % 2][{j // 2}][{j % 2 * 2 + n}]" for n in (0, 1))
            f.line(f"{name}({own}, a[step % 2][{i}], {right});")
