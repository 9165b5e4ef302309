"""Every operator on every element type, against numpy and against the stated rules."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from interpret_programs import buffer, i, load, loop, run, store

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Cast, Compare, Expr, Unary, const
from weft.ir.intrinsics import INTRINSICS
from weft.ir.numpy_dtypes import convert, to_numpy

TYPES = list(dt.SCALAR_TYPES.values())
INTEGERS = [d for d in TYPES if d.is_integer]
FLOATS = [d for d in TYPES if d.is_float]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, -2.5, 3.14159, 1e-8, -1e-40, 65504.0, 65520.0, 1e30, -3.5e38, 1e300, 127.5,
           -128.5, 255.9, 2.0**31, -(2.0**31) - 4096, 2.0**63, 2.0**64, math.inf, -math.inf, math.nan]  # fmt: skip


def samples(dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return convert(np.array(SPECIAL), dtype)
    if dtype.is_bool:
        return np.array([False, True])
    low, high = dtype.min_value, dtype.max_value
    return np.array([v for v in {low, low + 1, -7, -3, -1, 0, 1, 2, 3, 7, 100, high // 2, high - 1, high} if v >= low],
                    to_numpy(dtype))  # fmt: skip


def pairs(dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    values = samples(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def evaluate(make: object, result: DType, *operands: np.ndarray) -> np.ndarray:
    """``make(loads...)`` at every position, through the interpreter."""
    n = len(operands[0])
    names = {f"P{p}": o for p, o in enumerate(operands)}
    dtypes = [next(d for d in TYPES if to_numpy(d) == o.dtype) for o in operands]
    value: Expr = make(*(load(buffer(name, d, n), i) for name, d in zip(names, dtypes)))  # type: ignore[operator]
    got = np.zeros(n, to_numpy(result))
    run(loop(i, n, "serial", store(buffer("R", result, n), (i,), value)), R=got, **names, uninitialized=["R"])
    return got


def assert_same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bit for bit, except that any NaN equals any other."""
    assert got.dtype == want.dtype
    nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    bits = np.dtype(f"u{got.dtype.itemsize}")
    np.testing.assert_array_equal(np.where(nan, 0, got.view(bits)), np.where(nan, 0, want.view(bits)))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("op", ["+", "-", "*", "//", "%", "min", "max", "&", "|", "^"])
def test_integers_wrap_like_numpy(op, dtype):
    ufuncs = {"+": np.add, "-": np.subtract, "*": np.multiply, "//": np.floor_divide, "%": np.remainder,
              "min": np.minimum, "max": np.maximum, "&": np.bitwise_and, "|": np.bitwise_or,
              "^": np.bitwise_xor}  # fmt: skip
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        assert_same(evaluate(lambda x, y: Binary(op, x, y), dtype, a, b), ufuncs[op](a, b))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_truncating_division_and_shifts(dtype):
    a, b = pairs(dtype)
    exact = [(int(x), int(y)) for x, y in zip(a, b)]

    def wrapped(values: list[int]) -> np.ndarray:
        return np.array([const(v, dtype).value for v in values], to_numpy(dtype))

    quotients = [0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in exact]
    remainders = [0 if y == 0 else int(math.copysign(1, x)) * (abs(x) % abs(y)) for x, y in exact]
    left = [x << y if 0 <= y < dtype.bits else 0 for x, y in exact]
    right = [x >> y if 0 <= y < dtype.bits else (-1 if x < 0 else 0) for x, y in exact]
    for op, want in (("tdiv", quotients), ("tmod", remainders), ("<<", left), (">>", right)):
        assert_same(evaluate(lambda x, y, op=op: Binary(op, x, y), dtype, a, b), wrapped(want))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "min", "max"])
def test_floats_round_once(op, dtype):
    ufuncs = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide, "min": np.minimum, "max": np.maximum}
    a, b = pairs(dtype)
    wide = np.float32 if dtype.is_narrow_float else a.dtype
    with np.errstate(all="ignore"):
        want = convert(ufuncs[op](a.astype(wide), b.astype(wide)), dtype)
    got = evaluate(lambda x, y: Binary(op, x, y), dtype, a, b)
    if op in ("min", "max"):  # either zero may win
        got, want = got + got.dtype.type(0), want + want.dtype.type(0)
    assert_same(got, want)


def test_narrow_results_are_rounded_at_every_node():
    a, b = np.array([2048.0], np.float16), np.array([1.0], np.float16)
    got = evaluate(lambda x, y: Binary("+", Binary("+", x, y), y), dt.float16, a, b)
    assert got[0] == 2048
    widened = evaluate(
        lambda x, y: Cast(dt.float16, Cast(dt.float32, x) + Cast(dt.float32, y) + Cast(dt.float32, y)), dt.float16, a, b
    )
    assert widened[0] == 2050


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("op", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(op, dtype):
    ufuncs = {"==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
              ">=": np.greater_equal}  # fmt: skip
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(lambda x, y: Compare(op, x, y), dt.bool_, a, b), ufuncs[op](a, b))


@pytest.mark.parametrize("op", ["&&", "||", "&", "|", "^", "min", "max"])
def test_bools(op):
    a, b = pairs(dt.bool_)
    want = {"&&": a & b, "||": a | b, "&": a & b, "|": a | b, "^": a ^ b, "min": a & b, "max": a | b}[op]
    assert_same(evaluate(lambda x, y: Binary(op, x, y), dt.bool_, a, b), want)


def test_unary():
    for dtype in [*INTEGERS, *FLOATS]:
        a = samples(dtype)
        with np.errstate(all="ignore"):
            assert_same(evaluate(lambda x: Unary("-", x), dtype, a), (-a).astype(a.dtype))
        if dtype.is_integer:
            assert_same(evaluate(lambda x: Unary("~", x), dtype, a), ~a)
    assert_same(evaluate(lambda x: Unary("!", x), dt.bool_, samples(dt.bool_)), ~samples(dt.bool_))


@pytest.mark.parametrize("target", TYPES, ids=str)
@pytest.mark.parametrize("source", TYPES, ids=str)
def test_casts_agree_with_those_of_whole_arrays(source, target):
    a = samples(source)
    assert_same(evaluate(lambda x: Cast(target, x), target, a), convert(a, target))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
def test_float_to_integer_saturates(target):
    a = np.array(SPECIAL)
    want = [0 if math.isnan(v) else min(max(v, target.min_value), target.max_value) for v in SPECIAL]
    got = evaluate(lambda x: Cast(target, x), target, a)
    assert got.tolist() == [int(v) for v in want]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_every_float_intrinsic(dtype):
    for entry in INTRINSICS.values():
        if entry.rule == "integer":
            continue
        values = samples(dtype)
        operands = [np.array(p, dtype=values.dtype) for p in zip(*product(values[::3], repeat=entry.arity))]
        if entry.arity == 1:
            operands = [values]
        result = entry.result(dtype)
        got = evaluate(lambda *args, e=entry, r=result: Call(e.name, args, r), result, *operands)
        wide = [o.astype(np.float32) if dtype.is_narrow_float else o for o in operands]
        with np.errstate(all="ignore"):
            want = np.array([convert(np.asarray(entry.evaluate(*w)), result) for w in zip(*wide)])
        assert_same(got, want)


def test_integer_intrinsics():
    for dtype in INTEGERS:
        a = samples(dtype)
        got = evaluate(lambda x, d=dtype: Call("popcount", (x,), d), dtype, a)
        assert got.tolist() == [bin(int(v) & (1 << dtype.bits) - 1).count("1") for v in a]
        absolute = evaluate(lambda x, d=dtype: Call("abs", (x,), d), dtype, a)
        assert absolute.tolist() == [const(abs(int(v)), dtype).value for v in a]


def test_fma_rounds_once():
    a = np.array([1 + 2.0**-12], np.float32)
    c = np.array([-(1 + 2.0**-11)], np.float32)
    fused = evaluate(lambda x, y: Call("fma", (x, x, y), dt.float32), dt.float32, a, c)
    apart = evaluate(lambda x, y: x * x + y, dt.float32, a, c)
    assert fused[0] == 2.0**-24
    assert apart[0] == 0


def test_round_goes_away_from_zero_and_stays_exact():
    a = np.array([0.5, -0.5, 2.5, 0.49999997, 8388609.0, -0.2, np.inf], np.float32)
    got = evaluate(lambda x: Call("round", (x,), dt.float32), dt.float32, a)
    assert got.tolist() == [1, -1, 3, 0, 8388609, 0, np.inf]
