"""The reference interpreter: the meaning of every loop program, and its judge.

>>> interpret(kernel, [a, b, c])                             # writes the outputs in place

It runs any program, threads and barriers included, and raises a `ProgramError` that names
the source line, the element and the iterations for an access out of bounds, a read of
uninitialized memory, a data race between concurrent iterations, and a barrier that not
all threads reach.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ir.buffer import Buffer
from weft.ir.errors import ArgumentError, ShapeError
from weft.ir.expr import Expr, Var
from weft.ir.interpret_access import ACCESSES
from weft.ir.interpret_expr import compile_expr
from weft.ir.interpret_hardware import CALLS
from weft.ir.interpret_memory import STRAND, Env, Layout, Memory, Scope, Strand, dense
from weft.ir.interpret_scalar import scalar_value
from weft.ir.interpret_stmt import COMPILERS, compile_stmt, has_parallel_loop
from weft.ir.interpret_threads import LOOPS
from weft.ir.numpy_dtypes import from_numpy
from weft.ir.stmt import Kernel
from weft.ir.visit import Node, children, mentions

Array = npt.NDArray[Any]
#: Python frames a level of the program takes at most, while translating or running it.
FRAMES_PER_LEVEL = 8
_SHALLOW = 50

COMPILERS.update(ACCESSES | CALLS | LOOPS)


def interpret(kernel: Kernel, args: Sequence[Any], *, check: bool = True, uninitialized: Sequence[str] = ()) -> None:
    """Runs ``kernel`` on arrays (of any strides) and numbers in the order of its parameters.

    ``uninitialized`` names outputs whose contents before the call must not be read. With
    ``check=False`` only accesses out of bounds are reported, and memory starts as zeros.
    """
    bound = _bind_args(kernel, args)

    def execute() -> None:
        with np.errstate(all="ignore"):
            _run(kernel, bound, check, frozenset(uninitialized))

    call_with_stack(execute, kernel)


def _run(kernel: Kernel, args: Mapping[str, Any], check: bool, uninitialized: frozenset[str]) -> None:
    track = check and has_parallel_loop(kernel.body)
    layout = Layout(check)
    var_slots = {v.name: layout.slot(scalar_value(v.dtype, args[v.name])) for v in kernel.scalars}
    names = frozenset(b.name for b in kernel.buffers)
    scope = Scope(layout, vars=var_slots, span=kernel.span)
    _check_shapes(kernel, args, scope)
    found = mentions(kernel.body)
    tracked = names & (found.stored | found.reached) if track else frozenset()  # what nothing writes has no races
    memories = {
        b.name: _memory(b, args[b.name], b.name in tracked, check and b.name in uninitialized) for b in kernel.buffers
    }
    scope = Scope(
        layout,
        vars=var_slots,
        buffers={name: layout.slot(memory) for name, memory in memories.items()},
        tracked=tracked,
        read_only=names - frozenset(kernel.outputs),
        span=kernel.span,
    )
    code = compile_stmt(kernel.body, scope)
    env: Env = layout.initial
    env[STRAND] = Strand(None)
    try:
        code.run(env)
    finally:
        for name in kernel.outputs:
            _write_back(memories[name], args[name])


def _bind_args(kernel: Kernel, args: Sequence[Any]) -> dict[str, Any]:
    if len(args) != len(kernel.params):
        raise ArgumentError(
            f"`{kernel.name}` takes {len(kernel.params)} arguments, got {len(args)}",
            why="its parameters are " + ", ".join(p.name for p in kernel.params),
        )
    bound = {p.name: a for p, a in zip(kernel.params, args)}
    for param in kernel.params:
        if isinstance(param, Var):
            _check_number(param, bound[param.name])
        else:
            _check_array(param, bound[param.name], param.name in kernel.outputs)
    _check_overlap(kernel, bound)
    return bound


def _check_number(param: Var, value: Any) -> None:
    if not isinstance(value, (int, float, np.number, np.bool_)) or isinstance(value, np.complexfloating):
        raise ArgumentError(f"argument `{param.name}` must be a number, got {type(value).__name__}")
    if param.dtype.is_integer and not isinstance(value, (int, np.integer, np.bool_)):
        raise ArgumentError(f"argument `{param.name}` must be an integer, got {value}")
    if param.dtype.is_integer and not param.dtype.min_value <= int(value) <= param.dtype.max_value:
        raise ArgumentError(f"argument `{param.name}` must fit {param.dtype}, got {value}")


def _check_array(param: Buffer, value: Any, is_output: bool) -> None:
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"argument `{param.name}` must be a numpy array, got {type(value).__name__}")
    if from_numpy(value.dtype) != param.dtype:
        raise ArgumentError(f"argument `{param.name}` must be {param.dtype}, got {value.dtype}")
    if value.ndim != param.rank:
        raise ShapeError(f"argument `{param.name}` must have {param.rank} dimensions, got {value.ndim}")
    if is_output and not value.flags.writeable:
        raise ArgumentError(f"output `{param.name}` is read-only")
    if is_output and value.size and any(n > 1 and s == 0 for n, s in zip(value.shape, value.strides)):
        raise ArgumentError(f"output `{param.name}` has a zero stride", why="several of its elements are one in memory")


def _check_overlap(kernel: Kernel, bound: Mapping[str, Any]) -> None:
    for a, b in combinations((b.name for b in kernel.buffers), 2):
        if (a in kernel.outputs or b in kernel.outputs) and np.shares_memory(bound[a], bound[b]):
            raise ArgumentError(f"arguments `{a}` and `{b}` overlap in memory", why="at least one is an output")


def _check_shapes(kernel: Kernel, args: Mapping[str, Any], scope: Scope) -> None:
    def evaluate(size: Expr) -> int:
        return int(compile_expr(size, scope)(scope.layout.initial))

    for buffer in kernel.buffers:
        wanted, given = tuple(evaluate(e) for e in buffer.shape), args[buffer.name].shape
        if wanted != given:
            raise ShapeError(
                f"argument `{buffer.name}` has shape {given}", span=buffer.span, why=f"the kernel wants {wanted}"
            )


def _memory(buffer: Buffer, array: Array, track: bool, starts_empty: bool) -> Memory:
    """A copy of ``array`` as interpreter values; outputs are copied back when the kernel ends."""
    data: list[Any]
    if starts_empty:
        data = [None] * array.size
    elif buffer.dtype.is_float:
        data = list((array.astype(np.float32) if buffer.dtype.is_narrow_float else array).ravel())
    else:
        data = array.ravel().tolist()
    return Memory(data, array.shape, dense(array.shape), 0, track)


def _write_back(memory: Memory, array: Array) -> None:
    written = np.array([v is not None for v in memory.data], np.bool_).reshape(array.shape)
    holder = np.float32 if array.dtype.itemsize < 4 and array.dtype.kind in "fV" else array.dtype
    values = np.array([0 if v is None else v for v in memory.data], holder).reshape(array.shape)
    np.copyto(array, values.astype(array.dtype), where=written)


def nesting(root: Node) -> int:
    """Levels of nesting in a program."""
    deepest, pending = 0, [(root, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        pending.extend((child, level + 1) for child in children(node))
    return deepest


def call_with_stack(fn: Callable[[], None], program: Node) -> None:
    """Runs ``fn``, which descends into ``program``, where its nested calls fit: in a thread with a stack to match."""
    depth = nesting(program)
    if depth <= _SHALLOW:
        fn()
        return
    frames = depth * FRAMES_PER_LEVEL
    failure: list[BaseException] = []

    def guarded() -> None:
        try:
            fn()
        except BaseException as error:
            failure.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size()
    sys.setrecursionlimit(max(limit, frames + 1000))
    threading.stack_size(min(1 << 30, (64 << 20) + frames * 1024))
    try:
        worker = threading.Thread(target=guarded)
        worker.start()
        worker.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if failure:
        raise failure[0]
