"""The matrix instructions of NVIDIA's GPUs as hardware intrinsics.

``mma.sync`` multiplies matrices that lie spread over the registers of a warp. What a lane computes is ordinary: of
every 16 by 8 tile of sums, lane ``(row, pair)`` has the elements in rows ``row`` and ``row + 8`` and columns
``2 * pair`` and ``2 * pair + 1``. So the nest that the intrinsic stands for is the one of a lane::

    thread row in 0:8, pair in 0:4:
      for step, mi, half, nj, odd, k:   C[16 mi + 8 half + row, 8 nj + 2 pair + odd] += A[.., k] * B[k, ..]

and sums that are kept by those thread loops are where the instruction wants them. A and B are in shared memory; their
fragments are loaded by ``ldmatrix``, transposed where k is not the dimension that lies side by side, and those of a
step while the step before is computed. B may also lie in memory, if k is the dimension that lies side by side there:
then lanes load (``fetch``) 16 bytes each, fragments of two steps, whose k are taken in another order on both sides. And
lanes may have made themselves what they bring of B: then a word of theirs has an element of the first half of such 16
bytes and one of the second (``halve``), as which integers are taken apart and rounded two at a time.

``wgmma`` multiplies with four warps, which have 16 rows each one after another. It reads A and B from shared memory
itself, in swizzled rows of 128 bytes, and works on its own until it is waited for; the nest of a lane is the same but
for columns in blocks of 64, as many as such a row has.

Elements of one byte lie side by side along the depth, and those of two types are multiplied with each other, floats
with floats and integers with integers; sums of integers are int32, and exact. Else the order of additions is the
hardware's own, so these are for fast numerics; of floats of 8 bits it keeps fewer bits than float32 has. ``mma_tf32``
moreover rounds what it multiplies to 10 bits of fraction, which is for those who ask for it by name or by
``numerics="tf32"``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.expr import Call
from weft.ir.hardware import Hardware, declare
from weft.ir.stmt import Tensorized

if TYPE_CHECKING:
    from weft.target.cuda.emit_context import Function

_MMA = """
kernel {name}(A: {t}[MI, 2, 8, KS, {k}] strides [16 * a_row, 8 * a_row, a_row, {k} * a_k, a_k],
              B: {u}[NJ, 4, 2, KS, {k}] strides [8 * b_col, 2 * b_col, b_col, {k} * b_k, b_k],
              out C: {c}[MI, 2, 8, NJ, 4, 2] strides [c_mi, c_half, c_row, c_nj, c_pair, c_odd],
              KS: int64, MI: int64, NJ: int64, a_row: int64, a_k: int64, b_col: int64, b_k: int64,
              c_mi: int64, c_half: int64, c_row: int64, c_nj: int64, c_pair: int64, c_odd: int64) {{
  thread row in 0:8 {{ thread pair in 0:4 {{
    for step in 0:KS {{ for mi in 0:MI {{ for half in 0:2 {{ for nj in 0:NJ {{ for odd in 0:2 {{ for k in 0:{k} {{
      C[mi, half, row, nj, pair, odd] = C[mi, half, row, nj, pair, odd] + {product}
    }} }} }} }} }} }}
  }} }}
}}"""
_WGMMA = """
kernel {name}(A: {t}[2, 8, KS, {k}] strides [8 * a_row, a_row, {k} * a_k, a_k],
              B: {u}[NB, NJ, 4, 2, KS, {k}] strides [b_block, 8 * b_col, 2 * b_col, b_col, {k} * b_k, b_k],
              out C: {c}[2, 8, NB, NJ, 4, 2] strides [c_half, c_row, c_block, c_nj, c_pair, c_odd],
              KS: int64, NB: int64, a_row: int64, a_k: int64, b_block: int64, b_col: int64, b_k: int64,
              c_half: int64, c_row: int64, c_block: int64, c_nj: int64, c_pair: int64, c_odd: int64, NJ: int64) {{
  thread row in 0:8 {{ thread pair in 0:4 {{
    for step in 0:KS {{ for half in 0:2 {{ for block in 0:NB {{ for nj in 0:NJ {{ for odd in 0:2 {{ for k in 0:{k} {{
      C[half, row, block, nj, pair, odd] = C[half, row, block, nj, pair, odd]
                                         + {c}(A[half, row, step, k]) * {c}(B[block, nj, pair, odd, step, k])
    }} }} }} }} }} }}
  }} }}
}}"""
#: What lowering makes of a nest: fragments of a step in registers of the warp, where each lane has, as far as the
#: meaning goes, all of its rows and columns; and the products of one row of fragments with one column.
_LOAD_A = """
kernel {name}_load_a(out X: {t}[2, {k}],
                     A: {t}[mi + 1, 2, 8, step + 1, {k}] strides [16 * row, 8 * row, row, {k} * along, along],
                     lane: int64, mi: int64, step: int64, row: int64, along: int64) {{
  for half in 0:2 {{ for k in 0:{k} {{ X[half, k] = A[mi, half, lane // 4, step, k] }} }}
}}"""
_LOAD_B = """
kernel {name}_load_b(out X: {u}[count, 2, {k}],
                     B: {u}[nj + count, 4, 2, step + 1, {k}] strides [8 * col, 2 * col, col, {k} * along, along],
                     lane: int64, nj: int64, count: int64, step: int64, col: int64, along: int64) {{
  for n in 0:count {{ for odd in 0:2 {{ for k in 0:{k} {{ X[n, odd, k] = B[nj + n, lane % 4, odd, step, k] }} }} }}
}}"""
_MULTIPLY = """
kernel {name}_multiply(out C: {c}[mi + 1, 2, nj + 1, 2] strides [c_mi, c_half, c_nj, c_odd],
                       A: {t}[2, {k}], B: {u}[2, {k}], mi: int64, nj: int64,
                       c_mi: int64, c_half: int64, c_nj: int64, c_odd: int64) {{
  for half in 0:2 {{ for odd in 0:2 {{ for k in 0:{k} {{
    C[mi, half, nj, odd] = C[mi, half, nj, odd] + {step_product}
  }} }} }}
}}"""
#: Fragments of two steps at once, and their products: in which order k are taken, is the instructions' business.
_FETCH_A, _FETCH_B = (t.replace("_load_", "_fetch_") for t in (_LOAD_A, _LOAD_B))
_HALVE_A, _HALVE_B = (t.replace("_load_", "_halve_") for t in (_LOAD_A, _LOAD_B))
_MULTIPLY_TWO = _MULTIPLY.replace("_multiply(", "_twice(")
#: The same for groups of warps: started, and done when it is waited for.
_START = """
kernel {name}_start(out C: {c}[2, NB, NJ, 2] strides [c_half, c_block, c_nj, c_odd],
                    A: {t}[4, 2, 8, KS, {k}] strides [16 * a_row, 8 * a_row, a_row, {k} * a_k, a_k],
                    B: {u}[NB, NJ, 4, 2, KS, {k}] strides [b_block, 8 * b_col, 2 * b_col, b_col, {k} * b_k, b_k],
                    lane: int64, KS: int64, NB: int64, a_row: int64, a_k: int64, b_block: int64, b_col: int64,
                    b_k: int64, c_half: int64, c_block: int64, c_nj: int64, c_odd: int64, NJ: int64) {{
  for step in 0:KS {{ for half in 0:2 {{ for block in 0:NB {{ for nj in 0:NJ {{ for odd in 0:2 {{ for k in 0:{k} {{
    C[half, block, nj, odd] = C[half, block, nj, odd]
      + {c}(A[lane // 32, half, lane % 32 // 4, step, k]) * {c}(B[block, nj, lane % 4, odd, step, k])
  }} }} }} }} }} }}
}}"""

#: The same for sums that begin with it, whatever was there.
_BEGIN = _START.replace("_start(", "_begin(").replace(
    "  for step in 0:KS",
    "  for half in 0:2 {{ for block in 0:NB {{ for nj in 0:NJ {{ for odd in 0:2 {{ C[half, block, nj, odd] = {zero} }}"
    " }} }} }}\n  for step in 0:KS",
    1,
)


def _left_to_loops(f: Function, s: Tensorized) -> bool:
    """What `select_products` has left has operands elsewhere than instructions need them."""
    return False


def _emit_call(f: Function, call: Call) -> bool:
    from weft.target.cuda.emit_fetch import FETCHES
    from weft.target.cuda.emit_mma import emit_load_a, emit_load_b, emit_multiply
    from weft.target.cuda.emit_wgmma import emit_begin, emit_start

    emits = {"load_a": emit_load_a, "load_b": emit_load_b, "multiply": emit_multiply, "start": emit_start,
             "begin": emit_begin, **FETCHES}  # fmt: skip
    intrinsic, _, what = call.name.partition("_")[2].partition("_")
    emits[what](f, intrinsic, call)
    return True


#: Bytes of a row of an operand that an instruction multiplies.
STEP_BYTES = 32


@dataclass(frozen=True, slots=True)
class Element:
    """What instructions multiply: how these call it, the type of its sums, what the instructions of a warp need."""

    short: str
    sums: str
    needs: str

    @property
    def is_exact(self) -> bool:
        """Whether it does not matter in which order sums are added up."""
        return self.sums == "int32"


ELEMENTS = {
    "bfloat16": Element("bf16", "float32", "bf16 mma"),
    "float16": Element("f16", "float32", "fp16 mma"),
    "float32": Element("tf32", "float32", "tf32 mma"),
    "float8_e4m3fn": Element("e4m3", "float32", "fp8 mma"),
    "float8_e5m2": Element("e5m2", "float32", "fp8 mma"),
    "int8": Element("s8", "int32", "int8 mma"),
    "uint8": Element("u8", "int32", "int8 mma"),
}


#: Types of rows and columns that are multiplied with each other.
_BYTES = (("float8_e4m3fn", "float8_e5m2"), ("int8", "uint8"))
PAIRS = [*((t, t) for t in ELEMENTS), *_BYTES, *((u, t) for t, u in _BYTES)]


def instruction_name(kind: str, types: Sequence[str]) -> str:
    """Of an instruction of warps (``mma``), or of groups of them (``wgmma``), for rows and columns of these types."""
    return f"{kind}_{'x'.join(dict.fromkeys(ELEMENTS[t].short for t in types))}"


def _declared(text: str, kind: str, types: tuple[str, str], *, is_step: bool = True, times: int = 1) -> Hardware:
    """An instruction for rows and columns of these ``types``, or a step of it, so many ``times`` as deep."""
    (t, u), own = types, ELEMENTS[types[0]]
    wide = "{}" if t == own.sums else f"{own.sums}({{}})"
    products = {"product": ("A[mi, half, row, step, k]", "B[nj, pair, odd, step, k]"),
                "step_product": ("A[half, k]", "B[odd, k]")}  # fmt: skip
    holes = {name: " * ".join(map(wide.format, pair)) for name, pair in products.items()}
    steps, zero = times * STEP_BYTES // SCALAR_TYPES[t].itemsize, "0.0" if own.sums == "float32" else f"{own.sums}(0)"
    whole = text.format(name=instruction_name(kind, types), t=t, u=u, c=own.sums, k=steps, zero=zero, **holes)
    name = whole.partition("kernel ")[2].partition("(")[0]
    needs = ("wgmma",) if kind == "wgmma" else (own.needs, "ldmatrix")
    emit = {"cuda": _emit_call if is_step else _left_to_loops}
    return declare(Hardware(name, whole, emit, needs, own.is_exact, is_step))


for _types in PAIRS:
    for _text in (_LOAD_A, _LOAD_B, _MULTIPLY):
        _declared(_text, "mma", _types)
    if "float32" not in _types:
        for _text in (_FETCH_A, _FETCH_B, _HALVE_A, _HALVE_B, _MULTIPLY_TWO):
            _declared(_text, "mma", _types, times=2)
        _declared(_START, "wgmma", _types)
        _declared(_BEGIN, "wgmma", _types)
MMA = tuple(_declared(_MMA, "mma", types, is_step=False) for types in PAIRS)
WGMMA = tuple(_declared(_WGMMA, "wgmma", types, is_step=False) for types in PAIRS if "float32" not in types)
