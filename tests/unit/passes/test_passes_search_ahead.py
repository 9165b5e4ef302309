"""Searches by vectors: what is found is the same, and nothing behind the end of memory is asked."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[1] / "target"))
from run_compiled import check_against_interpreter

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.vectors.search_ahead import search_ahead

SEARCH = """kernel k(A: float32[m], m: int64, V: float32[40], out B: int64[40], n: int64) {
  thread t in 0:40 {
    let k: int64 = -1
    for x in 2:n { TEST }
    B[t] = k
  }
}"""
FIRST = "if A[x - 1] >= V[t] { k = x break }"


def searched(test: str) -> str:
    return print_kernel(search_ahead(parse_kernel(SEARCH.replace("TEST", test)), vector_bits=256))


@pytest.mark.parametrize(("n", "m"), [(37, 40), (40, 39), (41, 60), (300, 61), (2, 5), (0, 5)])
def test_the_first_is_found_wherever_it_lies(n: int, m: int) -> None:
    kernel = parse_kernel(SEARCH.replace("TEST", FIRST))
    values = np.arange(m, dtype=np.float32)
    wanted = np.minimum(np.arange(40, dtype=np.float32) - 1, m - 1)
    wanted[0] = 1e9 if n <= m else 0  # nowhere: all of them are asked
    results = []
    for one in (kernel, search_ahead(kernel, vector_bits=256)):
        found = np.zeros(40, np.int64)
        interpret(one, [values, m, wanted, found, n])
        results.append(found)
    assert np.array_equal(*results)
    check_against_interpreter(kernel, args=[values, m, wanted, found, n])


def test_many_are_asked_at_once_and_no_further_than_memory_goes() -> None:
    text = searched(FIRST)
    assert "x_from = x_from + 16" in text
    assert "m" in text.split("x_turn in")[1].split("{")[0]
    assert "281474976710656" in text  # memory whose end nobody knows is asked in turn


@pytest.mark.parametrize(
    "test",
    [
        "if A[x] >= V[t] { k = x }",
        "if A[2 * x] >= V[t] { k = x break }",
        "if A[k] >= V[t] { k = x break }",
        "if V[t] > 3.0 && A[x] >= V[t] { k = x break }",
        "if A[x] >= V[t] { k = x break } else { k = 5 }",
        "k = x if A[x] >= V[t] { break }",
    ],
)
def test_other_loops_stay(test: str) -> None:
    kernel = parse_kernel(SEARCH.replace("TEST", test))
    assert search_ahead(kernel, vector_bits=256) == kernel
