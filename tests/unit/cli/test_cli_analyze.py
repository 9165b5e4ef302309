"""`weft analyze`: its tables, its sweep, and its answers to wrong usage."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from weft.cli.main import main

TEXT = """def conv(float(N,C,H,W) X, float(F,C,R,S) K, int T) -> (O) {
    O(n,f,h,w) +=! X(n,c,T*h + r,T*w + s) * K(f,c,r,s)
}
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
"""
CONV = ["conv", "--arg", "X=1x3x9x9", "--arg", "K=2x3x3x3", "--arg", "T=2"]
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ops.weft").write_text(TEXT)
    np.save("b.npy", np.ones((7, 5), np.float32))


def test_tables_and_json_say_the_same(capsys: Capture) -> None:
    assert main(["analyze", "ops.weft", *CONV]) == 0
    text = capsys.readouterr().out
    assert main(["analyze", "ops.weft", *CONV, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["duplication"][0]["matrix"] == [16, 27]
    assert facts["duplication"][0]["expansion"] == pytest.approx(16 * 27 / 243)
    assert "X     16    27       1.78       1.78" in text
    assert f"first     {facts['reuse']['first']}" in text


def test_a_sweep_goes_down_to_what_is_touched_first(capsys: Capture) -> None:
    assert main(["analyze", "ops.weft", "--arg", "A=16x7", "--arg", "B=b.npy", "--sweep", "l2=1K:1M"]) == 0
    heading, names, *rows = capsys.readouterr().out.splitlines()
    assert heading == "misses of a fully associative L2 by size (simulation)"
    assert names.split() == ["size", "misses", "ratio"]
    assert (rows[0].split()[:2], rows[-1].split()[:2]) == (["1", "KiB"], ["1", "MiB"])
    assert int(rows[-1].split()[2]) == 7 + 3 + 5  # lines of A, of B and of C


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ops.weft", "--arg", "A=4x4"], "error: arguments B of mm are not known"),
        (["ops.weft", "--arg", "Q=4x4"], "error: mm has no parameter `Q`"),
        (["ops.weft", *CONV[:-1], "T=x"], "error: --arg T=x is not a number"),
        (["ops.weft", *CONV, "--sweep", "l2=1M"], "error: cannot read --sweep l2=1M"),
        (["ops.weft", *CONV, "--sweep", "l9=1M:2M"], "error: the machine has no cache `l9`"),
        (["ops.weft", *CONV, "--sweep", "l2=2M:1M"], "error: no cache sizes lie between 2097152 and 1048576 bytes"),
        (["ops.weft", "--arg", "A=nothing.npy", "--arg", "B=4x4"], "error: cannot read nothing.npy for `A`"),
        (["kernel.cu"], "error: kernel.cu is not analyzed"),
    ],
)
def test_wrong_usage_is_told(arguments: list[str], message: str, capsys: Capture) -> None:
    assert main(["analyze", *arguments]) == 1
    assert capsys.readouterr().err.startswith(message)
