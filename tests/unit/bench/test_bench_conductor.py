"""A whole small run: workers of their own, checked results, ratios; and workers that misbehave."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.field.conductor import Conductor, Plan
from bench.field.peers import PEERS, Peer
from bench.field.process import Gone, WorkerProcess
from bench.field.worker import take_turn
from bench.field.workloads import find_workload

PLAN = Plan(turns=3, turn_s=0.002, prepare_s=60.0)


def test_a_small_run() -> None:
    pytest.importorskip("torch")
    absent = Peer("nobody", "nobody", ("no_such_package",), (), environment="nobody")
    conductor = Conductor([PEERS["weft"], PEERS["torch"], absent], 1, PLAN)
    softmax = find_workload("softmax", {"M": 8, "N": 8})
    (row,) = conductor.run([softmax])
    assert row.missing == {"nobody": "not installed"}
    assert set(row.ours_ms) == {"fresh", "filling"}
    assert row.best == "torch"
    assert row.ratios["torch"].low <= row.ratios["torch"].value <= row.ratios["torch"].high
    assert row.cold_ms["weft"] > 0
    assert row.error is not None
    assert row.error < 1e-6


def test_workers_that_end_are_said_to() -> None:
    wrong = Peer("wrong", "bench.no_such_module", (), ())
    with pytest.raises(Gone, match="ended with status 1"):
        WorkerProcess(wrong, Path(sys.executable), 1, [0]).ask(30.0, do="version")


def test_turns_take_samples() -> None:
    samples = take_turn(lambda: None, 0.001)
    assert len(samples) > 3
    assert all(s > 0 for s in samples)
