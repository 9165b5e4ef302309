"""Statements to CUDA C++: one small function per node kind, found by the node's type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.expr import AddressOf, Load, Var
from weft.ir.hardware import BULK_COPY, HARDWARE
from weft.ir.interval import bounds
from weft.ir.intrinsics import HINTS
from weft.ir.nesting import statements_in
from weft.ir.stmt import Alloc, Assert, Atomic, Barrier, Evaluate, For, If, Return, Stmt, Store, Tensorized, While
from weft.ir.visit import walk
from weft.passes.analysis.loop_ranges import constant_extent, loop_range
from weft.passes.analysis.thread_reductions import is_reduction
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_stmt import EMIT, emit_if, emit_stmt, emit_store, emit_while, steady
from weft.target.cuda.async_copies import SIZES, emit_commit, emit_copies, emit_publish, emit_wait, find_copy
from weft.target.cuda.emit_atomic import emit_atomic
from weft.target.cuda.emit_context import LEVEL, Code, Function, Memory
from weft.target.cuda.emit_hardware import emit_hardware, emit_hardware_call
from weft.target.cuda.emit_quads import diverges, emit_quads
from weft.target.cuda.emit_reduce import emit_reduction
from weft.target.cuda.emit_roles import emit_await, emit_block_barrier, emit_bulk_copy, emit_claim, emit_release
from weft.target.cuda.emit_vector import emit_vector, is_whole_copy
from weft.target.cuda.emit_wgmma import emit_hold, emit_products_wait
from weft.target.cuda.program import ERROR_RECORD, FAILED

#: Loops over a thread's own array are unrolled up to this many iterations, so that the array can be registers,
#: where it has no more elements than a thread has of those.
UNROLL_PRIVATE, MOST_REGISTERS = 128, 256


def _for(f: Function, s: For) -> None:
    if (s.kind == "vector" and emit_vector(f, s)) or emit_quads(f, s):
        return
    with _met(f, s):
        emit_loop(f, s)


@contextmanager
def _met(f: Function, s: Stmt) -> Iterator[None]:
    """Where ``s`` may keep some of four lanes from what is inside it, that is known there."""
    before, f.divergent = f.divergent, f.divergent or diverges(f, s)
    yield
    f.divergent = before


def emit_loop(f: Function, s: For) -> None:
    """A loop that one thread runs, whatever its kind is: iterations that may run in any order run in this one."""
    interval = loop_range(s, f.ranges)
    end = bounds(s.hi, f.ranges)
    wide = not (interval.union(end) if not interval.is_empty else end).within(-(2**31), 2**31 - 1)
    name = f.program.names.of(s.var.name)
    lo, hi = emit_expr(f, s.lo), steady(f, s.hi)
    if _is_unrolled(f, s):
        f.line("#pragma unroll")
    head = f"for ({'long long' if wide else 'int'} {name} = {lo.text}; {name} < {hi.inside(LEVEL['<'] + 1)}; ++{name})"
    f.serial_depth += 1
    with f.braces(head), f.bound(s.var.name, Code(name, wide=wide), interval):
        concurrent = s.kind in ("parallel", "block", "thread", "vector")
        label = f.fresh("next") if concurrent and statements_in(s.body, Return) else None
        if label is None:
            emit_stmt(f, s.body)
        else:
            with f.exit_to(label):
                emit_stmt(f, s.body)
    f.serial_depth -= 1


def _is_unrolled(f: Function, s: For) -> bool:
    if s.kind in ("unroll", "vector"):
        return True
    extent = constant_extent(s)
    if extent is None or extent > UNROLL_PRIVATE:
        return False
    accesses = (n for n in walk(s.body) if isinstance(n, (Load, Store)))
    return any(_may_be_registers(f, n.buffer) and any(v == s.var for i in n.indices for v in walk(i)) for n in accesses)


def _may_be_registers(f: Function, buffer: Buffer) -> bool:
    memory = f.buffers.get(buffer.name)
    if memory is None:  # made inside the loop
        count = buffer.element_count()
        return buffer.scope in ("register", "local") and count is not None and count <= MOST_REGISTERS
    return memory.is_private and memory.elements <= MOST_REGISTERS


def _while(f: Function, s: While) -> None:
    f.serial_depth += 1
    with _met(f, s):
        emit_while(f, s)
    f.serial_depth -= 1


def _if(f: Function, s: If) -> None:
    if isinstance(s.condition, Var) and s.otherwise is None and is_whole_copy(f, s.then):
        f.copies_if = emit_expr(f, s.condition).text
        emit_stmt(f, s.then)
        f.copies_if = ""
        return
    if s.otherwise is None and isinstance(s.then, For) and not diverges(f, s) and emit_quads(f, s.then, s.condition):
        return
    with _met(f, s):
        emit_if(f, s)


def _store(f: Function, s: Store) -> None:
    f.show_source(s)
    copy = find_copy(f, s) if s.buffer.dtype.itemsize in SIZES else None
    if copy is not None:
        emit_copies(f, s, copy, s.buffer.dtype.itemsize)
    else:
        emit_store(f, s)


def _alloc(f: Function, s: Alloc) -> None:
    """A thread's own array. Shared memory and temporaries of the grid have been declared by the launch."""
    buffer = s.buffer
    if buffer.name in f.buffers:
        emit_stmt(f, s.body)
        return
    if buffer.name in f.fragments:
        _fragment(f, s)
        return
    count = buffer.element_count()
    if buffer.name in f.operands:
        _operand(f, s, count or 0)
        return
    if count is None:
        raise UnsupportedError(
            f"`{buffer.name}` is a thread's own memory, but its size is not a number",
            span=s.span or buffer.span,
            help="make it in front of all block loops, or give it a size that does not depend on arguments",
        )
    name = f.program.names.of(buffer.name)
    with f.declaring(name):
        element = value_type(buffer.dtype) if buffer.dtype.is_narrow_float else storage_type(buffer.dtype)
        f.line(f"{element} {name}[{max(1, count)}];")
        f.buffers[buffer.name] = Memory(name, buffer.dtype.itemsize, is_private=True, elements=count)
        emit_stmt(f, s.body)
        del f.buffers[buffer.name]


def _fragment(f: Function, s: Alloc) -> None:
    """What matrix instructions keep in the registers of a warp."""
    name = f.program.names.of(s.buffer.name)
    with f.declaring(name):
        f.line(f"unsigned {name}[{f.fragments[s.buffer.name] // 4}][4];")
        f.buffers[s.buffer.name] = Memory(name, 4, is_private=True)
        emit_stmt(f, s.body)
        del f.buffers[s.buffer.name]


def _operand(f: Function, s: Alloc, count: int) -> None:
    """What a lane brings to matrix instructions: elements as they are in memory, two of them a register."""
    name = f.program.names.of(s.buffer.name)
    with f.declaring(name):
        f.line(f"__align__(16) {storage_type(s.buffer.dtype)} {name}[{count}];")
        f.buffers[s.buffer.name] = Memory(name, 16, elements=count)
        emit_stmt(f, s.body)
        del f.buffers[s.buffer.name]


def _barrier(f: Function, s: Barrier) -> None:
    if s.scope == "block":
        emit_block_barrier(f)
    else:
        f.line(f"{'__syncwarp' if s.scope == 'warp' else f.use('grid_barrier')}();")


def _assert(f: Function, s: Assert) -> None:
    site = f.program.sites[s.message, s.span]
    condition = emit_expr(f, s.condition)
    with f.braces(f"if (!{condition.inside(LEVEL['unary'])})"):
        values = [emit_expr(f, v).text for v in s.values[:7]]
        f.line(f"const long long seen[] = {{{', '.join(values) or '0'}}};")
        f.line(f"{f.use('fail')}({FAILED}, {ERROR_RECORD}, {site}, {len(values)}, seen);")
        f.line("return;")


def _return(f: Function, s: Return) -> None:
    f.line(f"goto {f.exits[-1]};" if f.exits else "return;")


def _evaluate(f: Function, s: Evaluate) -> None:
    if s.call.name in HARDWARE:
        emit_hardware_call(f, s.call)
    elif s.call.name in _HINTS:
        _HINTS[s.call.name](f, *s.call.args)
    elif s.call.name not in HINTS:
        f.line(f"{emit_expr(f, s.call).text};")


def _stream(f: Function, place: AddressOf) -> None:
    if place.buffer.name in f.buffers:
        f.buffers[place.buffer.name] = replace(f.memory(place.buffer), streams=True)


#: The hints that there is code for.
_HINTS: dict[str, Callable[..., None]] = {
    "stream": _stream,
    "async_commit": emit_commit,
    "async_wait": emit_wait,
    "publish": emit_publish,
    "products_wait": emit_products_wait,
    "hold": emit_hold,
    "turn_claim": emit_claim,
    "turn_await": emit_await,
    "turn_release": emit_release,
}


def _tensorized(f: Function, s: Tensorized) -> None:
    if is_reduction(s):
        if not emit_reduction(f, s):
            emit_stmt(f, s.body)
    elif s.intrinsic == BULK_COPY:
        emit_bulk_copy(f, s)
    elif not emit_hardware(f, s):
        emit_stmt(f, s.body)


EMITTERS: dict[type, Callable[[Function, Any], None]] = {
    **EMIT,
    For: _for,
    While: _while,
    If: _if,
    Store: _store,
    Atomic: emit_atomic,
    Alloc: _alloc,
    Barrier: _barrier,
    Assert: _assert,
    Return: _return,
    Evaluate: _evaluate,
    Tensorized: _tensorized,
}
