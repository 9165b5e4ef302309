"""What plans are compared on: small and large work of each kind, and everything of `bench.gpu`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.gpu.convolutions import convolutions
from bench.gpu.narrow import narrow
from bench.gpu.products import products
from bench.gpu.workloads import Workload, defined, library, normal, workloads

SCALED = "def scaled(float32(M,N) X, float32(N) G) -> (O) { O(m,n) = X(m,n) * G(n) + 1.0 }"
COLUMN_MEANS = "def means(float32(M,N) X) -> (O) { S(n) +=! X(m,n)\n O(n) = S(n) / 16.0 }"

#: Products of matrices: rows, columns, depth.
PRODUCTS = ((512, 512, 512), (1024, 1024, 1024), (2048, 2048, 512), (2048, 2048, 2048), (4096, 256, 4096))
#: Rows and columns of everything else: few long rows, many short ones, what fits the second cache and what does not.
SHAPES = ((16384, 4096), (1024, 1024), (65536, 256), (256, 16384))


def rank_cases() -> list[Workload]:
    """Each kind of work in several sizes; nothing to compare results with but one another."""
    found = []
    for dtype in ("float32", "bfloat16"):
        for m, n, k in PRODUCTS:
            shapes = normal((m, k), (k, n), dtype=dtype)
            found.append(_case(f"matmul {dtype} {m}x{n}x{k}", f"matmul {dtype}", library("matmul", dtype), shapes))
    for shape in SHAPES:
        row, size, wide = (shape[1],), f"{shape[0]}x{shape[1]}", normal(shape, dtype="float32")
        found += [
            _case(f"softmax {size}", "rows", library("softmax"), normal(shape)),
            _case(f"layer norm {size}", "rows", library("layer_norm"), normal(shape, row, row)),
            _case(f"row sums {size}", "rows", library("sum_rows"), normal(shape)),
            _case(f"column sums {size}", "columns", library("sum_columns"), normal(shape)),
            _case(f"column means {size}", "columns", defined(COLUMN_MEANS), wide),
            _case(f"bias + GELU {size}", "points", library("bias_gelu"), normal(shape, row)),
            _case(f"scaled {size}", "points", defined(SCALED), normal(shape, row, dtype="float32")),
            _case(f"transpose {size}", "transposes", library("transpose"), normal(shape)),
            _case(f"transpose float32 {size}", "transposes", library("transpose", "float32"), wide),
        ]  # fmt: skip
    return found


def _case(name: str, group: str, op: Callable[[], Any], make: Callable[[Any], Any]) -> Workload:
    return Workload(name, group, op, make, lambda torch, *args: None)


def usual_cases() -> list[Workload]:
    """Those that random plans are drawn for, then those of `bench.gpu`, whose candidates are all measured."""
    return [*rank_cases(), *workloads()]


def all_cases() -> list[Workload]:
    """These, and matrix work, which is measured if it is asked for by name."""
    return [*usual_cases(), *products(), *convolutions(), *narrow()]
