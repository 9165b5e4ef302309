"""What is allowed and often not meant is told where it is defined, by name, and can be turned off."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.cli.main import main
from weft.ir.remark import REMARKS
from weft.lang.parse import parse_programs
from weft.operators.interface import Interface

X = np.float32([1, 2, 3, 4, 5, 6])

#: A text, the remarks it makes, and the message of the first.
TOLD: list[tuple[str, list[str], str]] = [
    (
        "def f(float(N) X) -> (float(N) Y) { Y(i) = X(i) + X(i+1) }",
        ["uncovered-output"],
        "no statement writes all of `Y` [uncovered-output]\n"
        "  <define>:1      def f(float(N) X) -> (float(N) Y) { Y(i) = X(i) + X(i+1) }\n"
        "                                                      ^^^^^^^^^^^^^^^^^^^^\n"
        "  why:   with N = 5, `Y(4)` stays zero; `Y` is written for `i` in 0:N-1\n"
        "  help:  leave out the size of `Y` to have what is written, or state ranges: `where i in ...`\n"
        "  off:   `# allow uncovered-output` on this line",
    ),
    (
        "def f(float(M,N) X, float(K) b) -> (Y) { Y(i,j) = X(i,j) + b(j) }",
        ["cut-range"],
        "`j` ends where the shorter of `X(i, j)` and `b(j)` does [cut-range]\n"
        "  <define>:1      def f(float(M,N) X, float(K) b) -> (Y) { Y(i,j) = X(i,j) + b(j) }\n"
        "                                                                             ^^^^\n"
        "  why:   they end at N and K, which may differ; what is beyond is left out\n"
        "  help:  where they must be equal, give both sizes one name; else say `where j in 0:min(N, K)`\n"
        "  off:   `# allow cut-range` on this line",
    ),
    (
        "def f(float(N) X) -> (Y) { Y(i) = X(i) * (i/N) }",
        ["integer-division"],
        "`i/N` of integers is rounded down before it becomes a float [integer-division]\n"
        "  <define>:1      def f(float(N) X) -> (Y) { Y(i) = X(i) * (i/N) }\n"
        "                                                            ^^^\n"
        "  why:   `/` of integers gives an integer\n"
        "  help:  write `float(i) / N` for the ratio, `float(...)` around it or `//` where rounding down is meant\n"
        "  off:   `# allow integer-division` on this line",
    ),
    ("def f(float(N) X) -> (Y) { Y(i) = X(i) * -(i/2 + 1) + sqrt(1/2) }", ["integer-division"] * 2, ""),
    ("def f(float(N) X, int32(N) I) -> (float(N) Y) { Y(i) = I(i)/2 }", ["integer-division"], ""),
    ("def f(int8(N) A, int8(N) B) -> (int32 s) { s +=! A(i) * B(i) }", ["narrow-arithmetic"], ""),
    ("def f(uint8(N) A, uint8(N) B) -> (m) { m(i) = (A(i) + B(i)) / 2.0 }", ["narrow-arithmetic"], ""),
    ("def f(uint8(N) A) -> (m) { m(i) = int(A(i) * A(i)) }", ["narrow-arithmetic"], ""),
    ("def f(uint8(N) A) -> (s) { s +=! A(i) }", ["narrow-arithmetic"], ""),
    (
        "def f(float(T) X, float(K) W) -> (Y) { Y(t) +=! (t+k >= 1 ? X(t+k-1) : 0.0) * W(k) where t in 0:T }",
        ["cut-range"],
        "",
    ),
    ("def f(float(T) X, float(K) W) -> (Y) { Y(t) +=! X(t-k) * W(k) where t in 0:T }", ["cut-range"], ""),
    ("def f(float(N) X) -> (float(N) Y) { Y(2*i) = X(2*i) }", ["uncovered-output"], ""),
    ("def f(float(N,N) X) -> (float(N,N) Y) { Y(i,j) = X(i,j) + X(i+1,j) where j in 0:N }", ["uncovered-output"], ""),
    ("def f(float(N) A) -> (float(20) O) { O(i) = A(i) }", ["uncovered-output"], ""),
    ("def f(float(M) A, float(N) B) -> (s) { s +=! A(i) * B(i) }", ["cut-range"], ""),
    ("def f(float(M) A, float(4) B) -> (s) { s +=! A(i) * B(i) }", ["cut-range"], ""),
    (
        "def g(float(N) A) -> (B) { B(i) = A(i) * (i/2) }\ndef f(float(N) X) -> (Y) { Y = g(X) }",
        ["integer-division"],
        "",
    ),
]
#: What is meant so, as far as can be told.
QUIET = [
    "def f(uint8(N) A, uint8(N) B) -> (uint8 s, uint8(N) C) { s +=! A(i)\n C(i) = A(i) + B(i) }",
    "def f(uint8(N) A) -> (y) { y(i) = A(i) * 2 + 1 }",
    "def f(float(N) X) -> (float(N) Y) { Y(i) = X(i) + X(i+1) where i in 0:N-1 }",
    "def f(float(N) X) -> (float(N) Y) { Y(2*i) = X(2*i)\n Y(2*i+1) = X(2*i+1) }",
    "def f(float(N) X) -> (float(N) Y) { Y(0) = X(0)\n Y(i) = X(i) - X(i-1) where i in 1:N }",
    "def f(float(N,N) A) -> (float(N,N) L) { L(i,j) = A(i,j) where j in 0:i+1 }",
    "def f(float(N) X, int32(N) I) -> (float(N) Y) { Y(I(i)) +=! X(i) }",
    "def f(float(N) X, float(K) W) -> (Y) { Y(i) +=! X(i+k) * W(k) }",
    "def f(float(M) A, float(N) B) -> (Y) { Y(i) = A(i) + B(i) where i in 0:min(M,N) }",
    "def f(float(M) A, float(N) B) -> (Y) { Y(i) = i < M ? A(i) : B(i-M) }",
    "def f(float(H) X) -> (Y) { Y(h) = X(h/2) * float(h/2) + float(h)/2 + (h//2) }",
    "def f(float(H) X) -> (Y) { Y(h) = h/2 > 1 ? X(h) : 0.0 }",
    "def f(float(N) X) -> (float(N) Y) { Y(i) = X(i) + X(i+1) # allow uncovered-output\n }",
    "def f(float(N) X) -> (float(N) Y) { # allow integer-division, uncovered-output\n Y(i) = X(i) + X(i+1) * (i/2)\n }",
]


@pytest.mark.parametrize(("text", "names", "message"), TOLD, ids=[t[0] for t in TOLD])
def test_remarks_are_told_with_place_why_and_help(text: str, names: list[str], message: str) -> None:
    # the second time, from the note of the text in the store
    for _ in range(2):
        with pytest.warns(weft.Warning) as told:
            weft.define(text)
        assert [w.message.name for w in told] == names  # type: ignore[union-attr]
        assert str(told[0].message) == message or not message
        assert told[0].filename == __file__


@pytest.mark.parametrize("text", QUIET)
def test_nothing_is_said_of_what_is_stated(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        weft.define(text)


def test_every_kind_is_tested() -> None:
    assert {name for _, names, _ in TOLD for name in names} == set(REMARKS)


def test_warnings_are_off_by_name() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*integer-division", weft.Warning)
        weft.define(TOLD[2][0])
        with pytest.raises(weft.Warning, match="uncovered-output"):
            weft.define(TOLD[0][0])


@pytest.mark.filterwarnings("ignore::weft.Warning")
def test_what_the_store_keeps_is_what_the_text_says() -> None:
    op = weft.define(TOLD[0][0] + "  # once more")
    interface = op.interface
    assert interface.remarks
    assert Interface.from_json(json.loads(json.dumps(interface.to_json())), interface.source) == interface


def test_programs_with_remarks_can_be_pickled() -> None:
    program = next(iter(parse_programs(TOLD[0][0]).values()))
    assert pickle.loads(pickle.dumps(program)).remarks == program.remarks


@pytest.mark.parametrize("flag", [[], ["--strict"]])
def test_check_prints_them_and_counts_them_where_it_is_strict(
    flag: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.weft"
    file.write_text(TOLD[1][0])
    assert main(["check", "--quiet", *flag, str(file)]) == len(flag)
    assert f"{'error' if flag else 'warning'}: `j` ends where the shorter" in capsys.readouterr().out
