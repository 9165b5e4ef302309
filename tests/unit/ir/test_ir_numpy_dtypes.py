"""Element types to numpy and back; casts of arrays against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.numpy_dtypes import convert, from_numpy, round_to, to_numpy


@pytest.mark.parametrize("dtype", dt.SCALAR_TYPES.values(), ids=str)
def test_types_round_trip(dtype):
    assert from_numpy(to_numpy(dtype)) == dtype
    assert to_numpy(dtype).itemsize == dtype.itemsize
    assert to_numpy(dtype.with_lanes(4)) == to_numpy(dtype)


@pytest.mark.parametrize("name", ["complex64", "U3", ">f4", "datetime64[s]", "object", "f16"])
def test_types_weft_does_not_have(name):
    assert from_numpy(np.dtype(name)) is None


def test_aliases_of_a_type_are_that_type():
    assert from_numpy(np.dtype("longlong")) == dt.int64
    assert from_numpy(np.dtype("ulonglong")) == dt.uint64


def test_a_cast_to_the_same_type_is_the_same_array():
    values = np.arange(3, dtype=np.int16)
    assert convert(values, dt.int16) is values


def test_saturation():
    values = np.array([1.9, -1.9, np.nan, 300, -300, np.inf, -np.inf, 127.99, -128.99])
    assert convert(values, dt.int8).tolist() == [1, -1, 0, 127, -128, 127, -128, 127, -128]
    assert convert(values, dt.uint8).tolist() == [1, 0, 0, 255, 0, 255, 0, 127, 0]
    big = np.array([2.0**63, -(2.0**63), 2.0**64], np.float32)
    assert convert(big, dt.int64).tolist() == [2**63 - 1, -(2**63), 2**63 - 1]
    assert convert(big, dt.uint64).tolist() == [2**63, 0, 2**64 - 1]


def test_integers_wrap():
    assert convert(np.array([300, -1, 128]), dt.int8).tolist() == [44, -1, -128]
    assert convert(np.array([-1], np.int8), dt.uint64).tolist() == [2**64 - 1]


def test_to_bool():
    assert convert(np.array([0.0, -0.0, np.nan, 0.1]), dt.bool_).tolist() == [False, False, True, True]


def nearest(exact: Fraction, grid: np.ndarray) -> float:
    """The value of the sorted ``grid`` nearest to ``exact``, ties to the even position."""
    at = int(np.searchsorted(grid, float(abs(exact))))
    near = [p for p in range(at - 2, at + 3) if 0 <= p < len(grid)]
    best = min(near, key=lambda p: (abs(abs(exact) - Fraction(grid[p])), p & 1))
    return float(grid[best]) * (-1 if exact < 0 else 1)


#: How many numbers are not negative.
COUNTS = {dt.bfloat16: 0x7F80, dt.float16: 0x7C00, dt.float8_e4m3fn: 0x7F, dt.float8_e5m2: 0x7C}


@pytest.mark.parametrize("dtype", COUNTS, ids=str)
def test_narrowing_rounds_once_to_nearest_even(dtype):
    grid = np.arange(COUNTS[dtype], dtype=f"u{dtype.itemsize}").view(to_numpy(dtype)).astype(np.float64)
    assert grid[-1] == dtype.shape.largest
    rng = np.random.default_rng(1)
    ties = rng.choice((grid[:-1] + grid[1:]) / 2, 500)
    # A tie nudged by less than a float32 can see is a tie no longer.
    values = np.concatenate([ties, ties * (1 + 2.0**-40), -ties * (1 - 2.0**-40), rng.standard_normal(500)])
    got = convert(values, dtype).astype(np.float64)
    assert got.tolist() == [nearest(Fraction(v), grid) for v in values]


@pytest.mark.parametrize("dtype", [dt.float8_e4m3fn, dt.float8_e5m2], ids=str)
def test_eight_bits_saturate(dtype):
    most = dtype.shape.largest
    beyond = math.inf if dtype.shape.has_infinity else most
    values = np.array([most * 1.2, -1e30, math.inf, -math.inf, math.nan, 1 << 40])
    got = convert(values, dtype).astype(np.float64)
    np.testing.assert_array_equal(got, [most, -most, beyond, -beyond, math.nan, most])


def test_integers_to_bfloat16_round_once():
    grid = np.arange(0x7F80, dtype=np.uint16).view(to_numpy(dt.bfloat16)).astype(np.float64)
    ties = [2**62 + 2**54, 2**40 + 2**32, 2**24 + 2**16, 3 * 2**30 + 2**23]
    values = np.array([t + d for t in ties for d in (-1, 0, 1)] + [5, -(2**62) - 2**54 - 1, -(2**63), 2**63 - 1])
    got = convert(values, dt.bfloat16).astype(np.float64)
    assert got.tolist() == [nearest(Fraction(int(v)), grid) for v in values]


def test_shapes_are_kept():
    assert convert(np.array(3.3), dt.bfloat16).shape == ()
    assert convert(np.zeros((2, 0, 3)), dt.bfloat16).shape == (2, 0, 3)
    assert convert(np.zeros((2, 3)), dt.int8).shape == (2, 3)
    assert convert(np.zeros((4, 6), np.int64)[::2, ::-3], dt.bfloat16).shape == (2, 2)


def test_round_to_computes_wide():
    rounded = round_to(dt.float16, np.array([2049.0, 0.1], np.float32))
    assert rounded.dtype == np.float32
    assert rounded.tolist() == [2048.0, float(np.float16(0.1))]
    assert round_to(dt.float64, np.array([0.1])).dtype == np.float64
