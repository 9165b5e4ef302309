"""Every example in the lessons and on the pages of loop and of Python programs runs and prints what is there."""

from __future__ import annotations

import doctest
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.ir.hardware import HARDWARE

DOCS = Path(__file__).resolve().parents[2] / "docs"
LESSONS = [*sorted(DOCS.glob("lesson-*.md")), DOCS / "loops.md", DOCS / "python-api.md", DOCS / "algebra.md"]


def test_there_are_lessons() -> None:
    assert LESSONS


@pytest.fixture(autouse=True)
def declared_intrinsics() -> Iterator[None]:
    """What a lesson declares is gone after it."""
    importlib.import_module("weft.target.cpu.intrinsics")  # those built in stay
    before = dict(HARDWARE)
    yield
    HARDWARE.clear()
    HARDWARE.update(before)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda p: p.stem)
def test_lesson_runs_as_written(lesson: Path) -> None:
    # Fences close an example as a blank line would; doctest only knows the latter.
    text = lesson.read_text(encoding="utf-8").replace("\n```\n", "\n\n")
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, {}, lesson.stem, str(lesson), 0)
    runner = doctest.DocTestRunner(optionflags=flags)
    report: list[str] = []
    runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)
