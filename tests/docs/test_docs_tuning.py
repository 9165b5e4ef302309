"""Code in the page on tuning runs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "tuning.md").read_text(encoding="utf-8")


def test_the_page_on_tuning_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WEFT_CACHE_DIR", str(tmp_path))
    names: dict[str, Any] = {}
    first, knobs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    exec(first, names)
    assert "by random, seed 7" in capsys.readouterr().out
    np.testing.assert_array_equal(names["C"], names["A"] @ names["B"])
    exec(knobs, names)
    np.testing.assert_array_equal(names["mm"](names["A"], names["B"]), names["C"])
