"""Programs whose dependences are no boxes, as plain loops: the classics of polyhedral compilation."""

from __future__ import annotations

import re

from weft.ir.parser import parse_kernel
from weft.ir.stmt import Kernel
from weft.schedules.make_blocks import make_blocks

PROGRAMS = """
kernel gemver(A: float32[N, N], u: float32[N], v: float32[N], p: float32[N], q: float32[N], y: float32[N],
              z: float32[N], out B: float32[N, N], out x: float32[N], out w: float32[N]) {
  for i in 0:N { for j in 0:N { B[i, j] = A[i, j] + u[i] * v[j] + p[i] * q[j] } }
  for i in 0:N { x[i] = z[i] }
  for i in 0:N { for j in 0:N { x[i] = x[i] + B[j, i] * y[j] } }
  for i in 0:N { w[i] = 0.0 }
  for i in 0:N { for j in 0:N { w[i] = w[i] + B[i, j] * x[j] } }
}
kernel atax(A: float32[N, N], x: float32[N], out y: float32[N], out v: float32[N]) {
  for i in 0:N { v[i] = 0.0 }
  for i in 0:N { for j in 0:N { v[i] = v[i] + A[i, j] * x[j] } }
  for i in 0:N { y[i] = 0.0 }
  for i in 0:N { for j in 0:N { y[i] = y[i] + A[j, i] * v[j] } }
}
kernel bicg(A: float32[N, N], r: float32[N], p: float32[N], out s: float32[N], out q: float32[N]) {
  for i in 0:N { for j in 0:N { s[i] = s[i] + A[j, i] * r[j] } }
  for i in 0:N { for j in 0:N { q[i] = q[i] + A[i, j] * p[j] } }
}
kernel mvt(A: float32[N, N], y: float32[N], z: float32[N], out p: float32[N], out q: float32[N]) {
  for i in 0:N { for j in 0:N { p[i] = p[i] + A[i, j] * y[j] } }
  for i in 0:N { for j in 0:N { q[i] = q[i] + A[j, i] * z[j] } }
}
kernel gemm(A: float32[N, N], B: float32[N, N], out C: float32[N, N]) {
  for i in 0:N { for j in 0:N { for k in 0:N { C[i, j] = C[i, j] + A[i, k] * B[k, j] } } }
}
kernel two_mm(A: float32[N, N], B: float32[N, N], D: float32[N, N], out C: float32[N, N], out E: float32[N, N]) {
  for i in 0:N { for j in 0:N { for k in 0:N { C[i, j] = C[i, j] + A[i, k] * B[k, j] } } }
  for i in 0:N { for j in 0:N { for k in 0:N { E[i, j] = E[i, j] + C[i, k] * D[k, j] } } }
}
kernel jacobi_1d(out A: float32[N], out B: float32[N]) {
  for t in 0:T {
    for i in 1:N - 1 { B[i] = 0.33333 * (A[i - 1] + A[i] + A[i + 1]) }
    for i in 1:N - 1 { A[i] = 0.33333 * (B[i - 1] + B[i] + B[i + 1]) }
  }
}
kernel jacobi_2d(out A: float32[N, N], out B: float32[N, N]) {
  for t in 0:T {
    for i in 1:N - 1 { for j in 1:N - 1 {
      B[i, j] = 0.2 * (A[i, j] + A[i, j - 1] + A[i, j + 1] + A[i + 1, j] + A[i - 1, j]) } }
    for i in 1:N - 1 { for j in 1:N - 1 {
      A[i, j] = 0.2 * (B[i, j] + B[i, j - 1] + B[i, j + 1] + B[i + 1, j] + B[i - 1, j]) } }
  }
}
kernel heat_3d(out A: float32[N, N, N], out B: float32[N, N, N]) {
  for t in 0:T {
    for i in 1:N - 1 { for j in 1:N - 1 { for k in 1:N - 1 {
      B[i, j, k] = 0.125 * (A[i + 1, j, k] - 2.0 * A[i, j, k] + A[i - 1, j, k])
                 + 0.125 * (A[i, j + 1, k] - 2.0 * A[i, j, k] + A[i, j - 1, k])
                 + 0.125 * (A[i, j, k + 1] - 2.0 * A[i, j, k] + A[i, j, k - 1]) + A[i, j, k] } } }
    for i in 1:N - 1 { for j in 1:N - 1 { for k in 1:N - 1 {
      A[i, j, k] = 0.125 * (B[i + 1, j, k] - 2.0 * B[i, j, k] + B[i - 1, j, k])
                 + 0.125 * (B[i, j + 1, k] - 2.0 * B[i, j, k] + B[i, j - 1, k])
                 + 0.125 * (B[i, j, k + 1] - 2.0 * B[i, j, k] + B[i, j, k - 1]) + B[i, j, k] } } }
  }
}
kernel heat_1d(out A: float32[N]) {
  for t in 0:T { for i in 1:N - 1 { A[i] = 0.25 * A[i - 1] + 0.5 * A[i] + 0.25 * A[i + 1] } }
}
kernel seidel_2d(out A: float32[N, N]) {
  for t in 0:T { for i in 1:N - 1 { for j in 1:N - 1 {
    A[i, j] = (A[i - 1, j - 1] + A[i - 1, j] + A[i - 1, j + 1] + A[i, j - 1] + A[i, j] + A[i, j + 1]
             + A[i + 1, j - 1] + A[i + 1, j] + A[i + 1, j + 1]) / 9.0 } } }
}
kernel lu(out A: float32[N, N]) {
  for k in 0:N {
    for i in k + 1:N { A[i, k] = A[i, k] / A[k, k] }
    for i in k + 1:N { for j in k + 1:N { A[i, j] = A[i, j] - A[i, k] * A[k, j] } }
  }
}
kernel trisolv(L: float32[N, N], b: float32[N], out x: float32[N]) {
  for i in 0:N {
    x[i] = b[i]
    for j in 0:i { x[i] = x[i] - L[i, j] * x[j] }
    x[i] = x[i] / L[i, i]
  }
}
kernel needleman_wunsch(S: float32[N, N], out H: float32[N, N]) {
  for i in 1:N { for j in 1:N {
    H[i, j] = max(max(H[i - 1, j - 1] + S[i, j], H[i - 1, j] - 1.0), H[i, j - 1] - 1.0) } }
}
kernel floyd_warshall(out D: float32[N, N]) {
  for k in 0:N { for i in 0:N { for j in 0:N { D[i, j] = min(D[i, j], D[i, k] + D[k, j]) } } }
}
"""
TEXTS = {text.split("(")[0]: "kernel " + text for text in PROGRAMS.split("\nkernel ")[1:]}


def program(name: str, n: int, t: int = 5) -> Kernel:
    """The program with ``N`` and ``T`` as given."""
    return make_blocks(parse_kernel(re.sub(r"\bT\b", str(t), re.sub(r"\bN\b", str(n), TEXTS[name]))))
