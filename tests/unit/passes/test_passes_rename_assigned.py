"""Names for the values of variables that are assigned in a straight line."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.ir.verify import verify
from weft.passes.plain.inline_indices import inline_indices


def inlined(body: str) -> str:
    """The program after `inline_indices`, which renames first, as text; it computes the same."""
    head = "kernel k(A: int64[32], out B: int64[32])"
    kernel = parse_kernel(f"{head} {{ block b in 0:1 {{ thread t in 0:32 {{ {body} }} }} }}")
    done = inline_indices(kernel)
    verify(done)
    results = []
    for each in (kernel, done):
        out = np.zeros(32, np.int64)
        interpret(each, [np.arange(32, dtype=np.int64) * 7 % 32, out])
        results.append(out)
    np.testing.assert_array_equal(*results)
    return print_kernel(done)


def test_a_position_that_is_cut_off_afterwards_is_written_out() -> None:
    text = inlined("let w: int64 = t - 1 let e: int64 = t + 1 w = max(w, 0) e = min(e, 31) B[t] = A[w] + A[e]")
    assert "B[t] = A[max(t - 1, 0)] + A[min(t + 1, 31)]" in text
    assert "let" not in text


@pytest.mark.parametrize(
    "body",
    [
        "let i: int64 = t if t < 4 { i = i + 1 } i = i % 32 B[t] = A[i]",  # a branch before
        "let i: int64 = t i = 31 - i if t < 4 { i = i // 2 } B[t] = A[i]",  # and one after
        "let i: int64 = 0 for j in 0:3 { i = i + j i = i * 2 } i = i + 1 B[t] = A[i]",
        "let i: int64 = t if t < 4 { let j: int64 = i i = 31 - i B[j] = A[i] } B[t] = B[t] + i",  # in a scope inside
        "let i: int64 = t while i > 3 { i = i - 3 } B[t] = i",
        "let i: int64 = t B[t] = i i = 5",
    ],
)
def test_branches_and_loops_keep_their_meaning(body: str) -> None:
    inlined(body)


def test_loops_in_branches_that_share_a_counter_have_their_own() -> None:
    """Where nothing comes after a branch, nobody sees what its loop left in the counter."""
    loop = "{ i = 2 while i < 9 { B[t] = B[t] + A[i] i = i * 2 } }"
    text = inlined(f"let i: int64 = 0 if t < 5 {loop} else if t < 9 {loop} else {{ B[t] = 7 }}")
    assert text.count(": int64 = 2") == 2
    assert "i = 2" not in text


def test_a_variable_with_many_values_keeps_its_name() -> None:
    """Each name is a scope in the one before: many would be nested too deeply for Python."""
    text = inlined("let i: int64 = A[t] " + "i = (i * 5 + A[t]) % 32 " * 40 + "B[t] = i")
    assert text.count("let ") == 1
