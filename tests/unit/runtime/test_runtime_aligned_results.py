"""Results begin at cache lines, whatever framework they are of and however a call got there."""

from __future__ import annotations

import ctypes
import gc
import weakref

import numpy as np
import pytest

import weft
from weft.ir.dtype import parse_dtype
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime import numpy_memory
from weft.runtime.arrays import allocate
from weft.runtime.fastcall_run_text import ALIGNED_FROM

NAMES = {"float32": "float", "float64": "double", "int32": "int", "uint8": "uint8", "float16": "half"}


def doubled(name: str) -> weft.Operator:
    return weft.define(f"def f({NAMES[name]}(N) A) -> (B) {{ B(n) = A(n) + A(n) }}")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("size", [1024, 1025, 4099, 100_003, 3_000_000])
def test_results_begin_at_cache_lines(name: str, size: int) -> None:
    op, a = doubled(name), np.ones(size, name)
    for result in [op(a) for _ in range(4)]:  # the first call is done the slow way
        assert result.nbytes >= ALIGNED_FROM
        assert result.ctypes.data % 64 == 0
        assert result.flags.owndata
        assert result.flags.c_contiguous
        assert result.flags.writeable
        assert result.base is None
        assert (result == 2).all()


@pytest.mark.parametrize("size", [1, 1024, 4099, 100_003])
def test_results_of_torch_begin_at_cache_lines(size: int) -> None:
    torch = pytest.importorskip("torch")
    op, a = doubled("float32"), torch.ones(size)
    assert all(result.data_ptr() % 64 == 0 for result in [op(a) for _ in range(4)])


def test_several_results_of_several_ranks() -> None:
    op = weft.define("def f(float(M,N) A) -> (B, S) { B(n,m) = A(m,n)\n S(m) +=! A(m,n) }")
    a = np.random.default_rng(0).standard_normal((600, 900), np.float32)
    for _ in range(3):
        b, s = op(a)
        assert b.ctypes.data % 64 == s.ctypes.data % 64 == 0
        assert b.ctypes.data % 4096 not in range(64, 512)
        assert (b == a.T).all()
        np.testing.assert_allclose(s, a.sum(1), rtol=1e-3, atol=1e-3)


def test_memory_of_results_is_used_again() -> None:
    op, a = doubled("float32"), np.ones(100_000, np.float32)
    op(a), op(a)
    first = op(a)
    place, seen = first.ctypes.data, weakref.ref(first)
    del first
    gc.collect()
    assert seen() is None
    assert op(a).ctypes.data == place


def test_results_can_be_resized() -> None:
    result = doubled("float32")(np.ones(3000, np.float32))
    result.resize(200_000, refcheck=False)
    assert (result[:3000] == 2).all()
    assert not result[3000:].any()
    result.resize(10, refcheck=False)
    assert (result == 2).all()


def test_an_allocator_chosen_for_numpy_is_used() -> None:
    """Here it is our own, under another name; so numpy's calls of its functions are tried too."""
    choose = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(numpy_memory.exported(304))
    op, a = doubled("float32"), np.ones(3000, np.float32)
    op(a), op(a)
    before = choose(numpy_memory.own_allocator())
    try:
        zeros, result = np.zeros(5000), op(a)
        assert np._core.multiarray.get_handler_name(zeros) == "weft"
        assert np._core.multiarray.get_handler_name(result) == "weft"
        zeros.resize(9000, refcheck=False)
        assert not zeros.any()
        assert (result == 2).all()
    finally:
        choose(before)
    assert np._core.multiarray.get_handler_name(np.zeros(5000)) == "default_allocator"


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (7,), (300, 5)])
def test_arrays_of_any_shape(shape: tuple[int, ...]) -> None:
    dtype = parse_dtype("bfloat16")
    assert dtype is not None
    array = allocate("numpy", dtype, shape)
    assert array.shape == shape
    assert array.dtype == to_numpy(dtype)
    array[...] = 1


@pytest.mark.parametrize("offset", range(0, 64, 4))
@pytest.mark.parametrize("columns", [7, 40, 129])
def test_rows_that_begin_anywhere(offset: int, columns: int) -> None:
    """What a call is given may begin at any element; nothing beside it is touched."""
    op = weft.define("def f(float(M,N) A, float(N) b) -> (C) { C(m,n) = tanh(A(m,n) + b(n)) }")
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((5, columns), np.float32), rng.standard_normal(columns, np.float32)
    memory = np.full(4 * 5 * columns + 4224, 77, np.uint8)
    start = -memory.ctypes.data % 64 + 64 + offset
    out = memory[start : start + 4 * 5 * columns].view(np.float32).reshape(5, columns)
    assert op(a, b, out=out) is out
    np.testing.assert_allclose(out, np.tanh(a + b), rtol=1e-5, atol=1e-6)
    assert (memory[:start] == 77).all()
    assert (memory[start + out.nbytes :] == 77).all()
