"""Parallel loops: the body becomes a function of a range, run in chunks by the runtime.

What the body uses from outside travels in a context of 8-byte slots on the caller's stack.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from weft.ir.nesting import inner_statements
from weft.ir.stmt import For, Stmt, While
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.plain.shorten_lets import mentioned_names
from weft.target.cpu.emit_context import I64, PARALLEL_FOR, Function, Memory, add, function_attributes, status
from weft.target.cpu.emit_expr import emit_expr
from weft.target.cpu.llvm_values import Value, bits_of

EmitBody = Callable[[Function, For, Value, Value], None]
#: Loops whose iterations threads share out.
PARALLEL_KINDS = ("parallel", "block")
#: Threads that stay awake are woken first: more starts than that of a loop of its own are worth it.
FEW_STARTS = 2


def repeated_starts(body: Stmt) -> bool:
    """Whether threads are started more than a few times, so that they had better stay awake in between."""
    return _count_starts(body) > FEW_STARTS


def _count_starts(s: Stmt) -> float:
    if isinstance(s, For) and s.kind in PARALLEL_KINDS:
        return 1
    inner = sum(map(_count_starts, inner_statements(s)))
    if not inner or not isinstance(s, (For, While)):
        return inner
    times = constant_extent(s) if isinstance(s, For) else None
    return inner * (math.inf if times is None else times)


def emit_parallel(f: Function, loop: For, emit_range: EmitBody) -> None:
    """Hand ``lo:hi`` to the runtime; ``emit_range`` emits the loop over a part of it into the new function."""
    lo, hi = emit_expr(f, loop.lo), emit_expr(f, loop.hi)
    count = f.b.intrinsic("smax", f.b.sub(hi, lo), Value("0", I64))
    captured = {"lo": lo, "record": f.error_record}
    names = mentioned_names(loop)
    captured |= {f"name.{n}": f.read(n) for n in names if n in f.names}
    captured |= {f"buffer.{n}": f.buffers[n].pointer for n in names if n in f.buffers}
    function = _emit_function(f, loop, captured, emit_range)
    places, slots = _places(captured)
    context = f.b.alloca(f"[{slots} x i64]", align=8)
    for key, value in captured.items():
        f.b.store(value, f.b.gep(I64, context, Value(str(places[key]), I64)), align=8)
    f.fence()
    result = f.b.call(PARALLEL_FOR, "i32", [function, context, count])
    _emit_check(f, result)


def _emit_check(f: Function, result: Value) -> None:
    failed, fine = f.b.new_label("failed"), f.b.new_label("joined")
    f.b.cond_branch(f.b.icmp("ne", result, status(0)), failed, fine)
    f.b.block(failed)
    f.leave(result)
    f.b.block(fine)


def _emit_function(f: Function, loop: For, captured: dict[str, Value], emit_range: EmitBody) -> Value:
    program = f.program
    name = f"{program.name}.parallel{program.outlined}"
    program.outlined += 1
    params = [("ptr", "context"), (I64, "begin"), (I64, "end")]
    b = program.module.function(
        name, "i32", params, linkage="internal", attributes=function_attributes(program.machine)
    )
    places, _ = _places(captured)
    values = {}
    for key, value in captured.items():
        slot = b.gep(I64, b.argument("context"), Value(str(places[key]), I64))
        values[key] = b.load(value.type, slot, align=8)
    g = Function(program, b, values["record"], in_parallel=True)
    for key, value in values.items():
        kind, _, plain = key.partition(".")
        if kind == "name":
            g.names[plain] = value
        elif kind == "buffer":
            g.buffers[plain] = Memory(value, invariant=f.buffers[plain].invariant, streams=f.buffers[plain].streams)
    emit_range(g, loop, add(g, values["lo"], b.argument("begin")), add(g, values["lo"], b.argument("end")))
    if not b.terminated:
        g.end(status(0))
    return Value(f"@{name}", "ptr")


def _places(captured: dict[str, Value]) -> tuple[dict[str, int], int]:
    """The first slot of each value, and how many slots there are; a vector takes several."""
    places, count = {}, 0
    for key, value in captured.items():
        places[key] = count
        count += -(-value.lanes * bits_of(value.type) // 64)
    return places, count
