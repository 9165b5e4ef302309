"""The full text of every refusal: each file in ``refusals`` holds scripts and the errors they end in.

A case reads ``--- name: program [symbolic] [fast]``, the script with ``s`` at hand, ``>>>``, the error.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from schedule_scripts import error_of, schedule_of

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


@pytest.mark.parametrize("name", CASES)
def test_full_text(name: str, tmp_path: Path) -> None:
    program, script, expected = CASES[name]
    known, *options = program.split()
    s = schedule_of(known, symbolic="symbolic" in options, numerics="fast" if "fast" in options else "strict")
    before = s.kernel
    assert error_of(s, script, tmp_path) == expected
    if "\n" not in script:
        assert s.kernel is before, "a refused step left its mark"
