"""``atomic``, ``rfactor(start="inside")``, and storage that comes to reach what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.lang.parse import parse_programs
from weft.schedules.schedule import Schedule
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import specialize

RNG = np.random.default_rng(1)


def make(text: str, numerics: Any = "fast", **sizes: int) -> Schedule:
    program = next(iter(parse_programs(text).values()))
    return Schedule(lower(normalize(specialize(program, sizes))), numerics=numerics, sizes=sizes)


def run(s: Schedule, *args: Any, shape: tuple[int, ...]) -> Any:
    out = np.full(shape, 7, np.float32)
    interpret(s.kernel, [*args, out])
    return out


SUMS = "def f(float(M,N) A) -> (O) { O(n) +=! A(m,n) }"
COPY = "def f(float(M,N) A) -> (O) { O(m,n) = A(m,n) }"
SCATTER = "def f(float(E,D) X, int(E) I, float(N,D) Z) -> (float(N,D) O) { O(I(e),d) +=! X(e,d) }"


@pytest.mark.parametrize("part", [25, 7])
def test_partial_results_start_inside_their_nest(part: int) -> None:
    s = make(SUMS, M=100, N=6)
    n, m = s.loops("O")
    parts, rest = s.split(m, part)
    s.reorder(parts, n, rest)
    s.rfactor(parts, start="inside")
    assert "_init" not in print_kernel(s.kernel)
    a = RNG.standard_normal((100, 6)).astype(np.float32)
    np.testing.assert_allclose(run(s, a, shape=(6,)), a.sum(0), rtol=1e-4, atol=1e-4)


def test_partial_results_that_may_have_no_step_start_before() -> None:
    s = make(SUMS, M=100, N=6)
    _, m = s.loops("O")
    pieces, _ = s.split(m, 8)
    _, threads = s.split(pieces, 64)  # of which 13 have a piece
    with pytest.raises(ScheduleError, match="surely has a first step"):
        s.rfactor(threads, start="inside")


@pytest.mark.parametrize("rows", [3, 1])
def test_partial_results_of_an_iteration_start_in_it(rows: int) -> None:
    """The outer loop is part of the sum, but no part of the first step: partial results live in one iteration of it."""
    s = make("def f(float(N,M) A) -> (O) { O +=! A(i,j) }", N=rows, M=8)
    s.decompose_reduction("O", "i")
    _, part = s.split("j", 2)
    s.rfactor(part, start="inside", at="i")
    assert "_part_init" not in print_kernel(s.kernel)
    a = RNG.integers(-4, 5, (rows, 8)).astype(np.float32)
    out = np.full((), 7, np.float32)
    interpret(s.kernel, [a, out], uninitialized=["O"])
    assert out == a.sum()


@pytest.mark.parametrize(
    "text",
    [
        "def f(float(N,M) A) -> (float(N) O) { O(i) +=! A(i,j) where i in 0:N, j in i:M }",  # rows get shorter
        "def f(float(N,M) A) -> (float(N) O) { O(i) +=! A(i,j) where i in 0:N, j in 0:i }",  # the first has none
        "def f(float(N,M) A) -> (float(20) O) { O(i+j) +=! A(i,j) where i in 0:N, j in 0:M }",  # all choose elements
    ],
)
def test_partial_results_without_a_first_step_start_before(text: str) -> None:
    s = make(text, N=6, M=6)
    _, part = s.split("j", 4)
    with pytest.raises(ScheduleError):
        s.rfactor(part, start="inside")


def test_partial_results_of_loops_that_may_be_empty_start_before() -> None:
    program = next(iter(parse_programs("def f(float(N,K,8) A) -> (O) { O(n) +=! A(n,k,m) }").values()))
    s = Schedule(lower(normalize(program)), numerics="fast")
    _, part = s.split("m", 4)
    with pytest.raises(ScheduleError, match="surely has a first step"):
        s.rfactor(part, start="inside")


TRANSPOSED = """def f(float(C,H,W) I, float(C,P,Q) K) -> (float(H+P-1,W+Q-1) O) {
    O(h+p,w+q) +=! I(c,h,w) * K(c,p,q) }"""


@pytest.mark.parametrize("tile", [5, 8, 24])
@pytest.mark.parametrize("lanes", [1, 2])
def test_elements_are_set_whatever_became_of_the_loops_that_set_them(tile: int, lanes: int) -> None:
    s = make(TRANSPOSED, C=8, H=3, W=4, P=2, Q=3)
    fill = s.fuse(*s.loops("O_fill"))
    if lanes > 1:
        fill, _ = s.split(fill, lanes)
    s.split(fill, tile)
    _, part = s.split("c", 2)
    s.rfactor(part)
    i, k = (RNG.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 3, 4), (8, 2, 3)))
    expected = np.zeros((4, 6), np.float32)
    for p, q in np.ndindex(2, 3):
        expected[p : p + 3, q : q + 4] += (i * k[:, p, q, None, None]).sum(0)
    out = np.full((4, 6), 7, np.float32)
    interpret(s.kernel, [i, k, out], uninitialized=["O"])
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", [24, 23, 18])
def test_elements_that_a_guard_leaves_out_are_not_set(count: int) -> None:
    text = f"""kernel f(X: int32[4, 6, 8], out y: int32[4, 6]) {{
      for t in 0:6 {{ for u in 0:4 {{ if t * 4 + u < {count} {{
        block z(a spatial 0:4 = (t * 4 + u) // 6, b spatial 0:6 = (t * 4 + u) % 6) writes y[a, b] {{
          y[a, b] = 0_i32 }} }} }} }}
      for i in 0:2 {{ for j in 0:3 {{ for k in 0:8 {{
        block s(vi reduce 0:2 = i, vj reduce 0:3 = j, vk reduce 0:8 = k) reads X[vi, vj, vk] writes y[vi + vj, 0] {{
          y[vi + vj, 0] = y[vi + vj, 0] + X[vi, vj, vk] }} }} }} }} }}"""
    s = Schedule(parse_kernel(text))
    s.reorder("k", "i", "j")
    if count == 24:
        s.rfactor("k")
    else:
        with pytest.raises(ScheduleError, match="may have no value"):
            s.rfactor("k")


def test_atomic_updates_may_run_at_once() -> None:
    s = make(SCATTER, E=40, D=3, N=7)
    with pytest.raises(ScheduleError):
        s.bind("e", "block")
    s.atomic("O")
    s.bind("e", "block")
    s.bind("d", "thread")
    x, i = RNG.standard_normal((40, 3)).astype(np.float32), RNG.integers(0, 7, 40).astype(np.int32)
    expected = np.zeros((7, 3))
    np.add.at(expected, i, x)
    got = run(s, x, i, np.zeros((7, 3), np.float32), shape=(7, 3))
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def test_atomic_sums_keep_their_order_under_strict_numerics() -> None:
    s = make(SCATTER, numerics="strict", E=40, D=3, N=7)
    s.atomic("O")
    with pytest.raises(ScheduleError):
        s.bind("e", "block")


def test_only_updates_become_atomic() -> None:
    with pytest.raises(ScheduleError, match="not of the form"):
        make(COPY, M=5, N=13).atomic("O")
    with pytest.raises(ScheduleError, match="starts its results"):
        make(SUMS, M=5, N=13).atomic("O")


def test_updates_of_copies_are_added_up() -> None:
    """A block of threads has a copy."""
    s = make(SCATTER, E=40, D=3, N=7)
    part, rest = s.split("e", 16)
    start, total, own = s.privatize("O", part, "shared")
    assert str(own) == "O_own"
    for block in ("O", total):
        s.atomic(block)
    for loop in (rest, s.loops(start)[-1], s.loops(total)[-1]):
        s.bind(loop, "thread")
    s.bind(part, "block")
    i, x = RNG.integers(0, 7, 40).astype(np.int32), RNG.integers(-3, 4, (40, 3)).astype(np.float32)
    expected = np.zeros((7, 3))
    np.add.at(expected, i, x)
    np.testing.assert_array_equal(run(s, x, i, np.zeros((7, 3), np.float32), shape=(7, 3)), expected)


def test_copies_are_refused_where_they_would_change_results() -> None:
    s = make(SCATTER, numerics="strict", E=40, D=3, N=7)
    with pytest.raises(ScheduleError, match="changes the order"):
        s.privatize("O", "e")
    with pytest.raises(ScheduleError, match="starts its results"):
        make(SUMS, M=5, N=13).privatize("O", "n")
    with pytest.raises(ScheduleError, match="is not inside"):
        s.privatize("O", s.loops("O_init")[0])
    s = make("def f(float(M,N) A) -> (O) { O(n) +=! A(m,n) }", M=5, N=13)
    s.decompose_reduction("O", s.loops("O")[1])
    with pytest.raises(ScheduleError, match="block `O_init` uses `O`"):
        s.privatize("O", s.loops("O")[0])


def test_results_that_decide_where_others_go_have_no_copies() -> None:
    text = "kernel k(out H: int32[8]) { for i in 0:8 { block a(v reduce 0:8 = i) reads H[0 +: 8] writes H[0 +: 8] {"
    kernel = parse_kernel(f"{text} H[int64(H[v] & 7_i32)] = H[int64(H[v] & 7_i32)] + 1_i32 }} }} }}")
    with pytest.raises(ScheduleError, match="where the value does not use X"):
        Schedule(kernel).privatize("a", "i")


def test_storage_comes_to_reach_what_follows() -> None:
    s = make("def f(float(M,N) A) -> (O) { S(n) +=! A(m,n)  O(n) = S(n) * 2 }", M=64, N=6)
    _, m = s.loops("S")
    parts, rest = s.split(m, 16)
    s.reorder(parts, "n", rest)
    _, storage = s.rfactor(parts, start="inside")
    with pytest.raises(ScheduleError):
        s.compute_at("S", s.loops("O")[0])
    s.store_at(storage)
    s.compute_at("S", s.loops("O")[0])
    a = RNG.standard_normal((64, 6)).astype(np.float32)
    np.testing.assert_allclose(run(s, a, shape=(6,)), a.sum(0) * 2, rtol=1e-4, atol=1e-4)
    with pytest.raises(ScheduleError, match="stored there already"):
        s.store_at(storage)
