"""The language of the runtime's own machine code means what Python would, on words of 64 bits."""

from __future__ import annotations

import ctypes

import pytest

from weft.ir.errors import InternalError
from weft.runtime.native import load_native
from weft.runtime.native_module import NativeModule, words

SOURCE = '''
def weft_sum(first, count):
    """Of the words that are not negative, until one is 99."""
    total = 0
    for i in range(count):
        if first[i] < 0:
            continue
        if first[i] == 99:
            break
        total += first[i]
    return total


def weft_test(a, b):
    both = a and b
    return (a < b <= limit) + 2 * (not a) + 4 * (1 if both else 0) + 8 * below(a, b) + 16 * (a == 1 or divides(a, b))


def divides(a, b):
    return b % a == 0


def weft_fields(pair: Pair, change):
    pair.second = pair.first // 2 - (change << 3) ^ 1
    pair.small = pair.small + change
    return -pair.small & ~0x10 | change >> 60


def weft_through(fn, x):
    return fn(x)


def weft_atomic(at):
    before = atomic_add(at, 5)
    replaced = atomic_replace(at, before + 5, 40)
    again = atomic_replace(at, before, 50)
    last = atomic_swap(at, atomic_or(at, 3))
    return before + 100 * replaced + 1000 * again + 10000 * last + 1000000 * atomic_load(at)
'''
PAIR = {**words("first", "second"), "small": (16, "i32")}


def functions(*arities: int) -> list:
    module = NativeModule(SOURCE, {"limit": 10}, {"Pair": PAIR})
    loaded = load_native(module, {})
    names = ("weft_sum", "weft_test", "weft_fields", "weft_through", "weft_atomic")
    made = [
        ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * n)(loaded.address(name)) for name, n in zip(names, arities)
    ]
    return [loaded, *made]


def test_loops_conditions_fields_and_calls() -> None:
    _kept, total, test, fields, through, atomic = functions(2, 2, 2, 2, 1)
    values = (ctypes.c_int64 * 6)(5, -7, 20, 99, 4, 4)
    assert total(ctypes.addressof(values), 6) == 25
    assert total(ctypes.addressof(values), 0) == 0
    for a, b in ((1, 5), (3, 9), (9, 3), (0, 0), (-2, 4), (5, 11)):
        expected = (a < b <= 10) + 2 * (not a) + 4 * bool(a and b) + 8 * (a % 2**64 < b % 2**64)
        expected += 16 * (a == 1 or (a != 0 and b % a == 0)) if a else 0
        assert a == 0 or test(a, b) == expected, (a, b)
    pair = (ctypes.c_int64 * 3)(101, 0, -3 % 2**32)
    assert fields(ctypes.addressof(pair), 2) == 1
    assert list(pair) == [101, 50 - 16 ^ 1, -1 % 2**32]
    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)(lambda x: -x)
    assert through(ctypes.cast(callback, ctypes.c_void_p).value, 7) == -7
    cell = ctypes.c_int64(2)
    assert atomic(ctypes.addressof(cell)) == 2 + 100 + 10000 * 43 + 1000000 * 40


@pytest.mark.parametrize("body", ["return lost", "x = [1]", "return missing(1)", "return a.field", "with a: pass"])
def test_what_is_not_in_the_language_is_told(body: str) -> None:
    with pytest.raises(InternalError, match="is not in the language of native code"):
        NativeModule(f"def weft_f(a):\n    {body}\n").text()
