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
        "  why:   `Y(N-1)` stays zero; `Y` is written for `i` in 0:N-1\n"
        "  help:  leave out the size of `Y` to have what is written, or state ranges: `where i in ...`\n"
        "  off:   `# allow uncovered-output` on this line",
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
    ("def f(float(N) X) -> (float(N) Y) { Y(2*i) = X(2*i) }", ["uncovered-output"], ""),
    ("def f(float(N,N) X) -> (float(N,N) Y) { Y(i,j) = X(i,j) + X(i+1,j) where j in 0:N }", ["uncovered-output"], ""),
    (
        "def g(float(N) A) -> (B) { B(i) = A(i) * (i/2) }\ndef f(float(N) X) -> (Y) { Y = g(X) }",
        ["integer-division"],
        "",
    ),
]
#: A text, shapes at which nothing is wrong, shapes at which something is, its name, and the reason.
AT_SIZES: list[tuple[str, list[tuple[int, ...]], list[tuple[int, ...]], str, str]] = [
    (
        "def f(float(M,N) X, float(K) b) -> (Y) { Y(i,j) = X(i,j) + b(j) }",
        [(3, 4), (4,)],
        [(3, 4), (5,)],
        "cut-range",
        "with N = 4, K = 5, they end at N and K; what is beyond is left out",
    ),
    (
        "def f(float(M) A, float(4) B) -> (s) { s +=! A(i) * B(i) }",
        [(4,), (4,)],
        [(5,), (4,)],
        "cut-range",
        "with M = 5, they end at M and 4; what is beyond is left out",
    ),
    (  # heads of attention in groups
        "def f(float(H,D) Q, float(G,D) K) -> (S) { S(h) +=! Q(h,d) * K(h/4,d) }",
        [(8, 3), (2, 3)],
        [(8, 3), (1, 3)],
        "cut-range",
        "with H = 8, G = 1, they end at H and 4*G; what is beyond is left out",
    ),
    (
        "def f(float(G,D) K, float(H,D) Q) -> (S) { T(h,d) = K(h/4,d)\n S(h) +=! T(h,d) * Q(h,d) }",
        [(2, 3), (8, 3)],
        [(2, 3), (4, 3)],
        "cut-range",
        "with G = 2, H = 4, they end at 4*G and H; what is beyond is left out",
    ),
    (
        "def f(float(T) X, float(K) W) -> (Y) { Y(t) +=! X(t-k) * W(k) where t in 0:T }",
        [(5,), (1,)],
        [(5,), (2,)],
        "cut-range",
        "with K = 2, they end at 1 and K; what is beyond is left out",
    ),
    (  # a window may be shorter than what it moves over
        "def f(float(T) X, float(K) W) -> (Y) { Y(t) +=! X(t+k) * W(k) where t in 0:T-4 }",
        [(9,), (3,)],
        [(9,), (7,)],
        "cut-range",
        "with K = 7, they end at 5 and K; what is beyond is left out",
    ),
    (
        "def f(float(N) A) -> (float(20) O) { O(i) = A(i) }",
        [(20,)],
        [(7,)],
        "uncovered-output",
        "with N = 7, `O(7)` stays zero; `O` is written for `i` in 0:N",
    ),
    (  # padding by one is for three taps
        "def f(float(H,W) X, float(P,P) K) -> (float(H,W) O) {"
        " O(h,w) +=! (h+p >= 1 ? X(max(h+p-1, 0), w) : 0.0) * K(p,q) where p in 0:P, X outside zero }",
        [(6, 4), (3, 3)],
        [(6, 4), (3, 3)],
        "",
        "",
    ),
    (
        "def f(float(H) X, float(P) K) -> (float(H) O) { O(h) +=! X(h+p) * K(p) }",
        [(6,), (1,)],
        [(6,), (3,)],
        "uncovered-output",
        "with H = 6, P = 3, `O(4)` stays zero; `O` is written for `h` in 0:H-P+1, `p` in 0:P",
    ),
    (
        "def f(float(H) X, int S) -> (float(H) O) { O(i) = X(S*i) }",
        [(6,), 1],
        [(6,), 2],
        "uncovered-output",
        "with H = 6, S = 2, `O(3)` stays zero; `O` is written for `i` in 0:(H+S-1)/S",
    ),
    ("def f(float(M,N) A) -> (d) { d(i) = A(i,i) }", [(3, 3)], [(3, 4)], "", ""),
    (  # gradients of windows and of heads in groups
        "def f(float(H) G, float(K) W, int S, int N) -> (float(N) D) { D(S*h + k) +=! G(h) * W(k) }",
        [(3,), (2,), 2, 6],
        [(3,), (2,), 2, 8],
        "",
        "",
    ),
    (
        "def f(float(H) D, float(G) K) -> (float(G) E) { E(h/4) +=! D(h) * K(h/4) where h in 0:H }",
        [(8,), (2,)],
        [(4,), (2,)],
        "",
        "",
    ),
    (  # what a second statement writes counts
        "def f(float(N) A, float(M) B) -> (float(N+M) O) { O(i) = A(i) where i in 0:N\n O(N+j) = B(j) }",
        [(3,), (4,)],
        [(3,), (0,)],
        "",
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


def arguments(shapes: list[tuple[int, ...]]) -> list[object]:
    return [np.ones(n, np.float32) if isinstance(n, tuple) else n for n in shapes]


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize(("text", "fine", "wrong", "name", "why"), AT_SIZES, ids=[t[0] for t in AT_SIZES])
def test_what_depends_on_sizes_is_told_at_a_call_of_such_sizes(
    text: str, fine: list[tuple[int, ...]], wrong: list[tuple[int, ...]], name: str, why: str, dynamic: bool
) -> None:
    sizes = [v.name for v in next(reversed(parse_programs(text).values())).sizes] if dynamic else []
    # the second time, from what the store kept
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            op = weft.define(text, dynamic=sizes)
            op(*arguments(fine))
        assert not told
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for _ in range(3):  # and once only
                op(*arguments(wrong))
        messages = [w.message for w in told]
        assert [m.name for m in messages] == ([name] if name else [])  # type: ignore[union-attr]
        assert [m.why for m in messages] == ([why] if why else [])  # type: ignore[union-attr]
        assert all(w.filename == __file__ for w in told)


def test_a_call_is_refused_each_time_where_warnings_are_errors() -> None:
    op = weft.define(AT_SIZES[0][0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(weft.Warning, match="cut-range"):
                op(*arguments(AT_SIZES[0][2]))
        op(*arguments(AT_SIZES[0][1]))


def test_what_the_text_allows_is_not_told_at_calls_either() -> None:
    for text, _, wrong, name, _ in AT_SIZES:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            weft.define(text.replace("{", f"{{ # allow {name}\n", 1))(*arguments(wrong))


def test_every_kind_is_tested() -> None:
    assert {name for _, names, _ in TOLD for name in names} | {t[3] for t in AT_SIZES if t[3]} == set(REMARKS)


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


@pytest.mark.parametrize(
    ("text", "flags", "label"),
    [
        (TOLD[0][0], [], "warning: "),
        (TOLD[0][0], ["--strict"], "error: "),
        (AT_SIZES[0][0], [], "note: "),
        (AT_SIZES[0][0], ["--strict"], "note: "),
        (AT_SIZES[0][0], ["--size", "M=3", "--size", "N=4", "--size", "K=5"], "warning: "),
        (AT_SIZES[0][0], ["--strict", "--size", "M=3", "--size", "N=4", "--size", "K=5"], "error: "),
        (AT_SIZES[0][0], ["--strict", "--size", "M=3", "--size", "N=4", "--size", "K=4"], None),
        (AT_SIZES[8][0], [], "note: "),
        (AT_SIZES[8][0], ["--strict", "--size", "H=6", "--size", "P=3"], "error: "),
        (AT_SIZES[8][0], ["--strict", "--size", "H=6", "--size", "P=1"], None),
    ],
)
def test_check_prints_them_and_counts_those_that_hold_where_it_is_strict(
    text: str, flags: list[str], label: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "f.weft"
    file.write_text(text)
    assert main(["check", *flags, str(file)]) == (label == "error: ")
    printed = capsys.readouterr().out
    assert [w for w in ("note: ", "warning: ", "error: ") if w in printed] == ([label] if label else [])


def test_check_takes_sizes_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.weft").write_text(AT_SIZES[0][0])
    np.save(tmp_path / "X.npy", np.zeros((3, 4), np.float32))
    given = ["--arg", f"X={tmp_path / 'X.npy'}", "--size", "K=5"]
    assert main(["check", "--strict", "--quiet", *given, str(tmp_path / "f.weft")]) == 1
    assert "with N = 4, K = 5" in capsys.readouterr().out


def test_check_refuses_sizes_that_no_program_has(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f.weft").write_text(AT_SIZES[0][0])
    assert main(["check", "--size", "Q=3", str(tmp_path / "f.weft")]) == 1
    assert "no program has a size `Q`" in capsys.readouterr().err
