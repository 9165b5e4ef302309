"""Code in the page on `weft analyze` runs, and the figures are what the text says they are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "analyze.md").read_text(encoding="utf-8")


def test_the_page_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        exec(block, names)
    printed = capsys.readouterr().out
    assert "copies in the lowered matrix" in printed
    assert printed.splitlines()[-2].startswith("L1 ")
    d = names["d"]
    assert d.copies_of((0, 1, 5, 5)) == 9
    assert len(d.inverse(100)) == d.copies_of(100)
    assert d.shape == (256, 27)
