"""Products on a device, by each thread's arithmetic and by matrix instructions, against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft

PLAIN = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
RIGHT = "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }"
LEFT = "def f(float(K,M) A, float(K,N) B) -> (C) { C(m,n) +=! A(k,m) * B(k,n) }"
#: Whole tiles, odd ones, few of them with a long depth, rows that do not start at multiples of 16 bytes.
SIZES = [(256, 256, 256), (128, 384, 64), (333, 517, 129), (64, 96, 3000), (1000, 1013, 517)]


def relative_error(op: Any, text: str, dtype: str, m: int, n: int, k: int) -> float:
    rng = np.random.default_rng(0)
    shapes = {PLAIN: ((m, k), (k, n)), RIGHT: ((m, k), (n, k)), LEFT: ((k, m), (k, n))}[text]
    a, b = (rng.standard_normal(shape).astype(weft.numpy_dtype(dtype)) for shape in shapes)
    got = op(*map(weft.cuda.DeviceArray.from_numpy, (a, b)))
    weft.cuda.synchronize()
    left, right = a.astype(np.float64), b.astype(np.float64)
    wanted = (left.T if text == LEFT else left) @ (right.T if text == RIGHT else right)
    return float(np.linalg.norm(got.numpy().astype(np.float64) - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
@pytest.mark.parametrize("text", [PLAIN, RIGHT, LEFT])
@pytest.mark.parametrize(("dtype", "most"), [("float32", 1e-5), ("bfloat16", 4e-3), ("float16", 1e-3)])
def test_products(text: str, dtype: str, most: float, m: int, n: int, k: int) -> None:
    op = weft.define(text.replace("float(", f"{dtype}("))
    assert relative_error(op, text, dtype, m, n, k) < most


@pytest.mark.parametrize(("m", "n", "k"), [*SIZES, (512, 512, 512)])
@pytest.mark.parametrize("text", [PLAIN, RIGHT, LEFT])
def test_products_of_ten_bits_where_that_is_asked_for(text: str, m: int, n: int, k: int) -> None:
    op = weft.define(text, numerics="tf32")
    assert 1e-5 < relative_error(op, text, "float32", m, n, k) < 1e-3


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("text", [PLAIN, RIGHT, LEFT])
@pytest.mark.parametrize(("m", "n", "k"), [(2048, 2048, 512), (1000, 1048, 264), (1024, 4096, 96)])
def test_large_tiles(text: str, m: int, n: int, k: int, dtype: str) -> None:
    """Blocks of many sums, whole or with edges that copies fill with zeros."""
    op = weft.define(text.replace("float(", f"{dtype}("))
    assert relative_error(op, text, dtype, m, n, k) < 4e-3


@pytest.mark.parametrize("m", [1, 2, 7, 16, 24, 49])
@pytest.mark.parametrize("text", [PLAIN, RIGHT])
@pytest.mark.parametrize(("n", "k"), [(4096, 4096), (1000, 328), (300, 5001)])
def test_few_rows(text: str, m: int, n: int, k: int) -> None:
    op = weft.define(text.replace("float(", "bfloat16("))
    assert relative_error(op, text, "bfloat16", m, n, k) < 4e-3


@pytest.mark.parametrize("text", [PLAIN, RIGHT, LEFT])
def test_rows_that_begin_anywhere(text: str) -> None:
    """They are copied for the copy engine, where that pays."""
    op = weft.define(text.replace("float(", "bfloat16("))
    assert relative_error(op, text, "bfloat16", 2045, 2043, 2047) < 4e-3


def test_matrix_instructions_are_used() -> None:
    op = weft.define(PLAIN.replace("float(", "bfloat16("))
    a = weft.cuda.DeviceArray.from_numpy(np.ones((256, 256), weft.numpy_dtype("bfloat16")))
    assert "mma" in op.show("cuda", a, a)
    a = weft.cuda.DeviceArray.from_numpy(np.ones((256, 256), np.float32))
    assert "mma" not in weft.define(PLAIN).show("cuda", a, a)
    assert "mma_tf32" in weft.define(PLAIN, numerics="tf32").show("cuda", a, a)
