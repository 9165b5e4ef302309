"""Which model counts, and that measuring finds a machine that could exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.runtime import machine_model as models
from weft.runtime.machine_model import machine_model, measured_model
from weft.target.cpu.machine_model import assume_model


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path / "store"))
    monkeypatch.delenv("WEFT_CACHE", raising=False)
    monkeypatch.delenv("WEFT_MACHINE", raising=False)
    models._kept_model.cache_clear()


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
