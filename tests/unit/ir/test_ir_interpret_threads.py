"""Thread blocks, barriers of every scope, and barriers not reached by all."""

from __future__ import annotations

import numpy as np
import pytest
from interpret_programs import b, buffer, i, idx, k, line, load, loop, run, store, t

from weft.ir import dtype as dt
from weft.ir.errors import DataRace, DivergentBarrier, ProgramError
from weft.ir.expr import Binary, Compare, Var
from weft.ir.stmt import Alloc, Assign, Barrier, Break, Continue, For, If, Let, Return, Seq, Stmt, While

N = 64
X = buffer("X", dt.int64, N)
Y = buffer("Y", dt.int64, N)
S = buffer("S", dt.int64, N, scope="shared")
CARET = " " * 18 + "^^^^\n"


def where(number: int) -> str:
    return f"  {f'k.loops:{number}':<14}  line {number} of the program\n{CARET}"


def result(*body: Stmt, x: np.ndarray | None = None) -> list[int]:
    values = np.arange(N) if x is None else x
    run(*body, X=values, Y=np.zeros(N, np.int64))
    return values.tolist()  # type: ignore[no-any-return]


def divergence(*body: Stmt) -> str:
    with pytest.raises(DivergentBarrier) as caught:
        result(*body)
    return str(caught.value)


def tree_sum(barrier: Stmt) -> Stmt:
    step = Var("step")
    halve = Let(step, idx(16), While(step > 0, Seq((
        If(t < step, store(S, (t,), load(S, t) + load(S, t + step))),
        barrier,
        Assign(step, step // 2),
    ))))  # fmt: skip
    threads = loop(t, 32, "thread", store(S, (t,), load(X, b * 32 + t)), Barrier(), halve,
                   If(Compare("==", t, idx(0)), store(Y, (b,), load(S, 0))))  # fmt: skip
    return loop(b, 2, "block", Alloc(S, threads))


def test_tree_reduction_in_shared_memory():
    y = np.zeros(N, np.int64)
    run(tree_sum(Barrier()), X=np.arange(N), Y=y)
    assert y.tolist()[:2] == [sum(range(32)), sum(range(32, 64))]


def test_tree_reduction_without_its_barrier_races():
    with pytest.raises(DataRace, match=r"data race on `S\["):
        run(tree_sum(Seq(())), X=np.arange(N), Y=np.zeros(N, np.int64))


def test_tree_reduction_in_one_warp():
    y = np.zeros(N, np.int64)
    run(tree_sum(Barrier("warp")), X=np.arange(N), Y=y)
    assert y.tolist()[:2] == [sum(range(32)), sum(range(32, 64))]


def reverse(barrier: Barrier, count: int = 64) -> Stmt:
    """Each thread writes its element and reads its mirror image's."""
    return loop(t, count, "thread", store(Y, (t,), t), barrier, store(X, (t,), load(Y, idx(count - 1) - t)))


def test_a_warp_barrier_orders_only_its_warp():
    assert result(reverse(Barrier("warp"), 32))[:32] == list(range(31, -1, -1))
    with pytest.raises(DataRace):
        result(reverse(Barrier("warp"), 64))
    assert result(reverse(Barrier("block"), 64)) == list(range(63, -1, -1))


def test_warps_and_blocks_synchronize_independently():
    neighbour = t - t % 32 + (t + 1) % 32
    body = Alloc(S, loop(t, 64, "thread",
        store(S, (t,), t), Barrier("warp"), store(X, (t,), load(S, neighbour)), Barrier(),
        store(S, (t,), load(X, idx(63) - t)), Barrier("warp"), store(Y, (t,), load(S, neighbour))))  # fmt: skip
    y = np.zeros(N, np.int64)
    run(body, X=np.zeros(N, np.int64), Y=y)
    turned = [n - n % 32 + (n + 1) % 32 for n in range(64)]
    assert y.tolist() == [turned[63 - m] for m in turned]


def test_nested_thread_loops_are_one_block():
    ty, tx = Var("ty"), Var("tx")
    transpose = Alloc(S, For(ty, idx(0), idx(8), "thread", For(tx, idx(0), idx(8), "thread", Seq((
        store(S, (ty * 8 + tx,), load(X, ty * 8 + tx)),
        Barrier(),
        store(Y, (ty * 8 + tx,), load(S, tx * 8 + ty)),
    )))))  # fmt: skip
    y = np.zeros(N, np.int64)
    run(loop(b, 1, "block", transpose), X=np.arange(N), Y=y)
    np.testing.assert_array_equal(y.reshape(8, 8), np.arange(N).reshape(8, 8).T)


def test_nested_thread_loops_with_statements_between():
    ty, tx = Var("ty"), Var("tx")
    inner = For(tx, idx(0), idx(8), "thread", Seq((
        store(S, (ty * 8 + tx,), load(X, ty * 8 + tx)), Barrier(), store(Y, (ty * 8 + tx,), load(S, tx * 8 + ty)),
    )))  # fmt: skip
    scale = Var("scale")
    body = Alloc(S, For(ty, idx(0), idx(8), "thread", Let(scale, ty + 1, Seq((inner, Assign(scale, scale + 1))))))
    y = np.zeros(N, np.int64)
    run(body, X=np.arange(N), Y=y)
    np.testing.assert_array_equal(y.reshape(8, 8), np.arange(N).reshape(8, 8).T)


def test_warps_count_the_innermost_thread_loop_fastest():
    ty, tx = Var("ty"), Var("tx")

    def exchange(partner_of: object) -> Stmt:
        return For(ty, idx(0), idx(4), "thread", For(tx, idx(0), idx(16), "thread", Seq((
            store(Y, (ty * 16 + tx,), ty * 16 + tx), Barrier("warp"), store(X, (ty * 16 + tx,), load(Y, partner_of)),
        ))))  # fmt: skip

    other_row = Binary("^", ty, idx(1)) * 16 + tx
    assert result(exchange(other_row))[:2] == [16, 17]
    with pytest.raises(DataRace):
        result(exchange(Binary("^", ty, idx(2)) * 16 + tx))


def test_grid_barrier_orders_blocks():
    threads = loop(t, 4, "thread", store(X, (b * 4 + t,), b * 4 + t), Barrier("grid"),
                   store(Y, (b * 4 + t,), load(X, idx(15) - (b * 4 + t))))  # fmt: skip
    y = np.zeros(N, np.int64)
    run(loop(b, 4, "block", threads), X=np.zeros(N, np.int64), Y=y)
    assert y.tolist()[:16] == list(range(15, -1, -1))


def test_grid_and_block_barriers_mixed_in_a_loop():
    body = loop(b, 2, "block", Alloc(S, loop(t, 4, "thread", loop(k, 3, "serial",
        store(S, (t,), load(X, b * 4 + t)), Barrier(),
        store(X, (b * 4 + t,), load(S, (t + 1) % 4)), Barrier("grid"),
        store(Y, (b * 4 + t,), load(X, (idx(1) - b) * 4 + t)), Barrier("grid"),
        store(X, (b * 4 + t,), load(Y, b * 4 + t)), Barrier()))))  # fmt: skip
    expected = np.arange(8).reshape(2, 4)
    for _ in range(3):
        expected = np.roll(expected, -1, axis=1)[::-1]
    assert result(body)[:8] == expected.ravel().tolist()


def test_barriers_without_threads_do_nothing():
    assert result(Barrier(), loop(b, 2, "block", store(X, (b,), 7), Barrier("block")), Barrier("grid"))[:2] == [7, 7]
    assert result(loop(i, 2, "parallel", store(X, (i,), 7), Barrier()))[:2] == [7, 7]


def test_barriers_in_uniform_branches_and_loops_with_jumps():
    body = Alloc(S, loop(t, 8, "thread", loop(k, 6, "serial",
        If(Compare("==", k, idx(1)), Continue()),
        If(Compare("==", k, idx(4)), Break()),
        store(S, (t,), load(X, t)), Barrier(),
        If(k < 2, Seq((store(X, (t,), load(S, (t + 1) % 8)), Barrier())), Barrier()))))  # fmt: skip
    assert result(body)[:8] == [1, 2, 3, 4, 5, 6, 7, 0]


def test_an_early_return_before_a_barrier():
    body = Alloc(S, loop(t, 8, "thread", If(t >= 5, Return()), store(S, (t,), t), Barrier(),
                         store(X, (t,), load(S, (t + 1) % 5))))  # fmt: skip
    assert result(body)[:8] == [1, 2, 3, 4, 0, 5, 6, 7]


def test_a_whole_warp_that_returns_early():
    body = Alloc(S, loop(t, 64, "thread", If(t < 32, Return()), store(S, (t,), t), Barrier("warp"),
                         store(X, (t,), load(S, idx(95) - t)), Barrier()))  # fmt: skip
    assert result(body) == [*range(32), *range(63, 31, -1)]


def test_each_thread_has_its_own_variables_and_registers():
    v, r = Var("v"), buffer("R", dt.int64, 1, scope="register")
    body = loop(t, 8, "thread", Let(v, t, Alloc(r, Seq((
        store(r, (0,), v * 10), Barrier(), Assign(v, v + load(r, 0)), Barrier(), store(X, (t,), v))))))  # fmt: skip
    assert result(body)[:8] == [11 * n for n in range(8)]


def test_a_let_before_a_barrier_reads_as_its_own_thread():
    # The value of the `let` is read in the thread's own phase, not while threads are being made.
    v = Var("v")
    body = loop(t, 4, "thread", Let(v, load(X, 0), Seq((Barrier(), store(X, (t,), v + t)))))
    assert result(body, x=np.full(N, 5))[:4] == [5, 6, 7, 8]
    racing = loop(t, 4, "thread", Let(v, load(X, (t + 1) % 4), Seq((store(X, (t,), v), Barrier()))))
    with pytest.raises(DataRace):
        result(racing)


def test_threads_that_skip_a_barrier():
    body = loop(b, 2, "block", loop(t, 8, "thread", If(t < 6, Barrier(span=line(3)))))
    assert divergence(body) == (
        "error: not all threads reach this block barrier\n" + where(3) +
        "  why:   6 threads wait here: (b=0, t=0), (b=0, t=1), (b=0, t=2), (b=0, t=3) ...; "
        "2 threads end without reaching it: (b=0, t=6), (b=0, t=7)"
    )  # fmt: skip


def test_threads_at_two_barriers():
    body = loop(t, 3, "thread", If(t < 1, Barrier(span=line(3)), Barrier(span=line(5))))
    assert divergence(body) == (
        "error: not all threads reach this block barrier\n" + where(3) +
        "  why:   1 thread waits here: (t=0); 2 threads wait at another barrier: (t=1), (t=2)\n"
        "  other: k.loops:5"
    )  # fmt: skip


def test_a_barrier_in_a_loop_of_uneven_length():
    text = divergence(loop(t, 4, "thread", For(k, idx(0), t + 1, "serial", Barrier(span=line(2)))))
    assert "3 threads wait here: (t=1, k=1)" not in text
    assert "1 thread ends without reaching it: (t=0)" in text


def test_divergence_within_a_warp_and_across_a_grid():
    assert "this warp barrier" in divergence(loop(t, 40, "thread", If(t < 36, Barrier("warp"))))
    result(loop(t, 64, "thread", If(t < 32, Barrier("warp"))))
    text = divergence(loop(b, 3, "block", loop(t, 2, "thread", If(b > 0, Barrier("grid")))))
    assert "this grid barrier" in text
    assert "(b=0)" in text


def test_a_barrier_in_a_vector_loop_of_a_thread():
    with pytest.raises(ProgramError) as caught:
        result(loop(t, 2, "thread", loop(i, 2, "vector", Barrier(span=line(1)))))
    assert str(caught.value) == (
        "error: block barrier inside a vector loop\n" + where(1) +
        "  why:   its iterations are not threads, so a thread would arrive more than once or not at all"
    )  # fmt: skip
