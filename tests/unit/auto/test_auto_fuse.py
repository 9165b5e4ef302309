"""Inlining and parts of formulas that get stages of their own."""

from __future__ import annotations

import numpy as np

import weft
from weft.auto.driver import AutoSchedule
from weft.auto.read_stages import read_stages
from weft.auto.scheduler import auto_schedule
from weft.ir.printer import print_kernel
from weft.target.cpu.host import NAMED

CHEAP = "def f(float(M,N) X, float(N) b) -> (O) { T(m,n) = X(m,n) + b(n)\n O(m,n) = T(m,n) * T(m,n) }"
DEAR = "def f(float(M,N) X) -> (O) { E(m,n) = exp(X(m,n))\n O(m,n) = E(m,n) * E(m,n) + E(m,n) }"
REPEATED = "def f(float(M,N) X, float(M) S) -> (O) { O(m,n) = X(m,n) - log(S(m)) }"
CONSTANT = "def f(float(M,N) X) -> (O) { O(m,n) = X(m,n) * rsqrt(2.0) }"


def scheduled(text: str, *shapes: tuple[int, ...]) -> AutoSchedule:
    schedule = weft.schedule(weft.define(text), *shapes, numerics="fast")
    return auto_schedule(schedule, NAMED["x86-64-avx512"], 2)


def blocks(found: AutoSchedule) -> list[str]:
    return [b.name for b in found.schedule.blocks()]


def test_cheap_formulas_are_written_into_their_readers() -> None:
    assert blocks(scheduled(CHEAP, (64, 256), (256,))) == ["O"]


def test_expensive_ones_are_computed_once() -> None:
    found = scheduled(DEAR, (512, 1024))
    assert blocks(found) == ["E", "O"]
    assert print_kernel(found.schedule.kernel).count("exp(") == 1


def test_what_is_the_same_along_a_row_is_computed_once_for_it() -> None:
    found = scheduled(REPEATED, (64, 256), (64,))
    assert blocks(found) == ["O_part", "O"]
    assert any("each 256 times otherwise" in d.why for d in found.decisions)
    x, s = np.random.default_rng(0).random((7, 33), np.float32), np.full(7, 2, np.float32)
    np.testing.assert_allclose(weft.define(REPEATED)(x, s), x - np.log(s)[:, None], rtol=1e-5, atol=1e-6)


def test_the_exponentials_of_attention_are_computed_once_for_sum_and_product() -> None:
    shape = (1, 2, 128, 32)
    found = auto_schedule(
        weft.schedule(weft.ops.attention, shape, shape, shape, numerics="fast"), NAMED["x86-64-avx512"], 2
    )
    assert print_kernel(found.schedule.kernel).count("exp(") == 1


def test_constants_cost_nothing() -> None:
    (stage,) = read_stages(weft.schedule(weft.define(CONSTANT), (4, 4)).kernel)
    assert stage.operations == 1
