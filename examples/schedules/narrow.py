"""Matrix products of bytes and of bfloat16, by the dot product instructions of the CPU.

``vpdpbusd`` (VNNI) adds up four products of bytes in each of 16 lanes, ``vdpbf16ps`` (AVX512-BF16) two of
bfloat16. A machine without them executes the loops they stand for. ``python examples/schedules/narrow.py``
checks both.
"""

from __future__ import annotations

import functools

import numpy as np

import weft

#: Rows and columns of the tile of sums in registers; the lanes of an instruction.
ROWS, COLUMNS, LANES = 8, 32, 16

_BYTES = """
def matmul_bytes(uint8(M,K) A, int8(K,N) B) -> (int32(M,N) C) {
    C(m,n) +=! int32(A(m,k)) * int32(B(k,n))
}"""
_BFLOAT16 = """
def matmul_bfloat16(bfloat16(M,K) A, bfloat16(K,N) B) -> (float32(M,N) C) {
    C(m,n) +=! float32(A(m,k)) * float32(B(k,n))
}"""


@functools.cache
def definition(text: str) -> weft.Operator:
    return weft.define(text)


def _by_dots(text: str, m: int, n: int, k: int, group: int, instruction: str) -> weft.Operator:
    """``group`` rows of B interleaved; a tile of sums in registers, made by ``instruction``."""
    s = weft.schedule(definition(text), A=(m, k), B=(k, n), numerics="fast")
    i, j, r = s.loops("C")
    ro, ri = s.split(r, group)
    jo, jr = s.split(j, COLUMNS)
    jm, ji = s.split(jr, LANES)
    io, ii = s.split(i, ROWS)
    load, _ = s.pack("B", f"j/{COLUMNS} i/{group} j%{COLUMNS} i%{group}", pad=True)
    assert load is not None  # an argument cannot be stored in another order without a copy
    panel, _, column, row = s.loops(load)
    s.reorder(row, column)
    s.vectorize(column)
    s.unroll(row)
    s.parallel(panel)
    s.reorder(jo, io, ro, ii, jm, ji, ri)
    s.cache_write("C", scope="register", at=io)
    s.unroll(ii)
    s.unroll(jm)
    if n % COLUMNS or k % group:  # the instruction does whole groups only
        s.vectorize(ji)
    else:
        s.tensorize(ji, instruction)
    s.parallel(jo)
    return s.build()


def schedule_matmul_bytes(m: int, n: int, k: int) -> weft.Operator:
    """uint8 times int8, summed in int32."""
    return _by_dots(_BYTES, m, n, k, 4, "vpdpbusd")


def schedule_matmul_bfloat16(m: int, n: int, k: int) -> weft.Operator:
    """bfloat16 products summed in float32."""
    return _by_dots(_BFLOAT16, m, n, k, 2, "vdpbf16ps")


def main(m: int = 64, n: int = 96, k: int = 128) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
    assert np.array_equal(schedule_matmul_bytes(m, n, k)(a, b), a.astype(np.int32) @ b.astype(np.int32))
    import ml_dtypes

    x, y = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((m, k), (k, n)))
    expected = x.astype(np.float32) @ y.astype(np.float32)
    np.testing.assert_allclose(schedule_matmul_bfloat16(m, n, k)(x, y), expected, rtol=1e-3, atol=1e-3)
    print("both agree with numpy")


if __name__ == "__main__":
    main()
