"""The CUDA text of typical kernels, as it reads; and that NVRTC needs no local memory for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.ir.parser import parse_kernel
from weft.target.cuda.lower import emit_kernel, ptx
from weft.target.cuda.machine import gpu_for_arch
from weft.target.cuda.nvrtc import resource_usage

H200 = gpu_for_arch("sm_90")
KERNELS = {
    "pointwise": """kernel bias_scale(A: bfloat16[1000, 4096], b: bfloat16[4096], out C: bfloat16[1000, 4096]) {
      block r in 0:1000 { thread t in 0:256 { unroll c in 0:2 { vector v in 0:8 {
        C[r, c*2048 + t*8 + v] = bfloat16(float32(A[r, c*2048 + t*8 + v]) * 0.5 + float32(b[c*2048 + t*8 + v]))
      } } } } }""",
    "rows": """kernel softmax(A: bfloat16[1024, 4096], out C: bfloat16[1024, 4096]) {
      block r in 0:1024 {
        alloc e: float32[4096]
        alloc p: float32[256]
        alloc m: float32[1]
        alloc q: float32[256]
        alloc s: float32[1]
        thread t in 0:256 {
          p[t] = -inf
          unroll c in 0:2 { vector v in 0:8 { e[c*2048 + t*8 + v] = float32(A[r, c*2048 + t*8 + v]) } }
          unroll c in 0:2 { unroll v in 0:8 { p[t] = max(p[t], e[c*2048 + t*8 + v]) } } }
        m[0] = -inf
        for t in 0:256 { m[0] = max(m[0], p[t]) }
        thread t in 0:256 {
          q[t] = 0.0
          unroll c in 0:2 { unroll v in 0:8 {
            e[c*2048 + t*8 + v] = exp(e[c*2048 + t*8 + v] - m[0])
            q[t] = q[t] + e[c*2048 + t*8 + v] } } }
        s[0] = 0.0
        for t in 0:256 { s[0] = s[0] + q[t] }
        thread t in 0:256 { unroll c in 0:2 { vector v in 0:8 {
          C[r, c*2048 + t*8 + v] = bfloat16(e[c*2048 + t*8 + v] / s[0]) } } } } }""",
    "matmul": """kernel matmul(A: float32[1024, 512], B: float32[512, 1024], out C: float32[1024, 1024]) {
      block bi in 0:8 { block bj in 0:8 {
        alloc Cl: float32[128, 128]
        thread ty in 0:16 { thread tx in 0:16 {
          unroll i in 0:8 { unroll j in 0:8 { Cl[ty*8 + i, tx*8 + j] = 0.0 } } } }
        for ko in 0:32 {
          alloc As: float32[16, 128] in shared
          alloc Bs: float32[16, 128] in shared
          thread t in 0:256 { unroll u in 0:8 {
            As[t % 16, u*16 + t // 16] = A[bi*128 + u*16 + t // 16, ko*16 + t % 16] } }
          thread t in 0:256 { unroll u in 0:2 { vector v in 0:4 {
            Bs[u*8 + t // 32, t % 32*4 + v] = B[ko*16 + u*8 + t // 32, bj*128 + t % 32*4 + v] } } }
          thread ty in 0:16 { thread tx in 0:16 { for ki in 0:16 { unroll i in 0:8 { unroll j in 0:8 {
            Cl[ty*8 + i, tx*8 + j] = Cl[ty*8 + i, tx*8 + j] + As[ki, ty*8 + i] * Bs[ki, tx*8 + j] } } } } } }
        thread ty in 0:16 { thread tx in 0:16 { unroll i in 0:8 { vector j in 0:8 {
          C[bi*128 + ty*8 + i, bj*128 + tx*8 + j] = Cl[ty*8 + i, tx*8 + j] } } } } } } }""",
    "transpose": """kernel transpose(A: float32[M, N], M: int64, N: int64, out B: float32[N, M]) {
      block bi in 0:(M + 31) // 32 { block bj in 0:(N + 31) // 32 {
        alloc T: float32[32, 33] in shared
        thread ty in 0:8 { thread tx in 0:32 { unroll u in 0:4 {
          if bi*32 + u*8 + ty < M && bj*32 + tx < N { T[u*8 + ty, tx] = A[bi*32 + u*8 + ty, bj*32 + tx] } } } }
        thread ty in 0:8 { thread tx in 0:32 { unroll u in 0:4 {
          if bj*32 + u*8 + ty < N && bi*32 + tx < M { B[bj*32 + u*8 + ty, bi*32 + tx] = T[tx, u*8 + ty] } } } }
      } } }""",
    "lookup": """kernel count(I: int32[5000], W: float16[5000], out H: float32[100]) {
      for i in 0:5000 { assert I[i] >= 0_i32 && I[i] < 100_i32, "index {0} of I is {1}", i, int64(I[i]) }
      block b in 0:1 { thread t in 0:100 { H[t] = 0.0 } }
      block b in 0:20 { thread t in 0:256 { if b*256 + t < 5000 {
        atomic H[int64(I[b*256 + t])] += float32(W[b*256 + t]) } } } }""",
}


@pytest.mark.parametrize("name", KERNELS)
def test_text(name: str, golden: Callable[[str, str], None]) -> None:
    kernel = parse_kernel(KERNELS[name], f"{name}.loops")
    aligned = {b.name: 16 for b in kernel.buffers}
    golden(f"cuda/{name}.cu", emit_kernel(kernel, H200, fast=True, aligned=aligned))


@pytest.mark.parametrize("name", KERNELS)
def test_arrays_of_a_thread_are_registers_and_accesses_are_wide(name: str) -> None:
    kernel = parse_kernel(KERNELS[name])
    made = ptx(kernel, H200, fast=True, aligned={b.name: 16 for b in kernel.buffers})
    assert ".local" not in made
    assert ("ld.global.nc.v4" in made) == (name in ("pointwise", "rows", "matmul"))


@pytest.mark.parametrize("name", KERNELS)
def test_registers_suffice(name: str) -> None:
    kernel = parse_kernel(KERNELS[name])
    text = emit_kernel(kernel, H200, fast=True, aligned={b.name: 16 for b in kernel.buffers})
    usage = resource_usage(text, "sm_90", fast=True)
    assert len(usage) == text.count("__global__")
    assert all(0 < u.registers <= 255 and u.spilled == 0 for u in usage.values())


@pytest.mark.parametrize("threads", [7, 64])
def test_what_threads_exchange_is_loaded_after_each_barrier(threads: int) -> None:
    """Told that nothing else reaches ``B``, the compiler would let threads keep what they loaded before."""
    kernel = parse_kernel(f"""kernel k(out A: float32[{threads}], out B: float32[{threads}], X: float32[3]) {{
      for n in 0:3 {{
        for i in 0:{threads} {{ B[i] = A[i] - X[n] }}
        thread t in 0:{threads} {{ A[t] = B[t] + A[t] }} }} }}""")
    head = emit_kernel(kernel, H200).partition("__global__")[2].partition(") {")[0]
    assert "float* A" in head
    assert "float* B" in head
    assert "const float* __restrict__ X" in head


def test_minima_of_minima_are_kept_apart() -> None:
    """Compilers before 13.4 lose the minus here."""
    kernel = parse_kernel("""kernel k(A: int32[8], B: int32[8], out C: int32[8]) { thread t in 0:8 {
      C[t] = min(min(A[t], -B[t]), A[min(t, min(int64(B[t]), 3))]) } }""")
    text = emit_kernel(kernel, H200)
    assert "C[t] = apart(least<int>(apart(least<int>(A[t], wrap_neg<int>(B[t])))" in text
    assert "A[least<int>(t, apart(least<int>(B[t], 3)))]" in text


def test_a_program_that_does_nothing() -> None:
    assert "__global__" not in emit_kernel(parse_kernel("kernel k(out A: float32[3]) { seq { } }"), H200)


def test_digits_of_an_index_are_cut_off_from_below() -> None:
    """Of the other way to write this compilers make something else, in places."""
    kernel = parse_kernel("""kernel k(A: float32[128], out B: float32[128]) { thread t in 0:128 {
      B[t] = A[t % 64 // 8 * 9 + t % 8] } }""")
    assert "A[((t >> 3) & 7) * 9 + (t & 7)]" in emit_kernel(kernel, H200)


def test_small_integers_become_floats_without_a_conversion() -> None:
    """What lies in the fraction of a float, by its range; others are converted."""
    text = """kernel f(A: uint8[256], B: int32[256], out C: float32[256], out D: float32[256]) {
      block b in 0:2 { thread t in 0:128 {
        C[b*128 + t] = float32(int32(A[b*128 + t]) - int32(8))
        D[b*128 + t] = float32(B[b*128 + t]) } } }"""
    source = emit_kernel(parse_kernel(text), H200)
    assert source.count("= small_float(") == 1
    assert "(float)B[" in source
