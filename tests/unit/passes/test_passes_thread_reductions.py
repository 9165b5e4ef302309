"""Reductions across threads: what targets read of the statement, and which nests become one."""

from __future__ import annotations

import pytest
from test_passes_join_threads import ROWS, joined

from weft.ir.expr import Const
from weft.ir.parser import parse_kernel
from weft.ir.stmt import Tensorized
from weft.ir.visit import walk
from weft.passes.analysis.thread_digits import Digit
from weft.passes.analysis.thread_reductions import Reduction, is_reduction, read_reduction
from weft.passes.to_grid.join_threads import join_threads


def reductions(text: str, *, fast: bool = True) -> list[Reduction]:
    joined(text, fast=fast, same=False)
    found = [n for n in walk(join_threads(parse_kernel(text), fast=fast)) if is_reduction(n)]
    return [read_reduction(n) for n in found if isinstance(n, Tensorized)]


def test_what_a_target_needs_is_read_back() -> None:
    (found,) = reductions(ROWS.replace("INIT", "-inf").replace("OP", "max"))
    assert found.op == "max"
    assert found.target.name == "m"
    assert found.group == (Digit(1, 64),)
    assert found.scope == "block"
    assert isinstance(found.zero, Const)
    assert found.zero.value == float("-inf")


def test_groups_of_several_digits() -> None:
    (found,) = reductions(
        """kernel p(A: int32[4, 4, 8], out B: int32[4]) {
             block b in 0:1 {
               alloc part: int32[4, 4, 8]
               thread z in 0:4 { thread y in 0:4 { thread x in 0:8 { part[z, y, x] = A[z, y, x] } } }
               thread z in 0:4 {
                 B[z] = 0_i32
                 for i in 0:4 { for j in 0:8 { B[z] = B[z] + part[z, i, j] } }
               }
             }
           }"""
    )
    assert found.group == (Digit(8, 4), Digit(1, 8))
    assert found.scope == "warp"


def test_columns_are_groups_with_a_stride() -> None:
    (found,) = reductions(
        """kernel p(A: float32[8, 32], out B: float32[32]) {
             block b in 0:1 {
               alloc part: float32[8, 32]
               thread y in 0:8 { thread x in 0:32 { part[y, x] = A[y, x] } }
               thread x in 0:32 { B[x] = 0.0 for y in 0:8 { B[x] = B[x] + part[y, x] } }
             }
           }"""
    )
    assert found.group == (Digit(32, 8),)


@pytest.mark.parametrize(
    "reduce",
    [
        "for t in 0:32 { s[0] = s[0] - part[t] / s[0] }",  # not a sum
        "for t in 0:32 { s[0] = s[0] + part[31 - t] }",  # not the threads in order
        "for t in 0:64 { s[0] = s[0] + part[t // 2] }",
    ],
)
def test_other_loops_stay_loops(reduce: str) -> None:
    text = f"""kernel p(A: float32[32], out B: float32[1]) {{
      block b in 0:1 {{
        alloc part: float32[32]
        alloc s: float32[1]
        thread t in 0:32 {{ part[t] = A[t] }}
        s[0] = 1.0
        {reduce}
        B[0] = s[0]
      }}
    }}"""
    assert not reductions(text)


def test_bits_are_combined_too() -> None:
    (found,) = reductions(
        """kernel p(A: int32[7, 32], out B: int32[7]) {
             block b in 0:2 {
               alloc part: int32[4, 32]
               thread y in 0:min(4, 7 - b * 4) { thread x in 0:32 { part[y, x] = A[b * 4 + y, x] } }
               thread y in 0:min(4, 7 - b * 4) {
                 B[b * 4 + y] = -1_i32
                 for t in 0:32 { B[b * 4 + y] = B[b * 4 + y] & part[y, t] }
               }
             }
           }"""
    )
    assert isinstance(found.zero, Const)
    assert found.zero.value == -1
