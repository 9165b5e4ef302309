"""Statements to C: one small function per node kind, found by the node's type.

A failed assert, memory that is not there and an early return all leave by the same way: ``status`` says what it was,
and a ``goto`` leads to the end of the innermost scope that has something to do then: free an array, end an iteration
of a parallel loop, return from the function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, idx
from weft.ir.intrinsics import HINTS
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Assert, Atomic, Evaluate, For, Return, Stmt, Store
from weft.ir.visit import walk
from weft.passes.analysis.loop_ranges import loop_range
from weft.target.c.emit_atomic import emit_atomic
from weft.target.c.emit_context import DONE, Function
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.context import LEVEL, Code, Memory
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_stmt import EMIT, emit_stmt, emit_store, steady

#: Bytes of an array that may be on the stack, and of one that should be registers.
STACK_BUFFER, STACK_REGISTERS = 16 << 10, 64 << 10
_CONCURRENT = ("parallel", "block", "thread", "vector")


def may_leave(s: Stmt) -> bool:
    """Whether running ``s`` may end early: with an assert, without memory, by a return."""
    return any(isinstance(n, (Assert, Return)) or (isinstance(n, Alloc) and not _fits_stack(n.buffer)) for n in walk(s))


def _for(f: Function, s: For) -> None:
    f.show_source(s)
    leaves = may_leave(s.body)
    starts = s.kind in ("parallel", "block") and not f.is_parallel
    hi = steady(f, s.hi)
    if starts:
        f.line("#pragma omp parallel for schedule(static)")
    elif s.kind in ("vector", "thread") and not leaves:
        f.line("#pragma omp simd")
    elif s.kind == "unroll" and isinstance(s.lo, Const) and isinstance(s.hi, Const):
        f.line(f"#pragma GCC unroll {max(1, min(65534, int(s.hi.value) - int(s.lo.value)))}")
    name = f.program.names.of(s.var.name)
    lo = emit_expr(f, s.lo)
    head = f"for (long long {name} = {lo.text}; {name} < {hi.inside(LEVEL['<'] + 1)}; ++{name})"
    with f.braces(head), f.bound(s.var.name, Code(name, wide=True), loop_range(s, f.ranges)):
        if starts:
            _emit_iteration(f, s.body, leaves)
        elif s.kind in _CONCURRENT and any(isinstance(n, Return) for n in walk(s.body)):
            _emit_thread(f, s.body)
        else:
            emit_stmt(f, s.body)
    if starts and leaves:
        with f.braces("if (failed)"):
            f.leave("failed")


def _emit_iteration(f: Function, body: Stmt, leaves: bool) -> None:
    """The body of a parallel loop, which no jump may leave: what fails is in ``failed``, and no more start."""
    f.is_parallel = True
    if leaves:
        f.line("if (failed) continue;")
        f.line("int32_t status = 0;")
        label = f.fresh("next")
        f.exits.append(label)
        emit_stmt(f, body)
        f.exits.pop()
        f.label(label)
        f.line("(void)status;")
    else:
        emit_stmt(f, body)
    f.is_parallel = False


def _emit_thread(f: Function, body: Stmt) -> None:
    """An iteration that a return ends, and nothing but this one."""
    label = f.fresh("next")
    f.exits.append(label)
    emit_stmt(f, body)
    f.exits.pop()
    f.label(label)
    f.line(f"if (status == {DONE}) status = 0;")
    f.line(f"if (status) goto {f.exits[-1]};")


def _store(f: Function, s: Store) -> None:
    f.show_source(s)
    emit_store(f, s)


def _fits_stack(buffer: Buffer) -> bool:
    size = buffer.byte_count()
    return size is not None and size <= (STACK_REGISTERS if buffer.scope == "register" else STACK_BUFFER)


def _alloc(f: Function, s: Alloc) -> None:
    buffer = s.buffer
    name = f.program.names.of(buffer.name)
    if not _fits_stack(buffer):
        _emit_heap_array(f, s, name)
        return
    count = max(1, buffer.element_count() or 0)
    private = buffer.dtype.is_narrow_float and buffer.scope in ("register", "local")
    element = value_type(buffer.dtype) if private else _storage(f, buffer)
    with f.declaring(name):
        f.line(f"_Alignas(64) {element} {name}[{count}];")
        f.buffers[buffer.name] = Memory(name, 64, is_private=private, elements=count)
        emit_stmt(f, s.body)
        del f.buffers[buffer.name]


def _storage(f: Function, buffer: Buffer) -> str:
    if buffer.dtype.is_narrow_float:
        f.use(buffer.dtype.name)
    return storage_type(buffer.dtype)


def _emit_heap_array(f: Function, s: Alloc, name: str) -> None:
    buffer, element = s.buffer, _storage(f, s.buffer)
    label = f.fresh(f"free_{name}")
    with f.braces():
        size = emit_expr(f, _bytes(buffer)).text
        f.line(f"{element} *restrict {name} = {f.use('new_array')}({size});")
        f.exits.append(label)
        with f.braces(f"if (!{name})"):
            f.leave(f"{f.use('fail')}(&failed, weft_record, -1, 0, NULL)")
        f.buffers[buffer.name] = Memory(name, 64)
        with f.braces():
            emit_stmt(f, s.body)
        del f.buffers[buffer.name]
        f.exits.pop()
        f.label(label)
        f.line(f"free({name});")
        f.line(f"if (status) goto {f.exits[-1]};")


def _bytes(buffer: Buffer) -> Expr:
    """How much memory ``buffer`` takes; nothing where a size is 0 or less."""
    count: Expr = idx(1)
    for size in buffer.shape if buffer.strides is None else ():
        count = Binary("*", count, Binary("max", size, idx(0)))
    for size, stride in zip(buffer.shape, buffer.strides or ()):
        count = Binary("+", count, Binary("*", Binary("-", size, idx(1)), stride))
    return simplify(Binary("*", count, idx(buffer.dtype.itemsize)))


def _assert(f: Function, s: Assert) -> None:
    f.show_source(s)
    site = f.program.sites[s.message, s.span]
    condition = emit_expr(f, s.condition)
    with f.braces(f"if (!{condition.inside(LEVEL['unary'])})"):
        values = [emit_expr(f, v).text for v in s.values[:8]]
        f.line(f"const long long seen[] = {{{', '.join(values) or '0'}}};")
        f.leave(f"{f.use('fail')}(&failed, weft_record, {site}, {len(values)}, seen)")


def _evaluate(f: Function, s: Evaluate) -> None:
    if s.call.name not in HINTS:
        f.line(f"{emit_expr(f, s.call).text};")


EMITTERS: dict[type, Callable[[Function, Any], None]] = {
    **EMIT,
    For: _for,
    Store: _store,
    Atomic: emit_atomic,
    Alloc: _alloc,
    Assert: _assert,
    Return: lambda f, s: f.leave(DONE),
    Evaluate: _evaluate,
}
