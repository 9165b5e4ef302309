"""Arrays of every layout and kind that must work: no copy asked of the caller, the right result, untouched inputs."""

from __future__ import annotations

import array
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft

Array = np.ndarray[Any, Any]
AFFINE = "def affine(float(M,N) X) -> (Y) { Y(i,j) = X(i,j) * 2 + 1 }"
base = np.arange(48, dtype=np.float32).reshape(6, 8)


def packed_field() -> Array:
    records = np.zeros((6, 8), [("flag", "u1"), ("value", "f4")])
    records["value"] = base
    return records["value"]


def aligned_field() -> Array:
    records = np.zeros((6, 8), [("left", "f4"), ("value", "f4")])
    records["value"] = base
    return records["value"]


def misaligned() -> Array:
    made = np.zeros(48 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(6, 8)
    made[...] = base
    return made


def as_strided(shape: tuple[int, ...], strides: tuple[int, ...], start: int = 0) -> Array:
    return np.lib.stride_tricks.as_strided(base.reshape(-1)[start:], shape, [4 * s for s in strides])


class Named(np.ndarray[Any, Any]):
    """A subclass of arrays, as libraries make them."""


LAYOUTS: dict[str, Callable[[], Array]] = {
    "plain": lambda: base,
    "fortran": lambda: np.asfortranarray(base),
    "transposed": lambda: base.T,
    "sliced": lambda: base[1:5:3, 2::2],
    "reversed": lambda: base[::-1, ::-1],
    "reversed rows": lambda: base[::-1],
    "reversed columns by 3": lambda: base[:, ::-3],
    "broadcast rows": lambda: np.broadcast_to(base[0], (5, 8)),
    "broadcast columns": lambda: np.broadcast_to(base[:, :1], (6, 9)),
    "broadcast number": lambda: np.broadcast_to(np.float32(3), (4, 7)),
    "zero and negative strides": lambda: as_strided((3, 5), (0, -2), 20),
    "windows": lambda: np.lib.stride_tricks.sliding_window_view(base[0], 3),
    "diagonal": lambda: as_strided((3, 4), (9, 11)),
    "huge stride of one row": lambda: as_strided((1, 8), (1 << 40, 1)),
    "one element": lambda: base[2:3, 3:4],
    "no rows": lambda: base[:0],
    "no columns, reversed": lambda: base[:, :0][::-1],
    "neither": lambda: np.zeros((0, 0), np.float32),
    "read-only": lambda: np.frombuffer(base.tobytes(), np.float32).reshape(6, 8),
    "packed field": packed_field,
    "aligned field": aligned_field,
    "misaligned": misaligned,
    "subclass": lambda: base.view(Named),
    "record array": lambda: base.view(np.recarray),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_input_of_any_layout(layout: str) -> None:
    affine = weft.define(AFFINE)
    x = LAYOUTS[layout]()
    before = np.array(x)
    for _ in range(3):  # checked slowly, then fast
        result = affine(x)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, before * 2 + 1)
        np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("layout", ["plain", "fortran", "reversed", "sliced", "aligned field", "no rows"])
def test_an_output_of_any_layout(layout: str) -> None:
    affine = weft.define(AFFINE)
    out = LAYOUTS[layout]().copy() if layout != "sliced" else np.zeros((8, 12), np.float32)[1:5:3, 2:10:2]
    if layout == "reversed":
        out = np.zeros((6, 8), np.float32)[::-1, ::-1]
    x = np.random.default_rng(0).random(out.shape, np.float32)
    for _ in range(3):
        out[...] = -1
        assert affine(x, out=out) is out
        np.testing.assert_array_equal(out, x * 2 + 1)


def test_an_output_between_other_elements_leaves_them_alone() -> None:
    affine = weft.define(AFFINE)
    whole = np.full((6, 8), 9, np.float32)
    affine(np.ones((3, 4), np.float32), out=whole[::2, 1::2])
    expected = np.full((6, 8), 9, np.float32)
    expected[::2, 1::2] = 3
    np.testing.assert_array_equal(whole, expected)


def test_outputs_that_interleave_do_not_overlap() -> None:
    two = weft.define("def two(float(N) X) -> (Y, Z) { Y(i) = X(i)\n Z(i) = -X(i) }")
    whole = np.zeros(12, np.float32)
    x = np.arange(6, dtype=np.float32)
    two(x, out=(whole[::2], whole[1::2]))
    np.testing.assert_array_equal(whole, np.stack([x, -x], 1).reshape(-1))
    results = [np.zeros(6, np.float32), np.zeros(6, np.float32)]
    assert two(x, out=results) is results
    np.testing.assert_array_equal(results[1], -x)


@pytest.mark.parametrize(
    "x",
    [
        array.array("f", [1, 2, 3]),
        memoryview(np.float32([1, 2, 3])),
        memoryview(np.float32([3, 9, 2, 9, 1]))[::-2],
        (np.ctypeslib.ctypes.c_float * 3)(1, 2, 3),
    ],
    ids=["array", "memoryview", "strided memoryview", "ctypes"],
)
def test_anything_with_the_buffer_protocol(x: object) -> None:
    double = weft.define("def double_(float(N) X) -> (Y) { Y(i) = X(i) * 2 }")
    for _ in range(2):
        np.testing.assert_array_equal(double(x), [2, 4, 6])


def test_arrays_of_no_and_of_many_dimensions() -> None:
    total = weft.define("def total(float(N) X) -> (Y) { Y +=! X(i) }")
    assert total(base[0]).shape == ()
    assert total(base[0]) == 28
    out = np.zeros((), np.float32)
    assert total(base[0], out=out) is out
    assert out == 28
    names = "a,b,c,d,e,f,g,h"
    eight = weft.define(f"def eight(float({names.upper()}) X) -> (Y) {{ Y({names}) = X({names}) + 1 }}")
    x = np.random.default_rng(0).random((2, 1, 3, 2, 1, 2, 3, 2), np.float32)[..., ::-1, :]
    np.testing.assert_array_equal(eight(x), x + 1)


def test_an_operator_without_parameters() -> None:
    count = weft.define("def count() -> (Y) { Y(i) = float(i) where i in 0:4 }")
    for _ in range(3):
        np.testing.assert_array_equal(count(), [0, 1, 2, 3])


def test_bytes_that_are_no_bool_count_as_true() -> None:
    strange = np.array([0, 1, 2, 255, 128] * 20, np.uint8).view(np.bool_)
    count = weft.define("def count(bool(N) X) -> (Y) { Y +=! int(X(i)) }")
    assert count(strange) == 80


def test_torch_tensors_of_any_layout() -> None:
    torch = pytest.importorskip("torch")
    affine = weft.define(AFFINE)
    x = torch.arange(48, dtype=torch.float32).reshape(6, 8)
    views = (x, x.t(), x[::2, 1:], x[0].expand(5, 8), x[:0], x.as_strided((5, 4), (1, 9)), x.view(6, 2, 4)[:, 1])
    for view in (*views, torch._neg_view(x), x.clone().requires_grad_().detach()):
        for _ in range(3):
            result = affine(view)
            assert isinstance(result, torch.Tensor)
            assert torch.equal(result, view * 2 + 1)
    out = torch.zeros(8, 6).t()
    assert affine(x, out=out) is out
    assert torch.equal(out, x * 2 + 1)
    with torch.no_grad():
        assert torch.equal(affine(torch.nn.Parameter(x)), x * 2 + 1)


def test_the_first_array_decides_the_framework() -> None:
    torch = pytest.importorskip("torch")
    add = weft.define("def add(float(N) X, float(N) Y) -> (Z) { Z(i) = X(i) + Y(i) }")
    x = np.ones(3, np.float32)
    assert isinstance(add(torch.ones(3), x), torch.Tensor)
    assert isinstance(add(x, torch.ones(3)), np.ndarray)
    assert isinstance(add(torch.ones(3), torch.ones(3), out=x.copy()), np.ndarray)


#: More elements than 32 bits count, all of them one byte of memory.
MANY = (1 << 32) + 7


def test_positions_beyond_32_bits() -> None:
    tail = weft.define(
        """def tail(int8(N) X) -> (int64 Y, int64 P) {
            Y +=! int64(X(i)) where i in N-5:N
            P(k) = int64(N-1-2*k) * int64(X(N-1-2*k)) where k in 0:3
        }"""
    )
    total, positions = tail(np.broadcast_to(np.int8(3), (MANY,)))
    assert total == 15
    np.testing.assert_array_equal(positions, [3 * (MANY - 1), 3 * (MANY - 3), 3 * (MANY - 5)])


def test_lookups_beyond_32_bits() -> None:
    # That many rows share three elements: each begins where the one before did.
    x = np.lib.stride_tricks.as_strided(np.int8([1, 2, 3]), (MANY, 3), (0, 1))[::-1, ::-1]
    rows = weft.define("def rows(int8(M,N) X, int64(K) I) -> (Y) { Y(k,j) = X(I(k),j) }")
    np.testing.assert_array_equal(rows(x, np.array([0, MANY - 1, 1 << 31])), [[3, 2, 1]] * 3)
    with pytest.raises(weft.ShapeError, match=rf"I\[1\] = {MANY}, but X has {MANY} rows"):
        rows(x, np.array([0, MANY, 1 << 31]))


@pytest.mark.skipif(os.environ.get("WEFT_BIG_TESTS") != "1", reason="takes 7 GB; set WEFT_BIG_TESTS=1")
def test_more_than_2_to_the_31_elements() -> None:
    n = (1 << 31) + 17
    x = np.zeros(n, np.int8)
    x[[0, 1, (1 << 31) - 1, 1 << 31, n - 1]] = [1, 2, 3, 4, 5]
    y = weft.define("def f(int8(N) X) -> (Y) { Y(i) = X(i) * 2 }")(x)
    np.testing.assert_array_equal(y[[0, 1, (1 << 31) - 1, 1 << 31, n - 1]], [2, 4, 6, 8, 10])
    del y
    assert weft.define("def s(int8(N) X) -> (int64 Y) { Y +=! int64(X(i)) }")(x) == 15
    copied = weft.define("def c(int8(N) X) -> (int8(N) Y) { Y(i) = X(N-1-i) }")(x)
    np.testing.assert_array_equal(copied[::-1][[0, 1, n - 1]], [1, 2, 5])
