"""The code of products whose columns lie in memory: each lane loads 16 bytes at a time, its part of two instructions.

Those are 16 bytes of one column, along the depth: k are taken in that order for both operands.
"""

from __future__ import annotations

from weft.ir.expr import AddressOf, Call, Expr
from weft.ir.simplify import simplify
from weft.target.c_text.emit_expr import emit_expr
from weft.target.cuda.emit_context import LEVEL, Function
from weft.target.cuda.emit_mma import (
    ROW_BYTES,
    fragment_name,
    fragment_number,
    half_row,
    instruction_text,
    number_of,
    place_pointer,
)

#: 16 bytes that a lane has of a row, from memory that is read once; rows begin at multiples of fewer bytes where an
#: array does.
_FETCH = """template <int ALIGN> __device__ __forceinline__ void fetch_words(unsigned (&x)[4], const void* p) {
  if constexpr (ALIGN >= 16) {
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
#else
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
#endif
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "l"(p));
  } else if constexpr (ALIGN >= 4) {
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = ((const unsigned*)p)[i];
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (ALIGN == 2) {
        x[i] = ((const unsigned short*)p)[2 * i] | (unsigned)((const unsigned short*)p)[2 * i + 1] << 16;
      } else {
        const unsigned char* q = (const unsigned char*)p + 4 * i;
        x[i] = q[0] | (unsigned)q[1] << 8 | (unsigned)q[2] << 16 | (unsigned)q[3] << 24;
      }
    }
  }
}"""
#: The same from shared memory.
_READ = """__device__ __forceinline__ void read_words(unsigned (&x)[4], const void* p) {
  const uint4 y = *(const uint4*)p;
  x[0] = y.x, x[1] = y.y, x[2] = y.z, x[3] = y.w;
}"""
#: And as lanes have columns that they made.
_READ_HALVES = """__device__ __forceinline__ void read_halves(unsigned (&x)[4], const void* p) {
  const uint4 y = *(const uint4*)p;
  x[0] = __byte_perm(y.x, y.z, 0x5410), x[1] = __byte_perm(y.x, y.z, 0x7632);
  x[2] = __byte_perm(y.y, y.w, 0x5410), x[3] = __byte_perm(y.y, y.w, 0x7632);
}"""
#: Two rows of A, eight apart, and a column of B.
_TWICE = """__device__ __forceinline__ void twice_{name}({sums}& c0, {sums}& c1, {sums}& c2, {sums}& c3,
    const unsigned (&x)[4], const unsigned (&y)[4], const unsigned (&b)[4]) {{
  const unsigned first[4] = {{x[0], y[0], x[1], y[1]}}, second[4] = {{x[2], y[2], x[3], y[3]}};
  {name}(c0, c1, c2, c3, first, b[0], b[1]);
  {name}(c0, c1, c2, c3, second, b[2], b[3]);
}}"""


def emit_fetch_a(f: Function, type: str, call: Call) -> None:
    """16 rows of A for two steps, from shared memory: two rows of a lane."""
    _read_rows(f, call, f.define("read_words", _READ))


def emit_halve_a(f: Function, type: str, call: Call) -> None:
    """The same, as `in_halves` has columns."""
    _read_rows(f, call, f.define("read_halves", _READ_HALVES))


def _read_rows(f: Function, call: Call, read: str) -> None:
    to, place, lane, *numbers = call.args
    mi, step, row, _ = map(number_of, numbers)
    first = simplify(fragment_number(to) * 2)
    for half in range(2):
        source = f"{place_pointer(f, place)} + {_own_words(f, place, lane, row, step)} + {(16 * mi + 8 * half) * row}"
        f.line(f"{read}({fragment_name(f, to)}[{emit_expr(f, simplify(first + half)).text}], {source});")


def emit_fetch_b(f: Function, type: str, call: Call) -> None:
    """Columns of B for two steps, from memory."""
    to, place, lane, *numbers = call.args
    nj, count, step, column, _ = map(number_of, numbers)
    assert isinstance(place, AddressOf)
    fetch, first = f.define("fetch_words", _FETCH), fragment_number(to)
    align = min(ROW_BYTES, f.memory(place.buffer).align)
    for n in range(count):
        source = f"{place_pointer(f, place)} + {_own_words(f, place, lane, column, step)} + {8 * (nj + n) * column}"
        f.line(f"{fetch}<{align}>({fragment_name(f, to)}[{emit_expr(f, simplify(first + n)).text}], {source});")


def emit_halve_b(f: Function, type: str, call: Call) -> None:
    """Columns of B for two steps, which the lane has made."""
    to, place, _, *numbers = call.args
    nj, count, step, *_ = map(number_of, numbers)
    assert isinstance(place, AddressOf)
    read, first, own = f.define("read_words", _READ), fragment_number(to), f.memory(place.buffer).pointer
    for n in range(count):
        source = f"{own} + {(step * count + nj + n) * half_row(place)}"
        f.line(f"{read}({fragment_name(f, to)}[{emit_expr(f, simplify(first + n)).text}], {source});")


def _own_words(f: Function, place: Expr, lane: Expr, row: int, step: int) -> str:
    """What a lane has of 8 rows, as an offset: four lanes share what two steps have of a row."""
    at = emit_expr(f, lane).inside(LEVEL["*"])
    return f"({at} / 4 * {row} + {at} % 4 * {half_row(place)} + {4 * step * half_row(place)})"


def emit_twice(f: Function, type: str, call: Call) -> None:
    """Two instructions: 16 rows by 8 columns of two steps."""
    name, own = instruction_text(f, type, call)
    sums, a, b, *_ = call.args
    text = _TWICE.format(name=name, sums="int" if sums.buffer.dtype.is_integer else "float")  # type: ignore[attr-defined]
    rows = [f"{fragment_name(f, a)}[{emit_expr(f, simplify(fragment_number(a) * 2 + n)).text}]" for n in range(2)]
    column = f"{fragment_name(f, b)}[{emit_expr(f, fragment_number(b)).text}]"
    f.line(f"{f.define(f'twice_{name}', text)}({own}, {', '.join(rows)}, {column});")


#: What writes each of these steps.
FETCHES = {"fetch_a": emit_fetch_a, "fetch_b": emit_fetch_b, "halve_a": emit_halve_a, "halve_b": emit_halve_b,
           "twice": emit_twice}  # fmt: skip
