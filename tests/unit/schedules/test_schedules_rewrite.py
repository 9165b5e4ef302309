"""Finding, replacing and naming parts of a kernel."""

from __future__ import annotations

import pytest
from schedule_kernels import CHAIN, MATMUL, kernel_of, parse_kernel

from weft.ir.errors import InternalError, ScheduleError
from weft.ir.expr import idx
from weft.ir.interval import Interval
from weft.ir.nesting import path_to, sequence, statements
from weft.ir.stmt import Alloc, Seq
from weft.ir.verify import verify
from weft.schedules.find import (
    all_loops,
    blocks_inside,
    find_alloc,
    find_block,
    find_buffer,
    find_loop,
    loops_around,
    ranges_at,
)
from weft.schedules.rewrite import fresh_copy, replace_stmt, taken_names, unique_names


def test_every_loop_gets_a_name_of_its_own() -> None:
    kernel = unique_names(kernel_of(CHAIN, N=8))
    assert [loop.var.name for loop in all_loops(kernel)] == ["i", "i_1"]
    verify(kernel)


def test_initialization_leaves_the_plain_names_to_the_computation() -> None:
    kernel = unique_names(kernel_of(MATMUL))
    assert [loop.var.name for loop in loops_around(kernel, "C")] == ["m", "n", "k"]
    assert [loop.var.name for loop in loops_around(kernel, "C_init")] == ["m_1", "n_1"]


def test_names_apart_from_parameters_iterators_lets_and_buffers() -> None:
    kernel = parse_kernel("""
        kernel f(N: int64, x: float32[N], out y: float32[N]) {
          for i in 0:N { let t: float32 = x[i] { y[i] = t } }
          for i in 0:N { alloc t: float32[1] { t[0] = x[i]  y[i] = y[i] + t[0] } }
        }""")
    named = unique_names(kernel)
    verify(named)
    assert [loop.var.name for loop in all_loops(named)] == ["i", "i_1"]
    assert find_alloc(named, "t_1").buffer.name == "t_1"
    assert unique_names(named) == named


def test_unknown_names_suggest_what_was_meant() -> None:
    kernel = unique_names(kernel_of(MATMUL, M=4, N=4, K=4))
    with pytest.raises(ScheduleError, match="there is no loop `kk`") as found:
        find_loop(kernel, "kk")
    assert found.value.why == "the loops are m, n, k"
    assert found.value.help == "did you mean `k`?"
    with pytest.raises(ScheduleError, match="there is no block `D`"):
        find_block(kernel, "D")
    with pytest.raises(ScheduleError, match="there is no buffer `X`"):
        find_buffer(kernel, "X")
    with pytest.raises(ScheduleError, match="the program has no temporaries"):
        find_alloc(kernel, "A")


def test_paths_and_ranges() -> None:
    kernel = unique_names(kernel_of(CHAIN, N=8))
    block = find_block(kernel, "Z")
    path = path_to(kernel, block)
    assert isinstance(path[0], Alloc)
    assert path[-1] is block
    assert ranges_at(kernel, block)["i_1"] == Interval(0, 7)
    with pytest.raises(InternalError):
        path_to(kernel, Seq(()))


def test_replacing_is_by_identity_and_flattens_sequences() -> None:
    kernel = unique_names(kernel_of(CHAIN, N=8))
    loop = find_loop(kernel, "i")
    twice = replace_stmt(kernel, loop, sequence([loop, loop]))
    seq = next(s for s in statements(twice.body) if isinstance(s, Seq))
    assert len(seq.body) == 3
    assert not any(isinstance(s, Seq) for s in seq.body)


def test_a_second_copy_shares_no_name() -> None:
    kernel = unique_names(kernel_of(MATMUL, M=4, N=4, K=4))
    loop = find_loop(kernel, "m")
    copy = fresh_copy(loop, taken_names(kernel), "_t")
    both = replace_stmt(kernel, loop, sequence([loop, copy]))
    verify(both)
    assert [f.var.name for f in all_loops(both)] == ["m", "n", "k", "m_t", "n_t", "k_t"]
    assert [b.name for b in blocks_inside(both)] == ["C", "C_t"]
    assert find_loop(both, "m_t").hi == idx(4)
