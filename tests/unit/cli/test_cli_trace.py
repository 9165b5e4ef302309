"""weft trace: a page with every step, well formed, and true to the programs it shows."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.cli.trace_page import Snapshot, emit_page, fold_idle
from weft.cli.trace_rows import Row, diff_rows, marked
from weft.target.cpu.lower import PASSES

PROGRAM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }\n"
SCHEDULE = """numerics = "strict"
m_o, m_i = split("m", 4)
reorder("n", "m_o", "m_i", "k")
parallel("n")
"""
SIZES = ["--size", "M=16", "--size", "N=8", "--size", "K=4"]
VOID = {"meta", "br", "link"}


class Balance(HTMLParser):
    """Raises where a tag is closed that is not the innermost open one."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "mm.weft").write_text(PROGRAM)
    (tmp_path / "tiles.txt").write_text(SCHEDULE)
    return tmp_path


def titles(page: str) -> list[str]:
    return [html.unescape(t) for t in re.findall(r'<li class="[^"]*"><a href="#s\d+">(.*?)</a>', page)]


def test_the_page_has_every_step(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = files / "out.html"
    assert main(["trace", str(files / "mm.weft"), str(out), "--schedule", str(files / "tiles.txt"), *SIZES]) == 0
    page = out.read_text()
    shown = titles(page)
    assert shown[:3] == ["tensor program", "normalize", "lower to loops"]
    assert shown[3:6] == SCHEDULE.splitlines()[1:]
    assert shown[-2:] == ["LLVM", "assembly"]
    steps = [name for title in shown for name in title.split(", ") if "(" not in title] + SCHEDULE.splitlines()[1:]
    assert set(PASSES) <= set(steps)
    assert re.fullmatch(rf".*: {len(steps)} steps, \d+ of which change something\n", capsys.readouterr().out)
    assert "http" not in page.replace("http-equiv", "")
    checker = Balance()
    checker.feed(page)
    assert not checker.open


def test_a_page_for_a_gpu(files: Path) -> None:
    (files / "grid.txt").write_text('numerics = "strict"\nbind("m", "block")\nbind("n", "thread")\n')
    given = ["--target", "cuda", "--schedule", str(files / "grid.txt"), *SIZES]
    assert main(["trace", str(files / "mm.weft"), str(files / "out.html"), *given]) == 0
    shown = titles((files / "out.html").read_text())
    assert any("join_threads" in title for title in shown)
    assert shown[-2:] == ["CUDA", "PTX"]


@pytest.mark.parametrize(("target", "machine"), [("cpu", "x86-64-avx2"), ("cuda", "sm_90")])
def test_without_a_schedule_it_shows_what_would_run(
    files: Path, target: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every step of the automatic schedule, then the passes: the last program is the one that is compiled."""
    if target == "cpu":
        monkeypatch.setenv("WEFT_TARGET", machine)
    sizes = ["--size", "M=64", "--size", "N=64", "--size", "K=64"]
    assert main(["trace", str(files / "mm.weft"), str(files / "out.html"), "--target", target, *sizes]) == 0
    page = (files / "out.html").read_text()
    shown = titles(page)
    ones = [np.ones((64, 64), np.float32)] * 2
    op = weft.define(PROGRAM)
    schedule = str(op.schedule(*ones, target=target).trace).splitlines()[1:]
    assert schedule
    assert shown[3 : 3 + len(schedule)] == schedule
    assert html.escape(op.show("lowered", *ones, target=target).rstrip()) in page


def test_steps_that_change_nothing_are_folded_into_one_line() -> None:
    still = [Snapshot("pass", name, "a\n", 0.5) for name in ("one", "two")]
    other, code = Snapshot("pass", "three", "b\n"), Snapshot("code", "asm", "b\n", fresh=True)
    first = Snapshot("start", "x", "a\n")
    folded = fold_idle([first, *still, other, replace(other, title="four"), code])
    assert [s.title for s in folded] == ["x", "one, two", "three", "four", "asm"]
    assert folded[1].seconds == 1.0


def test_sizes_may_stay_symbolic(files: Path) -> None:
    assert main(["trace", str(files / "mm.weft"), str(files / "out.html")]) == 0
    assert "for m in 0:M" in (files / "out.html").read_text()


def test_a_trace_that_does_not_fit_is_an_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (files / "tiles.txt").write_text('numerics = "strict"\nparallel("k")\n')
    assert main(["trace", str(files / "mm.weft"), str(files / "o.html"), "--schedule", str(files / "tiles.txt")]) == 1
    assert "step 1 of the trace does not fit kernel `mm`" in capsys.readouterr().err
    assert not (files / "o.html").exists()


def test_a_page_that_cannot_be_written_is_an_error(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(files / "mm.weft"), str(files / "none" / "o.html")]) == 1
    assert "error: cannot write" in capsys.readouterr().err


def test_rows_hold_both_texts() -> None:
    before, after = "a\nb\nc\nd\ne\n", "a\nB\nB2\nc\ne\nf\n"
    rows = diff_rows(before, after)
    assert [r.left for r in rows if r.tag != "insert" and r.left] == list("abcde")
    assert [r.right for r in rows if r.tag != "delete" and r.right] == ["a", "B", "B2", "c", "e", "f"]
    assert [r.tag for r in rows if r.left == r.right] == ["equal"] * 3


def test_texts_are_escaped_and_changes_marked() -> None:
    page = emit_page("t", "m", [Snapshot("start", "x", "if a < b\n"), Snapshot("pass", "<y>", "if a < c\n")])
    assert "if a &lt; <mark>b</mark>" in page
    assert "if a &lt; <mark>c</mark>" in page
    assert "&lt;y&gt;" in page


def test_steps_that_change_nothing_say_so() -> None:
    page = emit_page("t", "m", [Snapshot("start", "x", "same\n"), Snapshot("pass", "y", "same\n")])
    assert "changes nothing here" in page
    assert 'class="pass still"' in page


def test_long_equal_stretches_are_folded() -> None:
    lines = [f"line {n}" for n in range(50)]
    changed = [*lines[:25], "new", *lines[26:]]
    page = emit_page("t", "m", [Snapshot("s", "x", "\n".join(lines)), Snapshot("pass", "y", "\n".join(changed))])
    assert "22 equal lines" in page
    assert "21 equal lines" in page


def test_lines_that_are_alike_are_in_one_row() -> None:
    """What was put before them does not push them apart."""
    before = "for i in 0:16 {\n    A[i] = B[i] + C[i];\n}\n"
    after = "let t = 4;\nfor i_o in 0:4 {\n    for i_i in 0:4 {\n        A[i_o * 4 + i_i] = B[i_o] + C[i_o];\n}\n"
    rows = [(r.tag, r.left.strip(), r.right.strip()) for r in diff_rows(before, after)]
    assert ("insert", "", "let t = 4;") in rows
    assert ("replace", "A[i] = B[i] + C[i];", "A[i_o * 4 + i_i] = B[i_o] + C[i_o];") in rows
    assert rows[-1] == ("equal", "}", "}")


def test_lines_with_little_in_common_are_not_compared() -> None:
    rows = diff_rows("a\nalloc X: float32[4, 4];\nz\n", "a\nparallel for k in 0:9 {\nz\n")
    assert [r.tag for r in rows] == ["equal", "delete", "insert", "equal"]


def test_whole_words_are_marked() -> None:
    left, right = marked(Row("replace", "for index in 0:128 {", "for inner in 0:1280 {"))
    assert left == "for <mark>index</mark> in 0:<mark>128</mark> {"
    assert right == "for <mark>inner</mark> in 0:<mark>1280</mark> {"
    assert marked(Row("replace", "  a", "    a")) == ("  a", "    a")  # spaces say nothing


def test_very_long_changes_are_paired_in_order() -> None:
    rows = diff_rows("\n".join(f"a{n}" for n in range(200)), "\n".join(f"b{n}" for n in range(300)))
    assert len(rows) == 300
    assert [r.tag for r in rows].count("replace") == 200


def test_the_time_of_each_stage_is_told() -> None:
    steps = [Snapshot("start", "x", "a\n"), Snapshot("pass", "p", "b\n", 0.25), Snapshot("pass", "q", "c\n", 0.5)]
    page = emit_page("t", "m", [*steps, Snapshot("code", "asm", "d\n", 0.25, fresh=True)])
    assert "<th>passes</th><td>750.0 ms" in page
    assert "<th>code</th><td>250.0 ms" in page
    assert 'style="width: 75%"' in page


def test_a_phone_shows_the_page_in_its_width() -> None:
    page = emit_page("t", "m", [Snapshot("start", "x", "a\n")])
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "@media (max-width: 800px)" in page
