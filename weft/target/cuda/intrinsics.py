"""The matrix instructions of NVIDIA's GPUs as hardware intrinsics.

``mma.sync`` multiplies matrices that lie spread over the registers of a warp. What a lane computes is ordinary: of
every 16 by 8 tile of sums, lane ``(row, pair)`` has the elements in rows ``row`` and ``row + 8`` and columns
``2 * pair`` and ``2 * pair + 1``. So the nest that the intrinsic stands for is the one of a lane::

    thread row in 0:8, pair in 0:4:
      for step, mi, half, nj, odd, k:   C[16 mi + 8 half + row, 8 nj + 2 pair + odd] += A[.., k] * B[k, ..]

and sums that are kept by those thread loops are where the instruction wants them. A and B are in shared memory; their
fragments are loaded by ``ldmatrix``, transposed where k is not the dimension that lies side by side, and those of a
step while the step before is computed.

``wgmma`` multiplies with four warps, which have 16 rows each one after another. It reads A and B from shared memory
itself, in swizzled rows of 128 bytes, and works on its own until it is waited for; the nest of a lane is the same but
for columns in blocks of 64, as many as such a row has.

The order of additions is the hardware's own, so these are for fast numerics. ``mma_tf32`` moreover rounds what it
multiplies to 10 bits of fraction, which is for those who ask for it by name or by ``numerics="tf32"``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.ir.hardware import HARDWARE, Hardware, declare
from weft.ir.stmt import Tensorized

if TYPE_CHECKING:
    from weft.target.cuda.emit_context import Function

_MMA = """
kernel {name}(A: {t}[MI, 2, 8, KS, {k}] strides [16 * a_row, 8 * a_row, a_row, {k} * a_k, a_k],
              B: {t}[NJ, 4, 2, KS, {k}] strides [8 * b_col, 2 * b_col, b_col, {k} * b_k, b_k],
              out C: float32[MI, 2, 8, NJ, 4, 2] strides [c_mi, c_half, c_row, c_nj, c_pair, c_odd],
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
              B: {t}[NB, 8, 4, 2, KS, {k}] strides [b_block, 8 * b_col, 2 * b_col, b_col, {k} * b_k, b_k],
              out C: float32[2, 8, NB, 8, 4, 2] strides [c_half, c_row, c_block, c_nj, c_pair, c_odd],
              KS: int64, NB: int64, a_row: int64, a_k: int64, b_block: int64, b_col: int64, b_k: int64,
              c_half: int64, c_row: int64, c_block: int64, c_nj: int64, c_pair: int64, c_odd: int64) {{
  thread row in 0:8 {{ thread pair in 0:4 {{
    for step in 0:KS {{ for half in 0:2 {{ for block in 0:NB {{ for nj in 0:8 {{ for odd in 0:2 {{ for k in 0:{k} {{
      C[half, row, block, nj, pair, odd] = C[half, row, block, nj, pair, odd]
                                         + float32(A[half, row, step, k]) * float32(B[block, nj, pair, odd, step, k])
    }} }} }} }} }} }}
  }} }}
}}"""
_WIDENED = "float32(A[mi, half, row, step, k]) * float32(B[nj, pair, odd, step, k])"
_ROUNDED = "A[mi, half, row, step, k] * B[nj, pair, odd, step, k]"


def _emit(f: Function, s: Tensorized) -> bool:
    from weft.target.cuda.emit_mma import emit_mma

    return emit_mma(f, s, HARDWARE[s.intrinsic], s.intrinsic.removeprefix("mma_"))


def _mma(name: str, dtype: str, k: int, product: str, needs: tuple[str, ...]) -> Hardware:
    text = _MMA.format(name=name, t=dtype, k=k, product=product)
    return Hardware(name, text, {"cuda": _emit}, needs, exact=False)


MMA = (
    _mma("mma_bf16", "bfloat16", 16, _WIDENED, ("bf16 mma", "ldmatrix")),
    _mma("mma_f16", "float16", 16, _WIDENED, ("fp16 mma", "ldmatrix")),
    _mma("mma_tf32", "float32", 8, _ROUNDED, ("tf32 mma", "ldmatrix")),
)


def _emit_groups(f: Function, s: Tensorized) -> bool:
    from weft.target.cuda.emit_wgmma import emit_wgmma

    return emit_wgmma(f, s, HARDWARE[s.intrinsic])


def _wgmma(name: str, dtype: str, k: int, needs: tuple[str, ...]) -> Hardware:
    return Hardware(name, _WGMMA.format(name=name, t=dtype, k=k), {"cuda": _emit_groups}, needs, exact=False)


WGMMA = (
    _wgmma("wgmma_bf16", "bfloat16", 16, ("wgmma",)),
    _wgmma("wgmma_f16", "float16", 16, ("wgmma",)),
)

for _known in (*MMA, *WGMMA):
    declare(_known)
