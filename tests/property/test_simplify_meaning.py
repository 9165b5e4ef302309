"""Simplification changes no result: against exhaustive evaluation of index arithmetic, and against the interpreter."""

from __future__ import annotations

import itertools
import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loop_programs import random_kernel

from weft.ir import dtype as dt
from weft.ir.affine import affine_form
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Select, Unary, Var, idx
from weft.ir.interpret import interpret
from weft.ir.interval import Interval, bounds
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.printer import print_expr, print_kernel
from weft.ir.simplify import simplify
from weft.ir.solve import evaluate as value_of
from weft.ir.stmt import Kernel
from weft.ir.verify import verify

RANGES = {"i": Interval(0, 7), "j": Interval(0, 3), "k": Interval(-5, 6), "n": Interval(1, 4)}
POINTS = [dict(zip(RANGES, p)) for p in itertools.product(*(range(r.lo, r.hi + 1) for r in RANGES.values()))][::5]


def evaluate(e: Expr, at: dict[str, int]) -> int:
    """The value in unbounded integers."""
    match e:
        case Const():
            return int(e.value)
        case Var():
            return at[e.name]
        case Cast():
            value = evaluate(e.operand, at)
            return (value - e.type.min_value) % (1 << e.type.bits) + e.type.min_value
        case Unary(op="-"):
            return -evaluate(e.operand, at)
        case Unary():
            return int(not evaluate(e.operand, at))
        case Select():
            return evaluate(e.then if evaluate(e.condition, at) else e.otherwise, at)
    a, b = evaluate(e.left, at), evaluate(e.right, at)
    match e.op:
        case "//":
            return a // b if b else 0
        case "%":
            return a % b if b else 0
        case "tdiv" | "tmod":
            q = 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return q if e.op == "tdiv" else a - b * q if b else 0
    simple = {
        "+": a + b, "-": a - b, "*": a * b, "min": min(a, b), "max": max(a, b), "&&": a and b, "||": a or b,
        "==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
    }  # fmt: skip
    return int(simple[e.op])


def index_expr(rng: random.Random, depth: int) -> Expr:
    if depth == 0 or rng.random() < 0.1:
        return Var(rng.choice("ijkn")) if rng.random() < 0.75 else idx(rng.randint(-9, 12))
    kind = rng.random()
    if kind < 0.08:
        return Select(condition(rng, depth - 1), index_expr(rng, depth - 1), index_expr(rng, depth - 1))
    if kind < 0.12:
        return Unary("-", index_expr(rng, depth - 1))
    if kind < 0.16:
        return Cast(dt.int64, Cast(rng.choice([dt.int32, dt.int8, dt.uint8]), index_expr(rng, depth - 1)))
    op = rng.choice(["+", "+", "-", "*", "//", "//", "%", "%", "tdiv", "tmod", "min", "max"])
    left, right = index_expr(rng, depth - 1), index_expr(rng, depth - 1)
    if op in ("//", "%", "tdiv", "tmod", "*") and rng.random() < 0.85:
        right = idx(rng.choice([1, 2, 3, 4, 4, 6, 8, 12, 16, 0, -3]))
    return Binary(op, left, right)


def condition(rng: random.Random, depth: int) -> Expr:
    if depth > 0 and rng.random() < 0.4:
        if rng.random() < 0.2:
            return Unary("!", condition(rng, depth - 1))
        return Binary(rng.choice(["&&", "||"]), condition(rng, depth - 1), condition(rng, depth - 1))
    op = rng.choice(["==", "!=", "<", "<=", ">", ">="])
    return Compare(op, index_expr(rng, max(depth, 1)), index_expr(rng, max(depth - 1, 0)))


@given(st.integers(0, 2**40))
@settings(max_examples=150, deadline=None)
def test_index_arithmetic_keeps_its_value_at_all_points(seed: int) -> None:
    rng = random.Random(seed)
    e = index_expr(rng, 4) if rng.random() < 0.7 else condition(rng, 3)
    simple, known = simplify(e, RANGES), bounds(e, RANGES)
    shown = f"{print_expr(e)}  ->  {print_expr(simple)}"
    assert simplify(simple, RANGES) == simple, shown
    for at in POINTS:
        value = evaluate(e, at)
        assert value == evaluate(simple, at), f"{shown} at {at}"
        assert known.lo is None or known.lo <= value, f"{shown} is {value}, outside {known}"
        assert known.hi is None or value <= known.hi, f"{shown} is {value}, outside {known}"


@given(st.integers(0, 2**40))
@settings(max_examples=60, deadline=None)
def test_affine_forms_are_the_function(seed: int) -> None:
    e = index_expr(random.Random(seed), 3)
    form = affine_form(e)
    if form is not None:
        for at in POINTS:
            assert value_of(form, at) == evaluate(e, at)


def arguments(kernel: Kernel, seed: int) -> list:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 5))
    sizes = {e.name for b in kernel.buffers for e in b.shape if isinstance(e, Var)}
    made: list = []
    for p in kernel.params:
        if not isinstance(p, Var):
            shape = tuple(size if isinstance(e, Var) else int(e.value) for e in p.shape)
            floats = [0.0, -0.0, 1.5, -3.0, np.nan, np.inf, 0.1]
            values = (
                rng.choice(floats, shape) if p.dtype.is_float else rng.integers(0, 2 if p.dtype.is_bool else 9, shape)
            )
            made.append(np.asarray(values).astype(to_numpy(p.dtype)))
        elif p.name in sizes:
            made.append(size)
        elif p.type.is_float:
            made.append(float(rng.choice([0.5, -2.0, 3.25])))
        else:
            made.append(bool(rng.integers(0, 2)) if p.type.is_bool else int(rng.integers(0, 10)))
    return made


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the bit, except that one NaN is as good as another."""
    if a.tobytes() == b.tobytes():
        return True
    x, y = a.astype(np.float64), b.astype(np.float64)
    signs = (np.signbit(x) == np.signbit(y)) | np.isnan(x)
    return a.dtype.kind not in "biu" and np.array_equal(x, y, equal_nan=True) and bool(signs.all())


@given(st.integers(0, 2**40))
@example(4274)  # the least of two zeros
@settings(max_examples=150, deadline=None)
def test_programs_keep_their_results(seed: int) -> None:
    kernel = random_kernel(seed, runnable=True)
    simple = simplify(kernel)
    verify(simple)
    assert simplify(simple) == simple
    before = arguments(kernel, seed)
    after = [a.copy() if isinstance(a, np.ndarray) else a for a in before]
    interpret(kernel, before, check=False)
    interpret(simple, after, check=False)
    for x, y in zip(before, after):
        assert not isinstance(x, np.ndarray) or same(x, y), print_kernel(kernel) + print_kernel(simple)
