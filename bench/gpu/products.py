"""Products of matrices, as language models and others have them, against cuBLAS through PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.gpu.workloads import Workload, defined, normal

#: What each layout reads: subscripts of the left and the right operand.
LAYOUTS = {"": ("m,k", "k,n"), "B turned": ("m,k", "n,k"), "A turned": ("k,m", "k,n"), "both turned": ("k,m", "n,k")}

#: Rows, columns, depth: squares, odd ones, and layers whose weights are rows by depth, as PyTorch keeps them.
SQUARE = [(n, n, n) for n in (1024, 2048, 4096, 8192)]
UNEVEN = [(4096, 4096, 11008), (512, 4096, 4096), (128, 4096, 4096), (1000, 1048, 264), (4093, 4091, 4095)]
LAYERS = {
    "BERT": [(4096, 768, 768), (4096, 3072, 768), (4096, 768, 3072)],
    "ViT": [(6304, 2304, 768), (6304, 3072, 768)],
    "GPT-2": [(1024, 2304, 768), (1024, 50304, 768)],
    "Llama": [(2048, 4096, 4096), (2048, 12288, 4096), (2048, 22016, 4096), (2048, 4096, 11008)],
    "Llama, short": [(512, 6144, 4096), (256, 28672, 4096), (64, 4096, 4096)],
}
#: Batches, rows, columns, depth.
BATCHED = [(64, 512, 512, 64), (64, 512, 64, 512), (16, 1024, 1024, 128)]
#: Rows, columns, depth of decoding.
FEW_ROWS = [(m, *w) for w in ((4096, 4096), (14336, 4096), (4096, 14336)) for m in (1, 2, 4, 8, 16)]

GELU = "0.5 * S(m,n) * (1 + erf(S(m,n) * 0.70710678))"
LINEAR_GELU = f"""def linear_gelu(bfloat16(M,K) X, bfloat16(N,K) W, bfloat16(N) B) -> (bfloat16(M,N) O) {{
    P(m,n) +=! float32(X(m,k)) * float32(W(n,k))
    S(m,n) = P(m,n) + float32(B(n))
    O(m,n) = bfloat16({GELU})
}}"""
RESIDUAL = """def residual(bfloat16(M,K) X, bfloat16(N,K) W, bfloat16(N) B, bfloat16(M,N) R) -> (bfloat16(M,N) O) {
    P(m,n) +=! float32(X(m,k)) * float32(W(n,k))
    O(m,n) = bfloat16(P(m,n) + float32(B(n)) + float32(R(m,n)))
}"""
SWIGLU = """def swiglu(bfloat16(M,K) X, bfloat16(N,K) W, bfloat16(N,K) V) -> (bfloat16(M,N) O) {
    G(m,n) +=! float32(X(m,k)) * float32(W(n,k))
    U(m,n) +=! float32(X(m,k)) * float32(V(n,k))
    O(m,n) = bfloat16(G(m,n) * sigmoid(G(m,n)) * U(m,n))
}"""


def _definition(left: str, right: str, dtype: str) -> str:
    shapes = (axes.upper() for axes in (left, right))
    given = ", ".join(f"{dtype}({shape}) {name}" for name, shape in zip("AB", shapes))
    return f"def product({given}) -> ({dtype}(M,N) C) {{ C(m,n) +=! A({left}) * B({right}) }}"


def _turn(x: Any, turned: bool) -> Any:
    return x.t() if turned else x


def product(m: int, n: int, k: int, layout: str = "", dtype: str = "bfloat16", group: str = "products") -> Workload:
    """One product; ``moved`` is told where memory decides."""
    left, right = LAYOUTS[layout]
    sizes = {"m": m, "n": n, "k": k}
    shapes = [tuple(sizes[a] for a in axes.split(",")) for axes in (left, right)]
    few = group == "few rows"
    return Workload(
        f"{m}x{n}x{k}{', ' if layout else ''}{layout}{'' if dtype == 'bfloat16' else f', {dtype}'}", group,
        defined(_definition(left, right, dtype)), normal(*shapes, dtype=dtype),
        lambda t, a, b: _turn(a, left == "k,m") @ _turn(b, right == "n,k"),
        moved=2 * (m * k + n * k + m * n) if few else 0, flops=2 * m * n * k, compiled=False,
    )  # fmt: skip


def _batched(b: int, m: int, n: int, k: int) -> Workload:
    text = (
        "def batched(bfloat16(B,M,K) X, bfloat16(B,K,N) Y) -> (bfloat16(B,M,N) Z) { Z(b,m,n) +=! X(b,m,k) * Y(b,k,n) }"
    )
    return Workload(
        f"batched {b}x{m}x{n}x{k}", "products", defined(text), normal((b, m, k), (b, k, n)), lambda t, x, y: x @ y,
        flops=2 * b * m * n * k, compiled=False,
    )  # fmt: skip


def _linear(t: Any) -> Callable[..., Any]:
    return t.nn.functional.linear  # type: ignore[no-any-return]


#: A definition, the same in PyTorch, and rows, columns and depth; then what it has besides two operands, by axes.
FUSED: list[tuple[str, str, Callable[..., Any], list[tuple[int, int, int]], tuple[str, ...]]] = [
    (
        "linear + GELU", LINEAR_GELU, lambda t, x, w, b: t.nn.functional.gelu(_linear(t)(x, w, b)),
        [(4096, 4096, 4096), (4096, 3072, 768), (2048, 11008, 4096)], ("n",),
    ),
    (
        "linear + residual", RESIDUAL, lambda t, x, w, b, r: _linear(t)(x, w, b) + r,
        [(4096, 4096, 4096), (4096, 768, 3072)], ("n", "mn"),
    ),
    (
        "SwiGLU", SWIGLU, lambda t, x, w, v: t.nn.functional.silu(_linear(t)(x, w)) * _linear(t)(x, v),
        [(2048, 11008, 4096), (4096, 5632, 2048)], ("nk",),
    ),
]  # fmt: skip


def fused() -> list[Workload]:
    """Products with what is done with their sums."""
    made = []
    for name, text, run, every, more in FUSED:
        for m, n, k in every:
            sizes = {"m": m, "n": n, "k": k}
            shapes = [tuple(sizes[a] for a in axes) for axes in ("mk", "nk", *more)]
            weights = sum(axes == "nk" for axes in ("nk", *more))
            made.append(
                Workload(
                    f"{name} {m}x{n}x{k}", "fused products", defined(text), _scaled(shapes), run,
                    flops=2 * weights * m * n * k,
                )
            )  # fmt: skip
    return made


def _scaled(shapes: Sequence[tuple[int, ...]]) -> Callable[[Any], Sequence[Any]]:
    """The first operand so small that sums are about 1."""

    def make(torch: Any) -> Sequence[Any]:
        first, *others = normal(*shapes)(torch)
        return [first * shapes[0][-1] ** -0.5, *others]

    return make


def products() -> list[Workload]:
    """Those of issue 13's bars."""
    plain = [product(*shape) for shape in (*SQUARE, *UNEVEN)]
    turned = [product(4096, 4096, 4096, layout) for layout in LAYOUTS if layout]
    layers = [product(*shape, "B turned") for shapes in LAYERS.values() for shape in shapes]
    narrow = [product(4096, 4096, 4096, "B turned", "float16")]
    few = [product(*shape, layout, group="few rows") for layout in ("B turned", "") for shape in FEW_ROWS]
    return [*plain, *turned, *layers, *narrow, *(_batched(*shape) for shape in BATCHED), *few, *fused()]
