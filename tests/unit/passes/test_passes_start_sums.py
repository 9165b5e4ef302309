"""What is added to sums of a product: the product starts with it."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.stmt import Kernel
from weft.passes.registers.start_sums import start_sums

TEXT = """kernel k(A: float32[8, 6], S: float32[8], out O: float32[8, 6], out R: float32[8]) {
  block b in 0:1 { thread s in 0:8 { for t in 0:1 {
    alloc P: float32[6] in local
    unroll x in 0:3 { unroll y in 0:2 { P[x * 2 + y] = 0.0 } }
    unroll i in 0:6 { call products_wait(0) P[i] = P[i] + A[s, i] }
    alloc X: float32[6] in local
    unroll i in 0:3 { unroll j in 0:2 { X[i * 2 + j] = VALUE } }
    alloc m: float32[1] in local
    unroll i in 0:1 { m[i] = -inf }
    unroll i in 0:3 { unroll j in 0:2 { m[0] = max(m[0], X[i * 2 + j]) } }
    unroll i in 0:3 { unroll j in 0:2 { O[s, i * 2 + j] = WEIGHT } }
    R[s] = m[0]
  } } } }"""
EXPONENT = "exp(X[i * 2 + j] - m[0])"


def made(value: str, weight: str = EXPONENT) -> Kernel:
    return parse_kernel(TEXT.replace("VALUE", value).replace("WEIGHT", weight))


def check_same(kernel: Kernel, changed: Kernel) -> None:
    rng, results = np.random.default_rng(0), []
    given = [rng.normal(size=size).astype(np.float32) for size in ((8, 6), (8,))]
    for one in (kernel, changed):
        outs = [np.zeros((8, 6), np.float32), np.zeros(8, np.float32)]
        interpret(one, [*given, *outs])
        results.append(outs)
    for got, want in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize(
    ("value", "begun", "kept"),
    [
        ("P[i * 2 + j] * 0.5 + float32(i * 4 + j)", "= float32(x * 4 + y) * 2.0", "X[i * 2 + j] = P[i * 2 + j]"),
        ("float32(j) * S[s] + 0.25 * P[i * 2 + j]", "= float32(y) * S[s] * 4.0", "X[i * 2 + j] = P[i * 2 + j]"),
        ("s >= i ? P[i * 2 + j] * 0.5 + float32(j) : -inf", "= float32(y) * 2.0", "= s >= i ? P[i * 2 + j] : -inf"),
    ],
    ids=["a number of the element", "a factor that is looked up", "masked"],
)
def test_sums_start_with_what_is_added(value: str, begun: str, kept: str) -> None:
    kernel = made(value)
    changed = start_sums(kernel)
    text = print_kernel(changed)
    assert begun in text
    assert kept in text
    check_same(kernel, changed)


@pytest.mark.parametrize(
    ("value", "weight"),
    [
        ("P[i * 2 + j] * -0.5 + float32(i * 4 + j)", EXPONENT),
        ("P[i * 2 + j] * S[s] + float32(i * 4 + j)", EXPONENT),
        ("P[i * 2 + j] * 0.5 + P[0]", EXPONENT),
        ("P[i * 2 + j] * 0.5 + R[s]", EXPONENT),
        ("P[i * 2 + j] * 0.5 + float32(j)", "X[i * 2 + j] * m[0]"),
    ],
    ids=["a negative factor", "a factor that may be", "another sum", "what changes", "read otherwise"],
)
def test_others_stay(value: str, weight: str) -> None:
    kernel = made(value, weight)
    assert print_kernel(start_sums(kernel)) == print_kernel(kernel)
