"""Kernels in memory: slots, runtime symbols, and the fast call's decision against a plain statement of it."""

from __future__ import annotations

import ctypes
import math
import struct

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.errors import InternalError, TargetError
from weft.ir.numpy_dtypes import from_numpy, to_numpy
from weft.runtime.arrays import describe, overlaps_itself
from weft.runtime.fastcall import MISS, CallTable, Specialization, TensorLayout, fast_calls_available
from weft.runtime.kernel import load_kernel, pack_slots, scalar_bits, status_error
from weft.target.cpu.host import host_machine
from weft.target.cpu.llvm import compile_llvm

MEMORY = """
declare ptr @weft_alloc(i64)
declare void @weft_free(ptr)
declare ptr @memset(ptr, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memmove(ptr, ptr, i64)

define i32 @run(ptr %args) {
  %out = load ptr, ptr %args
  %bytes.at = getelementptr i64, ptr %args, i64 1
  %bytes = load i64, ptr %bytes.at
  %p = call ptr @weft_alloc(i64 %bytes)
  %none = icmp eq ptr %p, null
  br i1 %none, label %fail, label %go
fail:
  ret i32 -1
go:
  %m = call ptr @memset(ptr %p, i32 7, i64 %bytes)
  %c = call ptr @memcpy(ptr %out, ptr %p, i64 16)
  %after = getelementptr i8, ptr %out, i64 8
  %v = call ptr @memmove(ptr %after, ptr %out, i64 12)
  %address = ptrtoint ptr %p to i64
  %rest = and i64 %address, 63
  %at = getelementptr i8, ptr %out, i64 24
  store i64 %rest, ptr %at
  call void @weft_free(ptr %p)
  ret i32 0
}
"""


def test_kernels_reach_the_runtime():
    kernel = load_kernel(compile_llvm(MEMORY, host_machine()), "run", (None, dt.int64))
    for size in (16, 17, 1000, 1 << 20):
        out = np.zeros(32, np.uint8)
        kernel.run((out.ctypes.data, size))
        assert (out[:20] == 7).all()
        assert not out[24:].any(), "64-byte alignment"
    with pytest.raises(TargetError, match="out of memory"):
        kernel.run((out.ctypes.data, 1 << 62))


@pytest.mark.parametrize(
    ("dtype", "value", "bits"),
    [
        (dt.int8, -1, 2**64 - 1), (dt.uint8, 200, 200), (dt.bool_, True, 1), (dt.uint64, 2**64 - 1, 2**64 - 1),
        (dt.float32, 1.5, 0x3FC00000), (dt.float16, 1.5, 0x3FC00000), (dt.bfloat16, -2.0, 0xC0000000),
        (dt.float64, 1.5, 0x3FF8000000000000), (dt.float32, 1e300, 0x7F800000), (dt.float32, -1e300, 0xFF800000),
        (dt.float32, math.inf, 0x7F800000), (dt.float32, 3, 0x40400000),
    ],
)  # fmt: skip
def test_scalars_as_bits(dtype, value, bits):
    assert scalar_bits(dtype, value) == bits


def test_nan_stays_nan():
    assert math.isnan(struct.unpack("<f", scalar_bits(dt.float32, math.nan).to_bytes(8, "little")[:4])[0])


def test_slots():
    slots = pack_slots((None, dt.int32), (0x1234, -5), 99)
    assert list(slots) == [0x1234, 2**64 - 5, 99]
    with pytest.raises(InternalError, match="2 parameters was called with 1"):
        pack_slots((None, dt.int32), (1,), 0)


def test_unknown_status():
    assert isinstance(status_error(5, [0] * 8, ["one"]), InternalError)
    assert status_error(1, [3, 9, *[0] * 6], ["{1} beyond {0}"]).what == "9 beyond 3"


NOTHING = "define i32 @nothing(ptr %args) {\n  ret i32 0\n}"


def random_array(rng: np.random.Generator) -> np.ndarray:
    dtype = to_numpy(rng.choice([dt.float32, dt.float64, dt.int32, dt.int8]))
    shape = tuple(rng.choice([0, 1, 1, 2, 3], rng.integers(0, 4)))
    steps = [rng.choice([1, 1, 1, 2, -1, 0]) for _ in shape]
    base = np.zeros([n * 2 + 1 for n in shape], dtype)
    cuts = tuple(slice(None, None, int(s) or 1) for s in steps)
    view = np.asarray(base[cuts][tuple(slice(0, int(n)) for n in shape)])
    if shape and steps[0] == 0:
        view = np.lib.stride_tricks.as_strided(view, view.shape, (0, *view.strides[1:]))
    return view.T if rng.integers(2) else view


def fits(layout: TensorLayout, array: np.ndarray) -> bool:
    """What the machine code must decide, in Python."""
    if from_numpy(array.dtype) != layout.dtype or array.shape != layout.shape:
        return False
    strides = [s // array.itemsize for s in array.strides]
    relevant = [(a, b) for a, b, n in zip(strides, layout.strides, array.shape) if n > 1 and 0 not in array.shape]
    return all(a == b for a, b in relevant)


@pytest.mark.skipif(not fast_calls_available(), reason="no fast calls in this interpreter")
def test_fast_calls_decide_like_the_rule():
    rng = np.random.default_rng(3)
    code = compile_llvm(NOTHING, host_machine())
    pool = [random_array(rng) for _ in range(120)]
    hits = 0
    for model in pool[:40]:
        info = describe(model)
        layout = TensorLayout(info.dtype, info.shape, info.strides)
        table = CallTable(1, 1)
        kernel = load_kernel(code, "nothing", (None, None))
        table.add(Specialization(kernel, (layout,), (0,), (layout,), (1,)))
        for array in pool:
            expected = fits(layout, array)
            made = table.call(None, array)
            assert (made is not MISS) == (expected and layout.is_dense)
            out = np.lib.stride_tricks.as_strided(np.zeros(600, array.dtype)[300:], array.shape, array.strides)
            assert (table.call(out, array) is out) == expected
            hits += expected
            if made is not MISS:
                assert made.shape == array.shape
                assert not overlaps_itself(describe(made))
    assert hits > 50


def test_entry_must_exist():
    with pytest.raises(TargetError, match="defines no `missing`"):
        load_kernel(compile_llvm(NOTHING, host_machine()), "missing", ())


def test_addresses_are_callable():
    kernel = load_kernel(compile_llvm(NOTHING, host_machine()), "nothing", ())
    assert ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(kernel.address)(None) == 0
