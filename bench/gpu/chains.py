"""Two layers of few neurons one after the other, for many rows: what is between need not go through memory."""

from __future__ import annotations

from typing import Any

from bench.gpu.workloads import Workload, defined, normal

TEXT = """def layers(bfloat16(M,K) X, bfloat16(H,K) W, bfloat16(H) B, bfloat16(N,H) V, bfloat16(N) D)
    -> (bfloat16(M,N) O) {
    P(m,h) +=! X(m,k) * W(h,k)
    A(m,h) = max(P(m,h) + B(h), 0)
    Q(m,n) +=! A(m,h) * V(n,h)
    O(m,n) = Q(m,n) + D(n)
}"""
#: Rows, and neurons of the three layers.
SIZES = [
    (1 << 20, 64, 64, 64), (1 << 19, 128, 128, 128), (1 << 17, 256, 256, 256), (1 << 18, 128, 256, 128),
    (1 << 18, 64, 256, 64), (1 << 18, 256, 64, 256), (1 << 19, 64, 128, 64),
    (16384, 128, 128, 128), (100_000, 128, 128, 64),
]  # fmt: skip


def _layers(t: Any, x: Any, w: Any, b: Any, v: Any, d: Any) -> Any:
    linear = t.nn.functional.linear
    return linear(linear(x, w, b).relu(), v, d)


def _scaled(m: int, k: int, h: int, n: int) -> Any:
    def make(torch: Any) -> Any:
        x, w, b, v, d = normal((m, k), (h, k), (h,), (n, h), (n,))(torch)
        return [x, w * k**-0.5, b, v * h**-0.5, d]

    return make


def chains() -> list[Workload]:
    return [
        Workload(
            f"layers {m}x{k}x{h}x{n}", "chains", defined(TEXT), _scaled(m, k, h, n), _layers,
            moved=2 * (m * (k + n) + h * (k + n)), flops=2 * m * h * (k + n),
        )
        for m, k, h, n in SIZES
    ]  # fmt: skip
