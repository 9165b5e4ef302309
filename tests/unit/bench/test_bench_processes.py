"""Rows of a benchmark in processes of their own: compiled beside each other, measured one after another."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

from bench.gpu.processes import several

_ROW = """
import os, sys, time
from bench.gpu.processes import alone, answer

number, folder = int(sys.argv[-1]), {folder!r}

class Row:
    def __init__(self):
        if number == 1:
            sys.exit(3)
        with alone():  # as what is timed while compiling
            begin = time.monotonic()
            time.sleep(0.05)
            self.inside = begin, time.monotonic()

    def measure(self):
        running = os.path.join(folder, "running")
        os.close(os.open(running, os.O_CREAT | os.O_EXCL))  # fails if another measures
        time.sleep(0.05)
        os.remove(running)
        return {{"ratio": 2.0 + number, "inside": self.inside, "cache": os.environ["WEFT_CACHE_DIR"]}}

    def print_profiles(self):
        print("profile of", number)

answer(Row(), 3.0)
"""


def test_rows_are_measured_alone_and_one_that_fails_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [sys.executable, "-c", _ROW.format(folder=str(tmp_path))]
    found = dict(several(command, 4, at_once=4))
    assert [(n, row["ratio"]) for n, row in found.items()] == [(0, 2.0), (2, 4.0), (3, 5.0)]
    assert len({row["cache"] for row in found.values()}) == 3
    spans = sorted(tuple(row["inside"]) for row in found.values())
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    said = capsys.readouterr().out
    assert "exit status 3" in said
    assert "profile of 0" in said
    assert "profile of 2" not in said


def test_a_row_that_takes_too_long_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    slow = "import sys, time; time.sleep(60 if sys.argv[-1] == '0' else 0)"
    assert dict(several([sys.executable, "-c", slow], 2, at_once=2, limit=2.0)) == {}
    said = capsys.readouterr().out
    assert "exit status -9" in said
    assert "exit status 0" in said
