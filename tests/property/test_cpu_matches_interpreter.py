"""Random loop programs: compiled code and the interpreter agree bit for bit, on every x86-64 level of this host."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[1] / "unit" / "target"))
from run_compiled import MACHINES, assert_same_bits, make_arguments, needs_c_compiler
from run_compiled import Runner as CompiledRunner

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import ProgramError
from weft.ir.expr import Axis, Binary, Compare, Const, Expr, Load, Reduce, Select, Unary, Var, cast, const, idx
from weft.ir.interpret import interpret
from weft.ir.stmt import Assign, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.verify import verify
from weft.passes.registry import trace_passes
from weft.target.cpu.lower import PASSES, context_of

TYPES = [dt.float32, dt.float64, dt.int32, dt.int64, dt.uint8, dt.int16, dt.float16, dt.bfloat16, dt.bool_]


@dataclass
class Scope:
    """What an expression may mention: loop variables with their extents, lets, and buffers."""

    loops: dict[str, int]
    lets: dict[str, DType]
    inputs: list[Buffer]
    names: list[int]

    def fresh(self, base: str) -> str:
        self.names[0] += 1
        return f"{base}{self.names[0]}"


Draw = Any


def _sizes(buffer: Buffer) -> list[int]:
    return [int(e.value) for e in buffer.shape if isinstance(e, Const)]


def draw_index(draw: Draw, scope: Scope, size: int) -> Expr:
    """An index that is in bounds by construction."""
    fitting = [v for v, extent in scope.loops.items() if extent <= size]
    if fitting and draw(st.integers(0, 3)):
        return Var(draw(st.sampled_from(fitting)))
    total: Expr = idx(draw(st.integers(0, 5)))
    for v in scope.loops:
        total = total + Var(v) * draw(st.integers(-2, 2))
    return Binary("%", total, idx(size))


def draw_load(draw: Draw, scope: Scope, buffer: Buffer) -> Expr:
    return Load(buffer, tuple(draw_index(draw, scope, n) for n in _sizes(buffer)))


def draw_leaf(draw: Draw, scope: Scope, dtype: DType) -> Expr:
    choices: list[Expr] = [Var(n, t) for n, t in scope.lets.items() if t == dtype]
    if scope.loops and dtype.is_integer:
        choices.append(cast(dtype, Var(draw(st.sampled_from(list(scope.loops))))))
    if scope.inputs:
        choices.append(cast(dtype, draw_load(draw, scope, draw(st.sampled_from(scope.inputs)))))
    choices.append(const(draw(st.integers(0, 3)), dtype))
    return draw(st.sampled_from(choices))  # type: ignore[no-any-return]


def draw_value(draw: Draw, scope: Scope, dtype: DType, depth: int) -> Expr:
    kind = draw(st.integers(0, 7)) if depth else 0
    if kind <= 1:
        return draw_leaf(draw, scope, dtype)
    if kind == 2:
        then, otherwise = (draw_value(draw, scope, dtype, depth - 1) for _ in range(2))
        return Select(draw_test(draw, scope, depth - 1), then, otherwise)
    if kind == 3:
        source = draw(st.sampled_from(TYPES))
        return cast(dtype, draw_value(draw, scope, source, depth - 1))
    if dtype.is_bool:
        return draw_test(draw, scope, depth - 1)
    if kind == 4:
        return draw_reduce(draw, scope, dtype)
    left = draw_value(draw, scope, dtype, depth - 1)
    if kind == 5 and not dtype.is_float:
        op = draw(st.sampled_from(["//", "%", "tdiv", "tmod", "<<", ">>", "&", "|", "^"]))
        return Binary(op, left, draw_value(draw, scope, dtype, depth - 1))
    if kind == 5:
        return Binary("/", left, const(draw(st.integers(1, 7)), dtype))
    op = draw(st.sampled_from(["+", "-", "*", "min", "max"]))
    return Binary(op, left, draw_value(draw, scope, dtype, depth - 1))


def draw_reduce(draw: Draw, scope: Scope, dtype: DType) -> Expr:
    name, extent = scope.fresh("r"), draw(st.integers(0, 5))
    inner = Scope({**scope.loops, name: max(extent, 1)}, scope.lets, scope.inputs, scope.names)
    value = draw_leaf(draw, inner, dtype)
    return Reduce(draw(st.sampled_from(["+", "*", "min", "max"])), (Axis(Var(name), idx(0), idx(extent)),), value)


def draw_test(draw: Draw, scope: Scope, depth: int) -> Expr:
    if depth > 0 and draw(st.booleans()):
        left, right = (draw_test(draw, scope, depth - 1) for _ in range(2))
        test = Binary(draw(st.sampled_from(["&&", "||"])), left, right)
        return Unary("!", test) if draw(st.booleans()) else test
    if scope.loops and draw(st.booleans()):
        return Compare("<", Var(draw(st.sampled_from(list(scope.loops)))), idx(draw(st.integers(0, 30))))
    dtype = draw(st.sampled_from([dt.float32, dt.int32, dt.uint8]))
    left, right = (draw_leaf(draw, scope, dtype) for _ in range(2))
    return Compare(draw(st.sampled_from(["<", "<=", "==", "!=", ">", ">="])), left, right)


def draw_store(draw: Draw, scope: Scope, target: Buffer) -> Stmt:
    indices = tuple(draw_index(draw, scope, n) for n in _sizes(target))
    value = draw_value(draw, scope, target.dtype, 2)
    if draw(st.booleans()) and not target.dtype.is_bool:
        value = Binary(draw(st.sampled_from(["+", "max", "*"])), Load(target, indices), value)
    return Store(target, indices, value)


def draw_body(draw: Draw, scope: Scope, target: Buffer, depth: int) -> Stmt:
    kind = draw(st.integers(0, 7))
    if depth and kind <= 3:
        return draw_loop(draw, scope, target, depth)
    if depth and kind == 4:
        then = draw_body(draw, scope, target, depth - 1)
        otherwise = draw_body(draw, scope, target, 0) if draw(st.booleans()) else None
        return If(draw_test(draw, scope, 1), then, otherwise)
    if depth and kind == 5:
        return Seq((draw_body(draw, scope, target, depth - 1), draw_body(draw, scope, target, depth - 1)))
    if depth and kind == 6:
        return draw_let(draw, scope, target, depth)
    return draw_store(draw, scope, target)


def draw_let(draw: Draw, scope: Scope, target: Buffer, depth: int) -> Stmt:
    dtype = draw(st.sampled_from([target.dtype, dt.int32]))
    var = Var(scope.fresh("x"), dtype)
    value = draw_value(draw, scope, dtype, 1)
    inner = Scope(scope.loops, {**scope.lets, var.name: dtype}, scope.inputs, scope.names)
    update: Stmt = Assign(var, draw_value(draw, inner, dtype, 1))
    if draw(st.booleans()):
        update = If(draw_test(draw, inner, 0), update)
    if draw(st.booleans()):
        update = For(Var(scope.fresh("q")), idx(0), idx(draw(st.integers(0, 3))), "serial", update)
    return Let(var, value, Seq((update, draw_body(draw, inner, target, depth - 1))))


def draw_loop(draw: Draw, scope: Scope, target: Buffer, depth: int) -> Stmt:
    kinds = ["serial", "serial", "serial", "vector", "unroll", "parallel"]
    kind = draw(st.sampled_from(kinds))
    extent = draw(st.sampled_from([1, 2, 3, 5, *_sizes(target), *_sizes(target)]))
    name = scope.fresh("i")
    lo, hi = idx(0), idx(extent)
    if scope.loops and kind == "serial" and not draw(st.integers(0, 4)):
        hi = Binary("min", idx(extent), Var(draw(st.sampled_from(list(scope.loops)))) + 1)  # type: ignore[assignment]
    inner = Scope({**scope.loops, name: max(extent, 1)}, scope.lets, scope.inputs, scope.names)
    return For(Var(name), lo, hi, kind, draw_body(draw, inner, target, depth - 1))


def draw_buffer(draw: Draw, name: str, types: list[DType]) -> Buffer:
    sizes = draw(st.lists(st.sampled_from([1, 2, 3, 4, 7, 8, 17, 33]), min_size=1, max_size=2))
    return Buffer(name, draw(st.sampled_from(types)), tuple(idx(n) for n in sizes))


@st.composite
def kernels(draw: Draw) -> Kernel:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
    inputs = [draw_buffer(draw, f"A{n}", types) for n in range(draw(st.integers(1, 3)))]
    outputs = [draw_buffer(draw, f"O{n}", types) for n in range(draw(st.integers(1, 2)))]
    names = [0]
    body = []
    for target in outputs:
        scope = Scope({}, {}, [*inputs, *outputs] if draw(st.booleans()) else inputs, names)
        body.append(draw_loop(draw, scope, target, draw(st.integers(1, 3))))
    return Kernel("k", (*inputs, *outputs), tuple(o.name for o in outputs), Seq(tuple(body)))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels(), st.integers(0, 5), st.sampled_from(MACHINES))
def test_random_kernels(kernel: Kernel, seed: int, machine: Any) -> None:
    _check_random_kernel(kernel, seed, machine, "cpu")


def _check_random_kernel(kernel: Kernel, seed: int, machine: Any, target: str) -> None:
    args = make_arguments(kernel, seed)
    want = [a.copy() for a in args]
    try:
        verify(kernel)
        interpret(kernel, want)
    except ProgramError:
        assume(False)  # a race, say, which has no one meaning
    got = [a.copy() for a in args]
    assert CompiledRunner(kernel, machine, target=target)(*got) == 0
    for param, g, w in zip(kernel.params, got, want):
        assert_same_bits(param.name, g, w)


@needs_c_compiler
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels(), st.integers(0, 5))
def test_random_kernels_in_c(kernel: Kernel, seed: int) -> None:
    _check_random_kernel(kernel, seed, None, "c")


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernels(), st.sampled_from(MACHINES))
def test_every_pass_keeps_the_meaning(kernel: Kernel, machine: Any) -> None:
    args = make_arguments(kernel)
    want = [a.copy() for a in args]
    try:
        verify(kernel)
        interpret(kernel, want)
    except ProgramError:
        assume(False)
    for step in trace_passes(PASSES, kernel, context_of(machine)):
        after = step.kernel
        verify(after)
        if after != kernel:
            got = [a.copy() for a in args]
            interpret(after, got)
            for param, g, w in zip(kernel.params, got, want):
                assert_same_bits(f"after {step.by.name}, {param.name}", g, w)
        kernel = after
