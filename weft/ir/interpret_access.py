"""Statements that touch memory: stores, atomics and allocations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.ir.errors import ProgramError
from weft.ir.interpret_expr import Evaluator, compile_address, compile_expr, compile_lane
from weft.ir.interpret_memory import STRAND, Env, Memory, Scope, Site, allocate, is_concurrent
from weft.ir.interpret_scalar import Function2, binary_op, scalar_value
from weft.ir.interpret_stmt import DONE, Code, Signal, compile_stmt, has_parallel_loop, own_slot
from weft.ir.stmt import Alloc, Atomic, Stmt, Store


def _require_writable(stmt: Store | Atomic, scope: Scope) -> None:
    if stmt.buffer.name in scope.read_only:
        raise ProgramError(
            f"cannot write `{stmt.buffer.name}`",
            span=stmt.span or scope.span,
            why="it is constant memory or a parameter that the kernel does not name as an output",
        )


def _store(stmt: Store, scope: Scope) -> Code:
    _require_writable(stmt, scope)
    lanes = max([stmt.value.dtype.lanes, *(i.dtype.lanes for i in stmt.indices)])
    values = [compile_lane(stmt.value, scope, lane) for lane in range(lanes)]
    writers = [_compile_write(stmt, scope, lane) for lane in range(lanes)]
    if lanes == 1:
        (value,), (write,) = values, writers

        def run(env: Env) -> Signal:
            write(env, value(env))
            return DONE

        return Code(run)

    def run_lanes(env: Env) -> Signal:
        # The whole vector is read before any of it is written.
        for write, item in zip(writers, [v(env) for v in values]):
            write(env, item)
        return DONE

    return Code(run_lanes)


def _compile_write(stmt: Store, scope: Scope, lane: int) -> Callable[[Env, Any], None]:
    slot = scope.buffer_slot(stmt.buffer, stmt.span)
    site = scope.site(stmt.buffer, "write", stmt.span)
    indices = [compile_lane(i, scope, lane) for i in stmt.indices]
    address = compile_address(indices, site)

    def write(env: Env, value: Any) -> None:
        memory = env[slot]
        memory.data[address(env, memory)] = value

    def tracked_write(env: Env, value: Any) -> None:
        memory = env[slot]
        flat = address(env, memory)
        strand = env[STRAND]
        writer = memory.writers[flat]
        for earlier in (writer, memory.readers[flat], memory.atomics[flat]):
            if earlier is not None and earlier[0] is not strand and is_concurrent(earlier[0], strand):
                site.race(env, [i(env) for i in indices], earlier)
        if writer is None or writer[0] is not strand:
            memory.writers[flat] = site.snapshot(env)
        memory.data[flat] = value

    return tracked_write if stmt.buffer.name in scope.tracked else write


def _atomic(stmt: Atomic, scope: Scope) -> Code:
    _require_writable(stmt, scope)
    slot = scope.buffer_slot(stmt.buffer, stmt.span)
    site = scope.site(stmt.buffer, "atomic", stmt.span)
    indices = [compile_expr(i, scope) for i in stmt.indices]
    address, value = compile_address(indices, site), compile_expr(stmt.value, scope)
    update = _compile_update(stmt, scope)
    result = None if stmt.result is None else own_slot(stmt.result, scope, stmt.span)
    tracked = stmt.buffer.name in scope.tracked
    reads_old = stmt.op != "exchange" or result is not None

    def run(env: Env) -> Signal:
        new, memory = value(env), env[slot]
        flat = address(env, memory)
        if tracked:
            _track_atomic(env, memory, flat, site, indices)
        old = memory.data[flat]
        if old is None and reads_old:
            site.uninitialized(env, [i(env) for i in indices])
        memory.data[flat] = update(env, old, new)
        if result is not None:
            env[result] = old
        return DONE

    return Code(run)


def _compile_update(stmt: Atomic, scope: Scope) -> Callable[[Env, Any, Any], Any]:
    if stmt.op == "exchange":
        return lambda env, old, new: new
    if stmt.expected is not None:
        expected: Evaluator = compile_expr(stmt.expected, scope)
        return lambda env, old, new: new if old == expected(env) else old
    combine: Function2 = binary_op(stmt.op, stmt.buffer.dtype)
    return lambda env, old, new: combine(old, new)


def _track_atomic(env: Env, memory: Memory, flat: int, site: Site, indices: list[Evaluator]) -> None:
    strand = env[STRAND]
    for earlier in (memory.writers[flat], memory.readers[flat]):
        if earlier is not None and earlier[0] is not strand and is_concurrent(earlier[0], strand):
            site.race(env, [i(env) for i in indices], earlier)
    atomic = memory.atomics[flat]
    if atomic is None or (atomic[0] is not strand and not is_concurrent(atomic[0], strand)):
        memory.atomics[flat] = site.snapshot(env)


def _alloc(stmt: Alloc, scope: Scope) -> Code:
    buffer, layout = stmt.buffer, scope.layout
    shape = [compile_expr(e, scope) for e in buffer.shape]
    strides = None if buffer.strides is None else [compile_expr(e, scope) for e in buffer.strides]
    slot = layout.slot()
    track = layout.check and has_parallel_loop(stmt.body)
    tracked = scope.tracked | {buffer.name} if track else scope.tracked - {buffer.name}
    read_only = scope.read_only - {buffer.name}
    inner = replace(scope, buffers={**scope.buffers, buffer.name: slot}, tracked=tracked, read_only=read_only)
    body = compile_stmt(stmt.body, inner)
    fill = None if layout.check else scalar_value(buffer.dtype, 0)
    run_body = body.run

    def run(env: Env) -> Any:
        steps = None if strides is None else [s(env) for s in strides]
        env[slot] = allocate([s(env) for s in shape], steps, fill, track)
        return run_body(env)

    return Code(run, body.targets)


ACCESSES: dict[type[Stmt], Callable[[Any, Scope], Code]] = {Store: _store, Atomic: _atomic, Alloc: _alloc}
