"""From a ``__global__`` function to a grid-form loop program, and what each of its parameters is at a launch."""

from __future__ import annotations

import math

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, Facts, Frame, GridKernel, Launch, Slot, Unsupported, close
from weft.from_cuda.memory import GIVEN, advance, has_fields_apart, on_heap, store
from weft.from_cuda.places import array_target, declare
from weft.from_cuda.ranges import GridSizes
from weft.from_cuda.statements import block
from weft.from_cuda.types import Array, CType, Pointer, Record, Scalar
from weft.from_cuda.unit import Node, Unit
from weft.from_cuda.values import (
    ZERO,
    Address,
    Copy,
    Element,
    Fields,
    Fixed,
    Memory,
    Number,
    Place,
    Struct,
    Target,
    Value,
    index_var,
)
from weft.from_cuda.variables import changed_in
from weft.ir import dtype as dt
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Expr, Var, idx
from weft.ir.interval import Interval
from weft.ir.stmt import Alloc, For, Kernel, Param, Stmt
from weft.passes.gpu_to_cpu.check_barriers import check_barriers

#: Threads of a grid stay below this, so that their numbers are exact.
MOST_THREADS = 1 << 31
_ATTEMPTS = 24


def translate(unit: Unit, function: Node, launch: Launch) -> GridKernel:
    """The kernel ``function``, for such launches."""
    facts = Facts()
    for _ in range(_ATTEMPTS):
        facts.is_new = False
        c = Context(unit, launch, facts)
        made = _attempt(c, function)
        if not facts.is_new:
            if c.problems:
                raise refusal(c, function)
            assert made is not None
            if _part_branches(c, made.kernel):
                continue
            return made
    raise UnsupportedError(f"kernel `{function.name}` could not be understood", span=unit.span(function))


def _part_branches(c: Context, kernel: Kernel) -> bool:
    """Where lanes part at branches that some of them meet in: whether these are now known to be such."""
    if c.branches <= c.facts.parted:
        return False
    try:
        check_barriers(kernel)
    except UnsupportedError:
        c.facts.parted |= c.branches
        return True
    return False


def refusal(c: Context, function: Node) -> UnsupportedError:
    """All that keeps a kernel from being translated."""
    told: list[tuple[str, str]] = []
    for p in c.problems:
        line = f"{c.unit.span(p.node)}: {p.why}"
        if ("also", line) not in told:
            told.append(("also", line))
    first = c.problems[0]
    return UnsupportedError(
        f"kernel `{function.name}` cannot be run on a CPU: {first.why}",
        span=c.unit.span(first.node),
        notes=told[1:],
    )


def _attempt(c: Context, function: Node) -> GridKernel | None:
    body = function.body
    assert body is not None
    slots = c.slots
    loops = _grid(c, slots)
    frame = Frame(function, True, (c.items, 0))
    c.frames.append(frame)
    with c.scope() as items:
        frame.start = (items, 0)
        try:
            _check(c, function)
            _bind_parameters(c, function, slots)
            block(c, body.inner)
        except Unsupported as problem:
            c.problems.append(problem)
        for memory in c.memories.values():
            _see_in_parts(c, memory)
        for name in c.ranges.mixed & set(c.keys):
            c.facts.learn(c.facts.indices, c.keys[name])
        if c.problems or c.facts.is_new:
            return None
        inner = close(items)
    return _finish(c, function, inner, loops, slots)


def _check(c: Context, function: Node) -> None:
    why = c.unit.complaint_in(function)
    if why:
        c.refuse(function, f"clang says: {why}")


def _see_in_parts(c: Context, memory: Memory) -> None:
    """What is written as elements of one size and read as another's is, from the next attempt on, one buffer of the
    smallest. Fields of a record are apart, and the heap is of everything."""
    sizes = {dtype.itemsize for dtype in memory.views}
    if len(sizes) > 1 and memory.written and not has_fields_apart(memory) and memory.kind != "heap":
        c.facts.learn_part(memory.key, min(sizes))


def _grid(c: Context, slots: list[tuple[Param, Slot]]) -> tuple[list[tuple[Var, Expr]], list[tuple[Var, Expr]]]:
    """The loops over blocks and over threads, outermost first, and the values of CUDA's own variables."""
    blocks: list[tuple[Var, Expr]] = []
    threads: list[tuple[Var, Expr]] = []
    where: dict[str, list[Expr]] = {name: [] for name in ("threadIdx", "blockIdx", "blockDim", "gridDim")}
    for d, axis in enumerate("xyz"):
        size, count = c.launch.block[d], index_var(c.fresh(f"grid_{axis}"))
        if size is None:
            extent: Expr = index_var(c.fresh(f"block_{axis}"))
            slots.append((extent, Slot("block", d)))  # type: ignore[arg-type]
            c.ranges[extent.name] = Interval(1, 1024)  # type: ignore[attr-defined]
        else:
            extent = idx(size)
        most = MOST_THREADS // (size or 1024)
        t, b = Var(c.fresh(f"t{axis}"), dt.index), Var(c.fresh(f"b{axis}"), dt.index)
        c.ranges[t.name] = Interval(0, (size or 1024) - 1)
        c.ranges[b.name], c.ranges[count.name] = Interval(0, most - 1), Interval(1, most)
        c.fixed |= {t.name, b.name, count.name}
        one_thread, one_block = size == 1, c.launch.grid_is_one[d]
        if not one_thread:
            threads.insert(0, (t, extent))
        if not one_block:
            blocks.insert(0, (b, count))
            slots.append((count, Slot("grid", d)))
        where["threadIdx"].append(ZERO if one_thread else t)
        where["blockIdx"].append(ZERO if one_block else b)
        where["blockDim"].append(extent)
        where["gridDim"].append(idx(1) if one_block else count)
    if None not in c.launch.block:
        sizes = {block.name: size.name for block, size in blocks if isinstance(size, Var)}
        c.ranges.grid = GridSizes(sizes, MOST_THREADS // math.prod(size or 1 for size in c.launch.block))
    c.dims = {name: (e[0], e[1], e[2]) for name, e in where.items()}
    return blocks, threads


def _bind_parameters(c: Context, function: Node, slots: list[tuple[Param, Slot]]) -> None:
    changed = changed_in(c, function)
    for number, p in enumerate(function.parameters):
        type = c.type_of(p)
        value = _parameter(c, p, type, p.name or f"argument{number}", (number, 0), slots)
        is_declared = p.id in changed or p.id in c.facts.in_memory
        if is_declared and (not isinstance(type, Pointer) or isinstance(value, Address)):
            c.places[p.id] = declare(c, p, type, p.name, value, p.id)
        else:
            c.places[p.id] = _as_place(value)


def _as_place(value: Value) -> Place:
    if isinstance(value, Struct):
        return Fields(value.type, {k: _as_place(v) for k, v in value.fields.items()})
    if isinstance(value, Copy):
        return Element(value.type, value.address)
    return Fixed(value)


def _parameter(
    c: Context, n: Node, type: CType, name: str, at: tuple[int, int], slots: list[tuple[Param, Slot]]
) -> Value:
    if isinstance(type, Record):
        fields = {
            f.name: _parameter(c, n, f.type, f"{name}_{f.name}", (at[0], at[1] + f.offset), slots) for f in type.fields
        }
        return Struct(type, fields)
    if isinstance(type, Array):
        return _array_parameter(c, n, type, name, at, slots)
    if isinstance(type, Pointer):
        return _pointer_parameter(c, type, name, at, slots)
    if not isinstance(type, Scalar):
        c.refuse(n, f"a parameter of type {getattr(type, 'name', 'unknown')}")
    known = next((value for *place, value in c.launch.numbers if tuple(place) == at), None)
    if known is not None:
        return ar.constant(type, known)
    wide = type.is_integer and type.size >= 4 and type.dtype != dt.uint64
    is_size = type.dtype == dt.uint64
    var = Var(c.fresh(name), dt.index if wide or is_size else type.dtype)
    slots.append((var, Slot("number", *at, type.dtype)))
    if is_size:
        c.ranges[var.name] = Interval(0, None)
    elif wide:
        c.ranges[var.name] = Interval(type.dtype.min_value, type.dtype.max_value)
    c.fixed.add(var.name)
    c.ranges.numbers.add(var.name)
    if type.dtype == dt.int32:
        c.numbers[var.name] = at
    return Number(type, var)


def _array_parameter(
    c: Context, n: Node, type: Array, name: str, at: tuple[int, int], slots: list[tuple[Param, Slot]]
) -> Value:
    """An array in a record: every thread has its own."""
    address = Address(type.of, (array_target(c, name, type, "local", f"parameter {at}"),))
    for i in range(type.count or 0):
        value = _parameter(c, n, type.of, f"{name}_{i}", (at[0], at[1] + i * type.of.size), slots)
        store(c, n, advance(c, address, idx(i), type.of.size), value)
    return Copy(type, address)


def _pointer_parameter(
    c: Context, type: Pointer, name: str, at: tuple[int, int], slots: list[tuple[Param, Slot]]
) -> Value:
    if "heap" in c.facts.flat:
        var = index_var(c.fresh(f"{name}_address"))
        slots.append((var, Slot("address", *at, unit=type.to.align)))
        c.ranges[var.name] = Interval(0, None)
        c.fixed.add(var.name)
        return Address(type.to, (Target(on_heap(c, ZERO, type.to).targets[0].memory, var, type.to.align),))
    group = next((g for g in c.launch.alias if at in g), (at,))
    key = f"argument {group[0][0]} {group[0][1]}"
    if key not in c.memories:
        c.memories[key] = Memory(name, "argument", type.to, (), key, at, size_name=c.fresh(f"{name}_bytes"))
    if len(group) == 1:
        return Address(type.to, (Target(c.memories[key], ZERO, type.to.size),))
    offset = index_var(c.fresh(f"{name}_at"))
    slots.append((offset, Slot("distance", *at, unit=type.to.size)))
    c.ranges[offset.name] = Interval(0, None)
    c.fixed.add(offset.name)
    return Address(type.to, (Target(c.memories[key], offset, type.to.size),))


def _finish(
    c: Context,
    function: Node,
    inner: Stmt,
    loops: tuple[list[tuple[Var, Expr]], list[tuple[Var, Expr]]],
    slots: list[tuple[Param, Slot]],
) -> GridKernel:
    blocks, threads = loops
    body = inner
    for var, extent in reversed(threads):
        body = For(var, ZERO, extent, "thread", body)
    if not threads:
        body = For(Var(c.fresh("tx"), dt.index), ZERO, idx(1), "thread", body)
    for buffer in reversed(c.shared):
        body = Alloc(buffer, body)
    for var, extent in reversed(blocks):
        body = For(var, ZERO, extent, "block", body)
    if not blocks:
        body = For(Var(c.fresh("bx"), dt.index), ZERO, idx(1), "block", body)
    is_dynamic = any(m.kind == "dynamic" and m.views for m in c.memories.values()) or c.facts.has_dynamic_window
    if is_dynamic and c.launch.shared is None:
        slots.append((index_var("shared_bytes"), Slot("shared")))
    written: list[str] = []
    for memory in c.memories.values():
        if memory.kind in (*GIVEN, "heap", "table"):
            _add_memory(memory, slots, written)
    params = tuple(p for p, _ in slots)
    outputs = tuple(p.name for p in params if p.name in set(written))
    kernel = Kernel(function.name, params, outputs, body, span=c.unit.span(function))
    arguments = tuple(c.type_of(p) for p in function.parameters)
    return GridKernel(kernel, tuple(s for _, s in slots), arguments, c.launch)


def _add_memory(memory: Memory, slots: list[tuple[Param, Slot]], written: list[str]) -> None:
    kind = {"argument": "pointer"}.get(memory.kind, memory.kind)
    for dtype, buffer in memory.views.items():
        slot = Slot(kind, *memory.argument, dtype, memory.symbol)
        slots.append((buffer, slot))
        if dtype in memory.written:
            written.append(buffer.name)
    if memory.kind == "table":
        return
    size = "bytes" if memory.kind == "argument" else f"{memory.kind} bytes"
    name = memory.size_name or "heap_size"
    slots.append((index_var(name), Slot(size, *memory.argument, symbol=memory.symbol)))
