"""Calls on a GPU by machine code: what fits is launched as the slow way would, everything else is left to it."""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import weakref
from typing import Any

import numpy as np
import pytest
from fake_gpu import STREAM, FakeDriver, OnGpu, gpu

import weft
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import ArgumentError, ShapeError, TargetError
from weft.ir.expr import idx
from weft.runtime import fastcall
from weft.runtime.cuda_device import find_device
from weft.runtime.cuda_program import LoadedProgram, _Config
from weft.runtime.fastcall import MISS, CallTable, DeviceMemory, ScalarType, Specialization, TensorLayout
from weft.runtime.fastcall_cuda import DeviceStart
from weft.runtime.fastcall_native import native_calls
from weft.target.cuda.program import CudaProgram, Launch

__all__ = ["gpu"]
pytestmark = pytest.mark.skipif(not fastcall.fast_calls_available(), reason="no fast calls in this interpreter")
AXPY = "def axpy(float(N) X, float(N) Y, float a) -> (Z) { Z(i) = a * X(i) + Y(i) }"
LOOKUP = "def lookup(float(E) T, int(N) I) -> (O) { O(i) = T(I(i)) }"
SCALED = "def scaled(float(N) X) -> (Z) { Z(i) = X(i) * 2 }"


def aligned(array: Any) -> Any:
    """A copy that begins at a multiple of 16 bytes."""
    given = np.ascontiguousarray(array)
    memory = np.zeros(given.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 16
    made = memory[start : start + given.nbytes].view(given.dtype).reshape(given.shape)
    made[...] = given
    return made


def random(*shape: int) -> Any:
    return aligned(np.random.default_rng(3).random(shape, dtype=np.float32))


@pytest.fixture
def here(gpu: FakeDriver) -> FakeDriver:
    """The thread is in the context of the GPU."""
    gpu.context = 77
    return gpu


def warm(call: Any) -> None:
    """The first call is checked, the second is remembered."""
    for _ in range(2):
        call()


def test_from_the_third_call_on(here: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    x, y, z = OnGpu(random(10)), OnGpu(random(10)), OnGpu(random(10))
    for n in range(6):
        z.array[:] = np.nan
        STREAM[0] = n
        assert axpy(x, y, float(n), out=z) is z
        np.testing.assert_allclose(z.array, n * x.array + y.array, rtol=1e-6)
        assert here.fast_launches == max(0, n - 1)
        if n >= 2:
            assert here.launches[-1] == ("axpy", n, (1, 1, 1))
    STREAM[0] = 0
    assert axpy(X=x, Y=y, a=2, out=z) is z
    assert here.fast_launches == 5
    np.testing.assert_allclose(z.array, 2 * x.array + y.array, rtol=1e-6)


def test_numbers(here: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive")
    x, z = OnGpu(random(10)), OnGpu(random(10))
    warm(lambda: axpy(x, x, 1.0, out=z))
    for a in (2, 0.5, True, np.float32(3), 1e39, -1e39, float("nan"), 3.4028235677973366e38, 3.40282e38):
        with np.errstate(all="ignore"):
            expected = np.float32(a) * x.array + x.array
        axpy(x, x, a, out=z)
        np.testing.assert_allclose(z.array, expected, rtol=1e-6)
    with pytest.raises(ArgumentError):
        axpy(x, x, "two", out=z)


def test_what_does_not_fit_is_refused_as_ever(here: FakeDriver) -> None:
    x, z, base = OnGpu(random(8)), OnGpu(random(8)), random(16)
    calls: list[tuple[Any, Any]] = [
        (OnGpu(random(9)), z),
        (x, OnGpu(random(9))),
        (OnGpu(random(8).astype(np.float64)), z),
        (x, OnGpu(random(8).astype(np.int32))),
        (x, random(8)),
        (OnGpu(base[:8]), OnGpu(base[4:12])),
        (x, x),
        (x, (z, z)),
        ("x", z),
    ]

    def told(op: Any, given: tuple[Any, Any]) -> tuple[type, str] | None:
        try:
            op(given[0], out=given[1])
        except Exception as error:
            return type(error), str(error)
        return None

    expected = [told(weft.define(SCALED, schedule="naive"), given) for given in calls]
    scaled = weft.define(SCALED, schedule="naive")
    warm(lambda: scaled(x, out=z))
    for given, error in zip(calls, expected):
        assert error is None or issubclass(error[0], weft.Error)
        assert told(scaled, given) == error
        scaled(x, out=z)
    assert here.fast_launches == len(calls)
    assert sum(error is not None for error in expected) >= 6


def test_strides_and_alignment_are_part_of_it(here: FakeDriver) -> None:
    copied = weft.define("def copied(float(N,M) X) -> (Z) { Z(i,j) = X(i,j) }", schedule="naive")
    base, z = random(9, 8), OnGpu(random(8, 8))
    shifted = base.reshape(-1)[1:65].reshape(8, 8)
    for given in (base[:8], shifted, base[1:]):
        before = here.fast_launches
        warm(lambda given=given: copied(OnGpu(given), out=z))
        for _ in range(2):
            z.array[:] = np.nan
            copied(OnGpu(given), out=z)
            np.testing.assert_array_equal(z.array, given)
        assert here.fast_launches >= before + 2
    assert here.called("cuModuleLoadData") == 2


def test_other_devices_and_contexts(here: FakeDriver) -> None:
    here.devices = 2
    scaled = weft.define(SCALED, schedule="naive")
    arrays = [(OnGpu(random(8), n), OnGpu(random(8), n)) for n in range(2)]
    for _ in range(3):
        for x, z in arrays:
            scaled(x, out=z)
            np.testing.assert_allclose(z.array, 2 * x.array)
    assert len(scaled._known) == 2
    assert here.fast_launches == 2
    here.context = 5  # another one's: the slow way changes to that of the device
    for x, z in arrays:
        scaled(x, out=z)
    assert here.fast_launches == 2
    here.context = 77
    with pytest.raises(ArgumentError, match="cuda:1"):
        scaled(arrays[0][0], out=arrays[1][1])
    scaled(arrays[0][0], out=arrays[0][1])
    assert here.fast_launches == 3


def test_a_thread_without_a_context(gpu: FakeDriver) -> None:
    scaled = weft.define(SCALED, schedule="naive")
    x, z = OnGpu(random(8)), OnGpu(random(8))
    for _ in range(4):
        z.array[:] = 0
        scaled(x, out=z)
        np.testing.assert_allclose(z.array, 2 * x.array)
    assert gpu.fast_launches == 0
    assert len(gpu.launches) == 4


def test_an_assert_is_told_at_the_next_call(here: FakeDriver) -> None:
    lookup, scaled = weft.define(LOOKUP, schedule="naive"), weft.define(SCALED, schedule="naive")
    table, good, bad = OnGpu(random(6)), OnGpu(aligned(np.int32([1, 5]))), OnGpu(aligned(np.int32([1, 7])))
    z, out = OnGpu(random(6)), OnGpu(random(2))
    warm(lambda: lookup(table, good, out=out))
    warm(lambda: scaled(table, out=z))
    for _ in range(2):
        fast = here.fast_launches
        lookup(table, bad, out=out)
        assert here.fast_launches == fast + 1
        with pytest.raises(ShapeError, match="in:    lookup on cuda:0"):
            scaled(table, out=z)
        lookup(table, good, out=out)
        np.testing.assert_allclose(out.array, table.array[[1, 5]])
        assert here.fast_launches == fast + 2


def test_errors_of_the_driver(here: FakeDriver) -> None:
    scaled = weft.define(SCALED, schedule="naive")
    x, z = OnGpu(random(8)), OnGpu(random(8))
    warm(lambda: scaled(x, out=z))
    here.fail = {"cuLaunchKernelEx": 700}
    with pytest.raises(TargetError, match="illegal address") as caught:
        scaled(x, out=z)
    assert "scaled" in str(caught.value)
    here.fail = {}
    scaled(x, out=z)
    assert here.fast_launches == 1


def test_outputs_of_the_callers_framework(here: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def make(framework: Any, dtype: Any, shape: Any, device: int) -> OnGpu:
        return OnGpu(aligned(np.full(shape, np.nan, dtype.name)))

    monkeypatch.setattr("weft.runtime.cuda_arrays.allocate_on_device", make)
    two = weft.define("def two(float(N) X) -> (Y, Z) { Y(i) = X(i) * 2  Z(i) = Y(i) + 1 }", schedule="naive")
    x = OnGpu(random(8))
    for n in range(4):
        y, z = two(x)
        np.testing.assert_allclose(y.array, 2 * x.array)
        np.testing.assert_allclose(z.array, 2 * x.array + 1)
        assert here.fast_launches == max(0, n - 1)
    given = OnGpu(random(8)), OnGpu(random(8))
    assert two(x, out=given) is given  # as what is made would be
    assert here.fast_launches == 3
    with pytest.raises(ArgumentError, match="overlap"):
        two(x, out=(given[0], given[0]))


def test_memory_that_cannot_be_had(here: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [3]

    def make(framework: Any, dtype: Any, shape: Any, device: int) -> OnGpu:
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError("no more")
        return OnGpu(random(*shape))

    monkeypatch.setattr("weft.runtime.cuda_arrays.allocate_on_device", make)
    scaled, x = weft.define(SCALED, schedule="naive"), OnGpu(random(8))
    for _ in range(3):
        scaled(x)
    assert here.fast_launches == 1
    with pytest.raises(TargetError, match="no more"):
        scaled(x)


def test_sizes_that_vary_and_empty_arrays(here: FakeDriver) -> None:
    scaled = weft.define(SCALED, schedule="naive", dynamic=["N"])
    for n in (5, 8, 0):
        x, z = OnGpu(random(n)), OnGpu(random(n))
        for _ in range(4):
            scaled(x, out=z)
            np.testing.assert_allclose(z.array, 2 * x.array)
    assert here.fast_launches == 4


def test_bound_values(here: FakeDriver) -> None:
    axpy = weft.define(AXPY, schedule="naive").bind(Y=OnGpu(random(8)), a=3.0)
    x, z = OnGpu(random(8)), OnGpu(random(8))
    for _ in range(4):
        z.array[:] = 0
        axpy(x, out=z)
        np.testing.assert_allclose(z.array, 3 * x.array + random(8), rtol=1e-6)
    assert here.fast_launches == 2


def test_on_the_cpu_as_well(here: FakeDriver) -> None:
    scaled = weft.define(SCALED, schedule="naive")
    x, z = random(8), random(8)
    for _ in range(4):
        scaled(x, out=z)
        scaled(OnGpu(x), out=OnGpu(z))
    np.testing.assert_allclose(z, 2 * x)
    assert here.fast_launches == 2


def test_nothing_is_kept(here: FakeDriver) -> None:
    scaled = weft.define(SCALED, schedule="naive")
    x, z = OnGpu(random(8)), OnGpu(random(8))
    warm(functools.partial(scaled, x, out=z))
    gc.collect()
    before = [sys.getrefcount(a) for a in (x, z)]
    others = sum(type(o) is OnGpu for o in gc.get_objects())
    for _ in range(300):
        scaled(x, out=z)
    assert [sys.getrefcount(a) for a in (x, z)] == before
    assert here.fast_launches == 300
    del x, z
    gc.collect()
    assert sum(type(o) is OnGpu for o in gc.get_objects()) == others - 2


class Several:
    """A program of two launches with temporaries, called with OnGpu arrays; ``seen`` is what was launched."""

    def __init__(self, driver: FakeDriver) -> None:
        buffers = tuple(Buffer(name, dt.float32, (idx(n),)) for name, n in (("S", 100), ("T", 3)))
        one, three = (idx(1),) * 3, (idx(3), idx(2), idx(1))
        launches = (
            Launch("first", one, (32, 1, 1), 0, ("X", "a", "T")),
            Launch("second", three, (64, 2, 1), 1024, ("T", "Y", "S", "n"), cooperative=True),
        )
        text = b"kernel f(X: float32[1], out Y: float32[1]) { Y[0] = X[0] }"
        params = [("X", None), ("a", dt.float64), ("Y", None), ("n", dt.int64)]
        self.program = LoadedProgram(CudaProgram("", text, launches, buffers), find_device(0), params, "several")
        self.plan = self.program.plan([0, 0, 0, 0])
        self.seen: list[Any] = []
        self.made: list[Any] = []
        self.status = [0, 0]
        driver.launch = self.record  # type: ignore[method-assign]

    def record(self, config: Any, function: Any, pointers: Any, _: Any) -> int:
        launch = self.program.program.launches[len(self.seen) % 2]
        given = _Config.from_address(config.value)
        at = (ctypes.c_uint64 * len(launch.params)).from_address(pointers.value)
        values = {name: ctypes.c_int64.from_address(a).value for name, a in zip(launch.params, at)}
        cooperative = given.attribute_count and ctypes.c_uint32.from_address(given.attributes).value == 2
        shape = tuple(given.grid), tuple(given.block), given.shared_bytes, given.stream, bool(cooperative)
        self.seen.append((launch.name, shape, values))
        return self.status[len(self.seen) - 1]

    def make(self) -> OnGpu:
        self.made.append(OnGpu(aligned(np.zeros(self.plan.scratch_bytes, np.uint8))))
        return self.made[-1]

    def table(self) -> CallTable:
        native = native_calls()
        exchange = native and native.bind_class(OnGpu)
        assert exchange is not None
        place = DeviceMemory(0, exchange.framework, 16)
        scratch = TensorLayout(dt.uint8, (self.plan.scratch_bytes,), (1,), place._replace(make=self.make))
        start = DeviceStart(self.program, self.plan, exchange.stream, scratch)
        array = TensorLayout(dt.float32, (8,), (1,), place)
        table = CallTable(2, 1)
        rules = array, ScalarType(dt.float64)
        table.add(Specialization(start, rules, (0, 1), (array,), (2,), fixed=[41, *start.last_slots]))
        return table


def test_several_launches_and_temporaries(here: FakeDriver) -> None:
    several = Several(here)
    table, x, y = several.table(), OnGpu(random(8)), OnGpu(random(8))
    STREAM[0] = 5
    assert table.call(y, x, 1.5) is y
    STREAM[0] = 0
    (first, shape, values), (second, other_shape, other_values) = several.seen
    assert (first, shape) == ("first", ((1, 1, 1), (32, 1, 1), 0, 5, False))
    assert (second, other_shape) == ("second", ((3, 2, 1), (64, 2, 1), 1024, 5, True))
    scratch = several.made[0].array.ctypes.data
    number = np.float64(1.5).view(np.int64)
    assert values == {"X": x.array.ctypes.data, "a": number, "T": scratch + 512}
    assert other_values == {"T": scratch + 512, "Y": y.array.ctypes.data, "S": scratch, "n": 41}
    gone = weakref.ref(several.made.pop())
    assert gone() is None


def test_a_launch_that_fails_after_another(here: FakeDriver) -> None:
    """What ran before it is not run again."""
    several = Several(here)
    table, x, y = several.table(), OnGpu(random(8)), OnGpu(random(8))
    several.status = [0, 700]
    with pytest.raises(TargetError, match="illegal address") as caught:
        table.call(y, x, 1.5)
    assert "several" in str(caught.value)
    several.seen, several.status = [], [700, 0]
    assert table.call(y, x, 1.5) is MISS
    assert len(several.seen) == 1


TWICE = """kernel twice(X: float32[n], out Y: float32[n], n: int64, a: float32) {
  for i in 0:n { Y[i] = X[i] * a }
}"""


def test_loop_programs(here: FakeDriver) -> None:
    twice, base = weft.kernel(TWICE), random(16)
    x, y = OnGpu(base[:8]), OnGpu(random(8))
    for n in range(5):
        y.array[:] = 0
        assert twice(x, y, 8, float(n)) is None
        np.testing.assert_array_equal(y.array, n * x.array)
        assert here.fast_launches == max(0, n - 1)
    with pytest.raises(ArgumentError, match="overlap"):
        twice(x, OnGpu(base[4:12]), 8, 2.0)
    with pytest.raises(ShapeError):
        twice(x, y, 7, 2.0)
    with pytest.raises(ArgumentError):
        twice(x, y, 8, 2.0, out=y)
    with pytest.raises(ArgumentError):
        twice(x, y, 8, out=())
    assert here.fast_launches == 3
    twice(OnGpu(base[8:]), OnGpu(base[:8]), 8, 2.0)
    np.testing.assert_array_equal(base[:8], 2 * base[8:])
    twice(x, y, n=8, a=3.0)
    assert here.fast_launches == 4


def test_loop_programs_that_read_twice(here: FakeDriver) -> None:
    """Arrays that are only read may overlap; none may overlap one that is written, wherever it stands."""
    text = "kernel f(X: float32[8], out Y: float32[8], Z: float32[8]) { for i in 0:8 { Y[i] = X[i] + Z[i] } }"
    f, base, y = weft.kernel(text), random(16), OnGpu(random(8))
    for _ in range(4):
        f(OnGpu(base[:8]), y, OnGpu(base[4:12]))
        np.testing.assert_array_equal(y.array, base[:8] + base[4:12])
    assert here.fast_launches == 2
    for arrays in ((base[:8], base[4:12], y.array), (y.array, base[4:12], base[:8]), (base[:8], y.array, y.array)):
        with pytest.raises(ArgumentError, match="overlap"):
            f(*map(OnGpu, arrays))
    assert here.fast_launches == 2
