"""Tiled, packed and cached programs of random sizes: compiled code gives, bit for bit, what the definition gives.

Tiles rarely come out even, so tests and masks of every kind pass through the lowering that moves and drops them.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.ir.interpret import interpret
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import NAMED, host_machine

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "target"))

from run_compiled import Runner, assert_same_bits, make_arguments

MACHINES = [m for m in (None, NAMED["x86-64-avx2"]) if host_machine().name.startswith("x86-64-avx") or m is None]
Make = Callable[[random.Random], Schedule]
MATMUL = weft.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
TURNED = weft.define("def turn(float(M,N) A) -> (B) { B(n,m) = A(m,n) + 1 }")


def schedule_matmul(rng: random.Random) -> Schedule:
    sizes = {name: rng.randint(1, 40) for name in "MNK"}
    s = weft.schedule(MATMUL, A=(sizes["M"], sizes["K"]), B=(sizes["K"], sizes["N"]))
    rows, columns = rng.choice([1, 3, 4, 6]), rng.choice([4, 8, 16, 32])
    m_o, m_i = s.split("m", rows)
    n_o, n_i = s.split("n", columns)
    k_o, k_i = s.split("k", rng.choice([1, 5, 8, 64]))
    outer = [n_o, k_o, m_o] if rng.random() < 0.5 else [m_o, n_o, k_o]
    s.reorder(*outer, k_i, m_i, n_i)
    innermost = outer[-1]
    if rng.random() < 0.8:
        s.cache_write("C", scope="register", at=innermost)
    if rng.random() < 0.6:
        s.pack("B", f"j/{columns} i j%{columns}", at=k_o, pad=rng.random() < 0.5)
    if rng.random() < 0.5:
        s.cache_read("A", at=innermost)
    s.vectorize(n_i)
    if rng.random() < 0.7:
        s.unroll(m_i)
    return s


def schedule_turn(rng: random.Random) -> Schedule:
    side = rng.choice([4, 8, 16])
    s = weft.schedule(TURNED, A=(rng.choice([16, 32, 40]), rng.choice([16, 32, 48])))
    n_o, n_i = s.split("n", side)
    m_o, m_i = s.split("m", rng.choice([side, 16]))
    s.reorder(n_o, m_o, n_i, m_i)
    across, along = (n_i, m_i) if rng.random() < 0.5 else (m_i, n_i)
    s.reorder(across, along)
    s.vectorize(along)
    s.unroll(across)
    if rng.random() < 0.5:
        s.stream("B")
    return s


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("make", "definition"), [(schedule_matmul, MATMUL), (schedule_turn, TURNED)])
def test_compiled_schedules_match_the_definition(
    make: Make, definition: weft.Operator, seed: int, first_seed: int
) -> None:
    seed += first_seed
    s = make(random.Random(seed))
    kernel = weft.schedule(definition, **_shapes(s)).kernel
    arguments = make_arguments(kernel, seed)
    want = [a.copy() for a in arguments]
    interpret(kernel, want)
    for machine in MACHINES:
        got = [a.copy() for a in arguments]
        assert Runner(s.kernel, machine)(*got) == 0
        assert_same_bits(s.kernel.params[-1].name, got[-1], want[-1])


@pytest.mark.parametrize("seed", range(100, 106))
def test_fast_numerics_differ_by_rounding_only(seed: int, first_seed: int) -> None:
    seed += first_seed
    s = schedule_matmul(random.Random(seed))
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in _shapes(s).values())
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    assert Runner(s.kernel, fast=True)(a, b, c) == 0
    np.testing.assert_allclose(c, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)


def _shapes(s: Schedule) -> dict[str, tuple[int, ...]]:
    inputs = s.kernel.buffers[:-1]
    return {b.name: tuple(int(e.value) for e in b.shape) for b in inputs}  # type: ignore[attr-defined]
