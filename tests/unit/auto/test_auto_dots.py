"""Contractions of narrow elements by dot product instructions: taken where they fit, and right where they run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft
from weft.auto.estimate import estimate
from weft.auto.scheduler import auto_schedule
from weft.ir.interpret import interpret
from weft.ir.stmt import Kernel, Tensorized
from weft.ir.visit import walk
from weft.passes.plain.separate_constants import separate_constants
from weft.target.cpu.host import NAMED

MACHINE = replace(NAMED["x86-64-avx512"], features=("-prefer-256-bit", "+avx512vnni", "+avx512bf16"))
PRODUCT = "def f({a}(M,K) A, {b}(K,N) B) -> ({c}(M,N) C) {{ C(m,n) +=! {c}(A(m,k)) * {c}(B(k,n)) }}"
TURNED = "def f({a}(M,K) A, {b}(N,K) B) -> ({c}(M,N) C) {{ C(m,n) +=! {c}(A(m,k)) * {c}(B(n,k)) }}"
BATCHED = "def f({a}(Q,M,K) A, {b}(Q,K,N) B) -> ({c}(Q,M,N) C) {{ C(q,m,n) +=! {c}(A(q,m,k)) * {c}(B(q,k,n)) }}"
WINDOWS = """def f({a}(H,W,K) A, {b}(R,S,K,N) B) -> ({c}(H-R+1,W-S+1,N) C) {{
    C(h,w,n) +=! {c}(A(h+r,w+s,k)) * {c}(B(r,s,k,n))
}}"""
PADDED = """def f({a}(H,W,K) A, {b}(3,3,K,N) B) -> ({c}(H,W,N) C) {{
    C(h,w,n) +=! {c}(A(h+r-1,w+s-1,k)) * {c}(B(r,s,k,n)) where h in 0:H, w in 0:W, A outside zero
}}"""
BFLOAT16 = {"a": "bfloat16", "b": "bfloat16", "c": "float32"}
BYTES = {"a": "uint8", "b": "int8", "c": "int32"}
SIGNED = {"a": "int8", "b": "int8", "c": "int32"}
TURNED_BYTES = {"a": "int8", "b": "uint8", "c": "int32"}


def draw(dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(5)
    if dtype == "bfloat16":
        return rng.integers(-8, 9, shape).astype(ml_dtypes.bfloat16)  # sums are exact in any order
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return rng.integers(low, high + 1, shape).astype(dtype)


def scheduled(text: str, a: tuple[int, ...], b: tuple[int, ...], numerics: str = "fast") -> Kernel:
    s = weft.schedule(weft.define(text), A=a, B=b, numerics=numerics)
    auto_schedule(s, MACHINE, 2)
    return s.kernel


def instructions(kernel: Kernel) -> list[str]:
    return [n.intrinsic for n in walk(kernel) if isinstance(n, Tensorized)]


CASES = [
    (PRODUCT, BFLOAT16, (53, 6), (6, 32), "vdpbf16ps"),
    (PRODUCT, BYTES, (49, 8), (8, 48), "vpdpbusd"),
    (PRODUCT, SIGNED, (60, 12), (12, 16), "vpdpbssd"),
    (PRODUCT, TURNED_BYTES, (51, 8), (8, 32), "vpdpbsud"),
    (TURNED, BFLOAT16, (97, 4), (16, 4), "vdpbf16ps"),
    (BATCHED, BYTES, (2, 50, 4), (2, 4, 16), "vpdpbusd"),
    (WINDOWS, BFLOAT16, (9, 10, 4), (2, 2, 4, 16), "vdpbf16ps"),
    (PADDED, BFLOAT16, (9, 10, 4), (3, 3, 4, 16), "vdpbf16ps"),  # zeros are copied around the image first
    (PADDED, BYTES, (8, 9, 8), (3, 3, 8, 24), "vpdpbusd"),
    (PRODUCT, BFLOAT16, (53, 6), (6, 37), "vdpbf16ps"),  # a last vector of 5 lanes
    (PRODUCT, BFLOAT16, (71, 4), (4, 24), "vdpbf16ps"),  # one tile, longer than a row
    (PRODUCT, BYTES, (60, 8), (8, 100), "vpdpbusd"),
    (TURNED, BFLOAT16, (130, 4), (50, 4), "vdpbf16ps"),
    (BATCHED, BYTES, (2, 50, 4), (2, 4, 20), "vpdpbusd"),
]


@pytest.mark.parametrize(("form", "types", "a", "b", "instruction"), CASES)
def test_results(form: str, types: dict[str, str], a: tuple[int, ...], b: tuple[int, ...], instruction: str) -> None:
    text = form.format(**types)
    left, right = draw(types["a"], a), draw(types["b"], b)
    want = weft.define(text, schedule="naive", numerics="strict")(left, right)
    kernel = scheduled(text, a, b)
    assert instructions(kernel) == [instruction]
    got = np.zeros_like(want)
    interpret(kernel, [left, right, got])
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(weft.define(text)(left, right), want)  # by the instruction, where this machine has it


@pytest.mark.parametrize(
    ("form", "types", "a", "b", "numerics"),
    [
        (PRODUCT, BFLOAT16, (53, 6), (6, 32), "strict"),  # pairs are added in an order of their own
        (PRODUCT, BFLOAT16, (53, 7), (7, 32), "fast"),  # a step is left over
        (PRODUCT, BFLOAT16, (53, 6), (6, 13), "fast"),  # not one whole vector
        (PRODUCT, BFLOAT16, (12, 6), (6, 32), "fast"),  # a copy for few rows
        (PRODUCT, {"a": "uint8", "b": "uint8", "c": "int32"}, (53, 8), (8, 32), "fast"),  # no such instruction
        (PRODUCT, {**BYTES, "c": "int64"}, (53, 8), (8, 32), "fast"),
        (PRODUCT.replace("A(m,k)", "A(k,m)").replace("(M,K)", "(K,M)"), BFLOAT16, (6, 53), (6, 32), "fast"),
    ],
)
def test_others_are_left(
    form: str, types: dict[str, str], a: tuple[int, ...], b: tuple[int, ...], numerics: str
) -> None:
    assert instructions(scheduled(form.format(**types), a, b, numerics)) == []


@pytest.mark.parametrize(
    ("form", "a", "b"),
    [
        (PRODUCT, (60, 12), (12, 16)),
        (PRODUCT, (3, 64), (64, 48)),
        (TURNED, (97, 4), (16, 4)),
        (BATCHED, (2, 50, 4), (2, 4, 16)),
        (WINDOWS, (9, 10, 4), (2, 2, 4, 16)),
    ],
)
def test_constant_signed_bytes_are_moved_once(form: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    text = form.format(**SIGNED)
    left, right = draw("int8", a), draw("int8", b)
    want = weft.define(text, schedule="naive", numerics="strict")(left, right)
    s = weft.schedule(weft.define(text), A=a, B=b, numerics="strict")
    auto_schedule(s, MACHINE, 2, frozenset({"B"}))
    assert instructions(s.kernel) == ["vpdpbsud"]
    main = separate_constants(s.kernel, frozenset({"B"}))
    assert main.kept == ()
    assert [(x.name, x.dtype.name) for x in main.prepared] == [("B_moved", "uint8")]
    got = np.zeros_like(want)
    interpret(s.kernel, [left, right, got])
    np.testing.assert_array_equal(got, want)


def test_scaled_products_of_constant_bytes() -> None:
    text = """def f(int8(M,K) A, int8(K,N) B, float(N) S) -> (float(M,N) Y) {
        C(m,n) +=! int32(A(m,k)) * int32(B(k,n))
        Y(m,n) = fmax(float(C(m,n)) * S(n), 0.0)
    }"""
    s = weft.schedule(weft.define(text), A=(60, 64), B=(64, 32), S=(32,), numerics="fast")
    auto_schedule(s, MACHINE, 1, frozenset({"B"}))
    assert instructions(s.kernel) == ["vpdpbsud"]
    left, right, scale = draw("int8", (60, 64)), draw("int8", (64, 32)), np.linspace(-1, 1, 32, dtype=np.float32)
    got = np.zeros((60, 32), np.float32)
    interpret(s.kernel, [left, right, scale, got])
    np.testing.assert_array_equal(got, np.maximum((left.astype(np.int32) @ right).astype(np.float32) * scale, 0))


def test_what_instructions_take_is_expected() -> None:
    """Two steps at once take half of the time of as many products of float32; and all operations count."""
    found = []
    for types in (BFLOAT16, {"a": "float32", "b": "float32", "c": "float32"}):
        s = weft.schedule(weft.define(PRODUCT.format(**types)), A=(480, 512), B=(512, 512), numerics="fast")
        auto_schedule(s, MACHINE, 1, frozenset({"B"}))
        assert instructions(s.kernel) == ["vdpbf16ps"] * (types is BFLOAT16)
        sums = max(estimate(s.kernel, MACHINE.model).nests, key=lambda nest: nest.flops)
        assert sums.flops == pytest.approx(2 * 480 * 512 * 512)
        found.append(sums.seconds)
    assert 0.4 < found[0] / found[1] < 0.65


def test_a_half_for_all_lanes_is_converted_in_all_of_them() -> None:
    """A single one would be put beside what was in its register before, and wait for that: four times as slow."""
    text = """def f(float16(M,K) A, float16(K,N) B) -> (float(M,N) C) { C(m,n) +=! float(A(m,k)) * float(B(k,n)) }"""
    shown = weft.define(text).show("llvm", np.zeros((60, 64), np.float16), np.zeros((64, 64), np.float16))
    assert "shufflevector <" in shown
    assert not re.search(r"shufflevector <\d+ x float> %\w+, <\d+ x float> poison, <\d+ x i32> zeroinitializer", shown)
