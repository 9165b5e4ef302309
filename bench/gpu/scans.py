"""Running sums and their like, and histograms: against PyTorch's own, and against a copy of as many bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.gpu.workloads import Workload, defined, normal

SUMS = """def running_sums(float(M,N) X) -> (float(M,N) S) {
    S(m,0) = X(m,0)
    S(m,t) = S(m,t-1) + X(m,t) where t in 1:N
}"""
COLUMN_SUMS = """def running_column_sums(float(N,M) X) -> (float(N,M) S) {
    S(0,m) = X(0,m)
    S(t,m) = S(t-1,m) + X(t,m) where t in 1:N
}"""
MAXIMA = """def running_maxima(float(M,N) X) -> (float(M,N) S) {
    S(m,0) = X(m,0)
    S(m,t) = max(S(m,t-1), X(m,t)) where t in 1:N
}"""
LINEAR = """def recurrence(float(M,N) A, float(M,N) B) -> (float(M,N) H) {
    H(m,0) = B(m,0)
    H(m,t) = A(m,t) * H(m,t-1) + B(m,t) where t in 1:N
}"""
SCATTER = (
    "def scatter(float(E,D) X, int(E) I, int N) -> (float(N,D) S) { S(I(e),d) +=! X(e,d) where e in 0:E, d in 0:D }"
)
HISTOGRAM = "def histogram(int(E) I, int N) -> (int(N) H) { H(I(e)) +=! 1 where e in 0:E }"


def _recur(t: Any, a: Any, b: Any) -> Any:
    rows = [b[:, 0]]
    for n in range(1, b.shape[1]):
        rows.append(a[:, n] * rows[-1] + b[:, n])
    return t.stack(rows, 1)


def _decaying(torch: Any) -> Sequence[Any]:
    a, b = normal((4096, 4096), (4096, 4096), dtype="float32")(torch)
    return [a.sigmoid(), b]


def _drawn(count: int, bins: int) -> Callable[[Any], Sequence[Any]]:
    return lambda torch: [torch.randint(0, bins, (count,), device="cuda", dtype=torch.int32), bins]


def _rows_and_places(count: int, width: int, rows: int) -> Callable[[Any], Sequence[Any]]:
    def make(torch: Any) -> Sequence[Any]:
        where = torch.randint(0, rows, (count,), device="cuda", dtype=torch.int32)
        return [torch.randn(count, width, device="cuda"), where, rows]

    return make


def _added(t: Any, x: Any, where: Any, rows: int) -> Any:
    return t.zeros(rows, x.shape[1], device=x.device, dtype=x.dtype).index_add_(0, where, x)


def _counted(t: Any, x: Any, bins: int) -> Any:
    return t.bincount(x, minlength=bins)


def scans() -> list[Workload]:
    square, size = (4096, 4096), 4096**2
    plain = [
        ("running sums 4096x4096", SUMS, square, lambda t, x: x.cumsum(1)),
        ("running sums 16384x1000", SUMS, (16384, 1000), lambda t, x: x.cumsum(1)),
        ("running sums down columns 4096x4096", COLUMN_SUMS, square, lambda t, x: x.cumsum(0)),
        ("running sums 256x65536", SUMS, (256, 65536), lambda t, x: x.cumsum(1)),
        ("running maxima 4096x4096", MAXIMA, square, lambda t, x: x.cummax(1)[0]),
    ]
    made = [
        Workload(
            name, "scans", defined(text), normal(shape, dtype="float32"), run, 8 * shape[0] * shape[1],
            tolerance=1e-4, compiled=False,
        )
        for name, text, shape, run in plain
    ]  # fmt: skip
    made.append(
        Workload(
            "h = a h + b 4096x4096", "scans", defined(LINEAR), _decaying, _recur, 12 * size, tolerance=1e-4,
            compiled=False,
        )
    )  # fmt: skip
    count = 1 << 24
    for bins in (256, 4096):
        made.append(
            Workload(
                f"histogram of 16 M, {bins} bins", "histograms", defined(HISTOGRAM), _drawn(count, bins), _counted,
                4 * count, tolerance=0.0, compiled=False,
            )
        )  # fmt: skip
    for count, width, rows in ((1 << 18, 64, 1 << 14), (1 << 20, 16, 1 << 10)):
        made.append(
            Workload(
                f"scatter add of {count} x {width} into {rows}", "scatters", defined(SCATTER),
                _rows_and_places(count, width, rows), _added, 4 * count * width, tolerance=1e-4, compiled=False,
            )
        )  # fmt: skip
    return made
