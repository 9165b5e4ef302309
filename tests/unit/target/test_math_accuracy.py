"""How far each function may be from the exact value, in units of the last place of the result."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from vector_math_harness import MACHINES, run

import weft
from weft.ir.intrinsics import INTRINSICS
from weft.ir.parser import parse_kernel
from weft.target.cpu.lower import emit_kernel

#: name: (float32 ulp, float64 ulp). No more than 2 for those everyone uses.
UNARY = {
    "exp": (1.1, 1.1), "exp2": (1.1, 1.2), "expm1": (2, 2), "log": (1, 1), "log2": (1, 1), "log10": (1, 1),
    "log1p": (1.5, 1.5), "sin": (2, 2.5), "cos": (2, 2.5), "tan": (3, 4), "asin": (1.7, 1.7), "acos": (1.5, 1.5),
    "atan": (1.5, 1.5), "sinh": (1.8, 1.8), "cosh": (1.6, 1.6), "tanh": (2, 2.3), "asinh": (1.8, 1.8),
    "acosh": (2, 2), "atanh": (2.2, 2.2), "cbrt": (0.6, 0.6), "sigmoid": (2, 2), "sqrt": (0.5, 0.5),
    "rsqrt": (1.5, 1.5),
}  # fmt: skip
SPECIAL = {"erf": (2, 1.5), "erfc": (4, 4), "tgamma": (0.6, 8), "lgamma": (0.6, 4)}
BINARY = {"pow": (0.6, 1.5), "atan2": (1.6, 1.6), "hypot": (0.6, 0.6), "fdim": (0.5, 0.5)}
EDGES = [
    0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, -1.5, 1e-45, -1e-45, 5e-324, 1e-38, -1e-40,
    1e30, -1e30, 3.4e38, 1.7e308, 1e-300, 16777217.0, 33554433.0, 4503599627370497.0, 9007199254740991.0, 100, -100,
    1 + 2**-23, 1 - 2**-24, 1 + 2**-52, 88.7, 88.73, 89.4, -87.4, -103.9, -104, 709.7, 710.4, -745.1, -746, 35.1, 171.6,
    math.pi, math.pi / 2, 1e22, 6381956970095103.0 * 2.0**797,
]  # fmt: skip


def test_a_square_is_one_product() -> None:
    text = "kernel k(A: float64[8], out B: float64[8]) { for i in 0:8 { B[i] = pow(A[i], EXPONENT) } }"
    square, cube = (emit_kernel(parse_kernel(text.replace("EXPONENT", e))) for e in ("2.0_f64", "3.0_f64"))
    assert square.count(" fmul ") == 1
    assert cube.count(" fmul ") > 10


def ulps(got: Any, exact: Any) -> Any:
    """Distance in ulps of the result; infinities and NaN must be where the exact value has them once rounded."""
    kind = got.dtype.type
    rounded = exact.astype(kind)
    spacing = np.spacing(np.abs(np.clip(rounded, -np.finfo(kind).max, np.finfo(kind).max))).astype(exact.dtype)
    distance = np.abs(got.astype(exact.dtype) - exact) / spacing
    same = (np.isnan(got) & np.isnan(exact)) | (got == rounded) & ~np.isfinite(rounded)
    distance = np.where(same, 0, distance)
    return np.where(np.isnan(distance), np.inf, distance)


def exact_value(name: str, *args: Any) -> Any:
    """In float64 for float32 arguments, in long double for float64 ones."""
    with np.errstate(all="ignore"):
        wide = [a.astype(np.float64 if a.dtype == np.float32 else np.longdouble) for a in args]
        return INTRINSICS[name].evaluate(*wide)


def check(name: str, limit: float, *args: Any, **options: Any) -> None:
    got = run(name, *args, **options)
    exact = exact_value(name, *args)
    with np.errstate(all="ignore"):
        distance = ulps(got, exact)
    worst = int(np.argmax(distance))
    at = [a[worst] for a in args]
    assert distance[worst] <= limit, f"{name}{at} is {got[worst]!r}, should be {exact[worst]!r}: {distance[worst]} ulp"
    zeros = (got == 0) & (np.signbit(got) != np.signbit(exact))
    assert not zeros.any(), f"sign of zero at {[a[zeros][:3] for a in args]}"


def singles(count: int) -> Any:
    """Bit patterns evenly over all float32 (every exponent, both signs, NaNs), ordinary numbers, and the edges."""
    rng = np.random.default_rng(7)
    spread = np.linspace(0, 2**32 - 1, count).astype(np.uint32).view(np.float32)
    ordinary = rng.normal(size=count // 4), rng.uniform(-110, 110, count // 4), rng.uniform(-2, 2, count // 4)
    with np.errstate(all="ignore"):
        return np.concatenate([spread, *ordinary, EDGES]).astype(np.float32)


def doubles(count: int) -> Any:
    rng = np.random.default_rng(8)
    spread = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    ordinary = rng.normal(size=count), rng.uniform(-800, 800, count), rng.uniform(-2, 2, count)
    return np.concatenate([spread, *ordinary, EDGES])


@pytest.mark.parametrize("name", UNARY)
def test_unary_float32_over_the_whole_range(name: str) -> None:
    check(name, UNARY[name][0], singles(2_000_000))


@pytest.mark.parametrize("name", UNARY)
def test_unary_float64(name: str) -> None:
    check(name, UNARY[name][1], doubles(10_000), lanes=8)


@pytest.mark.parametrize("machine", [m for m in MACHINES if m != "host"])
@pytest.mark.parametrize("name", UNARY)
def test_unary_on_lesser_machines(name: str, machine: str) -> None:
    check(name, UNARY[name][0] * 1.15, singles(60_000), lanes=4, machine=machine)
    check(name, UNARY[name][1] * 1.15, doubles(1_000), lanes=2, machine=machine)


#: Of fast numerics: ulps of results that are normal, and how many more with each unit of |x|.
QUICK = {"exp": (1.2, 0.0), "sigmoid": (3.0, 0.25), "tanh": (4.5, 0.0)}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", QUICK)
def test_fast_numerics_over_the_whole_range(name: str, machine: str) -> None:
    x = singles(2_000_000 if machine == "host" else 60_000)
    got, exact = run(name, x, machine=machine, is_fast=True), exact_value(name, x)
    limit, slope = QUICK[name]
    with np.errstate(all="ignore"):
        distance = ulps(got, exact) / (limit + slope * np.fmin(np.abs(x), 100))
    tiny = (np.abs(exact) < np.finfo(np.float32).tiny * 1.02) & (x < -1)
    assert (np.abs(got[tiny]) <= np.finfo(np.float32).tiny * 1.02).all()
    worst = int(np.argmax(np.where(tiny, 0, distance)))
    assert tiny[worst] or distance[worst] <= 1, f"{name}({x[worst]}) is {got[worst]!r}, should be {exact[worst]!r}"


@pytest.mark.parametrize("lanes", [1, 2, 3, 32])
@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf"])
def test_any_width_gives_the_same_bits(name: str, lanes: int) -> None:
    x = singles(4_000)
    np.testing.assert_array_equal(run(name, x, lanes=lanes), run(name, x, lanes=16))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", SPECIAL)
def test_special_float32(name: str, machine: str) -> None:
    check(name, SPECIAL[name][0], singles(20_000), machine=machine)


@pytest.mark.parametrize("name", ["erf", "erfc", "tgamma", "lgamma"])
def test_special_float64(name: str) -> None:
    mpmath = pytest.importorskip("mpmath")
    exact = {"lgamma": lambda v: mpmath.log(abs(mpmath.gamma(v))), "tgamma": mpmath.gamma}.get(
        name, getattr(mpmath, name, None)
    )
    rng = np.random.default_rng(9)
    low, high = {"tgamma": (-170, 170), "lgamma": (0.01, 200)}.get(name, (-6, 27))
    x = np.concatenate([rng.uniform(low, high, 400), rng.uniform(0.01, 3, 200), 10.0 ** rng.uniform(-300, -1, 100)])
    got = run(name, x, lanes=8)
    with mpmath.workdps(40):
        values = [exact(mpmath.mpf(float(v))) for v in x]
        steps = [np.spacing(abs(float(v))) for v in values]
        distance = [float(abs(mpmath.mpf(float(g)) - v) / s) for g, v, s in zip(got, values, steps)]
    assert max(distance) <= SPECIAL[name][1], (x[int(np.argmax(distance))], max(distance))


def pairs(kind: type, count: int) -> tuple[Any, Any]:
    """All pairs of edges, random bit patterns, ordinary numbers, and bases near 1 with large exponents."""
    rng = np.random.default_rng(10)
    with np.errstate(over="ignore"):
        edges = np.array(EDGES).astype(kind)
    a, b = (m.ravel() for m in np.meshgrid(edges, edges))
    word = np.uint32 if kind is np.float32 else np.uint64
    bits = [rng.integers(0, 2**64, count, dtype=np.uint64).astype(word).view(kind) for _ in range(2)]
    plain = [(rng.normal(size=count) * s).astype(kind) for s in (5, 30)]
    near = (1 + rng.normal(size=count) * 1e-3).astype(kind)
    large = (rng.normal(size=count) * (3e4 if kind is np.float32 else 2e5)).astype(kind)
    return np.concatenate([a, bits[0], np.abs(plain[0]), near]), np.concatenate([b, bits[1], plain[1], large])


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, machine: str) -> None:
    check(name, BINARY[name][0], *pairs(np.float32, 50_000), machine=machine)
    check(name, BINARY[name][1], *pairs(np.float64, 5_000), lanes=8, machine=machine)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "fmin", "fmax", "copysign"])
def test_exact_binary(name: str, kind: type, machine: str) -> None:
    x, y = pairs(kind, 5_000)
    with np.errstate(all="ignore"):
        expected = INTRINSICS[name].evaluate(x, y)
    np.testing.assert_array_equal(run(name, x, y, lanes=8, machine=machine), expected)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "rint", "abs", "isnan", "isinf", "isfinite"])
def test_exact_unary(name: str, kind: type, machine: str) -> None:
    x = singles(50_000) if kind is np.float32 else doubles(10_000)
    got, expected = run(name, x, lanes=8, machine=machine), INTRINSICS[name].evaluate(x)
    np.testing.assert_array_equal(got, expected)
    if got.dtype != np.bool_:
        ordered = ~np.isnan(x)
        np.testing.assert_array_equal(np.signbit(got[ordered]), np.signbit(expected[ordered]))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_round_takes_halves_away_from_zero(kind: type, machine: str) -> None:
    x = np.array(
        [0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 0.49999999999999994, 8388609.0, 1e300, -0.0, -0.2]
    )
    with np.errstate(all="ignore"):
        x = x.astype(kind)
        expected = np.where(np.isfinite(x), np.trunc(x) + np.where(np.abs(x - np.trunc(x)) >= 0.5, np.sign(x), 0), x)
    got = run("round", x, lanes=4, machine=machine)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(x))


@pytest.mark.parametrize("machine", MACHINES)
def test_fma_rounds_once(machine: str) -> None:
    rng = np.random.default_rng(11)
    a, b = (rng.normal(size=20_000).astype(np.float32) for _ in range(2))
    c = (-(a * b) * (1 + rng.integers(-2, 3, 20_000) * 2.0**-23)).astype(np.float32)
    exact = a.astype(np.longdouble) * b + c  # 48 + 1 bits: exact in a long double
    np.testing.assert_array_equal(run("fma", a, b, c, machine=machine), exact.astype(np.float32))


def test_fma_rounds_to_nearest_where_two_roundings_would_not() -> None:
    """a*b + c just above the middle of two float32s by less than a float64 keeps."""
    a, b = np.float32([1 + 2**-12]), np.float32([1 + 2**-12])
    c = np.float32([2.0**-60])
    tie = np.float32([2.0**24 + 2])
    cases = [(a, b, c), (tie, np.float32([1.0]), np.float32([1.0])), (tie, np.float32([1.0]), np.float32([1 + 2**-23]))]
    for x, y, z in cases:
        assert run("fma", x, y, z, machine="sse2") == run("fma", x, y, z, machine="avx2")


@pytest.mark.parametrize("machine", MACHINES)
def test_popcount_and_integer_abs(machine: str) -> None:
    x = np.array([0, 1, -1, 255, -(2**31), 2**31 - 1], np.int32)
    np.testing.assert_array_equal(run("popcount", x, lanes=4, machine=machine), np.bitwise_count(x.view(np.uint32)))
    np.testing.assert_array_equal(run("abs", x, lanes=4, machine=machine), np.abs(x))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_exponentials_under_fast_numerics_are_normal_or_zero(kind: Any) -> None:
    """A softmax with a mask of -100 would else be numbers that each take a hundred times as long to compute with."""
    n, least = kind.__name__, np.finfo(kind).tiny
    edge = np.log(least).astype(kind)
    x = np.concatenate([np.linspace(edge - 20, edge + 20, 1001), [-np.inf, np.inf, np.nan, 0, -1]]).astype(kind)
    made = weft.define(f"def e({n}(N) X) -> (O) {{ O(i) = exp(X(i)) }}")(x)
    right = np.exp(x)
    is_small = right < least * 1.01
    assert not made[is_small & (made < least)].any()
    np.testing.assert_allclose(made[~is_small], right[~is_small], rtol=4 * np.finfo(kind).eps)
