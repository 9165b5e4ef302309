"""Products of narrow types: floats of 8 bits with scales, bytes, weights of 4 bits that are unpacked on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
#: A scale for 128 elements of each row of A, and for each square of 128 x 128 of B.
BLOCKED = f"""def blocked({F8}(M,K) A, {F8}(N,K) B, float32(M,G) p, float32(L,G) q) -> (bfloat16(M,N) C) {{
    S(m,n) +=! float32(A(m,k)) * float32(B(n,k)) * p(m,k/128) * q(n/128,k/128)
    C(m,n) = bfloat16(S(m,n))
}}"""
#: A scale for 128 elements of each row of both.
BYTE_BLOCKS = """def byte_blocks(int8(M,G,B) X, int8(N,G,B) W, float32(M,G) p, float32(N,G) q) -> (bfloat16(M,N) C) {
    P(m,n,g) +=! int32(X(m,g,k)) * int32(W(n,g,k))
    S(m,n) +=! float32(P(m,n,g)) * p(m,g) * q(n,g)
    C(m,n) = bfloat16(S(m,n))
}"""
BYTES = "def bytes(int8(M,K) A, int8(N,K) B) -> (int32(M,N) C) { C(m,n) +=! int32(A(m,k)) * int32(B(n,k)) }"
#: Two weights in a byte, the first in its low half; a scale for each row.
NIBBLES = """def nibbles(bfloat16(M,K) X, uint8(N,H) W, float32(N) q) -> (bfloat16(M,N) C) {
    D(n,k) = bfloat16(int32(k % 2 == 0 ? W(n,k/2) % 16 : W(n,k/2) / 16) - 8) where k in 0:K
    S(m,n) +=! float32(X(m,k)) * float32(D(n,k))
    C(m,n) = bfloat16(S(m,n) * q(n))
}"""

LARGE = [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 12288, 4096), (2048, 4096, 11008), (4096, 3072, 768)]
SMALL = [(512, 4096, 4096), (128, 4096, 4096), (16, 4096, 4096)]
#: Of DeepSeek's layers, and others.
BLOCK_SHAPES = [(2048, 4096, 7168), (4096, 7168, 2048), (512, 7168, 4096), (1000, 1536, 4096), (128, 4096, 7168)]
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


def _blocks(m: int, n: int, k: int) -> Make:
    shapes = ((m, k // 128), (-(-n // 128), k // 128))
    return lambda torch: [*_draw(torch, m, n, k), *(torch.rand(s, device="cuda") + 0.5 for s in shapes)]


def _by_blocks(t: Any, a: Any, b: Any, p: Any, q: Any) -> Any:
    """PyTorch's product with one scale for each operand is what this is held against: it does less."""
    if a.dtype == t.float64:
        return (a * p.repeat_interleave(128, 1)) @ (b * _squares(q, b.shape[0])).t()
    return t._scaled_mm(a, b.t(), p[0, 0], q[0, 0], out_dtype=t.bfloat16, use_fast_accum=True)


def _squares(q: Any, rows: int) -> Any:
    return q.repeat_interleave(128, 0)[:rows].repeat_interleave(128, 1)


def _byte_blocks(m: int, n: int, k: int) -> Make:
    def make(torch: Any) -> Sequence[Any]:
        whole = [x.reshape(len(x), -1, 128) for x in _integers(m, n, k)(torch)]
        return [*whole, *(torch.rand((rows, k // 128), device="cuda") / 4096 for rows in (m, n))]

    return make


def _bytes_by_rows(t: Any, a: Any, b: Any, p: Any, q: Any) -> Any:
    return (t._int_mm(a.flatten(1), b.flatten(1).t()) * (p[:, :1] * q[:, 0])).bfloat16()


def _exact_bytes(t: Any, a: Any, b: Any, p: Any, q: Any) -> Any:
    one, other = (x.double() * s[:, :, None] for x, s in ((a, p), (b, q)))
    return one.flatten(1) @ other.flatten(1).t()


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
    for shape in (*LARGE[:1], *BLOCK_SHAPES):
        made.append(_work("float8 by blocks", shape, "float8 blocks", BLOCKED, _blocks(*shape), _by_blocks))
    for shape in (*LARGE[:1], *BLOCK_SHAPES[:2]):
        work = _work("int8 by blocks", shape, "int8 blocks", BYTE_BLOCKS, _byte_blocks(*shape), _bytes_by_rows)
        made.append(replace(work, exact=_exact_bytes))
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
