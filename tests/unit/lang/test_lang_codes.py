"""Floats of few bits given as the numbers of their codes, against ml_dtypes: to the bit, on every way to a result."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.lang.parse import parse_programs
from weft.target.cuda.lower import compile_kernel
from weft.target.cuda.machine import gpu_for_arch
from weft.tensor.evaluate import evaluate
from weft.tensor.printer import print_program

TYPES = {"float4_e2m1fn": 16, "float8_e8m0fnu": 256}
TEXT = "def f(uint8(N) C) -> (float32(N) O) {{ O(n) = as_{}(C(n)) }}"
CODES = np.arange(256, dtype=np.uint8)


def wanted(name: str) -> np.ndarray[Any, Any]:
    return (np.arange(256) % TYPES[name]).astype(np.uint8).view(getattr(ml_dtypes, name)).astype(np.float32)


def same(one: Any, other: Any) -> bool:
    """To the bit, but for which NaN it is."""
    return bool(((one.view(np.uint32) == other.view(np.uint32)) | (np.isnan(one) & np.isnan(other))).all())


@pytest.mark.parametrize("name", TYPES)
def test_codes(name: str) -> None:
    text = TEXT.format(name)
    assert same(weft.define(text)(CODES), wanted(name))
    program = parse_programs(text)["f"]
    assert same(evaluate(program, [CODES])[0], wanted(name))
    again = parse_programs(print_program(program))["f"]
    assert same(evaluate(again, [CODES])[0], wanted(name))
    s = weft.schedule(weft.define(text), C=(256,))
    assert compile_kernel(s.kernel, gpu_for_arch("sm_90"), fast=True, aligned={}).source


@pytest.mark.parametrize("name", TYPES)
def test_only_integers_are_codes(name: str) -> None:
    with pytest.raises(weft.LanguageError, match=f"`as_{name}` takes integers, not float32"):
        weft.define(f"def f(float(N) C) -> (O) {{ O(n) = as_{name}(C(n)) }}")


def test_bits_of_a_float() -> None:
    x = np.array([0.0, 1.5, -2.0, np.inf], np.float32)
    op = weft.define("def f(int32(N) C) -> (float32(N) O) { O(n) = as_float32(C(n)) }")
    assert same(op(x.view(np.int32)), x)
