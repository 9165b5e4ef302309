"""Thread loops with other things inside them become perfect nests, side by side."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.nesting import has_loop, perfect_nest
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_stmt
from weft.ir.stmt import For, Stmt
from weft.ir.visit import children, walk
from weft.passes.to_grid.level_threads import cut_threads, level_threads


def leveled(body: str) -> str:
    """The leveled text of the body of a block, after checking that it means the same."""
    kernel = parse_kernel(f"kernel p(A: int32[4, 8], out B: int32[4, 8]) {{ block b in 0:1 {{ {body} }} }}")
    assert isinstance(kernel.body, For)
    inner = level_threads(kernel.body.body, {})
    check_perfect(inner)
    results = []
    for k in (kernel, replace(kernel, body=replace(kernel.body, body=inner))):
        a, out = np.arange(32, dtype=np.int32).reshape(4, 8), np.zeros((4, 8), np.int32)
        interpret(k, [a, out])
        results.append(out)
    np.testing.assert_array_equal(*results)
    return print_stmt(inner)


def check_perfect(s: Stmt) -> None:
    if isinstance(s, For) and s.kind == "thread":
        assert not has_loop(perfect_nest(s, "thread")[1], "thread")
        return
    for inner in children(s):
        if isinstance(inner, Stmt):
            check_perfect(inner)


def test_statements_around_an_inner_loop_get_nests_of_their_own() -> None:
    text = leveled(
        """thread y in 0:4 {
             B[y, 0] = 1_i32
             thread x in 1:8 { B[y, x] = A[y, x] }
             B[y, 0] = B[y, 0] + B[y, 7]
           }"""
    )
    assert text.count("thread y") == 3


def test_storage_of_an_iteration_gets_a_dimension() -> None:
    text = leveled(
        """thread y in 0:4 {
             alloc r: int32[8]
             thread x in 0:8 { r[x] = A[y, x] }
             thread x in 0:8 { B[y, x] = r[7 - x] }
           }"""
    )
    assert "alloc r: int32[4, 8]" in text
    assert "r[y, x]" in text


def test_serial_loops_move_outside() -> None:
    text = leveled("thread y in 0:4 { for k in 0:2 { thread x in 0:4 { B[y, k * 4 + x] = A[y, k * 4 + x] } } }")
    assert text.startswith("for k in 0:2 {\n  thread y")


@pytest.mark.parametrize("loop", ["for k in 0:y + 1", "for k in y:4"])
def test_loops_that_depend_on_the_thread_are_boxed(loop: str) -> None:
    text = leveled(f"thread y in 0:4 {{ {loop} {{ thread x in 0:2 {{ B[y, k * 2 + x] = 1_i32 }} }} }}")
    assert "for k in 0:4" in text
    assert "if " in text


def test_tests_that_depend_on_the_thread_move_inside() -> None:
    text = leveled("thread y in 0:4 { if A[y, 0] > 3_i32 { thread x in 0:8 { B[y, x] = 1_i32 } } }")
    assert text.startswith("thread y")


def test_tests_of_all_threads_stay_outside() -> None:
    text = leveled("for k in 0:2 { thread y in 0:4 { if k == 1 { thread x in 0:8 { B[y, x] = 1_i32 } } } }")
    assert text.index("if k") < text.index("thread y")


def test_what_cannot_be_moved_runs_one_after_another() -> None:
    text = leveled(
        """thread y in 0:4 {
             let n: int32 = 0_i32
             while n < 2_i32 { n = n + 1_i32 thread x in 0:8 { B[y, x] = B[y, x] + 1_i32 } }
           }"""
    )
    assert "for x in 0:8" in text


def test_thread_loops_of_unknown_length_run_in_pieces() -> None:
    kernel = parse_kernel("kernel p(n: int64, out B: int32[n]) { block b in 0:1 { thread t in 0:n { B[t] = 1_i32 } } }")
    body = cut_threads(kernel.body, {}, lambda name: name)
    text = print_stmt(body)
    assert "for t_o in 0:(n + 255) // 256" in text
    assert "thread t in 0:256" in text
    out = np.zeros(300, np.int32)
    interpret(replace(kernel, body=body), [300, out])
    assert out.all()


def test_of_two_loops_of_unknown_length_the_first_is_cut() -> None:
    kernel = parse_kernel(
        "kernel p(n: int64, out B: int32[n, n]) { thread y in 0:n { thread x in 0:y + 1 { B[y, x] = 1_i32 } } }"
    )
    body = cut_threads(kernel.body, {}, lambda name: name)
    assert [n.kind for n in walk(body) if isinstance(n, For)] == ["serial", "thread", "serial"]
    out = np.zeros((5, 5), np.int32)
    interpret(replace(kernel, body=body), [5, out])
    np.testing.assert_array_equal(out, np.tril(np.ones((5, 5), np.int32)))
