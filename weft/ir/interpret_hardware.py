"""Calls of hardware intrinsics: the meaning, run on the memory that the call points at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import AddressOf, Var
from weft.ir.hardware import HARDWARE
from weft.ir.interpret_expr import compile_address, compile_expr, compile_lane
from weft.ir.interpret_memory import Env, Memory, Scope
from weft.ir.interpret_stmt import DONE, Code, Signal, compile_evaluate, compile_stmt
from weft.ir.intrinsics import HINTS
from weft.ir.stmt import Evaluate, Stmt

Prepare = Callable[[Env], None]


def _evaluate(stmt: Evaluate, scope: Scope) -> Code:
    if stmt.call.name in HINTS:
        return Code(lambda env: DONE)
    return compile_hardware_call(stmt, scope) if stmt.call.name in HARDWARE else compile_evaluate(stmt, scope)


def compile_hardware_call(stmt: Evaluate, scope: Scope) -> Code:
    """Binds the parameters of the meaning to what the arguments name, then runs its body."""
    hardware = HARDWARE[stmt.call.name]
    wrong = hardware.find_problem(stmt.call.args)
    if wrong is not None:
        raise ProgramError(wrong, span=stmt.span or scope.span)
    meaning = hardware.meaning
    inner = replace(scope, vars={}, buffers={}, own=frozenset(), tracked=frozenset(), read_only=frozenset())
    steps: list[Prepare] = []
    for param, arg in zip(meaning.params, stmt.call.args):
        if isinstance(param, Var):
            inner, slot = inner.with_var(param)
            steps.append(_assign(slot, compile_expr(arg, scope)))
    for param, arg in zip(meaning.params, stmt.call.args):
        if isinstance(param, Buffer) and isinstance(arg, AddressOf):
            slot = scope.layout.slot()
            steps.append(_view(slot, param, arg, scope, inner))
            own = frozenset({param.name})
            inner = replace(
                inner,
                buffers={**inner.buffers, param.name: slot},
                tracked=inner.tracked | own if arg.buffer.name in scope.tracked else inner.tracked,
                read_only=inner.read_only | own if arg.buffer.name in scope.read_only else inner.read_only,
            )
    body = compile_stmt(meaning.body, inner)

    def run(env: Env) -> Signal:
        for step in steps:
            step(env)
        body.run(env)
        return DONE

    return Code(run)


def _assign(slot: int, value: Callable[[Env], object]) -> Prepare:
    def prepare(env: Env) -> None:
        env[slot] = value(env)

    return prepare


def _view(slot: int, param: Buffer, arg: AddressOf, scope: Scope, inner: Scope) -> Prepare:
    """The parameter's memory: that of the argument, from the element it points at, in the parameter's shape."""
    source = scope.buffer_slot(arg.buffer, arg.span)
    site = scope.site(arg.buffer, "address", arg.span)
    address = compile_address([compile_lane(i, scope, 0) for i in arg.indices], site)
    shape = [compile_expr(e, inner) for e in param.shape]
    strides = [compile_expr(e, inner) for e in param.element_strides()]

    def prepare(env: Env) -> None:
        memory: Memory = env[source]
        sizes = [s(env) for s in shape]
        view = Memory(memory.data, sizes, [s(env) for s in strides], address(env, memory), False)
        view.writers, view.readers, view.atomics = memory.writers, memory.readers, memory.atomics
        first, last = view.reach()
        if sizes and all(sizes) and not (first >= 0 and last < len(memory.data)):
            raise ProgramError(
                f"`{param.name}` of an intrinsic reaches beyond `{arg.buffer.name}`",
                span=arg.span or site.span,
                why=f"elements {first} to {last} of {len(memory.data)}",
            )
        env[slot] = view

    return prepare


CALLS: dict[type[Stmt], Callable[[Any, Scope], Code]] = {Evaluate: _evaluate}
