"""Operators under threads and forks."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from operator_process import run

import weft

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def together(count: int, work: object) -> list[object]:
    """The results of ``count`` threads that begin ``work(n)`` at the same time."""
    begin, results = threading.Barrier(count), [None] * count

    def go(n: int) -> None:
        begin.wait()
        try:
            results[n] = work(n)  # type: ignore[operator]
        except BaseException as error:
            results[n] = error

    threads = [threading.Thread(target=go, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_first_calls_at_the_same_time_compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.operators import specialization

    monkeypatch.setenv("WEFT_CACHE", "off")
    compiled = []
    compile_artifact = specialization.compile_artifact

    def count(*args: object) -> object:
        compiled.append(args)
        return compile_artifact(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(specialization, "compile_artifact", count)
    mm = weft.define(MM)
    a = np.random.default_rng(0).random((17, 17), np.float32)
    for result in together(6, lambda n: mm(a, a)):
        np.testing.assert_allclose(result, a @ a, rtol=1e-5)  # type: ignore[arg-type]
    assert len(compiled) == 1


def test_calls_while_others_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", "off")
    f = weft.define("def f(float(N) X) -> (Y) { Y(i) = X(i) * 2 }")

    def work(n: int) -> bool:
        # Half of the threads ask for ever new sizes, half for one that is known.
        sizes = [40 + n * 8 + k for k in range(4)] if n % 2 else [7] * 200
        return all((f(np.full(size, n, np.float32)) == 2 * n).all() for size in sizes)

    f(np.zeros(7, np.float32))
    assert together(6, work) == [True] * 6


def test_an_error_in_one_thread_is_no_concern_of_others() -> None:
    lookup = weft.define("def lookup(float(E) T, int(N) I) -> (O) { O(i) = T(I(i)) }")
    table = np.arange(5, dtype=np.float32)

    def work(n: int) -> bool:
        for _ in range(50):
            if n % 2:
                with pytest.raises(weft.ShapeError, match="T index out of range"):
                    lookup(table, np.int32([0, 5]))
            else:
                np.testing.assert_array_equal(lookup(table, np.int32([4, 1])), [4, 1])
        return True

    assert together(6, work) == [True] * 6


def test_define_at_the_same_time() -> None:
    def work(n: int) -> float:
        f = weft.define(f"def f(float(N) X) -> (Y) {{ Y(i) = X(i) + {n % 2} }}")
        return float(f(np.zeros(3, np.float32))[2])

    assert together(4, work) == [0, 1, 0, 1]


FORK = """
{first}
import multiprocessing, os, warnings
import numpy as np
import weft
warnings.simplefilter("ignore")
mm = weft.define({program!r})
a = np.random.default_rng(0).random((96, 96), np.float32)
def work(size):
    weft.set_num_threads(1 + size % 3)
    return bool(np.allclose(mm(a[:size], a), a[:size] @ a, rtol=1e-4))
assert work(96) and work(95)
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(all(pool.map(work, [96, 95, 40, 41, 42])))
print(work(96), work(30))
"""


@pytest.mark.parametrize("first", ["", "import torch"])
def test_children_of_a_fork_call_and_compile(first: str) -> None:
    if first:
        pytest.importorskip("torch")
    assert run(FORK.format(first=first, program=MM), WEFT_CACHE="off")[0] == "True\nTrue True\n"


def test_the_number_of_threads_changes_no_result() -> None:
    mm = weft.define(MM)
    a = np.random.default_rng(1).random((64, 70), np.float32)
    b = np.random.default_rng(2).random((70, 66), np.float32)
    before = weft.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3, 64):
            weft.set_num_threads(threads)
            assert weft.get_num_threads() == threads
            results.append(mm(a, b))
    finally:
        weft.set_num_threads(before)
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
