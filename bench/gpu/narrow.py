"""Products of narrow types: floats of 8 bits with scales, bytes, weights of 4 bits that are unpacked on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.gpu.workloads import Make, Workload, defined

F8 = "float8_e4m3fn"
#: One scale for each operand, or one for each row of it.
SCALED = f"""def scaled({F8}(M,K) A, {F8}(N,K) B, float32(1) p, float32(1) q) -> (bfloat16(M,N) C) {{
    S(m,n) +=! float32(A(m,k)) * float32(B(n,k))
    C(m,n) = bfloat16(S(m,n) * (p(0) * q(0)))
}}"""
SCALED_ROWS = f"""def scaled_rows({F8}(M,K) A, {F8}(N,K) B, float32(M) p, float32(N) q) -> (bfloat16(M,N) C) {{
    S(m,n) +=! float32(A(m,k)) * float32(B(n,k))
    C(m,n) = bfloat16(S(m,n) * p(m) * q(n))
}}"""
BYTES = "def bytes(int8(M,K) A, int8(N,K) B) -> (int32(M,N) C) { C(m,n) +=! int32(A(m,k)) * int32(B(n,k)) }"
#: Two weights in a byte, the first in its low half; a scale for each row.
NIBBLES = """def nibbles(bfloat16(M,K) X, uint8(N,H) W, float32(N) q) -> (bfloat16(M,N) C) {
    D(n,k) = bfloat16(int32(k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16) - 8) where k in 0:K
    S(m,n) +=! float32(X(m,k)) * float32(D(n,k))
    C(m,n) = bfloat16(S(m,n) * q(n))
}"""

LARGE = [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 12288, 4096), (2048, 4096, 11008), (4096, 3072, 768)]
SMALL = [(512, 4096, 4096), (128, 4096, 4096), (16, 4096, 4096)]
FEW = [(m, *w) for w in ((4096, 4096), (14336, 4096)) for m in (1, 4, 16)]


def _draw(torch: Any, m: int, n: int, k: int) -> list[Any]:
    return [torch.randn(rows, k, device="cuda").to(torch.float8_e4m3fn) for rows in (m, n)]


def _floats(m: int, n: int, k: int, *, by_rows: bool) -> Make:
    counts = (m, n) if by_rows else (1, 1)
    return lambda torch: [*_draw(torch, m, n, k), *(torch.rand(c, device="cuda") + 0.5 for c in counts)]


def _scaled_mm(t: Any, a: Any, b: Any, p: Any, q: Any) -> Any:
    by_rows = p.numel() > 1
    if a.dtype == t.float64:
        return (a @ b.t()) * p[:, None] * q[None, :]
    scales = (p[:, None], q[None, :]) if by_rows else (p[0], q[0])
    return t._scaled_mm(a, b.t(), *scales, out_dtype=t.bfloat16, use_fast_accum=True)


def _integers(m: int, n: int, k: int) -> Make:
    return lambda torch: [torch.randint(-128, 128, (rows, k), dtype=torch.int8, device="cuda") for rows in (m, n)]


def _packed(m: int, n: int, k: int) -> Make:
    def make(torch: Any) -> Sequence[Any]:
        weights = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device="cuda")
        return [torch.randn(m, k, device="cuda").to(torch.bfloat16), weights, torch.rand(n, device="cuda")]

    return make


def _unpacked(t: Any, x: Any, w: Any, q: Any) -> Any:
    whole = t.stack([w & 15, w >> 4], -1).reshape(w.shape[0], -1).to(x.dtype) - 8
    return ((x @ whole.t()) * q).to(x.dtype)


def narrow() -> list[Workload]:
    """Those of issue 13's sixth part."""
    made = []
    for by_rows, text in ((False, SCALED), (True, SCALED_ROWS)):
        how = "by rows" if by_rows else "by tensor"
        for shape in (*LARGE, *SMALL):
            made.append(_work(f"float8 {how}", shape, "float8", text, _floats(*shape, by_rows=by_rows), _scaled_mm))
    for shape in (*LARGE, *SMALL[:2]):
        made.append(_work("int8", shape, "int8", BYTES, _integers(*shape), lambda t, a, b: t._int_mm(a, b.t())))
    for m, n, k in FEW:
        moved = n * k // 2 + 4 * n + 2 * m * (k + n)
        made.append(_work("int4", (m, n, k), "int4", NIBBLES, _packed(m, n, k), _unpacked, moved=moved))
    return made


def _work(
    name: str, shape: tuple[int, int, int], group: str, text: str, make: Make, run: Callable[..., Any], moved: int = 0
) -> Workload:
    m, n, k = shape
    return Workload(
        f"{name} {m}x{n}x{k}", group, defined(text), make, run, moved=moved, flops=2 * m * n * k, compiled=False
    )
