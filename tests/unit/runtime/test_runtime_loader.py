"""Object code is linked as the system's linker would, and damaged objects never crash the process."""

from __future__ import annotations

import ctypes
import gc
import math
import random
from pathlib import Path

import pytest

from weft.ir.errors import TargetError
from weft.runtime import elf, loader
from weft.target.cpu.host import host_machine
from weft.target.cpu.llvm import compile_llvm

TEXT = """
@counter = global i64 40
@zeros = internal global [4 x i64] zeroinitializer
@table = internal constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@pointer = global ptr @counter
declare i64 @outside(i64)
declare double @cosine(double)

define i64 @bump(i64 %by) {
  %p = load ptr, ptr @pointer
  %old = load i64, ptr %p
  %new = add i64 %old, %by
  store i64 %new, ptr %p
  store i64 %new, ptr getelementptr ([4 x i64], ptr @zeros, i64 0, i64 3)
  %z = load i64, ptr getelementptr ([4 x i64], ptr @zeros, i64 0, i64 2)
  %sum = add i64 %new, %z
  ret i64 %sum
}
define double @lookup(i64 %i) {
  %at = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %v = load double, ptr %at
  ret double %v
}
define i64 @calls(i64 %x) {
  %y = call i64 @outside(i64 %x)
  %z = call i64 @bump(i64 0)
  %s = add i64 %y, %z
  ret i64 %s
}
define ptr @address() {
  ret ptr @outside
}
define double @cosine_of(double %x) {
  %y = call double @cosine(double %x)
  ret double %y
}
"""

I64 = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
F64 = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)


@pytest.fixture(scope="module")
def data() -> bytes:
    return compile_llvm(TEXT, host_machine())


@pytest.fixture(scope="module")
def symbols():
    outside = I64(lambda x: x * 10)
    cosine = F64(math.cos)
    table = {name: ctypes.cast(fn, ctypes.c_void_p).value for name, fn in (("outside", outside), ("cosine", cosine))}
    yield table
    assert outside is not None
    assert cosine is not None


def check_functions(loaded: loader.LoadedObject, symbols: dict[str, int]) -> None:
    assert I64(loaded.address("bump"))(2) == 42
    assert I64(loaded.address("bump"))(3) == 45
    assert ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(loaded.address("lookup"))(2) == 3.5
    assert I64(loaded.address("calls"))(7) == 70 + 45
    assert ctypes.CFUNCTYPE(ctypes.c_void_p)(loaded.address("address"))() == symbols["outside"]
    assert F64(loaded.address("cosine_of"))(0.5) == math.cos(0.5)


def test_code_data_constants_and_far_symbols(data, symbols):
    check_functions(loader.load_object(data, symbols), symbols)


def test_each_load_has_its_own_data(data, symbols):
    first, second = (loader.load_object(data, symbols) for _ in range(2))
    assert I64(first.address("bump"))(1) == 41
    assert I64(second.address("bump"))(1) == 41


def test_llvm_links_the_same(data, symbols):
    check_functions(loader._load_with_llvm(data, symbols), symbols)


def test_code_is_not_writable(data, symbols):
    loaded = loader.load_object(data, symbols)
    at, text = loaded.address("bump"), Path("/proc/self/maps").read_text()
    for line in text.splitlines():
        span, permissions = line.split()[:2]
        lo, hi = (int(x, 16) for x in span.split("-"))
        if lo <= at < hi:
            assert permissions.startswith("r-x")
            break
    else:
        pytest.fail("the code is not mapped")


def test_memory_goes_with_the_object(data, symbols, monkeypatch):
    released = []
    real = loader._map

    def tracked(size):
        base, release = real(size)
        return base, lambda: (released.append(base), release())

    monkeypatch.setattr(loader, "_map", tracked)
    loaded = loader.load_object(data, symbols)
    assert not released
    del loaded
    gc.collect()
    assert len(released) == 1


def test_undefined_symbol_is_named(data):
    with pytest.raises(TargetError, match="needs `outside`"):
        loader.load_object(data, {"cosine": 1})


def test_unknown_name(data, symbols):
    with pytest.raises(TargetError, match="defines no `nothing`"):
        loader.load_object(data, symbols).address("nothing")


@pytest.mark.parametrize("junk", [b"", b"\x7fELF", b"MZ" * 100, b"\x7fELF\x02\x01" + b"\0" * 200])
def test_junk_is_refused(junk):
    with pytest.raises(TargetError):
        loader.load_object(junk, {})


def test_truncation_is_refused(data, symbols):
    for length in range(0, len(data), 7):
        with pytest.raises((TargetError, elf.Unlinkable)):
            loader._load_elf(data[:length], symbols)


def test_flipped_bits_never_escape(data, symbols):
    """Headers and tables with random damage either link or are refused; nothing else is raised."""
    rng = random.Random(5)
    refused = 0
    for _ in range(1500):
        broken = bytearray(data)
        for _ in range(rng.randint(1, 3)):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        try:
            loader._load_elf(bytes(broken), symbols)
        except (TargetError, elf.Unlinkable):
            refused += 1
    assert refused > 100


def test_another_processor_is_refused(data):
    arm = bytearray(data)
    arm[18:20] = (183).to_bytes(2, "little")
    with pytest.raises(TargetError, match="another processor"):
        loader.load_object(bytes(arm), {})


def test_odd_but_sound_objects_go_to_llvm(data, symbols, monkeypatch):
    def refuse(*_):
        raise elf.Unlinkable("for the test")

    monkeypatch.setattr(loader, "_load_elf", refuse)
    check_functions(loader.load_object(data, symbols), symbols)


def test_llvm_reports_what_it_cannot_link(data):
    with pytest.raises(TargetError, match="`calls`"):
        loader._load_with_llvm(data, {}).address("calls")
