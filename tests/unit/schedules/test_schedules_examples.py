"""Every schedule of ``examples/schedules`` builds and is right where sizes are small and odd."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import weft

EXAMPLES = Path(__file__).parents[3] / "examples" / "schedules"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"schedules_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


blur, convolution, matmul, narrow, rows = map(load, ("blur", "convolution", "matmul", "narrow", "rows"))
gpu_matmul = load("gpu_matmul")


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize("transposed", ["", "A", "B"])
@pytest.mark.parametrize(("m", "n", "k"), [(33, 65, 17), (8, 300, 5), (1, 70, 40), (3, 1100, 19), (16, 256, 1)])
def test_matmul(m: int, n: int, k: int, transposed: str) -> None:
    a, b = random(m, k), random(k, n, seed=1)
    left = np.ascontiguousarray(a.T) if transposed == "A" else a
    right = np.ascontiguousarray(b.T) if transposed == "B" else b
    close(matmul.schedule_matmul(m, n, k, transposed=transposed)(left, right), a @ b)


def test_matmul_in_blocks() -> None:
    a, b = random(9, 1030), random(1030, 2050, seed=1)
    np.testing.assert_allclose(matmul.schedule_matmul(9, 2050, 1030)(a, b), a @ b, rtol=1e-4, atol=1e-3)


def test_matmul_replays_on_other_sizes() -> None:
    product = matmul.schedule_matmul(64, 256, 32)
    close(product(random(30, 33), random(33, 270, seed=1)), random(30, 33) @ random(33, 270, seed=1))


@pytest.mark.parametrize(("batch", "m", "n", "k"), [(3, 9, 33, 5), (2, 16, 32, 8)])
def test_batched_matmul(batch: int, m: int, n: int, k: int) -> None:
    x, y = random(batch, m, k), random(batch, k, n, seed=1)
    close(matmul.schedule_batched_matmul(batch, m, n, k)(x, y), x @ y)


def padded(image: Any, pad: int) -> Any:
    return np.pad(image, ((0, 0), (0, 0), (pad, pad), (pad, pad)))


@pytest.mark.parametrize(
    ("batch", "c", "size", "f", "taps", "pad", "step"),
    [(2, 3, 9, 64, 3, 1, 1), (1, 5, 15, 32, 7, 3, 2), (1, 4, 6, 32, 1, 0, 1), (1, 2, 17, 32, 3, 1, 1)],
)
def test_conv2d(batch: int, c: int, size: int, f: int, taps: int, pad: int, step: int) -> None:
    image, kernel = random(batch, c, size, size), random(f, c, taps, taps, seed=1)
    packed = convolution.pack_weights(kernel)
    found = convolution.schedule_conv2d(image.shape, packed.shape, pad, step)(image, packed, pad, step)
    expected = weft.ops.conv2d_strided(padded(image, pad), kernel, step, step)
    close(found.reshape(expected.shape), expected)


@pytest.mark.parametrize(("batch", "c", "size", "taps", "pad"), [(2, 3, 13, 3, 1), (1, 2, 33, 5, 2)])
def test_depthwise(batch: int, c: int, size: int, taps: int, pad: int) -> None:
    image, kernel = random(batch, c, size, size), random(c, taps, taps, seed=1)
    found = convolution.schedule_depthwise(image.shape, kernel.shape, pad)(image, kernel, pad)
    close(found, weft.ops.conv2d_depthwise(padded(image, pad), kernel))


@pytest.mark.parametrize("schedule", blur.SCHEDULES, ids=lambda s: s.__name__)
def test_blur(schedule: Any) -> None:
    """To the bit: nothing is added in another order."""
    op, image = weft.define(blur.BLUR, schedule="naive"), random(23, 37)
    s = weft.schedule(op, A=image.shape)
    schedule(s)
    assert np.array_equal(s.build()(image), op(image))


@pytest.mark.parametrize("shape", [(7, 19), (33, 270), (1, 1), (16, 64), (1023, 1029)])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "bias_gelu", "sum_rows", "sum_columns", "transpose"])
def test_rows(name: str, shape: tuple[int, int]) -> None:
    x, weights = random(*shape), (random(shape[1], seed=1), random(shape[1], seed=2))
    args = (x, *weights[: {"layer_norm": 2, "bias_gelu": 1}.get(name, 0)])
    close(getattr(rows, f"schedule_{name}")(*shape)(*args), getattr(weft.ops, name)(*args))


@pytest.mark.parametrize(("m", "n", "k"), [(16, 64, 32), (9, 33, 7), (13, 48, 12), (13, 64, 12)])
def test_bytes(m: int, n: int, k: int) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 256, (m, k), np.uint8), rng.integers(-128, 128, (k, n), np.int8)
    assert np.array_equal(narrow.schedule_matmul_bytes(m, n, k)(a, b), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(("m", "n", "k"), [(16, 64, 32), (9, 33, 7), (8, 32, 2)])
def test_bfloat16(m: int, n: int, k: int) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a, b = random(m, k).astype(ml_dtypes.bfloat16), random(k, n, seed=1).astype(ml_dtypes.bfloat16)
    close(narrow.schedule_matmul_bfloat16(m, n, k)(a, b), a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("m", "n", "k"), [(32, 48, 24), (33, 41, 19)])
def test_gpu_matmul(m: int, n: int, k: int) -> None:
    """Blocks and threads, as the CPU runs them."""
    tiles = gpu_matmul.Tiles(rows=16, columns=32, depth=8, down=4, across=4, vector=4)
    a, b = random(m, k), random(k, n, seed=1)
    close(gpu_matmul.schedule_matmul(m, n, k, tiles).build()(a, b), a @ b)
