"""The code of matrix instructions: fragments loaded from shared memory by ``ldmatrix``, then ``mma.sync``.

A fragment is some registers of every lane. As far as the program goes, a lane has all of its own rows or columns; where
an element really lies is the instructions' business, so such a buffer is declared as the registers that it takes
(`find_fragments`): 4 for 16 rows, 2 for 8 columns, and twice as many where lanes fetch two steps (`emit_fetch`).
"""

from __future__ import annotations

from weft.ir.expr import AddressOf, Call, Const, Expr
from weft.ir.hardware import HARDWARE
from weft.ir.nesting import statements_in
from weft.ir.simplify import simplify
from weft.ir.stmt import Evaluate, Stmt
from weft.target.c_text.emit_expr import emit_expr, emit_pointer, offset_expr
from weft.target.cuda.emit_context import LEVEL, Function

#: Bytes of a row that ``ldmatrix`` takes; an instruction multiplies two of them.
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
_MMA = """__device__ __forceinline__ void {name}({sums}& c0, {sums}& c1, {sums}& c2, {sums}& c3, const unsigned (&a)[4],
                                         unsigned b0, unsigned b1) {{
  asm volatile("mma.sync.aligned.m16n8k{depth}.row.col.{ptx}.{types}.{ptx} "
               "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
               : "+{letter}"(c0), "+{letter}"(c1), "+{letter}"(c2), "+{letter}"(c3)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}}"""

#: Registers of a fragment, by what loads it.
_REGISTERS = {"load_a": 4, "load_b": 2, "fetch_a": 8, "fetch_b": 4, "halve_a": 8, "halve_b": 4}


def find_fragments(body: Stmt) -> dict[str, int]:
    """The buffers of a launch that are fragments, each with the registers that a lane has of it."""
    calls = [n.call for n in statements_in(body, Evaluate) if n.call.name in HARDWARE]
    addresses: dict[str, int] = {}
    for call in calls:
        each = _REGISTERS.get("_".join(call.name.split("_")[-2:]), 0)
        place = call.args[0]
        if each and isinstance(place, AddressOf):
            slots, count = place.buffer.shape[:2]
            addresses[place.buffer.name] = number_of(slots) * number_of(count) * each
    return addresses


def find_halved(body: Stmt) -> frozenset[str]:
    """Columns that lanes have made: their words have an element of the first half of 16 bytes and one of the second."""
    calls = (n.call for n in statements_in(body, Evaluate) if n.call.name.endswith("_halve_b"))
    return frozenset(c.args[1].buffer.name for c in calls if isinstance(c.args[1], AddressOf))


def fragment_number(place: Expr) -> Expr:
    """Which of the fragments of its buffer begins at ``place``."""
    assert isinstance(place, AddressOf)
    return simplify(place.indices[0] * place.buffer.shape[1] + place.indices[1])


def fragment_name(f: Function, place: Expr) -> str:
    assert isinstance(place, AddressOf)
    return f.memory(place.buffer).pointer


def emit_load_a(f: Function, type: str, call: Call) -> None:
    """A fragment of A, four matrices for 16 rows."""
    to, place, lane, *numbers = call.args
    mi, step, row, k = map(number_of, numbers)
    half, at = half_row(place), emit_expr(f, lane).inside(LEVEL["*"])
    low, corner = f"{at} % 16", f"{at} % 8 + {at} / 16 * 8"
    if k == 1:
        own = f"({low}) * {row} + {at} / 16 * {half}"
    else:
        own = f"{at} % 4 * {k} + {at} / 4" if type == "tf32" else f"({corner}) * {k} + {at} / 8 % 2 * {half}"
    source = f"{place_pointer(f, place)} + ({own}) + {step * 2 * half * k + 16 * mi * row}"
    _emit_load(
        f,
        type,
        f"{fragment_name(f, to)}[{emit_expr(f, fragment_number(to)).text}]",
        4,
        None if k == 1 else (8, 4 * k),
        source,
    )


def emit_load_b(f: Function, type: str, call: Call) -> None:
    """Fragments of B, two matrices each: those of 16 columns, or of 8."""
    to, place, lane, *numbers = call.args
    nj, count, step, column, k = map(number_of, numbers)
    half, at = half_row(place), emit_expr(f, lane).inside(LEVEL["*"])
    low, corner = f"{at} % 16", f"{at} % 8 + {at} / 16 * 8"
    if k == 1:
        own = f"({corner}) * {column} + {at} / 8 % 2 * {half}"
    else:
        own = f"{at} % 4 * {k} + {at} / 4" if type == "tf32" else f"({low}) * {k} + {at} / 16 * {half}"
    source = f"{place_pointer(f, place)} + ({own}) + {step * 2 * half * k + 8 * nj * column}"
    apart = None if k == 1 else (4 * k, 8 if count == 2 else 0)
    row = simplify(fragment_number(to) // 2)
    _emit_load(f, type, f"{fragment_name(f, to)}[{emit_expr(f, row).text}]", 2 * count, apart, source)


def number_of(e: Expr) -> int:
    assert isinstance(e, Const)
    return int(e.value)


def half_row(place: Expr) -> int:
    """Elements of a row that ``ldmatrix`` takes."""
    assert isinstance(place, AddressOf)
    return ROW_BYTES // place.buffer.dtype.itemsize


def place_pointer(f: Function, place: Expr) -> str:
    assert isinstance(place, AddressOf)
    return emit_pointer(f, place.buffer, place.indices)


def _emit_load(f: Function, type: str, to: str, count: int, apart: tuple[int, int] | None, at: str) -> None:
    """A fragment; ``apart`` is how far its words are, where the depth is not what lies side by side."""
    if type != "tf32":
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


def ptx_types(type: str) -> str:
    """Of rows and columns, as instructions are told them."""
    first, *others = type.split("x")
    return ".".join([first, *(others or [first])])


def emit_multiply(f: Function, type: str, call: Call) -> None:
    """One instruction: 16 rows by 8 columns."""
    name, own = instruction_text(f, type, call)
    _, a, b, *_ = call.args
    left, column = f"{fragment_name(f, a)}[{emit_expr(f, fragment_number(a)).text}]", fragment_number(b)
    right = f"{fragment_name(f, b)}[{emit_expr(f, simplify(column // 2, f.ranges)).text}]"
    word = emit_expr(f, simplify(column % 2 * 2, f.ranges))
    f.line(f"{name}({own}, {left}, {right}[{word.text}], {right}[{word.inside(LEVEL['+'])} + 1]);")


def instruction_text(f: Function, type: str, call: Call) -> tuple[str, str]:
    """The function of one instruction, and the four sums of a lane that it adds to."""
    sums, a, _, mi, nj, *numbers = call.args
    assert isinstance(sums, AddressOf)
    c_mi, half, c_nj, odd = map(number_of, numbers)
    depth = 2 * ROW_BYTES // a.buffer.dtype.itemsize  # type: ignore[attr-defined]
    letter, ptx, own_type = ("r", "s32", "int") if sums.buffer.dtype.is_integer else ("f", "f32", "float")
    text = _MMA.format(name=f"mma_{type}", types=ptx_types(type), depth=depth, letter=letter, ptx=ptx, sums=own_type)
    first = offset_expr(sums.buffer, sums.indices) + mi * c_mi + nj * c_nj
    pointer = f.memory(sums.buffer).pointer
    own = ", ".join(f"{pointer}[{emit_expr(f, simplify(first + n)).text}]" for n in (0, odd, half, half + odd))
    return f.define(f"mma_{type}", text), own
