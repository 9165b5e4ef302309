"""The full text of every refusal: each file in ``refusals`` holds scripts and the errors they end in.

A case reads ``--- name: program [symbolic] [fast]``, the script with ``s`` at hand, ``>>>``, the error. Where the
program is called ``this``, its text comes first, then ``===``.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from refusal_texts import is_unseen, reasons
from schedule_scripts import error_of, schedule_of

from weft.ir.hardware import HARDWARE
from weft.schedules.schedule import Schedule

REFUSALS = Path(__file__).parent / "refusals"


def read_cases() -> dict[str, tuple[str, str, str]]:
    """Name -> program, script, error."""
    cases = {}
    for path in sorted(REFUSALS.glob("*.txt")):
        for case in path.read_text(encoding="utf-8").split("--- ")[1:]:
            head, _, rest = case.partition("\n")
            name, _, program = head.partition(": ")
            script, _, error = rest.partition("\n>>>\n")
            assert f"{path.stem}/{name}" not in cases, f"two cases are called {name}"
            cases[f"{path.stem}/{name}"] = (program, script, error.strip("\n"))
    return cases


CASES = read_cases()


def start(program: str, script: str) -> tuple[Schedule, str]:
    """The schedule a case is about, and its script."""
    known, *options = program.split()
    if known == "this":
        known, _, script = script.partition("\n===\n")
    symbolic, numerics = "symbolic" in options, "fast" if "fast" in options else "strict"
    return schedule_of(known, symbolic=symbolic, numerics=numerics), script


@pytest.fixture
def _only_our_intrinsics(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without those that property tests in the same process declare."""
    for name in [n for n in HARDWARE if n.startswith("tiny_")]:
        monkeypatch.delitem(HARDWARE, name)


@pytest.mark.usefixtures("_only_our_intrinsics")
@pytest.mark.parametrize("name", CASES)
def test_full_text(name: str, tmp_path: Path) -> None:
    program, script, expected = CASES[name]
    s, script = start(program, script)
    before = s.kernel
    assert error_of(s, script, tmp_path) == expected
    if "\n" not in script:
        assert s.kernel is before, "a refused step left its mark"


def test_every_reason_is_shown() -> None:
    """Each reason in the source is in some text here; those of `weft.poly` that steps forestall, in its own tests."""
    here, poly = Path(__file__).parent, Path(__file__).parents[1] / "unit" / "poly"
    shown = "\n".join(path.read_text(encoding="utf-8") for path in sorted(REFUSALS.glob("*.txt")))
    shown += "\n".join(path.read_text(encoding="utf-8") for path in (*here.glob("test_*.py"), *poly.glob("test_*.py")))
    missing = [f"{where}: {p}" for where, p in reasons() if not is_unseen(p) and re.search(p, shown) is None]
    assert not missing, "no test shows\n" + "\n".join(missing)
