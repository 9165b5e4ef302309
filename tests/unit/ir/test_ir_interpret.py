"""Every statement and expression kind, run."""

from __future__ import annotations

import numpy as np
import pytest
from interpret_programs import at, buffer, f32, i, idx, interpret, j, k, kernel, line, load, loop, run, store

from weft.ir import dtype as dt
from weft.ir.errors import ArgumentError, ProgramError, ShapeError
from weft.ir.expr import (
    Axis,
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Unary,
    Var,
    const,
)
from weft.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Block,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Iter,
    Kernel,
    Let,
    Return,
    Seq,
    Store,
    While,
)

A = buffer("A", dt.float32, 4)
X = buffer("X", dt.int64, 8)


def out(n: int = 8, dtype: type = np.int64) -> np.ndarray:
    return np.zeros(n, dtype)


def test_matmul_of_odd_sizes():
    m, n, p = 3, 5, 7
    left, right, result = (buffer(x, dt.float32, *s) for x, s in (("L", (m, p)), ("R", (p, n)), ("C", (m, n))))
    body = loop(i, m, "parallel", loop(j, n, "vector", store(result, (i, j), 0.0), loop(k, p, "serial", store(
        result, (i, j), load(result, i, j) + load(left, i, k) * load(right, k, j)))))  # fmt: skip
    rng = np.random.default_rng(0)
    x, y = rng.random((m, p), np.float32), rng.random((p, n), np.float32)
    c = np.empty((m, n), np.float32)
    run(body, L=x, R=y, C=c, uninitialized=["C"])
    np.testing.assert_allclose(c, x @ y, rtol=1e-6)


@pytest.mark.parametrize("check", [True, False])
def test_arrays_of_any_strides(check):
    base = np.arange(48, dtype=np.float32).reshape(6, 8)
    cases = [base.T, base[::-1, ::2], np.broadcast_to(base[0], (5, 8)), np.asfortranarray(base), base[:0]]
    for source in cases:
        whole = np.full((source.shape[1] * 2, source.shape[0]), -1, np.float32)
        target = whole[::-2].T
        rows, columns = source.shape
        s, d = buffer("S", dt.float32, rows, columns), buffer("D", dt.float32, rows, columns)
        body = loop(i, rows, "serial", loop(j, columns, "serial", store(d, (i, j), load(s, i, j))))
        run(body, S=source, D=target, check=check)
        np.testing.assert_array_equal(target, source)
        assert np.all(whole[0::2] == -1)


def test_symbolic_sizes_come_from_scalar_parameters():
    n = Var("N")
    x = buffer("X", dt.int64, n)
    body = loop(i, n, "serial", store(x, (i,), i * 2))
    k_ = Kernel("k", (x, n), ("X",), body)
    values = out(5)
    interpret(k_, [values, 5])
    assert values.tolist() == [0, 2, 4, 6, 8]
    with pytest.raises(ShapeError) as caught:
        interpret(k_, [values, 6])
    assert str(caught.value) == "error: argument `X` has shape (5,)\n  why:   the kernel wants (6,)"


def test_rank_zero():
    s = buffer("S", dt.int32)
    value = np.array(3, np.int32)
    run(store(s, (), load(s) + 4), S=value)
    assert value == 7


def test_loop_bounds_lo_and_empty():
    x = out()
    run(For(i, idx(2), idx(5), "unroll", store(X, (i,), 1)), For(j, idx(5), idx(2), "serial", store(X, (0,), 9)), X=x)
    assert x.tolist() == [0, 0, 1, 1, 1, 0, 0, 0]


def test_while_break_continue():
    x, n = out(), Var("n")
    body = Let(n, idx(0), While(Const(True, dt.bool_), Seq((
        Assign(n, n + 1),
        If(Compare("==", n % 2, idx(0)), Continue()),
        If(n > 6, Break()),
        store(X, (n,), n),
    ))))  # fmt: skip
    run(body, X=x)
    assert x.tolist() == [0, 1, 0, 3, 0, 5, 0, 0]


def test_break_ends_the_innermost_loop_only():
    x = out()
    run(loop(i, 2, "serial", loop(j, 4, "serial", If(j >= 2, Break()), store(X, (i * 4 + j,), 1))), X=x)
    assert x.tolist() == [1, 1, 0, 0, 1, 1, 0, 0]


def test_return_ends_the_kernel():
    x = out()
    run(loop(i, 4, "serial", While(i >= 0, Seq((store(X, (i,), 1), If(i >= 2, Return()), Break())))), store(X, (7,), 1),
        X=x)  # fmt: skip
    assert x.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]


def test_return_ends_only_its_iteration_of_a_parallel_loop():
    x = out()
    run(loop(i, 4, "parallel", If(i < 2, Return()), store(X, (i,), 1)), store(X, (7,), 1), X=x)
    assert x.tolist() == [0, 0, 1, 1, 0, 0, 0, 1]


def test_if_else():
    x = out()
    run(loop(i, 8, "serial", If(i < 3, store(X, (i,), 1), store(X, (i,), 2))), X=x)
    assert x.tolist() == [1, 1, 1, 2, 2, 2, 2, 2]


def test_let_is_fresh_in_every_iteration_and_siblings_reuse_names():
    x, v = out(), Var("v")
    twice = [Let(v, i * step, Seq((Assign(v, v + 1), store(X, (i,), load(X, i) + v)))) for step in (1, 10)]
    run(loop(i, 3, "parallel", *twice), X=x)
    assert x.tolist()[:3] == [2, 13, 24]


def test_a_vector_let():
    x, v = out(), Var("v", dt.int64.with_lanes(4))
    body = Let(v, Ramp(idx(0), idx(3), 4), Seq((Assign(v, Binary("+", v, v)), Store(X, (Ramp(idx(0), idx(2), 4),), v))))
    run(body, X=x)
    assert x.tolist() == [0, 0, 6, 0, 12, 0, 18, 0]


def test_alloc_lives_for_its_body_and_starts_anew():
    x, temp = out(), buffer("T", dt.int64, 2, scope="local")
    inner = Alloc(
        temp, Seq((store(temp, (0,), i), store(temp, (1,), load(temp, 0) + 1), store(X, (i,), load(temp, 1))))
    )
    run(loop(i, 4, "parallel", inner), X=x)
    assert x.tolist()[:4] == [1, 2, 3, 4]


def test_alloc_with_negative_and_gapped_strides():
    x, temp = out(4), buffer("T", dt.int64, 2, 2, strides=(idx(-8), idx(3)))
    fill = loop(i, 2, "serial", loop(j, 2, "serial", store(temp, (i, j), i * 2 + j)))
    read = loop(i, 2, "serial", loop(j, 2, "serial", store(buffer("X", dt.int64, 4), (i * 2 + j,), load(temp, i, j))))
    run(Alloc(temp, Seq((fill, read))), X=x)
    assert x.tolist() == [0, 1, 2, 3]


def test_a_zero_stride_makes_elements_meet():
    x, temp = out(1), buffer("T", dt.int64, 3, strides=(idx(0),))
    run(Alloc(temp, Seq((store(temp, (2,), 5), store(buffer("X", dt.int64, 1), (0,), load(temp, 0))))), X=x)
    assert x.tolist() == [5]


def test_memory_starts_as_zeros_without_checks():
    x, temp = out(), buffer("T", dt.int64, 1)
    run(Alloc(temp, store(X, (0,), load(temp, 0) + 1)), X=x, check=False)
    assert x[0] == 1


def test_block_runs_init_where_reduce_iterators_start():
    vi, vk = Var("vi"), Var("vk")
    total = store(X, (vi,), load(X, vi) + load(buffer("Y", dt.int64, 8), vk))
    iters = (Iter(vi, idx(0), idx(3), "spatial", i), Iter(vk, idx(2), idx(8), "reduce", k + 2))
    body = Block("sum", iters, (), (), store(X, (vi,), 100), total)
    x, y = out(), np.arange(8)
    run(loop(i, 3, "serial", loop(k, 6, "serial", body)), X=x, Y=y, uninitialized=["X"])
    assert x.tolist()[:3] == [127] * 3


@pytest.mark.parametrize(
    ("op", "value", "left"),
    [("+", 3, 10), ("min", 3, 3), ("max", 3, 7), ("&", 3, 3), ("|", 8, 15), ("^", 5, 2), ("exchange", 9, 9)],
)
def test_atomics_give_the_old_value(op, value, left):
    x, old = out(), Var("old")
    x[0] = 7
    body = Let(old, idx(0), Seq((Atomic(op, X, at(0), idx(value), result=old), store(X, (1,), old))))
    run(body, X=x)
    assert x.tolist()[:2] == [left, 7]


def test_compare_and_swap():
    x = out()
    x[:2] = 5, 6
    swap = loop(i, 2, "parallel", Atomic("cas", X, at(i), idx(9), expected=idx(5)))
    run(swap, X=x)
    assert x.tolist()[:2] == [9, 6]


def test_atomic_float_add():
    a = np.zeros(4, np.float32)
    run(loop(i, 9, "parallel", Atomic("+", A, at(i % 4), f32(0.5))), A=a)
    assert a.tolist() == [1.5, 1.0, 1.0, 1.0]


def test_assert_stops_with_its_message_and_keeps_what_was_written():
    x = out()
    check = Assert(i < 2, "index {0} of {1} is {not} {7} right", (i, i * 2), span=line(4))
    with pytest.raises(ProgramError) as caught:
        run(loop(i, 4, "serial", check, store(X, (i,), 5)), X=x)
    assert str(caught.value) == (
        "error: index 2 of 4 is {not} {7} right\n  k.loops:4       line 4 of the program\n" + " " * 18 + "^^^^"
    )
    assert x.tolist() == [5, 5, 0, 0, 0, 0, 0, 0]


def test_evaluate_runs_the_arguments():
    a = np.zeros(4, np.float32)
    call = Call("exp", (load(A, 9),), dt.float32)
    with pytest.raises(ProgramError, match=r"read of `A\[9\]` is out of bounds"):
        run(Evaluate(call), A=a)


def test_select_and_logic_evaluate_only_what_they_need():
    a = np.arange(4, dtype=np.float32)
    x = buffer("D", dt.float32, 6)
    inside = Binary("&&", Compare(">=", i, idx(1)), Compare("<", i, idx(5)))
    guarded = Binary("||", Unary("!", inside), Compare(">", load(A, i - 1), f32(0)))
    value = Select(inside, Select(guarded, load(A, i - 1), f32(-1)), f32(-2))
    d = np.zeros(6, np.float32)
    run(loop(i, 6, "serial", store(x, (i,), value)), A=a, D=d)
    assert d.tolist() == [-2, -1, 1, 2, 3, -2]


def test_vector_select_is_lazy_lane_by_lane():
    a, d = np.arange(1, 5, dtype=np.float32), np.zeros(8, np.float32)
    lanes = Ramp(idx(-2), idx(1), 8)
    inside = Binary("&&", Compare(">=", lanes, Broadcast(idx(0), 8)), Compare("<", lanes, Broadcast(idx(4), 8)))
    value = Select(inside, load(A, lanes), Broadcast(f32(0), 8))
    run(Store(buffer("D", dt.float32, 8), (Ramp(idx(0), idx(1), 8),), value), A=a, D=d)
    assert d.tolist() == [0, 0, 1, 2, 3, 4, 0, 0]


def test_vector_store_reads_all_before_writing():
    x = np.arange(8)
    lanes = Ramp(idx(0), idx(1), 4)
    reversed_lanes = Shuffle((load(X, lanes),), (3, 2, 1, 0))
    run(Store(X, (lanes,), reversed_lanes), X=x)
    assert x.tolist() == [3, 2, 1, 0, 4, 5, 6, 7]


def test_vector_casts_calls_and_broadcast_store():
    a = np.array([1, 4, 9, 16], np.float32)
    x = out()
    lanes = Ramp(idx(0), idx(2), 4)
    roots = Call("sqrt", (load(A, Ramp(idx(0), idx(1), 4)),), dt.float32.with_lanes(4))
    run(Store(X, (lanes,), Cast(dt.int64.with_lanes(4), roots)), Store(X, (lanes + Broadcast(idx(1), 4),), idx(7)),
        A=a, X=x)  # fmt: skip
    assert x.tolist() == [1, 7, 2, 7, 3, 7, 4, 7]


def test_shuffle_concatenates_and_can_give_a_scalar():
    x = out()
    pair = (Ramp(idx(0), idx(1), 2), Ramp(idx(10), idx(1), 2))
    run(Store(X, (Ramp(idx(0), idx(1), 3),), Shuffle(pair, (3, 0, 2))), store(X, (3,), Shuffle(pair, (2,))), X=x)
    assert x.tolist()[:4] == [11, 0, 10, 10]


def test_reduce_over_triangular_axes():
    a, b_ = Axis(j, idx(0), idx(4)), Axis(k, idx(0), j + 1)
    x = out()
    run(store(X, (0,), Reduce("+", (a, b_), k + 1)), store(X, (1,), Reduce("max", (a,), j * (idx(3) - j))), X=x)
    assert x.tolist()[:2] == [20, 2]


@pytest.mark.parametrize(
    ("op", "dtype", "expected"),
    [
        ("+", dt.float32, 0), ("*", dt.float32, 1), ("min", dt.float32, np.inf), ("max", dt.float64, -np.inf),
        ("min", dt.int8, 127), ("max", dt.int8, -128), ("max", dt.uint16, 0), ("min", dt.uint16, 65535),
        ("+", dt.int32, 0), ("*", dt.int32, 1), ("max", dt.bool_, False), ("min", dt.bool_, True),
        ("+", dt.float16, 0), ("max", dt.bfloat16, -np.inf),
    ],
)  # fmt: skip
def test_an_empty_reduction_is_the_identity(op, dtype, expected):
    from weft.ir.numpy_dtypes import to_numpy

    d = np.ones(1, to_numpy(dtype))
    empty = Axis(k, idx(3), idx(3))
    run(store(buffer("D", dtype, 1), (0,), Reduce(op, (empty,), const(0, dtype))), D=d)
    assert d[0] == expected


def test_a_narrow_reduction_accumulates_wide():
    d = np.zeros(1, np.float16)
    thousands = Reduce("+", (Axis(k, idx(0), idx(4096)),), const(1, dt.float16))
    run(store(buffer("D", dt.float16, 1), (0,), thousands), D=d)
    assert d[0] == 4096


def test_deep_nests_do_not_run_out_of_stack():
    x = out()
    body = store(X, (0,), load(X, 0) + 1)
    for level in range(1500):
        body = loop(Var(f"v{level}"), 1, "serial", If(idx(level) >= 0, body))
    run(body, X=x)
    assert x[0] == 1
    with pytest.raises(ProgramError, match="out of bounds"):
        run(loop(i, 1, "serial", body, store(X, (8,), 1)), X=x)
    waiting = Barrier()
    for level in range(600):
        waiting = loop(Var(f"v{level}"), 1, "serial", If(idx(level) >= 0, waiting))
    run(loop(i, 4, "thread", store(X, (i,), i), waiting, store(X, (i + 4,), load(X, idx(3) - i))), X=x)
    assert x.tolist() == [0, 1, 2, 3, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (Break(), "`break` outside a loop it can act on"),
        (loop(i, 2, "serial", loop(j, 2, "parallel", Continue())), "`continue` outside a loop it can act on"),
        (store(X, (Var("q"),), 1), "unknown variable `q`"),
        (store(X, (0,), load(buffer("Q", dt.int64, 1), 0)), "unknown buffer `Q`"),
        (store(X, (0,), Call("frob", (idx(1),), dt.int64)), "unknown function `frob`"),
        (Let(Var("v"), idx(1), loop(i, 2, "parallel", Assign(Var("v"), i))), "cannot assign `v`"),
        (loop(i, 2, "serial", Assign(i, i)), "cannot assign `i`"),
    ],
)
def test_programs_without_a_meaning(body, what):
    with pytest.raises(ProgramError) as caught:
        run(body, X=out())
    assert caught.value.what == what


def test_inputs_are_not_written():
    with pytest.raises(ProgramError) as caught:
        interpret(Kernel("k", (X,), (), store(X, (0,), 1)), [out()])
    assert caught.value.what == "cannot write `X`"


def test_arguments_are_checked():
    k_ = kernel(store(X, (0,), load(A, 0, span=None).dtype == dt.float32 and 1), X=out(), A=np.zeros(4, np.float32))
    x, a = out(), np.zeros(4, np.float32)
    fixed = out()
    fixed.flags.writeable = False
    zero_stride = np.lib.stride_tricks.as_strided(out(), (8,), (0,))
    memory = out()
    cases = [
        ([x], "`k` takes 2 arguments, got 1"),
        ([x, 3], "argument `A` must be a numpy array, got int"),
        ([x, a.astype(float)], "argument `A` must be float32, got float64"),
        ([x.reshape(2, 4), a], "argument `X` must have 1 dimensions, got 2"),
        ([x, a[:3]], "argument `A` has shape (3,)"),
        ([fixed, a], "output `X` is read-only"),
        ([zero_stride, a], "output `X` has a zero stride"),
        ([memory, memory.view(np.float32)[:4]], "arguments `X` and `A` overlap in memory"),
    ]
    for args, what in cases:
        with pytest.raises((ArgumentError, ShapeError)) as caught:
            interpret(k_, args)
        assert caught.value.what == what


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("5", "argument `N` must be a number, got str"),
        (2.5, "argument `N` must be an integer, got 2.5"),
        (float("nan"), "argument `N` must be an integer, got nan"),
        (1 << 40, "argument `N` must fit int32, got 1099511627776"),
    ],
)
def test_numbers_are_checked(value, what):
    with pytest.raises(ArgumentError) as caught:
        interpret(Kernel("k", (Var("N", dt.int32),), (), Seq(())), [value])
    assert caught.value.what == what


@pytest.mark.parametrize("dtype", dt.SCALAR_TYPES.values(), ids=str)
def test_scalar_parameters_of_every_type(dtype):
    p, d = Var("P", dtype), buffer("D", dt.float64, 1)
    result = np.zeros(1)
    one = np.float32(1) if dtype.is_float else True
    interpret(Kernel("k", (p, d), ("D",), store(d, (0,), Cast(dt.float64, p))), [one, result])
    assert result[0] == 1


def test_a_narrow_scalar_parameter_is_rounded():
    p, d = Var("P", dt.bfloat16), buffer("D", dt.float32, 1)
    result = np.zeros(1, np.float32)
    interpret(Kernel("k", (p, d), ("D",), store(d, (0,), Cast(dt.float32, p))), [1.001, result])
    assert result[0] == 1
