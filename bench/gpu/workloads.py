"""What is measured: a Weft operator, what PyTorch computes the same with, arguments, and bytes that must move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import weft

Make = Callable[[Any], Sequence[Any]]

#: Rows and columns of most of the work, and odd ones: rows then start at no multiple of 16 bytes.
BIG, ODD = (16384, 4096), (16383, 4093)

SCALE_CHAIN = (
    "def chain(bfloat16(M,N) X, bfloat16(M,N) R) -> (bfloat16(M,N) O) { O(m,n) = (X(m,n) + R(m,n)) * 0.5 + X(m,n) }"
)
CAST = "def cast(bfloat16(M,N) X) -> (float32(M,N) O) { O(m,n) = float32(X(m,n)) }"
ARGMIN = "def first_least(bfloat16(M,N) X) -> (I) { I(m) argmin=! X(m,n) }"
CROSS_ENTROPY = """def cross_entropy(bfloat16(M,N) X, int(M) Label) -> (float32(M) L) {
    Chosen(m) = float32(X(m,Label(m)))
    Top(m) max=! X(m,n)
    Total(m) +=! exp(float32(X(m,n)) - Top(m))
    L(m) = log(Total(m)) + Top(m) - Chosen(m)
}"""
BLUR = """def blur(float32(H,W) A) -> (O) {
    B(i,j) = (A(i,j) + A(i,j+1) + A(i,j+2)) / 3 where i in 0:H, j in 0:W-2
    O(i,j) = (B(i,j) + B(i+1,j) + B(i+2,j)) / 3 where i in 0:H-2, j in 0:W-2
}"""


@dataclass(frozen=True)
class Workload:
    """``torch_run(torch, *args)`` computes the same; ``moved`` are bytes that must be read and written, ``flops`` work.

    ``exact`` gives what is right in float64, where that is not what ``torch_run`` gives for float64 arguments. With
    ``graphs`` calls are timed as CUDA graphs, without what the host does for each; never where PyTorch cannot be
    ``recorded``: its backward passes run on the stream of their forward pass.
    """

    name: str
    group: str
    op: Callable[[], Any]
    make: Make
    torch_run: Callable[..., Any]
    moved: int = 0
    flops: int = 0
    tolerance: float = 1e-2
    compiled: bool = True
    exact: Callable[..., Any] | None = None
    graphs: bool = False
    recorded: bool = True


def library(name: str, dtype: str = "bfloat16") -> Callable[[], Any]:
    return lambda: weft.ops.get(name, dtype)


def defined(text: str) -> Callable[[], Any]:
    return lambda: weft.define(text)


def normal(*shapes: tuple[int, ...], dtype: str = "bfloat16") -> Make:
    def make(torch: Any) -> Sequence[Any]:
        return [torch.randn(s, device="cuda", dtype=torch.float32).to(getattr(torch, dtype)) for s in shapes]

    return make


def _labels(rows: int, columns: int) -> Make:
    def make(torch: Any) -> Sequence[Any]:
        label = torch.randint(0, columns, (rows,), device="cuda", dtype=torch.int32)
        return [*normal((rows, columns))(torch), label]

    return make


def _table(rows: int, width: int, bags: int, each: int) -> Make:
    def make(torch: Any) -> Sequence[Any]:
        index = torch.randint(0, rows, (bags, each), device="cuda", dtype=torch.int32)
        return [torch.randn(rows, width, device="cuda"), index]

    return make


def _scattered(count: int, width: int, rows: int) -> Make:
    def make(torch: Any) -> Sequence[Any]:
        index = torch.randint(0, rows, (count,), device="cuda", dtype=torch.int32)
        return [torch.randn(count, width, device="cuda"), index, rows]

    return make


def _functional(name: str, **options: Any) -> Callable[..., Any]:
    def run(torch: Any, *args: Any) -> Any:
        return getattr(torch.nn.functional, name)(*args, **options)

    return run


def _streams(shape: tuple[int, int], suffix: str) -> list[Workload]:
    rows, columns = shape
    size = rows * columns
    gelu = _functional("gelu")
    return [
        Workload(f"copy{suffix}", "stream", library("copy"), normal(shape), lambda t, x: x.clone(), 4 * size),
        Workload(
            f"bias + GELU{suffix}", "stream", library("bias_gelu"), normal(shape, (columns,)),
            lambda t, x, b: gelu(t, x + b), 4 * size,
        ),
        Workload(
            f"residual, add, scale{suffix}", "stream", defined(SCALE_CHAIN), normal(shape, shape),
            lambda t, x, r: (x + r) * 0.5 + x, 6 * size,
        ),
        Workload(f"cast to float32{suffix}", "stream", defined(CAST), normal(shape), lambda t, x: x.float(), 6 * size),
    ]  # fmt: skip


def _rows(shape: tuple[int, int], suffix: str) -> list[Workload]:
    rows, columns = shape
    size, row = rows * columns, (columns,)
    return [
        Workload(
            f"softmax{suffix}", "rows", library("softmax"), normal(shape), lambda t, x: t.softmax(x, 1), 4 * size
        ),
        Workload(
            f"layer norm{suffix}", "rows", library("layer_norm"), normal(shape, row, row),
            lambda t, x, g, b: t.nn.functional.layer_norm(x, row, g, b, 1e-5), 4 * size, tolerance=2e-2,
        ),
        Workload(
            f"RMS norm{suffix}", "rows", library("rms_norm"), normal(shape, row),
            lambda t, x, g: t.nn.functional.rms_norm(x, row, g, 1e-5), 4 * size, tolerance=2e-2,
        ),
        Workload(f"row sums{suffix}", "rows", library("sum_rows"), normal(shape), lambda t, x: x.sum(1), 2 * size),
        Workload(
            f"column sums{suffix}", "rows", library("sum_columns"), normal(shape), lambda t, x: x.sum(0), 2 * size
        ),
        Workload(
            f"cross entropy{suffix}", "rows", defined(CROSS_ENTROPY), _labels(rows, columns),
            lambda t, x, i: t.nn.functional.cross_entropy(x.float(), i.long(), reduction="none"), 2 * size,
        ),
    ]  # fmt: skip


def _moves() -> list[Workload]:
    square, image = (8192, 8192), (32, 64, 112, 112)
    bags, each, width, table = 16384, 32, 128, 100_000
    count, rows = 1 << 20, 100_000
    pool = _functional("max_pool2d", kernel_size=3, stride=2)
    return [
        Workload(
            "transpose", "moves", library("transpose"), normal(square), lambda t, x: x.t().contiguous(), 4 * 8192**2
        ),
        Workload(
            "max pool 3x3, stride 2", "moves", _pool, lambda t: [*normal(image)(t), 3, 2],
            lambda t, x, k, s: pool(t, x), 2 * 32 * 64 * (112 * 112 + 55 * 55),
        ),
        Workload(
            "blur 3x3", "moves", defined(BLUR), normal(square, dtype="float32"),
            lambda t, x: t.nn.functional.avg_pool2d(x[None, None], 3, 1)[0, 0], 8 * 8192**2, tolerance=1e-5,
        ),
        Workload(
            "1LUT", "moves", library("lut1", "float32"), _table(table, width, bags, each),
            lambda t, table, i: t.nn.functional.embedding_bag(i, table, mode="sum"),
            4 * (bags * each * (width + 1) + bags * width), tolerance=1e-5,
        ),
        Workload(
            "first least of rows", "moves", defined(ARGMIN), normal(BIG), lambda t, x: x.argmin(1), 2 * BIG[0] * BIG[1],
            tolerance=0.0,
        ),
        Workload(
            "scatter add", "moves", library("scatter_add", "float32"), _scattered(count, 64, rows),
            lambda t, x, i, n: t.zeros(n, x.shape[1], device=x.device, dtype=x.dtype).index_add_(0, i, x),
            4 * (count * 65 + 2 * rows * 64), tolerance=1e-5,
        ),
    ]  # fmt: skip


def _pool() -> Any:
    return weft.ops.get("max_pool2d", "bfloat16")


def _products() -> list[Workload]:
    op = library("matmul", "float32")
    return [
        Workload(
            f"matmul float32 {n}", "matmul float32", op, normal((n, n), (n, n), dtype="float32"),
            lambda t, a, b: a @ b, flops=2 * n**3, tolerance=1e-5, compiled=False,
        )
        for n in (1024, 2048, 4096)
    ]  # fmt: skip


def workloads() -> list[Workload]:
    """All of them, in the order of the table."""
    even = [*_streams(BIG, ""), *_rows(BIG, ""), *_moves(), *_products()]
    return [*even, *_streams(ODD, ", odd"), *_rows(ODD, ", odd")]
