"""Stages, schedules and explanations for a target that need not be here."""

from __future__ import annotations

import numpy as np
import pytest

import weft
from weft.ir.errors import ArgumentError, ScheduleError, UnsupportedError

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
A = np.zeros((32, 32), np.float32)


@pytest.fixture(autouse=True)
def _one_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CUDA_ARCH", "sm_90")


def test_stages_of_a_gpu_without_one() -> None:
    mm = weft.define(MM)
    assert "__global__" in mm.show("cuda", A, A)
    assert ".target sm_90" in mm.show("ptx", A, A)
    assert "thread " in mm.show("loops", A, A, target="cuda")
    assert "thread " not in mm.show("loops", A, A)
    assert "thread" in mm.show("lowered", A, A, target="cuda")
    assert "sm_90" in mm.explain(A, A, target="cuda")
    with pytest.raises(ArgumentError, match="there is no target `gpu`"):
        mm.show("loops", A, A, target="gpu")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="stage `asm` is not one of a cuda program"):
        mm.show("asm", A, A, target="cuda")


def test_the_architecture_may_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CUDA_ARCH", "sm_80")
    assert ".target sm_80" in weft.define(MM).show("ptx", A, A)


def test_schedules_for_a_gpu() -> None:
    mm = weft.define(MM)
    s = mm.schedule(A=(32, 32), B=(32, 32), target="cuda")
    assert "bind" in str(s.trace)
    assert "__global__" in s.build().show("cuda", A, A)
    bare = weft.schedule(mm, A=(32, 32), B=(32, 32), target="cuda")
    m, n, _ = bare.loops("C")
    bare.bind(m, "block")
    bare.bind(n, "thread")
    assert "threadIdx.x" in bare.build().show("cuda", A, A)


def test_polyhedral_schedules_are_for_cpus() -> None:
    with pytest.raises(UnsupportedError, match="is for CPUs"):
        weft.define(MM, schedule="polyhedral").show("cuda", A, A)


def test_a_step_that_does_not_fit_is_refused() -> None:
    s = weft.schedule(weft.define(MM), A=(32, 32), B=(32, 32), target="cuda")
    with pytest.raises(ScheduleError):
        s.bind(s.loops("C")[2], "thread")
