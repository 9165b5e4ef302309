"""Every workload compiles and is right, at sizes that take no time; random sizes are drawn as said."""

from __future__ import annotations

import numpy as np
import pytest

from bench.field.peers.weft_itself import bound, define
from bench.field.statistics import relative_error
from bench.field.workloads import FAMILIES, Workload, extent, parse_arguments, randomly_resized, standard_workloads

WORKLOADS = list(standard_workloads())


def small(workload: Workload) -> Workload:
    kept = workload.family.kept
    shrunk = {n: v if n in kept else min(v, 7 + 2 * (i % 3)) for i, (n, v) in enumerate(workload.sizes.items())}
    return Workload(workload.family, shrunk)


@pytest.mark.parametrize("workload", {w.name: w for w in map(small, WORKLOADS)}.values(), ids=lambda w: w.name)
def test_weft_is_right(workload: Workload) -> None:
    pytest.importorskip("torch")
    inputs = workload.inputs(3)
    op, args = bound(define(workload), workload, inputs)
    results = op(*args)
    several = results if isinstance(results, tuple) else (results,)
    for got, want in zip(several, workload.reference(inputs), strict=False):
        assert relative_error(got, want) < 1e-5


def test_every_family_has_a_workload() -> None:
    assert {w.family.name for w in WORKLOADS} == set(FAMILIES)
    assert len({w.name for w in WORKLOADS}) == len(WORKLOADS)


def test_random_sizes_follow_their_seed() -> None:
    once, again, other = (list(randomly_resized(WORKLOADS, seed)) for seed in (5, 5, 6))
    assert once == again != other
    for before, after in zip(WORKLOADS, once):
        for name, size in before.sizes.items():
            kept = name in before.family.kept or size == 1
            assert after.sizes[name] == size if kept else 0.5 * size - 1 <= after.sizes[name] <= 1.5 * size + 1


def test_inputs_are_the_same_in_every_process() -> None:
    workload = small(next(w for w in WORKLOADS if w.family.name == "1LUT"))
    first, second = workload.inputs(1), workload.inputs(1)
    assert all(np.array_equal(first[n], second[n]) for n in first)
    assert first["I"].dtype == np.int32
    assert first["I"].max() < workload.sizes["E"]
    assert all(v.ctypes.data % 64 == 0 for v in first.values())


def test_reading_arguments() -> None:
    a, g, i, number = parse_arguments("A(M,K-1) G(M)+ I(B)<E P")
    assert (a.dims, g.positive, i.below, number.dims) == (("M", "K-1"), True, "E", None)
    assert extent("H+2-KH", {"H": 7, "KH": 3}) == 6
