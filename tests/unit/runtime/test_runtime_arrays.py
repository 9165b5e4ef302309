"""Everything callers pass is described rightly or refused with an error that helps."""

from __future__ import annotations

import array
import decimal
import sys

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.errors import ArgumentError, TargetError, UnsupportedError
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.span import Source, Span
from weft.runtime.arrays import (
    allocate,
    describe,
    describe_output,
    numpy_dtype,
    overlaps,
    overlaps_itself,
    scalar_value,
)

SPAN = Span(Source("mm.weft", "def mm(float(M,K) A) -> (C) {"), 1, 19, 20)


def read(info) -> np.ndarray:
    """The elements an info describes, read through its pointer and strides."""
    import ctypes

    out = np.empty(info.shape, to_numpy(info.dtype))
    size = info.dtype.itemsize
    for index in np.ndindex(*info.shape):
        at = info.pointer + sum(i * s for i, s in zip(index, info.strides)) * size
        out[index] = np.frombuffer(ctypes.string_at(at, size), out.dtype)[0]
    return out


BASE = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    "value",
    [
        BASE, BASE.T, BASE[::-1, ::-2], BASE[1:3, 2:], np.broadcast_to(BASE[0], (3, 6)), np.asfortranarray(BASE),
        BASE[:0], np.zeros((2, 0, 3), np.float32), BASE[1, 1], np.array(2.5, np.float32), BASE.reshape(1, 4, 1, 6),
    ],
)  # fmt: skip
def test_numpy_views(value):
    info = describe(value, dtype="float32")
    assert info.framework == "numpy"
    assert info.shape == np.shape(value)
    np.testing.assert_array_equal(read(info), value)


@pytest.mark.parametrize("dtype", dt.SCALAR_TYPES.values(), ids=str)
def test_every_type(dtype):
    value = np.ones((2, 3)).astype(to_numpy(dtype))
    info = describe(value)
    assert info.dtype == dtype
    assert numpy_dtype(dtype.name) == value.dtype
    np.testing.assert_array_equal(read(info), value)
    assert allocate("numpy", dtype, (3, 1)).dtype == value.dtype


def test_misaligned_and_packed_inputs_are_copied():
    raw = np.zeros(4 * 8 + 1, np.uint8)
    value = raw[1:].view(np.float32)
    value[:] = np.arange(8)
    record = np.zeros(5, np.dtype([("a", "i1"), ("x", "f8")]))
    record["x"] = np.arange(5)
    for v in (value, record["x"]):
        info = describe(v, name="A")
        assert "copied" in info.note
        np.testing.assert_array_equal(read(info), v)
        with pytest.raises(ArgumentError, match="cannot be an output"):
            describe_output(v, name="A")


def test_other_exporters():
    class Interface:
        __array_interface__ = BASE.__array_interface__

    class Dlpack:
        def __dlpack__(self, **named):
            return BASE.__dlpack__(**named)

        def __dlpack_device__(self):
            return BASE.__dlpack_device__()

    for value in (Interface(), Dlpack(), memoryview(BASE)):
        info = describe(value, dtype=dt.float32)
        assert info.pointer == BASE.ctypes.data
        np.testing.assert_array_equal(read(info), BASE)
    assert describe(array.array("i", [1, 2])).dtype == dt.int32
    assert describe(b"abc").writable is False
    assert describe_output(bytearray(3)).shape == (3,)


def test_exporters_that_fail_become_our_error():
    class Broken:
        def __dlpack__(self, **_):
            raise BufferError("not today")

        def __dlpack_device__(self):
            return (1, 0)

    class Elsewhere(Broken):
        def __dlpack_device__(self):
            return (10, 3)  # ROCm

    with pytest.raises(ArgumentError, match="not today"):
        describe(Broken())
    with pytest.raises(ArgumentError, match="DLPack device 10:3"):
        describe(Elsewhere())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1.0], "is a list, not an array"),
        (3.5, "is a float, not an array"),
        (None, "is a NoneType, not an array"),
        ("abc", "is a str, not an array"),
        (BASE.astype(">f4"), "byte-swapped"),
        (np.array([object()]), "holds object"),
        (np.array(["x"]), "holds <U1"),
        (np.array(["2020-01-01"], "M8[D]"), "holds datetime64"),
        (np.zeros(2, [("a", "f4")]), "not numbers"),
        (np.ma.masked_array(BASE), "masked"),
        (BASE.astype(np.float64), "must be float32, not float64"),
    ],
)
def test_refused(value, text):
    with pytest.raises(ArgumentError, match="argument `A`") as caught:
        describe(value, name="A", dtype="float32", span=SPAN)
    assert text in str(caught.value)
    assert "mm.weft:1" in str(caught.value)


@pytest.mark.parametrize("kind", [np.complex64, np.longdouble])
def test_unsupported_types(kind):
    with pytest.raises(UnsupportedError, match="does not compute with"):
        describe(np.zeros(3, kind))


def test_full_text_of_a_wrong_type():
    with pytest.raises(ArgumentError) as caught:
        describe(np.zeros(3), name="A", dtype="float32", span=SPAN)
    assert str(caught.value) == (
        "error: argument `A` must be float32, not float64\n"
        "  mm.weft:1       def mm(float(M,K) A) -> (C) {\n"
        "                                    ^\n"
        "  why:   it was called with an array of float64\n"
        "  help:  convert it: A.astype(numpy.float32)"
    )


def test_outputs_must_be_writable_and_apart():
    locked = BASE.copy()
    locked.flags.writeable = False
    with pytest.raises(ArgumentError, match="read-only"):
        describe_output(locked)
    for strides in ((0, 4), (8, 4)):
        value = np.lib.stride_tricks.as_strided(BASE, (3, 4), strides)
        with pytest.raises(ArgumentError, match="several elements in one place"):
            describe_output(value)
    for value in (BASE, BASE.T, BASE[::-2, ::3], BASE[:0], np.zeros(()), BASE[:1]):
        describe_output(value)


@pytest.mark.parametrize("seed", range(40))
def test_self_overlap_is_never_missed(seed, first_seed):
    rng = np.random.default_rng(first_seed + seed)
    shape = tuple(rng.integers(1, 4, rng.integers(1, 4)))
    strides = tuple(int(s) * 4 for s in rng.integers(-4, 5, len(shape)))
    memory = np.arange(200, dtype=np.float32)
    view = np.lib.stride_tricks.as_strided(memory[100:], shape, strides)
    distinct = len(np.unique(view)) == view.size
    assert overlaps_itself(describe(view)) or distinct


def test_overlap():
    memory = np.zeros(100, np.float32)
    info = lambda v: describe(v)
    assert overlaps(info(memory[:50]), info(memory[49:]))
    assert not overlaps(info(memory[:50]), info(memory[50:]))
    assert not overlaps(info(memory[::2]), info(memory[1::2]))
    assert overlaps(info(memory[::2]), info(memory[::3]))
    assert overlaps(info(memory[::-1]), info(memory[99:]))
    assert not overlaps(info(memory[50:50]), info(memory))
    square = memory.reshape(10, 10)
    assert not overlaps(info(square[:, :5]), info(square[:, 5:]))
    assert overlaps(info(square.T), info(square[3]))


@pytest.mark.parametrize("seed", range(30))
def test_overlap_agrees_with_numpy(seed, first_seed):
    rng = np.random.default_rng(first_seed + seed)
    memory = np.arange(400, dtype=np.int16)

    def view():
        shape = tuple(rng.integers(1, 5, 2))
        strides = tuple(int(s) * 2 for s in rng.integers(-6, 7, 2))
        return np.lib.stride_tricks.as_strided(memory[rng.integers(100, 160) :], shape, strides)

    for _ in range(20):
        a, b = view(), view()
        assert overlaps(describe(a), describe(b)) == bool(set(a.ravel()) & set(b.ravel()))


@pytest.mark.parametrize(
    ("value", "dtype", "want"),
    [
        (3, "int32", 3), (True, "int32", 1), (np.int8(-3), "int64", -3), (np.array(7), "uint8", 7),
        (2, "float32", 2.0), (2.5, "float64", 2.5), (np.float16(0.5), "float32", 0.5), (True, "float32", 1.0),
        (np.array(1.5, np.float32), "float64", 1.5), (True, "bool", True), (np.bool_(False), "bool", False),
        (2**64 - 1, "uint64", 2**64 - 1), (float("nan"), "float32", float("nan")),
    ],
)  # fmt: skip
def test_scalars(value, dtype, want):
    got = scalar_value(value, dtype)
    assert type(got) is type(want)
    assert got == want or want != want


def test_bfloat16_scalar():
    import ml_dtypes

    assert scalar_value(ml_dtypes.bfloat16(1.5), "float32") == 1.5


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (2.0, "int32", "must be int32, not 2.0"),
        (np.float32(1), "int64", "must be int64"),
        (300, "uint8", "300 is not between 0 and 255"),
        (-1, "uint64", "does not fit uint64"),
        (1, "bool", "must be bool, not 1"),
        ("1", "int32", "must be a number, not a str"),
        (None, "float32", "must be a number"),
        (1j, "float32", "must be a number, not a complex"),
        (np.complex64(1), "float32", "must be a number"),
        (np.zeros(1), "float32", "not an array of shape (1,)"),
        (10**400, "float32", "too large"),
        (decimal.Decimal(1), "float32", "must be a number, not a Decimal"),
    ],
)
def test_wrong_scalars(value, dtype, text):
    with pytest.raises(ArgumentError, match="argument `S`") as caught:
        scalar_value(value, dtype, name="S", span=SPAN)
    assert text in str(caught.value)


def test_impossible_allocations():
    with pytest.raises(TargetError, match="cannot allocate"):
        allocate("numpy", dt.float64, (1 << 40, 1 << 15))


def test_torch_is_not_imported():
    import subprocess

    code = "import sys, numpy, weft.runtime.arrays as a; a.describe(numpy.zeros(3)); assert 'torch' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
