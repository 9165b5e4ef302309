"""What isl answers, read back."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.poly.isl_schedule import Band, Parts, ask_schedule, describe_program, timed_statements

pytest.importorskip("islpy")

JACOBI = """kernel jacobi(out A: float32[{n}], out B: float32[{n}]{size}) { for t in 0:50 {
  for i in 1:{n}-1 { block b(vt reduce 0:50 = t, vi spatial 1:{n}-1 = i) reads A[vi-1], A[vi+1] writes B[vi]
    { B[vi] = A[vi-1] + A[vi+1] } }
  for j in 1:{n}-1 { block a(vt reduce 0:50 = t, vi spatial 1:{n}-1 = j) reads B[vi-1], B[vi+1] writes A[vi]
    { A[vi] = B[vi-1] + B[vi+1] } } } }"""


@pytest.mark.parametrize(("n", "size"), [("1000", ""), ("N", ", N: int64")])
def test_time_is_skewed(n: str, size: str) -> None:
    tree = ask_schedule(parse_kernel(JACOBI.replace("{n}", n).replace("{size}", size)), seconds=20)
    assert isinstance(tree, Band)
    assert tree.permutable
    assert tree.coincident == (False, False)
    assert tree.rows["b"] == ({"t": 1}, {"t": 2, "i": 1})
    assert tree.rows["a"] == ({"t": 1}, {"t": 2, "j": 1, "": 1})


SUMS = """kernel sums(X: float32[90, 80], out r: float32[90]) { for j in 0:80 { for i in 0:90 {
  block r(vi spatial 0:90 = i, vj reduce 0:80 = j) reads r[vi], X[vi, vj] writes r[vi]
    { r[vi] = r[vi] + X[vi, vj] } } } }"""


def test_sums_are_reordered_where_numerics_allow() -> None:
    strict, fast = (describe_program(found, numerics) for numerics in ("strict", "fast") if (found := _timed(SUMS)))
    assert strict["updates"] == []
    assert len(fast["updates"]) == 1
    tree = ask_schedule(parse_kernel(SUMS), seconds=20)
    assert isinstance(tree, Band)
    assert sorted(tree.coincident) == [False, True]


def _timed(text: str) -> list:  # type: ignore[type-arg]
    found = timed_statements(parse_kernel(text))
    assert isinstance(found, list)
    return found


def test_large_numbers_are_sizes_to_isl() -> None:
    """Those that are near one another are one size and an offset."""
    told = describe_program(_timed(JACOBI.replace("{n}", "1000").replace("{size}", "")), "strict")
    assert told["domain"].startswith("[c0, c1] -> ")
    assert "1000" not in told["domain"]


def test_independent_nests_are_parts() -> None:
    tree = ask_schedule(
        parse_kernel("""kernel two(out A: float32[90], out B: float32[70]) {
          for i in 0:90 { block A(vi spatial 0:90 = i) writes A[vi] { A[vi] = 1.0 } }
          for j in 0:70 { block B(vj spatial 0:70 = j) writes B[vj] { B[vj] = 1.0 } } }"""),
        seconds=20,
    )
    assert isinstance(tree, Parts)
    assert {names for names, _ in tree.parts} == {frozenset({"A"}), frozenset({"B"})}


def test_what_cannot_be_described() -> None:
    assert ask_schedule(parse_kernel("kernel f(out A: float32[9]) { for i in 0:9 { A[i] = 1.0 } }")) == (
        "a statement outside of blocks has no name to move it by"
    )
    assert ask_schedule(
        parse_kernel("""kernel f(out A: int64[9]) { while A[0] < 5 {
          block A() reads A[0] writes A[0] { A[0] = A[0] + 1 } } }""")
    ) == ("there is a while loop in it")
