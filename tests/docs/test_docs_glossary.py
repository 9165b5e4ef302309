"""Every term of the glossary is found where the glossary says it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| term")
]


def test_terms_are_in_order() -> None:
    terms = [row[0].lower() for row in ROWS]
    assert len(terms) > 50
    assert terms == sorted(terms)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_the_term_is_there(row: list[str]) -> None:
    term, meaning, where = row
    assert meaning
    paths = re.findall(r"`(weft/[\w/]+\.py)`", where)
    assert paths
    for path in paths:
        text = re.sub(r"\s+", " ", (ROOT / path).read_text(encoding="utf-8")).lower()
        assert re.sub(r"ing$", "", term.lower()) in text, f"{path} does not say `{term}`"
