"""What programs in Python refuse, in words, whatever they are given."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.errors import ArgumentError, Error

M, N = weft.sizes("M N")
A = weft.placeholder("A", (M, N))
S0 = weft.placeholder("S0", (N,))


def step(t: Any, s: Any) -> list[Any]:
    return [weft.compute((N,), lambda i: s[i] + 1)]


#: Name -> what is called, and all lines of the error but those that show the place.
CASES: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "scan_starts": (
        lambda: weft.scan(M, S0, step),  # type: ignore[arg-type]
        [
            "error: the starts of a scan are a list of tensors",
            "  why:   each is what a state is before the first step",
            "  help:  weft.scan(T, [S0], lambda t, s: [...])",
        ],
    ),
    "scan_step": (
        lambda: weft.scan(M, [S0], S0),  # type: ignore[arg-type]
        [
            "error: the step of a scan is a function of the step and of each state",
            "  help:  weft.scan(T, [S0], lambda t, s: [...])",
        ],
    ),
    "scan_parameters": (
        lambda: weft.scan(M, [S0], lambda t: [S0]),
        [
            "error: the step of this scan takes 1 arguments, but gets 2",
            "  why:   it gets the step, then each state",
            "  help:  lambda t, S0: [...]",
        ],
    ),
    "scan_result": (
        lambda: weft.scan(M, [S0], lambda t, s: [s[0]]),  # type: ignore[list-item]
        ["error: a step of this scan gives 1 tensor", "  why:   each state that starts must go on"],
    ),
    "scan_builtin": (
        lambda: weft.scan(M, [S0], int),  # type: ignore[arg-type]
        [
            "error: Python does not say what `int` takes",
            "  help:  write a function of your own around it: `lambda i, j: ...`",
        ],
    ),
    "cast_order": (
        lambda: weft.cast(S0[0], "float16"),  # type: ignore[arg-type]
        ["error: cast takes the type first, then the value", '  help:  weft.cast("float16", A[i, j])'],
    ),
    "cast_tensor": (
        lambda: weft.cast("float16", S0),  # type: ignore[arg-type]
        [
            "error: cannot compute with a Tensor",
            "  why:   expressions are made of tensor elements, index variables, scalars and numbers",
            "  help:  index the tensor, as in `A[i, j]`",
        ],
    ),
    "outside_fill": (
        lambda: weft.placeholder("bytes_", (N,), "uint8").outside(-1),
        [
            "error: `bytes_` holds uint8, and what is outside is -1",
            "  why:   what is read beyond an edge has the type of the elements",
            '  help:  convert it: weft.cast("uint8", -1)',
        ],
    ),
    "select_decided": (
        lambda: weft.select(True, S0[0], S0[1]),
        [
            "error: the condition of select is the Python value True",
            "  why:   it was decided before the program runs",
            "  help:  compare tensor elements or index variables",
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name: str) -> None:
    call, wanted = CASES[name]
    with pytest.raises(Error) as refused:
        call()
    lines = str(refused.value).splitlines()
    assert [line for line in lines if line.startswith(("error:", "  why:", "  help:"))] == wanted


WRONG: list[Any] = [None, "x", 3, 1.5, True, [1], A, M + 1, np.ones(3), {}, object(), int, step, float("nan"), 2**70]
COUNTS = {
    "cast": 2, "select": 3, "where": 3, "maximum": 2, "logical_and": 2, "logical_not": 1, "sum": 2, "argmax": 2,
    "any": 2, "placeholder": 2, "scalar": 2, "size": 1, "sizes": 1, "reduce_axis": 2, "operator": 2, "exp": 1, "pow": 2,
    "load": 1, "define": 1, "scan": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTS)
def test_whatever_is_given_the_error_is_ours(name: str) -> None:
    rows = list(itertools.product(WRONG, repeat=COUNTS[name]))
    for args in rows[:: 1 + len(rows) // 400]:
        with contextlib.suppress(Error):
            getattr(weft, name)(*args)


@pytest.mark.parametrize("path", [3, None, "missing.weft", ".", "a\0b"])
def test_load_says_what_it_cannot_read(path: Any) -> None:
    with pytest.raises(ArgumentError, match=r"load takes the name of a file|cannot read"):
        weft.load(path)
