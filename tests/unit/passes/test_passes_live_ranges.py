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


@pytest.mark.parametrize(
    "body",
    [
        "let i: int64 = 0 for j in 0:4 { i = A[t] + j if i > 9 { break } i = i + 1 } B[t] = i",  # seen after a break
        "let i: int64 = 0 for j in 0:4 { if i > 3 { i = 0 continue } i = i + A[t] i = i + 1 } B[t] = i",
        "let i: int64 = 0 for j in 0:4 { B[t] = B[t] + i i = A[t] + j }",  # seen by the next iteration
        "let i: int64 = 0 if t < 4 { i = 3 } else { i = 4 } B[t] = i",
    ],
)
def test_what_is_read_later_is_kept(body: str) -> None:
    inlined(body)


def test_a_variable_of_the_whole_function_is_one_for_each_use() -> None:
    """C programs declare at the top what a loop's body sets and reads; it does not outlive a barrier then."""
    loop = "for j in 0:4 { x = A[t] B[t] = B[t] + x }"
    text = inlined(f"let x: int64 = 0 let i: int64 = 0 {loop} i = 4 barrier(block) x = A[31 - t] B[t] = B[t] + x")
    assert text.count("x") == text.count("x_") == 4  # each of the two is made once and read once
    assert "i = 4" not in text


def test_what_a_loop_moves_on_by_one_amount_is_a_sum_of_its_counter() -> None:
    loop = "for k in 1:4 { B[t] = B[t] + A[c % 32] c = c + 9 B[t] = B[t] * A[c % 32] }"
    text = inlined(f"let c: int64 = t {loop} B[t] = B[t] + c")
    assert "c = " not in text
    assert "let" not in text


@pytest.mark.parametrize(
    "body",
    [
        "let c: int64 = t for k in 0:3 { c = (c + k) % 32 B[t] = B[t] + A[c] }",  # another amount in each turn
        "let c: int64 = t for k in 0:3 { if t < 5 { c = c + 1 } B[t] = B[t] + A[c % 32] }",
        "let c: int64 = t for k in 0:3 { c = c + 1 if t < 5 { c = c + 2 } B[t] = B[t] + A[c % 32] }",
        "let c: int64 = t for k in 0:3 { if A[k] > t { break } c = c + 1 } B[t] = c",
        "let c: int64 = t for k in 0:A[t] % 3 - 1 { B[t] = B[t] + c c = c + 2 } B[t] = B[t] * 100 + c",  # none or one
        "let c: int64 = 0 for j in 0:2 { for k in 0:3 { B[t] = B[t] * 3 + A[c] c = c + 4 } c = c + 5 } B[t] = c - B[t]",
    ],
)
def test_what_moves_on_is_the_same(body: str) -> None:
    inlined(body)


def test_a_counter_that_is_set_back_after_each_use_is_its_start() -> None:
    use = "while w < 32 { B[w] = B[w] + A[w] w = w + 32 } w = t barrier(block)"
    text = inlined(f"let w: int64 = t {use} for k in 0:3 {{ {use} {use} }}")
    assert "let" not in text
    assert "w = " not in text
