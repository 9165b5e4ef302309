"""What the interpreter reports, in full, and what it must not report."""

from __future__ import annotations

import numpy as np
import pytest
from interpret_programs import at, b, buffer, f32, i, idx, j, k, line, load, loop, run, store, t

from weft.ir import dtype as dt
from weft.ir.errors import DataRace, OutOfBounds, ProgramError, UninitializedRead
from weft.ir.expr import Axis, Broadcast, Ramp, Reduce, Select, Var
from weft.ir.stmt import Alloc, Assign, Atomic, Barrier, Block, For, If, Iter, Let, Seq, Stmt, Store, While

X = buffer("X", dt.int64, 8)
A = buffer("A", dt.float32, 3, 4)
S = buffer("S", dt.int64, 8, scope="shared")
CARET = " " * 18 + "^^^^\n"


def where(number: int) -> str:
    return f"  {f'k.loops:{number}':<14}  line {number} of the program\n{CARET}"


def finding(kind: type[ProgramError], *body: Stmt, **args: object) -> str:
    with pytest.raises(kind) as caught:
        run(*body, **(args or {"X": np.zeros(8, np.int64)}))  # type: ignore[arg-type]
    return str(caught.value)


def fine(*body: Stmt) -> list[int]:
    x = np.zeros(8, np.int64)
    run(*body, X=x)
    return x.tolist()  # type: ignore[no-any-return]


# Out of bounds


def test_read_past_the_end():
    text = finding(OutOfBounds, loop(i, 8, "serial", store(X, (i,), load(X, i + 1, span=line(3)))))
    assert text == (
        "error: read of `X[8]` is out of bounds\n" + where(3) +
        "  why:   dimension 0 of X has 8 elements, 0 to 7\n"
        "  at:    (i=7)"
    )  # fmt: skip


def test_each_dimension_is_checked_on_its_own():
    body = loop(i, 3, "parallel", loop(j, 5, "vector", store(A, (i, j), f32(1), span=line(2))))
    assert finding(OutOfBounds, body, A=np.zeros((3, 4), np.float32)) == (
        "error: write of `A[0, 4]` is out of bounds\n" + where(2) +
        "  why:   dimension 1 of A has 4 elements, 0 to 3\n"
        "  at:    (i=0, j=4)"
    )  # fmt: skip


@pytest.mark.parametrize("check", [True, False])
def test_negative_indices_do_not_wrap_around(check):
    with pytest.raises(OutOfBounds, match=r"read of `X\[-1\]` is out of bounds"):
        run(store(X, (0,), load(X, -1)), X=np.zeros(8, np.int64), check=check)


def test_out_of_bounds_inside_a_reduction_names_its_axes():
    total = Reduce("+", (Axis(k, idx(0), idx(9)),), load(X, k))
    assert finding(OutOfBounds, loop(i, 2, "serial", store(X, (i,), total))).endswith("at:    (i=0, k=8)")


def test_out_of_bounds_in_a_lane_and_in_three_dimensions_and_empty_ones():
    assert "`X[9]`" in finding(OutOfBounds, Store(X, (Ramp(idx(6), idx(3), 2),), Broadcast(idx(1), 2)))
    deep, empty = buffer("D", dt.float32, 2, 2, 2), buffer("E", dt.float32, 0)
    assert "`D[1, 2, 0]`" in finding(OutOfBounds, store(deep, (1, 2, 0), f32(0)), D=np.zeros((2, 2, 2), np.float32))
    text = finding(OutOfBounds, store(empty, (0,), f32(0)), E=np.zeros(0, np.float32))
    assert "why:   dimension 0 of E is empty" in text


def test_out_of_bounds_of_an_atomic():
    text = finding(OutOfBounds, loop(i, 9, "parallel", Atomic("+", X, at(i), idx(1))))
    assert text.startswith("error: atomic of `X[8]` is out of bounds")


# Uninitialized reads


def test_read_of_fresh_memory():
    body = Alloc(S, loop(i, 8, "serial", If(i < 5, store(S, (i,), i)), store(X, (i,), load(S, i), span=line(6))))
    assert finding(UninitializedRead, body) == (
        "error: read of `S[5]`, which nothing has written\n" + where(6) +
        "  why:   S starts uninitialized\n"
        "  at:    (i=5)"
    )  # fmt: skip


def test_memory_is_fresh_in_every_iteration():
    temp = buffer("T", dt.int64, 1, scope="register")
    body = loop(i, 2, "serial", Alloc(temp, Seq((If(i < 1, store(temp, (0,), 3)), store(X, (i,), load(temp, 0))))))
    assert "(i=1)" in finding(UninitializedRead, body)


def test_outputs_are_uninitialized_where_the_caller_says_so():
    x = np.arange(8)
    with pytest.raises(UninitializedRead):
        run(store(X, (0,), load(X, 1)), X=x, uninitialized=["X"])
    run(store(X, (0,), load(X, 1)), X=x)
    assert x[0] == 1
    run(store(X, (3,), 30), X=x, uninitialized=["X"])
    assert x.tolist() == [1, 1, 2, 30, 4, 5, 6, 7]


def test_an_atomic_update_of_fresh_memory():
    text = finding(UninitializedRead, Alloc(S, Atomic("+", S, at(0), idx(1))))
    assert text.startswith("error: atomic of `S[0]`, which nothing has written")
    fine(Alloc(S, Atomic("exchange", S, at(0), idx(1))))


# Data races


def test_two_iterations_write_one_element():
    assert finding(DataRace, loop(i, 8, "parallel", store(X, (i // 2,), 1, span=line(2)))) == (
        "error: data race on `X[0]`\n" + where(2) +
        "  why:   iteration (i=0) writes it and iteration (i=1) writes it, and nothing orders the two"
    )  # fmt: skip


def test_a_race_names_both_lines_and_all_loops():
    body = loop(i, 2, "serial", loop(t, 4, "thread", loop(
        k, 2, "serial",
        store(X, (t,), k, span=line(7)),
        store(X, (4,), load(X, t + 1, span=line(9)) * 0, span=line(11)),
    )))  # fmt: skip
    assert finding(DataRace, body) == (
        "error: data race on `X[1]`\n" + where(7) +
        "  why:   iteration (i=0, t=0, k=0) reads it and iteration (i=0, t=1, k=0) writes it, "
        "and nothing orders the two\n"
        "  other: k.loops:9"
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["parallel", "vector", "block", "thread"])
def test_every_concurrent_kind_races(kind):
    assert "data race" in finding(DataRace, loop(i, 4, kind, store(X, (0,), 1)))
    assert "data race" in finding(DataRace, loop(i, 4, kind, store(X, (i + 1,), load(X, i))))
    assert "data race" in finding(DataRace, loop(i, 4, kind, store(X, (i,), load(X, i + 1))))
    assert fine(loop(i, 4, kind, store(X, (i,), i))) == [0, 1, 2, 3, 0, 0, 0, 0]


@pytest.mark.parametrize("kind", ["serial", "unroll"])
def test_ordered_kinds_do_not(kind):
    assert fine(loop(i, 7, kind, store(X, (i + 1,), load(X, i) + 1))) == list(range(8))


def test_writing_the_same_value_still_races():
    assert "data race" in finding(DataRace, loop(i, 2, "parallel", store(X, (3,), 7)))


def test_one_iteration_cannot_race():
    assert fine(loop(i, 1, "parallel", store(X, (0,), load(X, 0) + 1)))[0] == 1


def test_disjoint_halves_and_shared_reads():
    halves = loop(i, 2, "parallel", loop(j, 4, "serial", store(X, (i * 4 + j,), load(X, i * 4 + (j + 3) % 4) + 1)))
    fine(halves)
    fine(Alloc(S, Seq((store(S, (0,), 5), loop(i, 8, "parallel", store(X, (i,), load(S, 0)))))))


def test_loops_in_sequence_are_ordered():
    fill, shift = loop(i, 8, "parallel", store(X, (i,), i)), loop(i, 7, "serial", store(X, (i,), load(X, i + 1)))
    assert fine(fill, shift) == [1, 2, 3, 4, 5, 6, 7, 7]
    again = loop(k, 3, "serial", loop(i, 8, "parallel", store(X, (i,), load(X, i) + k)))
    assert fine(again, loop(i, 4, "vector", store(X, (i,), load(X, i + 4)))) == [3] * 8


def test_nested_parallel_loops():
    fine(loop(i, 2, "parallel", loop(j, 4, "parallel", store(X, (i * 4 + j,), 1))))
    across_inner = loop(i, 2, "parallel", loop(j, 4, "parallel", store(X, (i * 4 + j // 2,), 1)))
    assert "(i=0, j=0)" in finding(DataRace, across_inner)
    across_outer = loop(i, 2, "parallel", loop(j, 4, "parallel", store(X, (j,), 1)))
    text = finding(DataRace, across_outer)
    assert "(i=0, j=0) writes" in text
    assert "(i=1, j=0) writes" in text


def test_a_race_between_an_iteration_and_a_loop_inside_another():
    body = loop(i, 2, "parallel", If(i < 1, store(X, (3,), 1), loop(j, 4, "parallel", store(X, (j,), 2))))
    text = finding(DataRace, body)
    assert "(i=0) writes" in text
    assert "(i=1, j=3) writes" in text


def test_a_parallel_loop_does_not_race_with_the_iteration_around_it():
    row = Seq(
        (
            store(X, (i,), 1),
            loop(j, 4, "parallel", If(j <= 0, store(X, (i,), load(X, i) + 1))),
            store(X, (i,), load(X, i) * 2),
        )
    )
    assert fine(loop(i, 2, "parallel", row))[:2] == [4, 4]


def test_an_old_reader_is_remembered_behind_newer_ones():
    # Iteration 0 reads X[0], iteration 1 reads it too, iteration 1 then writes it.
    body = loop(i, 2, "parallel", store(X, (i + 4,), load(X, 0)), If(i > 0, store(X, (0,), 1)))
    assert "(i=0) reads it and iteration (i=1) writes" in finding(DataRace, body)


def test_atomics_do_not_race_with_each_other_but_with_the_rest():
    total = loop(i, 8, "parallel", Atomic("+", X, at(0), i))
    assert fine(total)[0] == 28
    old = Var("old")
    tickets = loop(
        i, 4, "parallel", Let(old, idx(0), Seq((Atomic("+", X, at(0), idx(1), result=old), store(X, (old + 1,), 1))))
    )
    assert fine(tickets) == [4, 1, 1, 1, 1, 0, 0, 0]
    for other in (store(X, (0,), 1), store(X, (1 + i,), load(X, 0))):
        mixed = loop(i, 2, "parallel", If(i < 1, Atomic("+", X, at(0), idx(1)), other))
        text = finding(DataRace, mixed)
        assert "iteration (i=0) updates it" in text
        mixed = loop(i, 2, "parallel", If(i < 1, other, Atomic("+", X, at(0), idx(1))))
        assert "iteration (i=1) updates it" in finding(DataRace, mixed)


def test_vector_lanes_of_one_statement_are_one_iteration():
    lanes = Ramp(i * 4, idx(1), 4)
    fine(loop(i, 2, "parallel", Store(X, (lanes,), load(X, lanes) + Broadcast(idx(1), 4))))
    overlap = loop(i, 2, "parallel", Store(X, (Ramp(i, idx(1), 4),), Broadcast(idx(1), 4)))
    assert "`X[1]`" in finding(DataRace, overlap)


def test_shared_memory_of_different_blocks_is_different():
    body = loop(b, 2, "block", Alloc(S, Seq((
        loop(t, 4, "thread", store(S, (t,), t)),
        loop(t, 4, "thread", store(X, (b * 4 + t,), load(S, idx(3) - t))),
    ))))  # fmt: skip
    assert fine(body) == [3, 2, 1, 0, 3, 2, 1, 0]


def test_shared_memory_of_one_block_races():
    exchange = loop(t, 4, "thread", store(S, (t,), t), store(X, (t,), load(S, (t + 1) % 4)))
    text = finding(DataRace, loop(b, 1, "block", Alloc(S, Seq((loop(t, 4, "thread", store(S, (t,), 0)), exchange)))))
    assert "data race on `S[1]`" in text


def test_no_findings_when_not_asked():
    x = np.zeros(8, np.int64)
    run(loop(i, 8, "parallel", store(X, (0,), i)), X=x, check=False)
    assert x[0] == 7


def test_what_was_written_before_a_finding_stays():
    x = np.zeros(8, np.int64)
    with pytest.raises(OutOfBounds):
        run(loop(i, 9, "serial", store(X, (i,), i + 1)), X=x)
    assert x.tolist() == list(range(1, 9))


def test_findings_in_blocks_and_whiles_carry_the_enclosing_line():
    v = Var("v")
    block = Block(
        "b", (Iter(Var("vi"), idx(0), idx(2), "spatial", i),), (), (), None, store(X, (Var("vi") + 7,), 1), span=line(5)
    )
    assert where(5) in finding(OutOfBounds, loop(i, 2, "serial", block))
    walk = Let(v, idx(0), While(v < 20, Seq((store(X, (v,), 1), Assign(v, v + 1))), span=line(8)))
    assert where(8) in finding(OutOfBounds, walk)


def test_select_protects_a_race_too():
    shifted = Select(i > 9, load(X, i - 1), idx(1))
    fine(loop(i, 8, "parallel", store(X, (i,), shifted)))


def test_a_barrier_orders_threads():
    swap = Alloc(S, loop(t, 4, "thread", store(S, (t,), t), Barrier(), store(X, (t,), load(S, (t + 1) % 4))))
    assert fine(loop(b, 1, "block", swap))[:4] == [1, 2, 3, 0]
    assert fine(swap)[:4] == [1, 2, 3, 0]


def test_a_barrier_does_not_order_blocks():
    body = loop(b, 2, "block", For(t, idx(0), idx(2), "thread", Seq((store(X, (t,), 1), Barrier()))))
    text = finding(DataRace, body)
    assert "(b=0, t=0) writes" in text
    assert "(b=1, t=0) writes" in text
