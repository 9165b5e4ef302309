"""Calls with arrays on a GPU, with a driver that interprets what it is to launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeDriver, OnGpu, gpu, host

import weft
from weft.ir.errors import ArgumentError, ShapeError, TargetError

__all__ = ["gpu"]
MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
AXPY = "def axpy(float(N) X, float(N) Y, float a) -> (Z) { Z(i) = a * X(i) + Y(i) }"
LOOKUP = "def lookup(float(E) T, int(N) I) -> (O) { O(i) = T(I(i)) }"


def random(*shape: int) -> Any:
    return np.random.default_rng(3).random(shape, dtype=np.float32)


def test_a_call(gpu: FakeDriver) -> None:
    mm = weft.define(MM, schedule="naive")
    a, b = random(4, 3), random(3, 5)
    for n in range(3):
        c = mm(OnGpu(a + n), OnGpu(b))
        assert isinstance(c, weft.cuda.DeviceArray)
        np.testing.assert_allclose(c.numpy(), (a + n) @ b, rtol=1e-6)
    assert len(gpu.launches) == 3
    assert gpu.called("cuModuleLoadData") == 1
    out = OnGpu(np.full((4, 5), np.nan, np.float32))
    for _ in range(2):
        assert mm(OnGpu(a), OnGpu(b), out=out) is out
        np.testing.assert_allclose(out.array, a @ b, rtol=1e-6)


def test_numbers_and_several_calls(gpu: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    x = random(10)
    for a in (2.0, 3, True, np.float32(0.5), 1e39, float("-inf")):
        with np.errstate(all="ignore"):
            expected = np.float32(a) * x + x
        np.testing.assert_allclose(axpy(OnGpu(x), OnGpu(x), a).numpy(), expected, rtol=1e-6)


def test_code_is_kept(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x = random(11)
    weft.define(AXPY, schedule="naive")(OnGpu(x), OnGpu(x), 1.0)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a warm start must not compile")

    monkeypatch.setattr("weft.target.cuda.lower.compile_kernel", refuse)
    again = weft.define(AXPY, schedule="naive")(OnGpu(x), OnGpu(x), 1.0)
    np.testing.assert_allclose(again.numpy(), 2 * x)


def test_alignment_is_part_of_what_code_is_for(gpu: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    base = np.zeros(64, np.float32)
    start = -base.ctypes.data // 4 % 4
    aligned, other = base[start : start + 8], base[start + 1 : start + 9]
    axpy(OnGpu(aligned), OnGpu(aligned), 1.0)
    axpy(OnGpu(aligned), OnGpu(other), 1.0)
    assert gpu.called("cuModuleLoadData") == 2
    assert len(axpy._known) == 2
    assert any("but for Y" in key for key in axpy._known)


def test_dynamic_sizes(gpu: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive", dynamic=["N"])
    for n in (5, 8, 5):
        x = random(n)
        np.testing.assert_allclose(axpy(OnGpu(x), OnGpu(x), 2.0).numpy(), 3 * x, rtol=1e-6)
    assert [grid for _, _, grid in gpu.launches] == [(5, 1, 1), (8, 1, 1), (5, 1, 1)]


def test_empty_grids_are_not_launched(gpu: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive", dynamic=["N"])
    x = random(0)
    assert axpy(OnGpu(x), OnGpu(x), 2.0).shape == (0,)
    assert not gpu.launches


def test_devices_do_not_mix(gpu: FakeDriver) -> None:
    mm = weft.define(MM, schedule="naive")
    a = random(4, 4)
    mm(OnGpu(a), OnGpu(a))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="`A` is on `cuda:0` and `B` on `cpu`"):
            mm(OnGpu(a), a)
        with pytest.raises(ArgumentError, match="`A` is on `cpu` and `C` on `cuda:0`"):
            mm(a, a, out=OnGpu(a))
        with pytest.raises(ArgumentError, match="`B` is bound to an array on `cpu`, and this call is on `cuda:0`"):
            mm.bind(B=a)(OnGpu(a))
    np.testing.assert_allclose(mm(a, a), a @ a, rtol=1e-5)


def test_outputs_that_overlap(gpu: FakeDriver) -> None:
    scaled = weft.define("def scaled(float(N) X) -> (Z) { Z(i) = X(i) * 2 }", schedule="naive")
    x = random(16)
    scaled(OnGpu(x[:8]), out=OnGpu(x[8:]))
    for _ in range(2):
        with pytest.raises(ArgumentError, match="overlaps `X` in memory"):
            scaled(OnGpu(x[:8]), out=OnGpu(x[4:12]))
    np.testing.assert_allclose(x[8:], 2 * x[:8])


def test_an_assert_is_told_at_the_next_call(gpu: FakeDriver) -> None:
    lookup = weft.define(LOOKUP, schedule="naive")
    other = weft.define(AXPY, schedule="naive")
    table = OnGpu(random(6))
    good, bad = OnGpu(np.int32([1, 5])), OnGpu(np.int32([1, 7]))
    for _ in range(2):
        lookup(table, bad)
        with pytest.raises(ShapeError) as caught:
            other(table, table, 1.0)
        assert "in:    lookup on cuda:0" in str(caught.value)
        assert caught.value.span is not None
        np.testing.assert_allclose(lookup(table, good).numpy(), host(table)[[1, 5]])
        weft.cuda.synchronize()
    lookup(table, bad)
    with pytest.raises(ShapeError):
        weft.cuda.synchronize()


def test_errors_of_the_driver(gpu: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    x = OnGpu(random(12))
    gpu.fail["cuModuleLoadData"] = 900
    with pytest.raises(TargetError, match="call it once before capturing"):
        axpy(x, x, 1.0)
    gpu.fail = {"cuMemAllocAsync": 2}
    with pytest.raises(TargetError, match="out of memory on the GPU"):
        axpy(x, x, 1.0)
    gpu.fail = {"cuLaunchKernelEx": 700}
    with pytest.raises(TargetError) as caught:
        axpy(x, x, 1.0)
    assert "illegal address" in str(caught.value)
    assert "axpy" in str(caught.value)
    assert "weft.sanitize" in str(caught.value)
    gpu.fail = {}
    np.testing.assert_allclose(axpy(x, x, 1.0).numpy(), 2 * host(x))


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    if weft.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(TargetError, match="kernels cannot run on a GPU here"):
        weft.define(AXPY)(OnGpu(random(3)), OnGpu(random(3)), 1.0)
    with pytest.raises(TargetError, match="kernels cannot run on a GPU here"):
        weft.cuda.synchronize()


def test_arrays_with_the_cuda_array_interface(gpu: FakeDriver) -> None:
    class Interface:
        def __init__(self, array: Any, stream: int) -> None:
            self.array = array
            shape, kind = array.shape, array.dtype.str
            data = (array.ctypes.data, False)
            self.__cuda_array_interface__ = {
                "shape": shape, "typestr": kind, "data": data, "version": 3, "stream": stream,
            }  # fmt: skip

    x = random(9)
    z = weft.define(AXPY, schedule="naive")(Interface(x, 55), Interface(x, 1), 1.0)
    np.testing.assert_allclose(z.numpy(), 2 * x)
    assert ("cuEventRecord", "event", 55) in gpu.log
    assert ("cuStreamWaitEvent", 1, "event", 0) in gpu.log


def test_loop_programs(gpu: FakeDriver) -> None:
    twice = weft.kernel(
        "kernel twice(X: float32[n], out Y: float32[n], n: int64) { for i in 0:n { Y[i] = X[i] * 2.0 } }"
    )
    x, y = random(7), np.zeros(7, np.float32)
    twice(OnGpu(x), OnGpu(y), 7)
    np.testing.assert_allclose(y, 2 * x)
    twice(OnGpu(x), Y=OnGpu(y), n=7)
    assert gpu.called("cuModuleLoadData") == 1
    with pytest.raises(ShapeError, match="must have the shape \\(8,\\), not \\(7,\\)"):
        twice(OnGpu(x), OnGpu(y), 8)


def test_guards_say_what_is_compiled_for_a_gpu(gpu: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    x = OnGpu(random(8))
    axpy(x, x, 1.0)
    assert "on cuda:0" in axpy.guards()
    assert "do not begin at a multiple of 16 bytes" in axpy.guards()


def test_a_fault_on_the_way_to_a_gpu_is_reproduced(gpu: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr("weft.target.cuda.lower.compile_kernel", fail)
    x = OnGpu(random(13))
    with pytest.raises(weft.InternalError, match="planted") as caught:
        weft.define(AXPY, schedule="naive")(x, x, 1.0)
    assert caught.value.reproduction is not None
    script = Path(caught.value.reproduction).read_text()
    assert 'op.show("ptx", X=make(' in script
    Path(caught.value.reproduction).unlink()


def test_bound_values(gpu: FakeDriver) -> None:
    mm = weft.define(MM, schedule="naive")
    a, b = random(4, 3), random(3, 5)
    layer = mm.bind(B=OnGpu(b))
    for n in range(2):
        np.testing.assert_allclose(layer(OnGpu(a + n)).numpy(), (a + n) @ b, rtol=1e-6)
    with pytest.raises(ArgumentError, match="`B` is bound to an array on `cuda:0`, and this call is on `cpu`"):
        layer(a)
    whole = mm.bind(A=OnGpu(a), B=OnGpu(b))
    np.testing.assert_allclose(whole().numpy(), a @ b, rtol=1e-6)


def test_outputs_start_from_what_the_program_says(gpu: FakeDriver) -> None:
    count = weft.define("def count(int(N) I, float(M) Z) -> (float(M) O) { O(I(i)) += 1.0 }", schedule="naive")
    for _ in range(2):
        found = count(OnGpu(np.int32([0, 2, 2])), OnGpu(random(4)))
        np.testing.assert_array_equal(found.numpy(), [1, 0, 2, 0])


def test_loop_programs_are_checked_again_for_other_sizes(gpu: FakeDriver) -> None:
    twice = weft.kernel(
        "kernel twice(X: float32[n], out Y: float32[n], n: int64) { for i in 0:n { Y[i] = X[i] + X[i] } }"
    )
    base = random(16)
    x, y = base[:8], np.zeros(8, np.float32)
    for _ in range(3):
        twice(OnGpu(x), OnGpu(y), 8)
        np.testing.assert_array_equal(y, x + x)
        with pytest.raises(ShapeError):
            twice(OnGpu(x), OnGpu(y), 7)
        with pytest.raises(ArgumentError, match="overlap"):
            twice(OnGpu(x), OnGpu(base[4:12]), 8)
    assert gpu.called("cuModuleLoadData") == 1
