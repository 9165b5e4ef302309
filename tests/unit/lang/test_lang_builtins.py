"""Every function a text may call, against an independent implementation in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from weft.ir.errors import LanguageError
from weft.lang.builtins import COMPOSED, TAKE_SEVERAL, builtin_arity, builtin_names, find_builtin, takes_only_integers
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

Array = np.ndarray[Any, Any]


def call(expression: str, *args: Array, dtype: str = "double") -> Array:
    params = ", ".join(f"{dtype}(N) {name}" for name, _ in zip("xyzw", args))
    program = parse_programs(f"def f({params}) -> (O) {{ O(i) = {expression} }}")["f"]
    return evaluate(program, args)[0]


def special(name: str) -> Callable[..., Array]:
    def apply(*args: Array) -> Array:
        result: Array = getattr(torch.special, name)(*map(torch.from_numpy, args)).numpy()
        return result

    return apply


SPREAD = np.concatenate([np.linspace(-9, 9, 61), [0.25, -0.25, 1e-3]])
POSITIVE = np.concatenate([np.geomspace(1e-12, 1e12, 49), [1.0, 2.0, 4.0]])
INSIDE = np.linspace(-0.9999, 0.9999, 61)
Y = np.roll(SPREAD, 7) + 0.125

REFERENCES: dict[str, tuple[tuple[Array, ...], Callable[..., Array]]] = {
    "relu": ((SPREAD,), lambda x: np.maximum(x, 0)),
    "exp10": ((SPREAD,), lambda x: 10.0**x),
    "sinpi": ((SPREAD,), lambda x: np.sin(np.pi * np.fmod(x, 2))),
    "cospi": ((SPREAD,), lambda x: np.cos(np.pi * np.fmod(x, 2))),
    "rcbrt": ((POSITIVE,), lambda x: 1 / np.cbrt(x)),
    "fdivide": ((SPREAD, Y), np.divide),
    "rhypot": ((SPREAD, Y), lambda x, y: 1 / np.hypot(x, y)),
    "norm3d": ((SPREAD, Y, Y), lambda *v: np.linalg.norm(v, axis=0)),
    "norm4d": ((SPREAD, Y, Y, SPREAD), lambda *v: np.linalg.norm(v, axis=0)),
    "rnorm3d": ((SPREAD, Y, Y), lambda *v: 1 / np.linalg.norm(v, axis=0)),
    "rnorm4d": ((SPREAD, Y, Y, SPREAD), lambda *v: 1 / np.linalg.norm(v, axis=0)),
    "normcdf": ((SPREAD,), special("ndtr")),
    "ldexp": ((SPREAD, np.rint(Y)), lambda x, n: np.ldexp(x, n.astype(int))),
    "scalbn": ((SPREAD, np.rint(Y)), lambda x, n: np.ldexp(x, n.astype(int))),
    "logb": ((POSITIVE,), lambda x: np.frexp(x)[1] - 1.0),
    "ilogb": ((POSITIVE,), lambda x: np.frexp(x)[1] - 1),
    "lrint": ((SPREAD * 2.5,), np.rint),
    "llrint": ((SPREAD * 2.5,), np.rint),
    "lround": ((SPREAD * 2.5,), lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "llround": ((SPREAD * 2.5,), lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x)),
    "nextafter": ((SPREAD, Y), np.nextafter),
    "remainder": ((SPREAD, Y), lambda x, y: x - y * np.rint(x / y)),
    "erfcx": ((np.linspace(-3, 40, 61),), special("erfcx")),
    "erfinv": ((INSIDE,), special("erfinv")),
    "erfcinv": ((1 - INSIDE,), lambda x: special("erfinv")(1 - x)),
    "normcdfinv": (((1 + INSIDE) / 2,), special("ndtri")),
}


def test_every_composition_has_a_reference() -> None:
    assert sorted(REFERENCES) == sorted(COMPOSED)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_composition(name: str) -> None:
    args, reference = REFERENCES[name]
    found = call(f"{name}({', '.join(f'{v}(i)' for v, _ in zip('xyzw', args))})", *args)
    np.testing.assert_allclose(found, reference(*args), rtol=2e-12, atol=1e-14)


def test_inverses_at_their_ends() -> None:
    np.testing.assert_array_equal(
        call("erfinv(x(i))", np.array([-1.0, 1.0, 1.5, np.nan])), [-np.inf, np.inf, np.nan, np.nan]
    )
    np.testing.assert_array_equal(call("erfcinv(x(i))", np.array([0.0, 2.0, 2.5])), [np.inf, -np.inf, np.nan])
    tail = np.array([1e-5, 1e-20, 1e-100, 1e-300])
    np.testing.assert_allclose(call("erfc(erfcinv(x(i)))", tail), tail, rtol=1e-9)


@pytest.mark.parametrize(("dtype", "kind"), [("half", np.float16), ("float", np.float32), ("double", np.float64)])
def test_nextafter_is_exact_everywhere(dtype: str, kind: Any) -> None:
    info = np.finfo(kind)
    ends = [0, info.smallest_subnormal, info.tiny / 2, info.tiny, 0.5, 1 - info.epsneg, 1, 1 + info.eps, 2, 3.7]
    some = np.array([*ends, info.max / 2, info.max, np.inf, np.nan], kind)
    both = np.concatenate([some, -some])
    x, y = (v.reshape(-1) for v in np.meshgrid(both, both))
    with np.errstate(over="ignore"):
        wanted = np.nextafter(x, y)
    found = call("nextafter(x(i), y(i))", x, y, dtype=dtype)
    np.testing.assert_array_equal(found, wanted)
    moved = (x != y) & ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[moved]), np.signbit(wanted[moved]), err_msg="signs of zeros")
    assert not np.signbit(
        call("nextafter(x(i), y(i))", np.array([-0.0]), np.array([0.0]))
    ).any()  # as C, not numpy's half


def test_functions_that_give_integers() -> None:
    x = np.array([0.0, np.inf, np.nan, 1e30])
    assert call("ilogb(x(i))", x).tolist() == [-(2**31), 2**31 - 1, -(2**31), 99]
    assert call("llrint(x(i))", x).tolist() == [0, 2**63 - 1, 0, 2**63 - 1]
    assert [call(f"{name}(x(i))", x).dtype for name in ("ilogb", "lrint", "llround")] == [np.int32, np.int64, np.int64]


def test_names_of_c() -> None:
    x = np.array([0.5, 1.5], np.float32)
    for pair in ("expf exp", "fabs abs", "fabsf abs", "sqrtf sqrt", "fmaxf fmax", "nearbyint rint", "erf erff"):
        one, other = (f"{n}(x(i), 1)" if "fmax" in n else f"{n}(x(i))" for n in pair.split())
        np.testing.assert_array_equal(call(one, x, dtype="float"), call(other, x, dtype="float"))


def test_integer_functions() -> None:
    x, y = np.array([-7, 7, 12], np.int32), np.array([3, -3, 5], np.int32)
    for text, wanted in {
        "floordiv(x(i), y(i))": x // y,
        "x(i) // y(i)": x // y,
        "floormod(x(i), y(i))": x % y,
        "x(i) / y(i)": x // y,
        "truncdiv(x(i), y(i))": np.trunc(x / y),
        "x(i) % y(i)": x % y,
        "truncmod(x(i), y(i))": np.fmod(x, y),
        "bit_and(x(i), y(i))": x & y,
        "bit_or(x(i), y(i))": x | y,
        "bit_xor(x(i), y(i))": x ^ y,
        "bit_not(x(i))": ~x,
        "shift_left(x(i), 2)": x << 2,
        "shift_right(x(i), 1)": x >> 1,
        "min(x(i), y(i))": np.minimum(x, y),
        "abs(x(i))": np.abs(x),
    }.items():
        np.testing.assert_array_equal(call(text, x, y, dtype="int"), wanted, err_msg=text)


@pytest.mark.parametrize("name", builtin_names())
def test_every_builtin_can_be_called(name: str) -> None:
    count = builtin_arity(find_builtin(name) or "")
    integers = takes_only_integers(find_builtin(name) or "")
    arrays = [np.ones(2, np.int32) if integers else np.full(2, 0.5)] * count
    arguments = [f"{v}(i)" for v in "xyzw"[:count]]
    dtype = "int" if integers else "double"
    assert call(f"{name}({', '.join(arguments)})", *arrays, dtype=dtype).shape == (2,)
    wrong = arguments[1:] if find_builtin(name) in TAKE_SEVERAL else [*arguments, "1"]
    with pytest.raises(LanguageError, match=f"`{name}` takes {count} argument"):
        call(f"{name}({', '.join(wrong)})", *arrays, dtype=dtype)


@pytest.mark.parametrize(("name", "meant"), [("min", np.minimum), ("max", np.maximum), ("fmax", np.fmax)])
def test_extremes_of_several(name: str, meant: np.ufunc) -> None:
    x, y, z = np.random.default_rng(0).standard_normal((3, 7))
    np.testing.assert_array_equal(call(f"{name}(x(i), y(i), z(i), 0.1)", x, y, z), meant(meant(meant(x, y), z), 0.1))


@pytest.mark.parametrize(("text", "value"), [("pi", np.pi), ("-inf", -np.inf), ("2*pi + x(i)*0", 2 * np.pi)])
def test_numbers_that_go_by_names(text: str, value: float) -> None:
    np.testing.assert_array_equal(call(text + " + x(i)*0", np.ones(3)), np.full(3, value))
    assert np.isnan(call("x(i) > 0 ? nan : x(i)", np.ones(3))).all()


def test_names_of_numbers_may_be_names() -> None:
    """As in programs that were written before they were numbers."""
    x = np.float32([1, 2, 3])
    for text, wanted in {
        "def f(float(N) x) -> (y) { y(pi) = x(pi) * pi }": x * [0, 1, 2],
        "def f(float(N) x, float inf) -> (y) { y(i) = min(x(i), inf) }": np.minimum(x, 2),
        "def f(float(nan) x) -> (y) { y(i) = x(i) + nan }": x + 3,
        "def f(float(N) x) -> (y) { pi(i) = x(i)\n y(i) = pi(i) }": x,
    }.items():
        program = next(iter(parse_programs(text).values()))
        np.testing.assert_array_equal(evaluate(program, [x, 2.0][: len(program.params)])[0], wanted)
