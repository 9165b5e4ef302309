"""Compile a dozen kernels of the library, show one at each stage, check each against numpy."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

import weft
from weft.operators.stages import STAGES

T = TypeVar("T")
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Example:
    """A kernel of the library on arrays of ``shapes``, and what numpy says it should give (in float64)."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    expected: Callable[..., Array]


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _layer_norm(x: Array, gain: Array, shift: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + shift)


def _conv2d(image: Array, weights: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(image, weights.shape[2:], axis=(2, 3))
    return np.asarray(np.einsum("nchwyx,fcyx->nfhw", windows, weights))


def _gelu(x: Array) -> Array:
    from math import erf

    return np.asarray(x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))))


EXAMPLES = (
    Example("matmul", ((96, 64), (64, 80)), lambda a, b: a @ b),
    Example("batched_matmul", ((8, 24, 32), (8, 32, 40)), lambda a, b: a @ b),
    Example("transpose", ((301, 203),), lambda a: np.ascontiguousarray(a.T)),
    Example("sum_rows", ((301, 203),), lambda a: a.sum(1)),
    Example("softmax", ((128, 257),), _softmax),
    Example("layer_norm", ((64, 193), (193,), (193,)), _layer_norm),
    Example("gelu", ((100_003,),), _gelu),
    Example("conv2d", ((2, 8, 33, 31), (16, 8, 3, 3)), _conv2d),
    Example("kronecker2", ((7, 9), (5, 3)), np.kron),
    Example("mlp1", ((32, 48), (64, 48), (64,)), lambda x, w, b: np.maximum(x @ w.T + b, 0)),
    Example("min_distance", ((40, 8), (60, 8)), lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1).min(1)),
    Example("cumsum", ((50, 117),), lambda x: np.cumsum(x, axis=1)),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = [e.name for e in EXAMPLES]
    parser.add_argument("--stages-of", default="matmul", choices=names, help="which kernel to show at each stage")


def main(options: argparse.Namespace) -> int:
    show_stages(next(e for e in EXAMPLES if e.name == options.stages_of))
    rows = [measure(example) for example in progress(EXAMPLES, "compiling and checking")]
    print_table(rows)
    return 0 if all(row.correct for row in rows) else 1


@dataclass(frozen=True)
class Row:
    name: str
    shapes: str
    first_ms: float
    call_us: float
    numpy_us: float
    error: float

    @property
    def correct(self) -> bool:
        return self.error < 1e-4


def make_inputs(example: Example) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(np.float32) for shape in example.shapes]


def measure(example: Example) -> Row:
    op = getattr(weft.ops, example.name)
    inputs = make_inputs(example)
    start = time.perf_counter()
    result = op(*inputs)
    first = time.perf_counter() - start
    wide = example.expected(*(x.astype(np.float64) for x in inputs))
    error = float(np.max(np.abs(result - wide)) / max(1.0, float(np.max(np.abs(wide)))))
    return Row(
        example.name,
        " ".join("x".join(map(str, shape)) for shape in example.shapes),
        first * 1e3,
        median_us(lambda: op(*inputs)),
        median_us(lambda: example.expected(*inputs)),
        error,
    )


def median_us(call: Callable[[], object], repeats: int = 7) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times)) * 1e6


def show_stages(example: Example) -> None:
    op = getattr(weft.ops, example.name)
    inputs = make_inputs(example)
    for stage in (s for s in STAGES if s not in ("ptx", "sass")):  # those need tools that may be missing
        text = op.show(stage, *inputs).splitlines()
        print(f"--- {example.name}: {stage} " + "-" * max(0, 60 - len(stage) - len(example.name)))
        print("\n".join(text[:24]))
        if len(text) > 24:
            print(f"... {len(text) - 24} more lines")
        print()


def progress(items: Sequence[T], label: str) -> Iterator[T]:
    """The items, with a bar on a terminal."""
    bar = sys.stderr.isatty()
    for done, item in enumerate(items):
        if bar:
            filled = 30 * done // len(items)
            print(f"\r{label} [{'#' * filled}{'.' * (30 - filled)}] {done}/{len(items)}", end="", file=sys.stderr)
        yield item
    if bar:
        print(f"\r{' ' * (len(label) + 45)}\r", end="", file=sys.stderr)


def print_table(rows: Sequence[Row]) -> None:
    print(f"{'kernel':<16}{'shapes':<28}{'first call':>12}{'call':>12}{'numpy':>12}{'error':>11}")
    for row in rows:
        verdict = f"{row.error:.1e}" if row.correct else f"{row.error:.1e} WRONG"
        print(
            f"{row.name:<16}{row.shapes:<28}{row.first_ms:>9.1f} ms{row.call_us:>9.1f} µs"
            f"{row.numpy_us:>9.1f} µs{verdict:>11}"
        )
    print(f"\n{sum(r.correct for r in rows)} of {len(rows)} kernels match numpy in float64")
