"""Statements to LLVM code: one small function per node kind, found by the node's type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from weft.ir import stmt as st
from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError
from weft.ir.expr import AddressOf
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS
from weft.target.cpu.emit_atomic import emit_atomic
from weft.target.cpu.emit_context import (
    ALLOCATE,
    FREE,
    I64,
    ONE,
    OUT_OF_MEMORY,
    Function,
    LoopLabels,
    Memory,
    Slot,
    any_lane,
    compute_type,
    fit,
    multiply,
    status,
    storage_type,
)
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.emit_lanes import known_lanes, lanes_mask
from weft.target.cpu.emit_loop import emit_for
from weft.target.cpu.emit_memory import emit_address, emit_store
from weft.target.cpu.intrinsics import emit_intrinsic
from weft.target.cpu.llvm_values import Value, constant, vector

#: Constant-size buffers up to this many bytes live on the stack, as long as a function has room for them.
STACK_BUFFER, STACK_TOTAL = 16 << 10, 128 << 10


def emit_stmt(f: Function, s: st.Stmt) -> None:
    emit = _EMIT.get(type(s))
    if emit is None:
        raise InternalError(f"no code for a {type(s).__name__} statement", span=s.span)
    if f.b.terminated:
        return
    if s.span is not None and f.b.module.lines is not None:
        f.b.mark(s.span)
    emit(f, s)


def _emit_seq(f: Function, s: st.Seq) -> None:
    for child in s.body:
        emit_stmt(f, child)


def _emit_while(f: Function, s: st.While) -> None:
    head, body, done = (f.b.new_label(hint) for hint in ("while", "do", "done"))
    f.b.block(head)
    f.b.cond_branch(emit_expr(f, s.condition), body, done)
    f.b.block(body)
    f.loops.append(LoopLabels(head, done, len(f.heap)))
    emit_stmt(f, s.body)
    f.loops.pop()
    if not f.b.terminated:
        f.b.branch(head)
    f.b.block(done)


def _emit_if(f: Function, s: st.If) -> None:
    held = known_lanes(f, s.condition)
    if held is not None:
        _emit_known_lanes(f, held, s)
        return
    condition = emit_expr(f, s.condition)
    if condition.lanes > 1:
        _emit_masked(f, condition, s.then)
        if s.otherwise is not None:
            _emit_masked(f, f.b.not_(condition), s.otherwise)
        return
    if condition.text in ("true", "false"):
        chosen = s.then if condition.text == "true" else s.otherwise
        if chosen is not None:
            emit_stmt(f, chosen)
        return
    then, otherwise, join = (f.b.new_label(hint) for hint in ("then", "else", "join"))
    f.b.cond_branch(condition, then, otherwise if s.otherwise is not None else join)
    f.b.block(then)
    emit_stmt(f, s.then)
    ended = f.b.terminated
    if not ended:
        f.b.branch(join)
    if s.otherwise is not None:
        f.b.block(otherwise)
        emit_stmt(f, s.otherwise)
        if ended and f.b.terminated:
            return
    f.b.block(join)


def _emit_known_lanes(f: Function, held: list[bool], s: st.If) -> None:
    """``s``, whose condition holds in the lanes ``held``."""
    for chosen, body in ((held, s.then), ([not holds for holds in held], s.otherwise)):
        if body is None or not any(chosen):
            continue
        if all(chosen):
            emit_stmt(f, body)
            continue
        with f.masked(lanes_mask(chosen), is_live=f.mask is None):
            emit_stmt(f, body)


def _emit_masked(f: Function, condition: Value, body: st.Stmt) -> None:
    """``body`` for the lanes where ``condition`` holds, skipped where there are none."""
    active = condition if f.mask is None else f.b.and_(f.mask, condition)
    then, join = f.b.new_label("lanes"), f.b.new_label("join")
    f.b.cond_branch(any_lane(f, active), then, join)
    f.b.block(then)
    with f.masked(condition, is_live=True):
        emit_stmt(f, body)
    f.b.block(join)


def _emit_let(f: Function, s: st.Let) -> None:
    value = emit_expr(f, s.value)
    bound: Value | Slot = value
    if s.var.name in f.program.mutable:
        type = vector(compute_type(s.var.dtype), f.lanes if s.var.name in f.varying else 1)
        type = compute_type(s.var.dtype) if s.var.dtype.lanes > 1 else type
        bound = Slot(f.b.alloca(type), type)
        f.b.store(fit(f, value, f.lanes) if type.startswith("<") and value.lanes == 1 else value, bound.pointer)
    with f.bound(s.var.name, bound):
        emit_stmt(f, s.body)


def assign(f: Function, name: str, value: Value) -> None:
    """A new value for ``name`` in the active lanes."""
    slot = f.names.get(name)
    if not isinstance(slot, Slot):
        raise InternalError(f"`{name}` is assigned to outside the `let` that makes it")
    if slot.type.startswith("<") and f.lane is not None:
        value = fit(f, value, f.lanes)
        if f.mask is not None:
            value = f.b.select(f.mask, value, f.b.load(slot.type, slot.pointer))
    f.b.store(value, slot.pointer)


def _emit_atomic(f: Function, s: st.Atomic) -> None:
    old = emit_atomic(f, s)
    if s.result is not None:
        assign(f, s.result.name, old)


def _emit_alloc(f: Function, s: st.Alloc) -> None:
    count = s.buffer.element_count() if s.buffer.strides is None else None
    lanes = f.lanes if f.lane is not None else 1
    size = None if count is None else count * lanes * s.buffer.dtype.itemsize
    if size is not None and _fits_stack(f, s.buffer, size):
        _emit_stack_buffer(f, s, max(1, (count or 0) * lanes), lanes)
    else:
        _emit_heap_buffer(f, s, lanes)


def _fits_stack(f: Function, buffer: Buffer, size: int) -> bool:
    limit = STACK_TOTAL if buffer.scope == "register" else STACK_BUFFER
    return size <= limit and f.stack_bytes + size <= STACK_TOTAL


def _emit_stack_buffer(f: Function, s: st.Alloc, count: int, lanes: int) -> None:
    element = storage_type(s.buffer.dtype)
    pointer = f.b.alloca(f"[{count} x {element}]", align=64)
    f.stack_bytes += count * s.buffer.dtype.itemsize
    f.buffers[s.buffer.name] = Memory(pointer, lanes, own_elements=count, is_private=True)
    if s.buffer.scope == "register":
        _forget_registers(f, pointer, count * s.buffer.dtype.itemsize)
    emit_stmt(f, s.body)
    del f.buffers[s.buffer.name]


def _forget_registers(f: Function, pointer: Value, size: int) -> None:
    """What registers held before is gone: without that, LLVM keeps it through loops where only some are set again."""
    zero = Value("0", "i8")
    f.b.call("llvm.memset.p0.i64", "void", [pointer, zero, Value(str(size), I64), constant("i1", False)])


def _emit_heap_buffer(f: Function, s: st.Alloc, lanes: int) -> None:
    pointer = f.b.call(ALLOCATE, "ptr", [_emit_heap_bytes(f, s.buffer, lanes)])
    failed, fine = f.b.new_label("nomemory"), f.b.new_label("memory")
    f.b.cond_branch(f.b.icmp("eq", pointer, Value("null", "ptr")), failed, fine)
    f.b.block(failed)
    f.leave(status(OUT_OF_MEMORY))
    f.b.block(fine)
    f.heap.append(pointer)
    f.buffers[s.buffer.name] = Memory(pointer, lanes, is_private=True)
    emit_stmt(f, s.body)
    del f.buffers[s.buffer.name]
    f.heap.pop()
    if not f.b.terminated:
        f.b.call(FREE, "void", [pointer])


def _emit_heap_bytes(f: Function, buffer: Buffer, lanes: int) -> Value:
    """The size in bytes: one more than the offset of the last element (a stride may leave holes)."""
    total = ONE
    for size, stride in zip(buffer.shape, buffer.element_strides()):
        last = f.b.add(emit_expr(f, size), Value("-1", I64))
        positive = f.b.intrinsic("smax", last, Value("0", I64))
        total = f.b.add(total, multiply(f, positive, emit_expr(f, stride)))
    return multiply(f, total, Value(str(buffer.dtype.itemsize * lanes), I64))


def _emit_assert(f: Function, s: st.Assert) -> None:
    holds = emit_expr(f, s.condition)
    fails = f.b.not_(holds)
    if f.mask is not None:
        fails = f.b.and_(fit(f, fails, f.mask.lanes), f.mask)
    stop, go_on = f.b.new_label("failed"), f.b.new_label("holds")
    f.b.cond_branch(any_lane(f, fails), stop, go_on)
    f.b.block(stop)
    for n, value in enumerate(s.values[:8]):
        slot = f.b.gep(I64, f.error_record, Value(str(n), I64))
        f.b.store(_first_lane(f, emit_expr(f, value), fails), slot)
    f.leave(status(f.program.sites[s.message, s.span]))
    f.b.block(go_on)


def _first_lane(f: Function, value: Value, fails: Value) -> Value:
    """``value`` in the first lane that fails."""
    if value.lanes == 1:
        return value
    if fails.lanes == 1:
        return f.b.extract(value, 0)
    bits = f.b.emit(f"i{fails.lanes}", f"bitcast {fails.typed} to i{fails.lanes}")
    position = f.b.call(f"llvm.cttz.{bits.type}", bits.type, [bits, constant("i1", True)])
    index = f.b.zext(position, I64) if fails.lanes < 64 else f.b.trunc(position, I64)
    return f.b.extract(value, index)


def _emit_break(f: Function, s: st.Break) -> None:
    f.free_heap(f.loops[-1].heap_depth)
    f.b.branch(f.loops[-1].exit)


def _end_iteration(f: Function, loop: LoopLabels) -> None:
    f.free_heap(loop.heap_depth)
    f.b.branch(loop.latch)


def _emit_return(f: Function, s: st.Return) -> None:
    """Ends this thread: the iteration of the innermost loop whose iterations are threads, else the kernel."""
    threads = [loop for loop in f.loops if loop.is_thread]
    if threads:
        _end_iteration(f, threads[-1])
    else:
        f.leave(status(0))


def _emit_evaluate(f: Function, s: st.Evaluate) -> None:
    if s.call.name in HARDWARE:
        emit_intrinsic(f, s.call)
    elif s.call.name in HINTS:
        _emit_hint(f, s)
    else:
        emit_expr(f, s.call)


def _emit_hint(f: Function, s: st.Evaluate) -> None:
    place = s.call.args[0] if s.call.args else None
    if not isinstance(place, AddressOf):
        return  # about what runs on its own, which nothing does here
    if s.call.name == "stream":
        f.buffers[place.buffer.name] = replace(f.memory(place.buffer), streams=True)
    elif s.call.name == "prefetch":
        _emit_prefetch(f, place)


def _emit_prefetch(f: Function, place: AddressOf) -> None:
    """Data for reading soon, into every cache; of lanes, where the first one reads."""
    pointer = emit_address(f, place.buffer, place.indices, emit_expr).pointer
    if pointer.lanes > 1:
        pointer = f.b.extract(pointer, 0)
    f.b.call("llvm.prefetch.p0", "void", [pointer, *(Value(text, "i32") for text in ("0", "3", "1"))])


_EMIT: dict[type, Callable[[Function, Any], None]] = {
    st.Seq: _emit_seq,
    st.For: lambda f, s: emit_for(f, s, emit_stmt),
    st.While: _emit_while,
    st.If: _emit_if,
    st.Let: _emit_let,
    st.Assign: lambda f, s: assign(f, s.var.name, emit_expr(f, s.value)),
    st.Store: lambda f, s: emit_store(f, s.buffer, s.indices, emit_expr(f, s.value), emit_expr),
    st.Atomic: _emit_atomic,
    st.Alloc: _emit_alloc,
    st.Assert: _emit_assert,
    st.Break: _emit_break,
    st.Continue: lambda f, s: _end_iteration(f, f.loops[-1]),
    st.Return: _emit_return,
    st.Evaluate: _emit_evaluate,
}
