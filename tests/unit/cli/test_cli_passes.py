"""weft passes: all of them, with what they declare; the table in the documents is the one it prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from weft.cli.main import main
from weft.passes.registry import PASSES
from weft.target.cuda.lower import PASSES as CUDA_PASSES

PAGE = Path(__file__).parents[3] / "docs" / "architecture.md"


def printed(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["passes", *options]) == 0
    return capsys.readouterr().out


def test_every_pass_is_listed_with_what_it_declares(capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys)
    assert all(f"\n  {name} " in text for name in PASSES)
    assert "grid form           What CUDA is" in text
    row = next(line for line in text.splitlines() if line.startswith("  split_threads "))
    assert re.split(r"  +", row.strip()) == [
        "split_threads", "cpu c", "no blocks, no reductions", "no barriers", "thread loops",
    ]  # fmt: skip


def test_passes_are_in_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """Under headings of their own in each folder."""
    lines = printed(capsys, "--target", "cpu").splitlines()
    assert re.split(r"  +", lines[0].strip()) == ["pass", "targets", "needs", "gives", "applies where there are"]
    for heading in ("targets", "needs", "gives", "applies"):
        at = lines[0].index(heading)
        assert all(line[at - 2 : at].strip() == "" for line in lines[1::2])


def test_those_of_one_target_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    names = re.findall(r"^  (\w+)", printed(capsys, "--target", "cuda"), re.MULTILINE)
    assert names.pop(0) == "pass"
    assert tuple(names) == CUDA_PASSES


def test_the_documents_have_the_same_table(capsys: pytest.CaptureFixture[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    kept = text.partition("<!-- weft passes -->\n")[2].partition("<!-- end of weft passes -->")[0]
    assert kept == printed(capsys, "--markdown"), "write what `weft passes --markdown` prints between the markers"
