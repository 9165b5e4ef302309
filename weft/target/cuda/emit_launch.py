"""A kernel in grid form to CUDA C++ text: the device function of each launch, and how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from math import prod
from typing import Any

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import TargetError, UnsupportedError
from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.interval import EVERYTHING, Interval, bounds
from weft.ir.nesting import statements_in
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assert, Barrier, For, Kernel, Let, Stmt
from weft.ir.visit import loads, mentions, stores, walk
from weft.passes.analysis.loop_ranges import loop_range
from weft.target.c_text.c_types import storage_type, value_type
from weft.target.c_text.emit_expr import emit_expr
from weft.target.c_text.emit_stmt import emit_stmt
from weft.target.c_text.names import Names
from weft.target.cuda.async_copies import find_rings
from weft.target.cuda.emit_context import LEVEL, Code, Function, Memory, Program
from weft.target.cuda.emit_mma import find_fragments, find_halved
from weft.target.cuda.emit_quads import find_lane, find_varying
from weft.target.cuda.emit_reduce import reductions_shuffle
from weft.target.cuda.emit_roles import emit_roles, find_engine, number_of_warps, wider_shape
from weft.target.cuda.emit_stmt import EMITTERS
from weft.target.cuda.launch_bounds import blocks_at_once, blocks_together, check_registers
from weft.target.cuda.machine import DEFAULT_SHARED, MAX_GRID, WARP, GpuMachine
from weft.target.cuda.operands_in_registers import operands_in_registers
from weft.target.cuda.prelude import RESERVED, prelude_text
from weft.target.cuda.program import ERROR_RECORD, FAILED, CudaProgram, Launch, Site, TensorMap
from weft.target.cuda.read_launches import (
    Grid,
    Nest,
    block_shape,
    check_threads,
    extents,
    grid_shape,
    read_grid,
    read_launches,
    thread_counts,
    used_params,
    written_names,
)
from weft.target.cuda.swizzle import SWIZZLE_ALIGN, find_swizzled

#: What shared arrays start at a multiple of.
SHARED_ALIGN = 16
_AXES = ("x", "y", "z")


def emit_program(
    kernel: Kernel,
    machine: GpuMachine,
    *,
    fast: bool,
    aligned: Mapping[str, int],
    numbers: Mapping[tuple[str, Any], int],
    sites: tuple[Site, ...],
) -> CudaProgram:
    """The program without its machine code; ``numbers`` are those of its asserts by message and place."""
    parts = read_launches(kernel)
    names = Names(RESERVED | {ERROR_RECORD, FAILED})
    functions = [names.fresh(f"{kernel.name}_kernel") for _ in parts.nests]
    program = Program(fast, numbers, names, EMITTERS, language="CUDA", machine=machine, aligned=aligned)
    launches: list[Launch] = []
    texts: list[str] = []
    may_have_failed = False
    for function, nest in zip(functions, parts.nests):
        # The steps of loops around a launch are numbers that it is given.
        given = replace(kernel, params=(*kernel.params, *(Var(s.name) for s in nest.steps)))
        launch, text = emit_launch(program, given, nest, function, tuple(parts.temporaries), may_have_failed)
        may_have_failed |= nest.has_assert
        launches.append(replace(launch, steps=nest.steps))
        texts.append(text)
    prelude = [*([found] if (found := prelude_text(program.used)) else []), *program.definitions.values()]
    header = f"// {kernel.name}: made by Weft for {machine.arch}, numerics {'fast' if fast else 'strict'}"
    source = "\n\n".join([header, *prelude, *texts]) + "\n"
    used = {p for launch in launches for p in launch.params}
    temporaries = tuple(b for b in parts.temporaries if b.name in used)
    return CudaProgram(source, b"", tuple(launches), temporaries, sites)


def emit_launch(
    program: Program, kernel: Kernel, nest: Nest, name: str, temporaries: tuple[Buffer, ...], may_have_failed: bool
) -> tuple[Launch, str]:
    """The launch of ``nest`` and the text of its function; it ends at once where an assert before it failed."""
    scalars = frozenset(v.name for v in kernel.scalars if not v.dtype.is_float)
    grid, operands = operands_in_registers(read_grid(nest.body, scalars))
    check_threads(grid, program.machine, kernel.name)
    check_registers(grid.body, program.machine, kernel.name)
    params = tuple(used_params(nest.body, (*kernel.params, *temporaries)))
    f = _function(program, kernel, nest, params)
    has_assert = any(isinstance(n, Assert) for n in walk(nest.body))
    together = any(n.scope == "grid" for n in statements_in(nest.body, Barrier))
    counts = thread_counts(grid)
    shape = block_shape(counts) or (prod(counts), 1, 1)
    f.engine = engine = find_engine(grid, prod(shape), f.fresh("turns"), program.machine)
    follows = program.machine.has("dependent launch") and not together
    plain = not may_have_failed and not any(isinstance(s, Let) and loads(s.value) for s in grid.inner)
    starts_before = follows and engine is not None and plain  # it touches no memory of the device for that
    if follows and not starts_before:
        f.line(f"{f.use('follow_grid')}();")
    if may_have_failed:
        f.line(f"if (*{FAILED}) return;")
    if engine is not None:
        grid = replace(grid, inner=(*grid.inner, Alloc(engine.barriers, grid.body)))
    f.threads, f.reductions_shuffle = shape, reductions_shuffle(grid.body)
    f.stored_once = _stored_once(grid.body)
    f.operands, f.halved = operands, find_halved(grid.body)
    f.lane = find_lane(grid)
    f.varying = find_varying(grid, f.lane)
    f.rings, f.fragments = find_rings(grid.body), find_fragments(grid.body)
    swizzled = find_swizzled(grid.body)
    for buffer in (*grid.shared, *(p for p in params if isinstance(p, Buffer))):
        if buffer.dtype.is_narrow_float:
            f.use(buffer.dtype.name)
    with ExitStack() as scopes:
        blocks = _emit_blocks(f, grid, scopes)
        shared = _emit_shared(f, grid, kernel.name, swizzled)
        _emit_inner(f, grid, scopes)
        _emit_threads(f, grid, scopes)
        if engine is None:
            emit_stmt(f, grid.body)
        else:
            emit_roles(f, engine, grid.body, shape, grid.threads, follows=starts_before)
            shape = wider_shape(shape, engine.roles.producers)
    maps = () if engine is None else engine.tensor_maps
    extra = ((FAILED,) if may_have_failed or has_assert else ()) + ((ERROR_RECORD,) if has_assert else ())
    if together and has_assert:
        raise UnsupportedError(
            "an assert in a launch whose blocks wait for one another",
            span=next(n.span for n in walk(nest.body) if isinstance(n, Assert)),
            why="a thread whose assert fails ends there, and all others would wait for it",
            help="check before, in a nest of its own",
        )
    limits = _bounds(program, grid, prod(shape), kernel.name if together else None)
    head = _head(
        program, nest, name, params, extra, maps, limits if engine is None else f"{prod(shape)}, {engine.held}"
    )
    names = (*(p.name for p in params), *extra, *(m.name for m in maps))
    launch = Launch(name, blocks, shape, shared, names, nest.condition, together, maps=maps, follows=follows)
    return launch, "\n".join([head, *f.lines, "}"])


def _bounds(program: Program, grid: Grid, threads: int, kernel: str | None) -> str:
    """Threads of a block and, where that matters, blocks at once; those of ``kernel`` wait for one another."""
    sizes = [int(e.value) for e in extents(grid.blocks) if isinstance(e, Const)]
    if kernel is not None and len(sizes) == len(grid.blocks) > 0:
        shared = sum(b.byte_count() or 0 for b in grid.shared)
        return f"{threads}, {blocks_together(prod(sizes), threads, shared, program.machine, grid.blocks[0], kernel)}"
    blocks = blocks_at_once(grid.body, threads, program.machine)
    return f"{threads}" if blocks is None else f"{threads}, {blocks}"


def _head(
    program: Program,
    nest: Nest,
    name: str,
    params: tuple[Buffer | Var, ...],
    extra: tuple[str, ...],
    maps: tuple[TensorMap, ...],
    limits: str,
) -> str:
    written = written_names(nest.body)
    exchanged = _exchanged(nest)
    texts = []
    for p in params:
        if isinstance(p, Buffer):
            const = "" if p.name in written else "const "
            alone = "" if p.name in exchanged else "__restrict__ "
            texts.append(f"{const}{storage_type(p.dtype)}* {alone}{program.names.of(p.name)}")
        else:
            texts.append(f"{value_type(p.dtype)} {program.names.of(p.name)}")
    texts += [f"long long* {e}" for e in extra]
    texts += [f"const __grid_constant__ TensorMap {m.name}" for m in maps]
    lead = f'extern "C" __global__ void __launch_bounds__({limits})\n{name}('
    if len(lead.splitlines()[1]) + len(", ".join(texts)) < 118:
        return f"{lead}{', '.join(texts)}) {{"
    return lead + "\n    " + ",\n    ".join(texts) + ") {"


def _exchanged(nest: Nest) -> frozenset[str]:
    """Buffers in which threads find after a barrier what others stored.

    Said to be reached through one pointer alone, what a thread does not store itself it would load only once.
    """
    if not statements_in(nest.body, Barrier):
        return frozenset()
    held = mentions(nest.body)
    return held.loaded & held.stored


def _function(program: Program, kernel: Kernel, nest: Nest, params: tuple[Buffer | Var, ...]) -> Function:
    f = Function(program, assigned_names(nest.body))
    written = written_names(nest.body)
    for p in params:
        if isinstance(p, Buffer):
            is_param = any(p.name == b.name for b in kernel.buffers)
            align = program.aligned.get(p.name, p.dtype.itemsize) if is_param else SHARED_ALIGN
            align, constant = max(align, p.dtype.itemsize), p.name not in written
            f.buffers[p.name] = Memory(program.names.of(p.name), align, is_constant=constant)
    sizes = {n.name for b in kernel.buffers for e in b.shape for n in walk(e) if isinstance(n, Var)}
    for v in kernel.scalars:
        f.variables[v.name] = Code(program.names.of(v.name), wide=v.dtype == dt.index)
        f.ranges[v.name] = Interval(0, None) if v.name in sizes else bounds(v, {})
        if v.dtype.is_narrow_float and v in params:
            _round_param(f, v)
    return f


def _stored_once(body: Stmt) -> frozenset[str]:
    stored: dict[str, set[Stmt]] = {}
    for s in stores(body):
        stored.setdefault(s.buffer.name, set()).add(s)
    return frozenset(name for name, found in stored.items() if len(found) == 1)


def _round_param(f: Function, v: Var) -> None:
    """A narrow float arrives as a float."""
    rounded = f.fresh(f"{v.name}_narrow")
    f.use(f"widen_{v.dtype.name}")
    f.line(f"const float {rounded} = widen({f.use(f'to_{v.dtype.name}')}({f.variables[v.name].text}));")
    f.variables[v.name] = Code(rounded)


def _emit_blocks(f: Function, grid: Grid, scopes: ExitStack) -> tuple[Expr, Expr, Expr]:
    """The variables of the block loops, and the number of blocks along each axis."""
    sizes = extents(grid.blocks)
    shape = grid_shape(sizes)
    if shape is not None:
        for loop, axis in zip(reversed(grid.blocks), _AXES):
            _declare(f, loop, Code(f"blockIdx.{axis}"), scopes)
        return shape
    return _emit_linear_blocks(f, grid, sizes, scopes)


def _emit_linear_blocks(f: Function, grid: Grid, sizes: tuple[Expr, ...], scopes: ExitStack) -> tuple[Expr, Expr, Expr]:
    """Blocks counted along x, the innermost loop fastest; a block does several where x has too few."""
    total: Expr = idx(1)
    for size in sizes:
        total = simplify(total * size)
    name = f.fresh("block")
    most = MAX_GRID[0]
    if isinstance(total, Const) and int(total.value) > most:
        scopes.enter_context(
            f.braces(f"for (long long {name} = blockIdx.x; {name} < {int(total.value)}ll; {name} += gridDim.x)")
        )
        scopes.enter_context(f.exit_to(f.fresh("next")))
        _refuse_shared(grid)
        number, total = Code(name, wide=True), idx(most)
    else:
        f.line(f"const int {name} = blockIdx.x;")
        number = Code(name)
    interval = Interval(0, int(total.value) - 1) if isinstance(total, Const) else Interval(0, most)
    f.variables[name], f.ranges[name] = number, interval
    rest: Expr = Var(name)
    for n, (loop, size) in enumerate(zip(reversed(grid.blocks), reversed(sizes))):
        if n == len(sizes) - 1:
            _declare(f, loop, emit_expr(f, rest), scopes)
            break
        count = _count(f, loop, size)
        _declare(f, loop, emit_expr(f, rest % count), scopes)
        rest = rest // count
    return total, idx(1), idx(1)


def _count(f: Function, loop: For, size: Expr) -> Expr:
    """How many blocks there are along a loop: at least one where a block runs at all, and no more than in the grid."""
    if isinstance(size, Const):
        return size
    name = f.fresh(f"{loop.var.name}_count")
    f.line(f"const int {name} = (int)({emit_expr(f, size).text});")
    f.variables[name], f.ranges[name] = Code(name), Interval(1, MAX_GRID[0])
    return Var(name)


def _refuse_shared(grid: Grid) -> None:
    if grid.shared:
        raise UnsupportedError(
            f"more than {MAX_GRID[0]} blocks with shared memory",
            span=grid.blocks[0].span,
            help="make the blocks larger",
        )


def _declare(f: Function, loop: For, number: Code, scopes: ExitStack) -> None:
    """A variable of the grid: its loop's lower bound and the number of the block or thread along an axis."""
    interval = loop_range(loop, f.ranges)
    if interval.hi is None and loop.lo == idx(0):
        interval = Interval(0, MAX_GRID[0])
    wide = number.wide or not interval.within(-(2**31), 2**31 - 1)
    name = f.program.names.of(loop.var.name)
    text = number.text
    if loop.lo != idx(0):
        signed = "(int)" if "Idx." in text else ""
        text = f"{emit_expr(f, loop.lo).inside(LEVEL['+'])} + {signed}{number.inside(LEVEL['*'])}"
    f.line(f"const {'long long' if wide else 'int'} {name} = {text};")
    scopes.enter_context(f.bound(loop.var.name, Code(name, wide=wide), interval))


def _emit_threads(f: Function, grid: Grid, scopes: ExitStack) -> None:
    counts = thread_counts(grid)
    if block_shape(counts) is not None:
        inner = 1
        for loop, axis, count in zip(reversed(grid.threads), _AXES, reversed(counts)):
            number = Code(f"threadIdx.{axis}")
            _declare(f, loop, number_of_warps(f, number) if f.engine and inner % WARP == 0 else number, scopes)
            inner *= count
        return
    name = f.fresh("thread")
    f.line(f"const int {name} = threadIdx.x;")
    f.variables[name], f.ranges[name] = Code(name), Interval(0, prod(counts) - 1)
    rest: Expr = Var(name)
    for loop, count in zip(reversed(grid.threads), reversed(counts)):
        is_last = loop is grid.threads[0]
        _declare(f, loop, emit_expr(f, rest if is_last else rest % idx(count)), scopes)
        rest = rest // idx(count)


def _emit_shared(f: Function, grid: Grid, kernel: str, swizzled: frozenset[str]) -> int:
    """Declares what a block's threads share; the bytes to ask for at the launch."""
    places: list[tuple[Buffer, int, int]] = []
    total = 0
    for buffer in grid.shared:
        count = buffer.element_count()
        if count is None:
            raise UnsupportedError(
                f"`{buffer.name}` is shared by the threads of a block, but its size is not a number", span=buffer.span
            )
        align = SWIZZLE_ALIGN if buffer.name in swizzled else SHARED_ALIGN
        total = -(-total // align) * align
        places.append((buffer, count, total))
        total += -(-count * buffer.dtype.itemsize // SHARED_ALIGN) * SHARED_ALIGN
    _check_shared(f, places, total, kernel)
    dynamic = total > DEFAULT_SHARED
    if dynamic:
        align = SWIZZLE_ALIGN if swizzled else 128
        f.line(f"extern __shared__ __align__({align}) unsigned char {(pool := f.fresh('shared_memory'))}[];")
    for buffer, count, start in places:
        name, type = f.program.names.of(buffer.name), storage_type(buffer.dtype)
        if dynamic:
            f.line(f"{type}* const {name} = reinterpret_cast<{type}*>({pool} + {start});  // {count} elements")
        else:
            align = SWIZZLE_ALIGN if buffer.name in swizzled else SHARED_ALIGN
            f.line(f"__shared__ __align__({align}) {type} {name}[{max(1, count)}];")
        f.buffers[buffer.name] = Memory(name, SHARED_ALIGN, is_swizzled=buffer.name in swizzled)
    return total if dynamic else 0


def _check_shared(f: Function, places: list[tuple[Buffer, int, int]], total: int, kernel: str) -> None:
    most = f.machine.shared_per_block
    if total <= most:
        return
    sizes = ", ".join(f"`{b.name}` {count * b.dtype.itemsize}" for b, count, _ in places)
    raise TargetError(
        f"a block of `{kernel}` needs {total} bytes of shared memory; {f.machine.name} has {most}",
        span=places[0][0].span,
        why=f"bytes by buffer: {sizes}",
        help="make the tiles smaller, or use fewer stages",
    )


def _emit_inner(f: Function, grid: Grid, scopes: ExitStack) -> None:
    """Values that are the same for all threads of a block."""
    for s in grid.inner:
        if isinstance(s, Let):
            value = emit_expr(f, s.value)
            wide = s.var.dtype == dt.index and value.wide
            type = "int" if s.var.dtype == dt.index and not wide else value_type(s.var.dtype)
            name = f.program.names.of(s.var.name)
            f.line(f"const {type} {name} = {value.text};")
            interval = EVERYTHING if s.var.dtype.is_float else bounds(s.value, f.ranges)
            scopes.enter_context(f.bound(s.var.name, Code(name, wide=wide), interval))
