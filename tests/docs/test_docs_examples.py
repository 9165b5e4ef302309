"""Code in the README and in the language page is what it says: it runs, and messages are the real ones."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.remark import REMARKS
from weft.lang.builtins import builtin_names
from weft.lang.functions import MEANINGS, with_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
LANGUAGE = (ROOT / "docs" / "language.md").read_text(encoding="utf-8")


def test_the_table_of_functions_is_current() -> None:
    """After a change: python -m weft.lang.functions docs/language.md"""
    assert set(MEANINGS) == set(builtin_names())
    assert with_table(LANGUAGE) == LANGUAGE
    assert all(f"`{name}(" in LANGUAGE for name in builtin_names())


def test_every_warning_is_in_the_table() -> None:
    assert set(re.findall(r"^\| `([a-z]+-[a-z]+)` \|", LANGUAGE, re.MULTILINE)) == set(REMARKS)


def blocks(text: str, kind: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for language, block in found if language == kind]


def test_the_readme_runs_from_top_to_bottom(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    first, builders, nearest, steps, bound, on_gpu, by_hand, cuda, schedule = blocks(README, "python")
    exec(first, names)
    np.testing.assert_allclose(names["C"], names["A"] @ names["B"], rtol=1e-5)
    assert capsys.readouterr().out.startswith(
        "kernel mm(A: float32[64, 32], B: float32[32, 48], out C: float32[64, 48])"
    )
    a, b, text = names["A"], names["B"], names["mm"]
    exec(builders, names)
    np.testing.assert_array_equal(names["product"](a, b), text(a, b))
    exec(nearest, names)
    distances, which = names["l1"](a, a[::-1])
    np.testing.assert_allclose(distances, np.abs(a[:, None] - a[::-1]).sum(-1), rtol=1e-5)
    np.testing.assert_array_equal(which, np.arange(64)[::-1])
    exec(steps, names)
    x, y, w, u = (np.random.rand(*shape).astype(np.float32) for shape in ((3, 5, 7), (5, 9), (9, 7), (9, 9)))
    for step, got in enumerate(names["rnn"](x, y, w, u)[1:]):
        y = np.tanh(y @ u.T + x[step] @ w.T)
        np.testing.assert_allclose(got, y, rtol=1e-4)
    exec(bound, names)
    assert "mm, scheduled by" in capsys.readouterr().out
    np.testing.assert_allclose(names["layer"](a), a @ b, rtol=1e-5)
    without_gpu = SimpleNamespace(rand=lambda *shape, device: np.random.rand(*shape).astype(np.float32))
    exec(on_gpu, names | {"torch": without_gpu})
    assert "__global__" in capsys.readouterr().out
    names |= {"x": np.arange(1000, dtype=np.float32), "y": np.zeros(1000, np.float32)}
    exec(by_hand, names)
    np.testing.assert_array_equal(names["y"], 2 * names["x"])
    source = (
        "__global__ void scale(const float* x, float* y, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 3 * x[i]; }"
    )
    exec(cuda, names | {"source": source, "blocks": 4, "n": 1000})
    np.testing.assert_array_equal(names["y"], 3 * names["x"])
    exec(schedule, names)
    assert capsys.readouterr().out.count("vector") == 3
    np.testing.assert_allclose(names["mm"](a, b), text(a, b), rtol=1e-5)


def test_the_error_in_the_readme_is_the_real_one() -> None:
    (message,) = (b for b in blocks(README, "") if b.startswith("error:"))
    with pytest.raises(weft.LanguageError) as caught:
        weft.define("\ndef mm(float(M,K) A, float(K,N) B) -> (C) {\n    C(m,n) = A(m,k) * B(k,n)\n}")
    assert message == f"{caught.value}\n"


def test_commands_the_readme_names_exist() -> None:
    from weft.cli.main import COMMANDS

    assert set(re.findall(r"`weft (\w+)", README)) <= set(COMMANDS)
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make (\w+)", README, re.MULTILINE)) <= targets


#: How each example of the language page is completed to a program: parameters, outputs, statements around it.
FRAMES = {
    "O(i) +=! A(i,j)": ("float(N,N) A", "O", {"A": (5, 5)}, lambda A: np.tril(A).sum(1)),
    "P(i) max=!": (
        "float(N) A, int S, int W",
        "P",
        {"A": (9,), "S": 2, "W": 3},
        lambda A, S, W: np.lib.stride_tricks.sliding_window_view(A, 3)[::2].max(1),
    ),
    "D(i) = A(i)": (
        "float(N) A, float(N) B",
        "D",
        {"A": (6,), "B": (6,)},
        lambda A, B: np.concatenate([[0], (A - B)[1:-1]]),
    ),
    "O(h,w) +=! I": (
        "float(H,W) I, float(3,3) K",
        "O",
        {"I": (6, 7), "K": (3, 3)},
        lambda **given: same_convolution(given["I"], given["K"]),
    ),
    "O(I(i), j) += X(i, j)": (
        "int(M) I, float(M,D) X, int N",
        "float(N,D) O",
        {"I": np.int32([2, 0, 2]), "X": (3, 4), "N": 5},
        lambda X, **_: np.stack([X[1], X[0] * 0, X[0] + X[2], X[0] * 0, X[0] * 0]),
    ),
    "S(t) = S(t-1) + X(t)": (
        "float(N) X",
        "float(N) S",
        {"X": (6,)},
        lambda X: np.concatenate([[0], np.cumsum(X[1:])]),
    ),
}


def same_convolution(image: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(image, 1), (3, 3))
    return np.asarray(np.einsum("hwyx,yx->hw", windows, kernel))


def statements() -> list[str]:
    """Every statement of the language page: the lines of its blocks, and what its text quotes."""
    lines = [line.strip() for block in blocks(LANGUAGE, "") for line in block.splitlines() if "def" not in block]
    prose = re.sub(r"^```.*?^```$", "", LANGUAGE, flags=re.MULTILINE | re.DOTALL)
    return lines + re.findall(r"`(\w+\([^`]*\) \S*= [^`]*\([^`]*)`", prose)


@pytest.mark.parametrize("statement", [s for s in statements() if any(s.startswith(start) for start in FRAMES)])
def test_statement_of_the_language_page(statement: str) -> None:
    params, outputs, arguments, expected = next(f for start, f in FRAMES.items() if statement.startswith(start))
    rng = np.random.default_rng(5)
    named = {
        name: rng.standard_normal(v).astype(np.float32) if isinstance(v, tuple) else v for name, v in arguments.items()
    }
    first = "S(t) = 0.0 where t in 0:N\n    " if statement.startswith("S(t)") else ""
    op = weft.define(f"def f({params}) -> ({outputs}) {{\n    {first}{statement}\n}}")
    np.testing.assert_allclose(op(**named), expected(**named), rtol=1e-5, atol=1e-6)


def test_no_statement_of_the_language_page_is_left_out() -> None:
    known = (*FRAMES, "T(i,j) = e")  # the last is the form, not an example
    assert [s for s in statements() if not s.startswith(known)] == []
    assert all(any(s.startswith(start) for s in statements()) for start in FRAMES)


def test_definitions_of_the_language_page_are_programs() -> None:
    definitions = [b for b in blocks(LANGUAGE, "") if b.startswith("def ")]
    assert definitions
    for text in definitions:
        weft.define(text)
