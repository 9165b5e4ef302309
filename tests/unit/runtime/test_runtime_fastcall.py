"""The fast call runs exactly the calls that fit, and leaves every other to the ordinary path."""

from __future__ import annotations

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.errors import ShapeError, TargetError
from weft.runtime import fastcall
from weft.runtime.fastcall import (
    MISS,
    CallTable,
    ConstantValue,
    ScalarType,
    Specialization,
    TensorLayout,
    make_calls_fast,
)
from weft.runtime.kernel import LoadedKernel, load_kernel
from weft.target.cpu.host import host_machine
from weft.target.cpu.llvm import compile_llvm

#: out[i] = a[i] * scale + b[i] over 64 float32, b with stride -1; status 1 where a[0] is 13.
SAXPY = """
define i32 @saxpy(ptr %args) {
entry:
  %a = load ptr, ptr %args
  %b.at = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b.at
  %s.at = getelementptr ptr, ptr %args, i64 2
  %s = load float, ptr %s.at
  %o.at = getelementptr ptr, ptr %args, i64 3
  %o = load ptr, ptr %o.at
  %r.at = getelementptr ptr, ptr %args, i64 4
  %r = load ptr, ptr %r.at
  %first = load float, ptr %a
  %bad = fcmp oeq float %first, 13.0
  br i1 %bad, label %fail, label %loop
fail:
  store i64 7, ptr %r
  ret i32 1
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %x.at = getelementptr float, ptr %a, i64 %i
  %x = load float, ptr %x.at
  %back = sub i64 0, %i
  %y.at = getelementptr float, ptr %b, i64 %back
  %y = load float, ptr %y.at
  %m = fmul float %x, %s
  %z = fadd float %m, %y
  %z.at = getelementptr float, ptr %o, i64 %i
  store float %z, ptr %z.at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 64
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}
"""
MESSAGE = "index {0} is out of range"
DENSE = TensorLayout(dt.float32, (64,), (1,))
BACK = TensorLayout(dt.float32, (64,), (-1,))

pytestmark = pytest.mark.skipif(not fastcall.fast_calls_available(), reason="no fast calls in this interpreter")


def kernel() -> LoadedKernel:
    data = compile_llvm(SAXPY, host_machine())
    return load_kernel(data, "saxpy", (None, None, dt.float32, None), [MESSAGE])


@pytest.fixture(scope="module")
def saxpy() -> CallTable:
    table = CallTable(3, 1)
    spec = Specialization(kernel(), (DENSE, BACK, ScalarType(dt.float32)), (0, 1, 2), (DENSE,), (3,))
    table.add(spec)
    return table


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(64).astype(np.float32) for _ in range(2))
    return a, b[::-1], np.empty(64, np.float32)


def test_into_a_given_array(saxpy, arrays):
    a, b, c = arrays
    assert saxpy.call(c, a, b, 2.5) is c
    np.testing.assert_array_equal(c, a * np.float32(2.5) + b)


def test_allocates_in_numpy(saxpy, arrays):
    a, b, _ = arrays
    c = saxpy.call(None, a, b, 3)
    assert type(c) is np.ndarray
    assert c.dtype == np.float32
    assert c.flags.owndata
    assert c.flags.writeable
    np.testing.assert_array_equal(c, a * np.float32(3) + b)


@pytest.mark.parametrize("scale", [2.0, 2, np.float32(2), np.float64(2)])
def test_numbers_that_are_taken(saxpy, arrays, scale):
    a, b, c = arrays
    assert saxpy.call(c, a, b, scale) is c
    np.testing.assert_array_equal(c, a * np.float32(2) + b)


@pytest.mark.parametrize("scale", [-1, -1.0])
def test_minus_one_is_a_number(saxpy, arrays, scale):
    a, b, c = arrays
    assert saxpy.call(c, a, b, scale) is c


@pytest.mark.parametrize("scale", ["2", None, 1j, 10**400, True, np.array(2.0), [2.0]])
def test_other_scalars_miss(saxpy, arrays, scale):
    a, b, c = arrays
    assert saxpy.call(c, a, b, scale) is MISS


def test_what_does_not_fit_misses(saxpy, arrays):
    a, b, c = arrays
    wide = np.zeros(128, np.float32)
    cases = {
        "dtype": (a.astype(np.float64), b),
        "integers": (a.view(np.int32), b),
        "byte order": (a.astype(">f4"), b),
        "rank": (a.reshape(8, 8), b),
        "size": (a[:63], b),
        "stride": (wide[::2], b),
        "stride of b": (a, a.copy()),
        "list": (list(a), b),
        "subclass": (a.view(np.matrix), b),
        "misaligned": (np.zeros(260, np.uint8)[1:257].view(np.float32), b),
    }
    for name, (x, y) in cases.items():
        assert saxpy.call(c, x, y, 1.0) is MISS, name
    assert saxpy.call(c, a, b) is MISS
    assert saxpy.call(c, a, b, 1.0, 2.0) is MISS
    assert saxpy.call() is MISS
    assert sys.exc_info() == (None, None, None)


def test_outputs_that_do_not_fit_miss(saxpy, arrays):
    a, b, c = arrays
    locked = c.copy()
    locked.flags.writeable = False
    for out in (locked, a, b, c[:63], c.astype(np.float64), [c], (c,), 5, a[::-1]):
        assert saxpy.call(out, a, b, 1.0) is MISS


def test_overlap_is_by_address_not_by_object(saxpy):
    memory = np.zeros(200, np.float32)
    b = np.zeros(64, np.float32)[::-1]
    for start, fits in ((0, False), (63, False), (64, True), (100, True)):
        result = saxpy.call(memory[start : start + 64], memory[:64], b, 1.0)
        assert (result is not MISS) == fits


def test_reversed_inputs_overlap_downwards(saxpy):
    memory = np.zeros(200, np.float32)
    a = np.zeros(64, np.float32)
    b = memory[100:164][::-1]
    assert saxpy.call(memory[36:100], a, b, 1.0) is not MISS
    assert saxpy.call(memory[37:101], a, b, 1.0) is MISS
    assert saxpy.call(memory[136:200], a, b, 1.0) is MISS


def test_failing_assert_raises_with_its_values(saxpy, arrays):
    a, b, c = arrays
    a[0] = 13
    for out in (c, None):
        with pytest.raises(ShapeError, match="index 7 is out of range"):
            saxpy.call(out, a, b, 1.0)


def test_no_references_leak(saxpy, arrays):
    a, b, c = arrays
    before = [sys.getrefcount(x) for x in (a, b, c, MISS, np.dtype(np.float32), None)]
    for _ in range(1000):
        saxpy.call(c, a, b, 1.0)
        saxpy.call(None, a, b, 1.0)
        saxpy.call(None, a, b, "x")
    after = [sys.getrefcount(x) for x in (a, b, c, MISS, np.dtype(np.float32), None)]
    assert all(abs(x - y) < 50 for x, y in zip(before, after))


def test_unpickled_types_fit(saxpy, arrays):
    import pickle

    a, b, c = arrays
    assert saxpy.call(c, pickle.loads(pickle.dumps(a)), b, 1.0) is c


def test_several_specializations_find_their_call():
    table = CallTable(2, 1)
    code = """
define i32 @fill(ptr %args) {
  %v = load i64, ptr %args
  %o.at = getelementptr ptr, ptr %args, i64 1
  %o = load ptr, ptr %o.at
  store i64 %v, ptr %o
  ret i32 0
}"""
    data = compile_llvm(code, host_machine())
    for n in range(1, 20):
        loaded = load_kernel(data, "fill", (dt.int64, None))
        out = TensorLayout(dt.int64, (n,), (1,))
        table.add(Specialization(loaded, (ConstantValue(n), ScalarType(dt.int64)), (None, 0), (out,), (1,)))
    for n in [*range(1, 20), 5, 5, 7]:
        result = table.call(None, n, 100 + n)
        assert result.shape == (n,)
        assert result[0] == 100 + n
    assert table.call(None, 20, 1) is MISS
    assert table.call(None, 5.0, 1) is MISS
    assert table.call(None, True, 1) is MISS
    assert table.call(None, 1, 2**63) is MISS
    assert table.call(None, 1, -(2**63))[0] == -(2**63)
    assert table.call(None, np.int64(3), np.int32(-5)).tolist()[0] == -5


def test_more_specializations_than_are_compared():
    """The last ones are fast; an older one is fast again once it was added again."""
    table = CallTable(1, 1)
    data = compile_llvm("define i32 @f(ptr %a) {\n  ret i32 0\n}", host_machine())
    loaded = load_kernel(data, "f", (None,))
    out = TensorLayout(dt.int8, (1,), (1,))
    specs = [Specialization(loaded, (ConstantValue(n),), (None,), (out,), (0,)) for n in range(100)]
    for spec in specs:
        table.add(spec)
    hits = [n for n in range(100) if table.call(None, n) is not MISS]
    assert hits == list(range(36, 100))
    kept = len(table._records._kept)
    table.add(specs[50])
    table.add(specs[60])
    assert len(table._records._kept) == kept
    table.add(specs[3])
    assert table.call(None, 3) is not MISS
    assert len(table._records._kept) == kept


SHIFT = """
define i32 @shift(ptr %args) {
  %x = load ptr, ptr %args
  %p.at = getelementptr ptr, ptr %args, i64 1
  %p = load ptr, ptr %p.at
  %q.at = getelementptr ptr, ptr %args, i64 2
  %q = load ptr, ptr %q.at
  %v = load TYPE, ptr %x
  store TYPE %v, ptr %p
  store TYPE %v, ptr %q
  ret i32 0
}"""


def pair_table(dtype: dt.DType, llvm: str) -> CallTable:
    layout = TensorLayout(dtype, (1, 5), (5, 1))
    loaded = load_kernel(compile_llvm(SHIFT.replace("TYPE", llvm), host_machine()), "shift", (None, None, None))
    table = CallTable(1, 2)
    table.add(Specialization(loaded, (layout,), (0,), (layout, layout), (1, 2), release_gil=False))
    return table


def test_two_outputs():
    table = pair_table(dt.int16, "i16")
    x = np.arange(3, 8, dtype=np.int16).reshape(1, 5)
    p, q = np.zeros((2, 1, 5), np.int16)
    given = (p, q)
    assert table.call(given, x) is given
    assert p[0, 0] == q[0, 0] == 3
    made = table.call(None, x)
    assert type(made) is tuple
    assert [m[0, 0] for m in made] == [3, 3]
    assert table.call((p, p), x) is MISS
    assert table.call(p, x) is MISS
    assert table.call((p,), x) is MISS


def test_strides_of_single_rows_do_not_matter():
    table = pair_table(dt.int16, "i16")
    x = np.lib.stride_tricks.as_strided(np.arange(5, dtype=np.int16), (1, 5), (1234, 2))
    assert table.call(None, x) is not MISS


@pytest.mark.parametrize(
    ("dtype", "llvm"),
    [(t, f"i{t.itemsize * 8}") for t in dt.SCALAR_TYPES.values()],
    ids=str,
)
def test_every_type(dtype, llvm):
    from weft.ir.numpy_dtypes import to_numpy

    table = pair_table(dtype, llvm)
    x = np.ones((1, 5)).astype(to_numpy(dtype))
    made = table.call(None, x)
    assert [m.dtype for m in made] == [x.dtype] * 2
    assert all(m[0, 0] == x[0, 0] for m in made)
    others = [t for t in dt.SCALAR_TYPES.values() if t != dtype]
    assert all(table.call(None, np.ones((1, 5)).astype(to_numpy(t))) is MISS for t in others)


def test_both_names_of_int64():
    table = pair_table(dt.int64, "i64")
    for char in "lq":
        assert table.call(None, np.ones((1, 5), char)) is not MISS


def test_outputs_of_other_strides_are_not_allocated():
    layout = TensorLayout(dt.float32, (64,), (2,))
    table = CallTable(3, 1)
    table.add(Specialization(kernel(), (DENSE, BACK, ScalarType(dt.float32)), (0, 1, 2), (layout,), (3,)))
    a = np.zeros(64, np.float32)
    assert table.call(None, a, a.copy()[::-1], 1.0) is MISS
    assert table.call(np.zeros(128, np.float32)[::2], a, a.copy()[::-1], 1.0) is not MISS


def test_an_empty_table_misses(arrays):
    assert CallTable(3, 1).call(None, *arrays) is MISS


def test_too_many_arguments_miss():
    assert CallTable(100, 1).call(None, *range(100)) is MISS


def test_threads_share_a_table(saxpy, arrays):
    a, b, _ = arrays
    want = a * np.float32(2) + b
    wrong = []

    def work():
        for _ in range(2000):
            if not np.array_equal(saxpy.call(None, a, b, 2.0), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_the_function_keeps_its_code(arrays):
    a, b, c = arrays
    table = CallTable(3, 1)
    spec = Specialization(kernel(), (DENSE, BACK, ScalarType(dt.float32)), (0, 1, 2), (DENSE,), (3,))
    table.add(spec)
    code = weakref.ref(spec.kernel.code)
    call = table.call
    del table, spec
    gc.collect()
    assert code() is not None
    assert call(c, a, b, 1.0) is c
    del call
    gc.collect()
    assert code() is None


def test_plain_call_agrees(arrays):
    a, b, c = arrays
    loaded = kernel()
    loaded.run((a.ctypes.data, b.ctypes.data, 2.0, c.ctypes.data))
    np.testing.assert_array_equal(c, a * np.float32(2) + b)
    a[0] = 13
    with pytest.raises(ShapeError, match="index 7"):
        loaded.run((a.ctypes.data, b.ctypes.data, 2.0, c.ctypes.data))


def test_out_of_memory_status():
    code = "define i32 @f(ptr %a) {\n  ret i32 -1\n}"
    loaded = load_kernel(compile_llvm(code, host_machine()), "f", ())
    with pytest.raises(TargetError, match="out of memory"):
        loaded.run(())


def test_classes_with_fast_calls(saxpy, arrays):
    class Operator:
        def __init__(self, table):
            self._fast_table = table

        def __call__(self, *args, **named):
            raise AssertionError("replaced")

        def _call_slowly(self, *args, **named):
            if "fail" in named:
                raise KeyError("slow")
            return ("slow", args, named)

    assert make_calls_fast(Operator)
    method = Operator.__call__
    assert make_calls_fast(Operator)
    assert Operator.__call__ is method
    op, empty = Operator(saxpy.capsule), Operator(None)
    a, b, c = arrays
    want = a * np.float32(2) + b
    assert op(a, b, 2.0, out=c) is c
    np.testing.assert_array_equal(c, want)
    np.testing.assert_array_equal(op(a, b, 2.0), want)
    np.testing.assert_array_equal(op(a, b, 2.0, out=None), want)
    np.testing.assert_array_equal(op.__call__(a, b, 2.0), want)
    assert op(1, 2, 3) == ("slow", (1, 2, 3), {})
    assert op(1, x=3) == ("slow", (1,), {"x": 3})
    assert op() == ("slow", (), {})
    assert empty(1, out=2) == ("slow", (1,), {"out": 2})
    got = op(a, b, 2.0, out=c, checks="off")
    assert got[0] == "slow"
    assert list(got[2]) == ["out", "checks"]
    with pytest.raises(KeyError, match="slow"):
        op(fail=True)
    a[0] = 13
    with pytest.raises(ShapeError, match="index 7"):
        op(a, b, 2.0)
    del op._fast_table
    assert op(1) == ("slow", (1,), {})
    with pytest.raises(TypeError):
        Operator.__call__(3, a)


def copy_kernel() -> LoadedKernel:
    """Like `kernel`, with b read forwards."""
    forwards = SAXPY.replace("%back = sub i64 0, %i", "%back = add i64 0, %i")
    return load_kernel(compile_llvm(forwards, host_machine()), "saxpy", (None, None, dt.float32, None), [MESSAGE])


def test_the_code_also_builds_for_arm():
    from weft.runtime.fastcall_text import FASTCALL
    from weft.runtime.pool import pool_module
    from weft.target.cpu.host import NAMED

    for source in (FASTCALL.text(), pool_module("aarch64").text()):
        assert compile_llvm(source, NAMED["aarch64"])[:4] == b"\x7fELF"
