"""Which model counts, and that measuring finds a machine that could exist."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft
from weft.ir.errors import TargetError
from weft.runtime import machine_model as models
from weft.runtime.machine_model import local_machine, machine_model, measured_model
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import host_machine
from weft.target.cpu.machine_model import assume_model


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.delenv("WEFT_MACHINE", raising=False)
    models._kept_figures.cache_clear()


def test_nothing_is_measured_unasked() -> None:
    assert machine_model() == assume_model()


def test_what_was_measured_is_kept() -> None:
    found = measured_model()
    assert machine_model() == found
    assert found.source("frequency") == "measured"
    assert 2e8 < found.frequency < 2e10
    assert 0.1 < found.fma_units < 8
    assert found.fma_latency >= 1
    for level in found.levels:
        assert 1e8 < level.read < 1e13
        assert level.read_all >= level.read


def test_a_given_file_counts_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text('{"cores": 64}')
    monkeypatch.setenv("WEFT_MACHINE", str(path))
    assert machine_model().cores == 64
    assert local_machine().cores == 64


def test_a_given_file_that_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "machine.json"
    path.write_text('{"core": 64}')
    monkeypatch.setenv("WEFT_MACHINE", str(path))
    with pytest.raises(TargetError, match=r"machine\.json cannot be used"):
        machine_model()


def test_what_another_version_measured_is_not_used() -> None:
    default_store().put(models._key(host_machine()), Artifact({"model": '{"cores": 3, "gone": 1}'}))
    assert machine_model() == assume_model()


def _kept_kernels(store: Path) -> set[str]:
    return {p.name for p in store.iterdir() if p.suffix == ".weft"}


TEXT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
LOOPS = "kernel twice(X: float32[8], out Y: float32[8]) { for i in 0:8 { Y[i] = X[i] + X[i] } }"


def _run(store: Path) -> set[str]:
    """What a fresh operator and a fresh loop kernel add to the store."""
    before = _kept_kernels(store) if store.exists() else set()
    a = np.ones((8, 8), np.float32)
    assert weft.define(TEXT)(a, a)[0, 0] == 8
    weft.kernel(LOOPS)(a[0], np.zeros(8, np.float32))
    return _kept_kernels(store) - before


def test_kept_kernels_are_for_one_machine_description(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel scheduled for one description was used after it had changed."""
    store = tmp_path / "store"
    assert len(_run(store)) >= 2
    assert _run(store) == set()
    path = tmp_path / "machine.json"
    path.write_text('{"cores": 64}')
    monkeypatch.setenv("WEFT_MACHINE", str(path))
    assert len(_run(store)) == 2, "a given description"
    assert _run(store) == set()
    path.write_text('{"cores": 32}')
    assert len(_run(store)) == 2, "another text in the same file"
    monkeypatch.delenv("WEFT_MACHINE")
    assert _run(store) == set()
    measured = assume_model().with_measured({"fma_units": 1.5})
    default_store().put(models._key(host_machine()), Artifact({"model": measured.to_json()}))
    models._kept_figures.cache_clear()
    assert local_machine().model.fma_units == 1.5
    assert len(_run(store)) == 2, "a measured description"
    assert _run(store) == set()


def test_kept_kernels_are_for_a_number_of_threads(tmp_path: Path) -> None:
    store, before = tmp_path / "store", weft.get_num_threads()
    _run(store)
    try:
        weft.set_num_threads(before + 1)
        assert len(_run(store)) == 1, "the operator, whose schedule Weft chooses; loops run as they are written"
        assert _run(store) == set()
    finally:
        weft.set_num_threads(before)
