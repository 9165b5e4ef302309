"""CuPy's arrays by machine code, with a module that says what CuPy would."""

from __future__ import annotations

import contextlib
import gc
import sys
import types
from typing import Any

import numpy as np
import pytest
from fake_gpu import FakeDriver, gpu
from test_operators_device_fastcall import AXPY, SCALED, aligned, here, random, warm

import weft
from weft.ir.errors import ArgumentError
from weft.runtime import fastcall

__all__ = ["gpu", "here"]
pytestmark = pytest.mark.skipif(not fastcall.fast_calls_available(), reason="no fast calls in this interpreter")
STREAM = [0]


class Ndarray:
    """As much of cupy.ndarray as is read."""

    def __init__(self, array: Any, device: int = 0) -> None:
        self.array, self.dtype = array, array.dtype
        self.data = types.SimpleNamespace(ptr=array.ctypes.data, device_id=device)
        self.device = types.SimpleNamespace(id=device)

    @property
    def shape(self) -> Any:
        return tuple(map(int, self.array.shape))

    @property
    def strides(self) -> Any:
        return tuple(map(int, self.array.strides))

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, self.device.id)

    __dlpack__ = None


def empty(shape: Any, dtype: Any) -> Ndarray:
    return Ndarray(aligned(np.full(shape, np.nan, dtype)))


CUPY = types.SimpleNamespace(
    ndarray=Ndarray,
    empty=empty,
    cuda=types.SimpleNamespace(
        get_current_stream=lambda: types.SimpleNamespace(ptr=STREAM[0]), Device=lambda _: contextlib.nullcontext()
    ),
)


@pytest.fixture(autouse=True)
def cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", CUPY)


def test_given_and_made(here: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    x, y, z = Ndarray(random(10)), Ndarray(random(10)), Ndarray(random(10))
    for n in range(5):
        STREAM[0] = n
        z.array[:] = np.nan
        assert axpy(x, y, float(n), out=z) is z
        np.testing.assert_allclose(z.array, n * x.array + y.array, rtol=1e-6)
        np.testing.assert_allclose(axpy(x, y, float(n)).array, z.array)
        assert here.fast_launches == 2 * max(0, n - 1)
        assert [stream for _, stream, _ in here.launches[-2:]] == [n, n]
    STREAM[0] = 0


def test_layouts(here: FakeDriver) -> None:
    copied = weft.define("def copied(float(N,M) X) -> (Z) { Z(i,j) = X(i,j) }", schedule="naive")
    base, z = random(8, 12), Ndarray(random(8, 12))
    for given in (base, base[:, ::-1], aligned(base.T).T):
        fast = here.fast_launches
        for _ in range(4):
            z.array[:] = np.nan
            copied(Ndarray(given), out=z)
            np.testing.assert_array_equal(z.array, given)
        assert here.fast_launches == fast + 2


@pytest.mark.parametrize("name", ["float16", "float64", "int8", "int64", "uint8", "bool"])
def test_types(here: FakeDriver, name: str) -> None:
    copied = weft.define(f"def copied({name}(N) X) -> (Z) {{ Z(i) = X(i) }}", schedule="naive")
    x, z = Ndarray(aligned(np.arange(9).astype(name))), Ndarray(aligned(np.zeros(9, name)))
    for _ in range(4):
        copied(x, out=z)
    np.testing.assert_array_equal(z.array, x.array)
    assert here.fast_launches == 2
    with pytest.raises(weft.Error):
        copied(x, out=Ndarray(aligned(np.zeros(9, np.int16))))


def test_what_does_not_fit(here: FakeDriver) -> None:
    scaled = weft.define(SCALED, schedule="naive")
    x, z = Ndarray(random(8)), Ndarray(random(8))
    warm(lambda: scaled(x, out=z))
    for error in (ArgumentError, weft.Error):
        with pytest.raises(error):
            scaled(x, out=x)
    for wrong in (Ndarray(random(9)), Ndarray(random(8), 1), Ndarray(random(2, 4)), random(8)):
        with pytest.raises(weft.Error):
            scaled(x, out=wrong)
    odd = Ndarray(random(8))
    odd.data = types.SimpleNamespace(ptr="nowhere", device_id=0)
    with pytest.raises((weft.Error, ValueError)):
        scaled(odd, out=z)
    del odd.data
    with pytest.raises((weft.Error, AttributeError)):
        scaled(odd, out=z)
    gc.collect()
    before = [sys.getrefcount(o) for o in (x, z, x.data, x.dtype)]
    for _ in range(200):
        scaled(x, out=z)
    assert here.fast_launches == 200
    assert all(abs(sys.getrefcount(o) - n) < 20 for o, n in zip((x, z, x.data, x.dtype), before))
