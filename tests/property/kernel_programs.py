"""Loop programs as text, on random small sizes: what schedules meet that no tensor program lowers to.

In-place stencils, triangles, wavefronts, guards, while loops, early exits, lets, atomics and indirect
subscripts; and beside them random loop programs of no shape at all.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from loop_programs import random_kernel
from test_cpu_matches_interpreter import kernels

from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel

#: ``{N}`` and ``{M}`` are sizes, ``{T}`` an element type.
TEXTS = (
    """kernel seidel(out A: {T}[{N}, {M}]) {{ for t in 0:2 {{ for i in 1:{N} - 1 {{ for j in 1:{M} - 1 {{
      block s(vt reduce 0:2 = t, vi spatial 1:{N} - 1 = i, vj spatial 1:{M} - 1 = j)
        reads A[vi - 1, vj], A[vi, vj - 1], A[vi, vj + 1] writes A[vi, vj] {{
        A[vi, vj] = A[vi - 1, vj] + A[vi, vj - 1] - A[vi, vj + 1] }} }} }} }} }}""",
    """kernel heat(out A: {T}[{N}], out B: {T}[{N}]) {{ for t in 0:3 {{
      for i in 1:{N} - 1 {{ block b(v spatial 1:{N} - 1 = i) reads A[v - 1 +: 3] writes B[v] {{
        B[v] = A[v - 1] - A[v] + A[v + 1] }} }}
      for i in 1:{N} - 1 {{ block a(v spatial 1:{N} - 1 = i) reads B[v] writes A[v] {{
        A[v] = B[v] + A[v] }} }} }} }}""",
    """kernel solve(L: {T}[{N}, {N}], out x: {T}[{N}]) {{ for i in 0:{N} {{
      for j in 0:i {{ block u(vi spatial 0:{N} = i, vj reduce 0:{N} = j) reads L[vi, vj], x[vj] writes x[vi] {{
        x[vi] = x[vi] - L[vi, vj] * x[vj] }} }}
      block d(vi spatial 0:{N} = i) reads L[vi, vi] writes x[vi] {{ x[vi] = x[vi] + L[vi, vi] }} }} }}""",
    """kernel lu(out A: {T}[{N}, {N}]) {{ for k in 0:{N} {{ for i in k + 1:{N} {{
      block l(vi spatial 0:{N} = i, vk spatial 0:{N} = k) reads A[vk, vk] writes A[vi, vk] {{
        A[vi, vk] = A[vi, vk] - A[vk, vk] }}
      for j in k + 1:{N} {{ block u(vi spatial 0:{N} = i, vj spatial 0:{N} = j, vk reduce 0:{N} = k)
        reads A[vi, vk], A[vk, vj] writes A[vi, vj] {{ A[vi, vj] = A[vi, vj] - A[vi, vk] * A[vk, vj] }} }} }} }} }}""",
    """kernel paths(out D: {T}[{N}, {N}]) {{ for k in 0:{N} {{ for i in 0:{N} {{ for j in 0:{N} {{
      D[i, j] = min(D[i, j], D[i, k] + D[k, j]) }} }} }} }}""",
    """kernel align(S: {T}[{N}, {M}], out H: {T}[{N}, {M}]) {{ for i in 1:{N} {{ for j in 1:{M} {{
      block h(vi spatial 1:{N} = i, vj spatial 1:{M} = j) reads S[vi, vj], H[vi - 1 +: 2, vj - 1 +: 2]
        writes H[vi, vj] {{
        H[vi, vj] = max(H[vi - 1, vj - 1] + S[vi, vj], max(H[vi - 1, vj], H[vi, vj - 1])) }} }} }} }}""",
    """kernel band(A: {T}[{N}, {N}], out y: {T}[{N}]) {{ for i in 0:{N} {{ for j in 0:{N} {{
      if j - i < 2 && i - j < 2 {{ block y(vi spatial 0:{N} = i, vj reduce 0:{N} = j) reads A[vi, vj] writes y[vi] {{
        y[vi] = y[vi] + A[vi, vj] }} }} }} }} }}""",
    """kernel upper(A: {T}[{N}, {N}], out C: {T}[{N}, {N}]) {{ for i in 0:{N} {{ for j in i:{N} {{ for k in i:j + 1 {{
      block c(vi spatial 0:{N} = i, vj spatial 0:{N} = j, vk reduce 0:{N} = k) reads A[vi, vk], A[vk, vj]
        writes C[vi, vj] {{ C[vi, vj] = C[vi, vj] + A[vi, vk] * A[vk, vj] }} }} }} }} }}""",
    """kernel collatz(X: int32[{N}], out Y: int32[{N}]) {{ for i in 0:{N} {{
      let n: int32 = X[i] & 63_i32
      let c: int32 = 0_i32
      while n > 1_i32 && c < 40_i32 {{ n = n % 2_i32 == 0_i32 ? n // 2_i32 : n * 3_i32 + 1_i32 c = c + 1_i32 }}
      Y[i] = c }} }}""",
    """kernel early(A: {T}[{N}, {M}], out y: {T}[{N}]) {{ for i in 0:{N} {{ for j in 0:{M} {{
      if A[i, j] > A[i, 0] {{ break }} y[i] = A[i, j] }} }} }}""",
    """kernel histogram(I: int32[{N}], out H: int32[8]) {{ for i in 0:{N} {{
      block h(v reduce 0:{N} = i) reads I[v], H[0 +: 8] writes H[0 +: 8] {{
        H[int64(I[v] & 7_i32)] = H[int64(I[v] & 7_i32)] + 1_i32 }} }} }}""",
    """kernel pairs(A: {T}[{N}, {M}], out B: {T}[{N}, {M}], out C: {T}[{N}, {M}]) {{ for i in 0:{N} {{ for j in 0:{M} {{
      block b(vi spatial 0:{N} = i, vj spatial 0:{M} = j) reads A[vi, vj] writes B[vi, vj] {{
        B[vi, vj] = A[vi, vj] + {T}(1) }}
      block c(vi spatial 0:{N} = i, vj spatial 0:{M} = j) reads A[vi, vj], B[vi, vj] writes C[vi, vj] {{
        C[vi, vj] = B[vi, vj] - A[vi, vj] * A[vi, vj] }} }} }} }}""",
    """kernel halves(A: {T}[{N}, {M}], out B: {T}[{N}, {M}]) {{ for i in 0:{N} {{ for j in 0:{M} {{
      if i < {N} // 2 {{ B[i, j] = A[i, j] }} else {{ B[i, j] = A[i, j] - A[{N} - 1 - i, j] }} }} }} }}""",
    """kernel rows(A: {T}[{N}, {M}], out B: {T}[{N}], out C: {T}[{N}, {M}]) {{ alloc S: {T}[{N}]
      for i in 0:{N} {{ for j in 0:{M} {{ block s(vi spatial 0:{N} = i, vj reduce 0:{M} = j) reads A[vi, vj]
        writes S[vi] {{ init {{ S[vi] = {T}(0) }} S[vi] = S[vi] + A[vi, vj] }} }} }}
      for i in 0:{N} {{ block b(v spatial 0:{N} = i) reads S[v] writes B[v] {{ B[v] = S[v] + {T}(1) }} }}
      for i in 0:{N} {{ for j in 0:{M} {{ block c(vi spatial 0:{N} = i, vj spatial 0:{M} = j) reads S[vi], A[vi, vj]
        writes C[vi, vj] {{ C[vi, vj] = A[vi, vj] - S[vi] }} }} }} }}""",
    """kernel sums(A: {T}[{N}, {M}], out P: {T}[{N}, {M}]) {{ for i in 0:{N} {{ let x: {T} = {T}(0) for j in 0:{M} {{
      x = x + A[i, j] P[i, j] = x }} }} }}""",
    """kernel shared(A: {T}[{N}, 8], out B: {T}[{N}, 8]) {{ parallel i in 0:{N} {{ alloc S: {T}[8] in local
      for j in 0:8 {{ block s(vi spatial 0:{N} = i, vj spatial 0:8 = j) reads A[vi, vj] writes S[vj] {{
        S[vj] = A[vi, vj] }} }}
      for j in 0:8 {{ block b(vi spatial 0:{N} = i, vj spatial 0:8 = j) reads S[7 - vj], A[vi, vj] writes B[vi, vj] {{
        B[vi, vj] = S[7 - vj] + A[vi, vj] }} }} }} }}""",
    """kernel mixed(A: {T}[{N}, {M}], B: {T}[{M}, {N}], out C: {T}[{N}, {N}]) {{ for i in 0:{N} {{ for j in 0:{N} {{
      block z(vi spatial 0:{N} = i, vj spatial 0:{N} = j) writes C[vi, vj] {{ C[vi, vj] = {T}(0) }}
      for k in 0:{M} {{ block c(vi spatial 0:{N} = i, vj spatial 0:{N} = j, vk reduce 0:{M} = k)
        reads A[vi, vk], B[vk, vj] writes C[vi, vj] {{ C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj] }} }} }} }} }}""",
    """kernel dots(A: {T}[{N}, 8], B: {T}[{M}, 8], out C: {T}[{N}, {M}]) {{ for i in 0:{N} {{ for j in 0:{M} {{
      for k in 0:2 {{ for q in 0:4 {{
        block c(vi spatial 0:{N} = i, vj spatial 0:{M} = j, vk reduce 0:8 = k * 4 + q) reads A[vi, vk], B[vj, vk]
          writes C[vi, vj] {{ C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk] }} }} }} }} }} }}""",
)  # fmt: skip
SIZES = st.sampled_from([2, 3, 4, 5, 7, 8, 9])
TYPES = st.sampled_from(["float32", "float32", "int32", "float64", "int8"])


@st.composite
def kernel_programs(draw: Any) -> Kernel:
    if not draw(st.integers(0, 3)):
        return draw(kernels())  # type: ignore[no-any-return]
    if not draw(st.integers(0, 7)):
        return random_kernel(draw(st.integers(0, 2**32 - 1)), runnable=True)
    text = draw(st.sampled_from(TEXTS))
    return parse_kernel(text.format(N=draw(SIZES), M=draw(SIZES), T=draw(TYPES)))
