"""Steps that belong together: what a primitive needs before it is legal, drawn for the schedule as it stands.

A recipe is a generator: it yields a step and, once that was tried, looks at the schedule again for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from weft.ir.hardware import HARDWARE, Hardware, declare
from weft.ir.stmt import Block, For
from weft.ir.visit import free_vars
from weft.schedules.find import all_allocs, all_loops, blocks_inside, find_block, loops_around
from weft.schedules.schedule import Schedule
from weft.schedules.tensorize import _fits

Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Step = tuple[str, tuple[Any, ...], dict[str, Any]]
Recipe = Callable[[Any, Schedule], Iterator[Step]]

#: Small intrinsics without an instruction: machines run the loops, schedules have to match them.
_SHAPES = {
    "copy": "A: {T}[4], out B: {T}[4]) {{ for i in 0:4 {{ B[i] = A[i] }} }}",
    "apart": "s: int64, A: {T}[4] strides [s], out B: {T}[4]) {{ for i in 0:4 {{ B[i] = A[i] }} }}",
    "add": "A: {T}[4], out B: {T}[4]) {{ for i in 0:4 {{ B[i] = B[i] + A[i] }} }}",
    "fill": "out B: {T}[4]) {{ for i in 0:4 {{ B[i] = {T}(0) }} }}",
    "total": "A: {T}[4], out B: {T}[]) {{ for i in 0:4 {{ B[] = B[] + A[i] }} }}",
    "fma": "A: {T}[], B: {T}[4], out C: {T}[4]) {{ for i in 0:4 {{ C[i] = C[i] + A[] * B[i] }} }}",
    "dot": "s: int64, A: {T}[4], B: {T}[4] strides [s], out C: {T}[]) {{ for i in 0:4 {{ C[] = C[] + A[i] * B[i] }} }}",
}
for _type in ("float32", "float64", "int32", "int8"):
    for _name, _text in _SHAPES.items():
        _full = f"tiny_{_name}_{_type}"
        declare(Hardware(_full, f"kernel {_full}({_text.format(T=_type)}"))


def pick(draw: Any, options: list[Any]) -> Any:
    return draw(st.sampled_from(options))


def reduce_loops(s: Schedule, block: Block) -> list[str]:
    """The loops that the reduce iterators of ``block`` are made of."""
    names = {n for i in block.iters if i.kind == "reduce" for n in free_vars(i.binding)}
    return [loop.var.name for loop in loops_around(s.kernel, block) if loop.var.name in names]


def spatial_loops(s: Schedule, block: Block) -> list[str]:
    reduce = reduce_loops(s, block)
    return [loop.var.name for loop in loops_around(s.kernel, block) if loop.var.name not in reduce]


def last_made(s: Schedule) -> tuple[str, ...]:
    return s.trace.steps[-1].made if s.trace.steps else ()


def written_by(s: Schedule, block: str) -> str:
    return find_block(s.kernel, block).writes[0].buffer.name


def pad_tiles(draw: Any, s: Schedule) -> Iterator[Step]:
    """Uneven tiles in storage of their own, what they read packed with zeros, then run beyond the edge."""
    blocks = [b for b in blocks_inside(s.kernel) if b.writes and spatial_loops(s, b)]
    if not blocks:
        return
    block = pick(draw, [b for b in blocks if reduce_loops(s, b)] or blocks)
    loop = pick(draw, spatial_loops(s, block))
    factor = pick(draw, [2, 3, 3, 4])
    yield "split", (loop, factor), {"tail": "guard"}
    outer, inner = (*last_made(s), "", "")[:2]
    if inner not in {f.var.name for f in loops_around(s.kernel, block.name)}:
        return
    reduce = reduce_loops(s, find_block(s.kernel, block.name))
    if reduce and draw(st.booleans()):
        yield "reorder", (*reduce, inner), {}
    yield (
        "cache_write",
        (written_by(s, block.name),),
        {"at": outer, "scope": pick(draw, ["local", "global", "register"])},
    )
    for read in {r.buffer for r in find_block(s.kernel, block.name).reads}:
        if any(b.name == read.name for b in s.kernel.buffers) and read.name not in s.kernel.outputs:
            letters = "ijklmn"[: read.rank]
            tiled = [f"{letter}/{factor}" for letter in letters] + [f"{letter}%{factor}" for letter in letters]
            place = pick(draw, [None, outer])
            words = list(letters) if place is not None and draw(st.booleans()) else tiled
            yield "pack", (read.name, " ".join(words)), {"at": place, "pad": True}
    kept = {w.buffer.name for w in find_block(s.kernel, block.name).writes} if block.name in named(s) else set()
    for writer in [b.name for b in blocks_inside(s.kernel) if kept & {w.buffer.name for w in b.writes}]:
        yield "pad", (writer,), {}  # what starts the tile first


def tensorize_inner(draw: Any, s: Schedule) -> Iterator[Step]:
    """A loop cut to four iterations, the initialization out of the way, and an intrinsic that fits."""
    blocks = [b for b in blocks_inside(s.kernel) if loops_around(s.kernel, b)]
    if not blocks:
        return
    block = pick(draw, blocks)
    name, copies = block.name, block.reads and draw(st.booleans())
    if copies:
        yield "cache_read", (pick(draw, list(block.reads)).buffer.name,), {"scope": pick(draw, ["global", "local"])}
        name = (last_made(s) or (name,))[0]
    elif block.init is not None and reduce_loops(s, block):
        yield "decompose_reduction", (name, reduce_loops(s, block)[0]), {}
    around = [f.var.name for f in loops_around(s.kernel, name)] if name in named(s) else []
    if not around:
        return
    loop = pick(draw, [*around, around[-1], around[-1]])
    if loop != around[-1]:
        yield "reorder", (*(f for f in around if f != loop), loop), {}
    yield "split", (loop, 4), {"tail": pick(draw, ["separate", "guard"])}
    fitting = [(f.var.name, h.name) for f in all_loops(s.kernel) for h in HARDWARE.values() if _fits(s.kernel, f, h)]
    if fitting:
        yield "tensorize", pick(draw, fitting), {}


def named(s: Schedule) -> list[str]:
    return [b.name for b in blocks_inside(s.kernel)]


def take_turns(draw: Any, s: Schedule) -> Iterator[Step]:
    """What a tile reads is copied, an iteration ahead."""
    blocks = [b for b in blocks_inside(s.kernel) if b.reads and loops_around(s.kernel, b)]
    if not blocks:
        return
    block = pick(draw, blocks)
    if draw(st.booleans()):
        yield "split", (pick(draw, loops_around(s.kernel, block)).var.name, pick(draw, [2, 3, 4])), {}
    around = [f.var.name for f in loops_around(s.kernel, block.name)] if block.name in named(s) else []
    if not around:
        return
    read = pick(draw, list(dict.fromkeys(r.buffer.name for r in block.reads)))
    yield "cache_read", (read,), {"at": pick(draw, around), "scope": pick(draw, ["global", "local"])}
    made = last_made(s)
    if made and made[-1] in {a.buffer.name for a in all_allocs(s.kernel)}:
        yield "double_buffer", (made[-1],), {}


def partial_results(draw: Any, s: Schedule) -> Iterator[Step]:
    """A reduction in parts, which then run side by side."""
    blocks = [b for b in blocks_inside(s.kernel) if reduce_loops(s, b)]
    if not blocks:
        return
    block = pick(draw, blocks)
    loop = pick(draw, reduce_loops(s, block))
    yield "rfactor", (loop, pick(draw, [None, 2, 4])), {"axis": draw(st.integers(0, 1))}
    names = [f.var.name for b in blocks_inside(s.kernel) if "part" in b.name for f in loops_around(s.kernel, b)]
    if names:
        yield pick(draw, ["vectorize", "parallel", "unroll"]), (pick(draw, names),), {}


def break_up(draw: Any, s: Schedule) -> Iterator[Step]:
    """Loops merged where they can be, and taken apart again."""
    from random_schedules import a_body_to_break, neighbours

    for _ in range(draw(st.integers(1, 3))):
        found = neighbours(s)
        if found:
            yield "fuse_loops", pick(draw, found), {}
    bodies = a_body_to_break(s)
    if bodies:
        yield "fission", pick(draw, bodies), {}


def wavefront(draw: Any, s: Schedule) -> Iterator[Step]:
    """Skewed loops, reordered, the inner one in parallel."""
    nests = [n for b in blocks_inside(s.kernel) if len(n := loops_around(s.kernel, b)) > 1]
    if not nests:
        return
    nest = [f.var.name for f in pick(draw, nests)]
    at = draw(st.integers(0, len(nest) - 2))
    yield "skew", (nest[at + 1], nest[at], pick(draw, [1, 1, 2, -1])), {}
    yield "reorder", (nest[at + 1], nest[at]), {}
    yield pick(draw, ["parallel", "vectorize", "unroll"]), (nest[at],), {}


def epilogue(draw: Any, s: Schedule) -> Iterator[Step]:
    """A consumer joins its producer, or a producer its consumer."""
    pairs = [
        (writer, reader)
        for writer in blocks_inside(s.kernel)
        for reader in blocks_inside(s.kernel)
        if writer is not reader and {w.buffer.name for w in writer.writes} & {r.buffer.name for r in reader.reads}
    ]
    if not pairs:
        return
    writer, reader = pick(draw, pairs)
    forwards = draw(st.booleans())
    host, guest = (writer, reader) if forwards else (reader, writer)
    around = loops_around(s.kernel, host)
    if not around:
        return
    if draw(st.booleans()):
        yield "split", (around[0].var.name, pick(draw, [2, 3, 4])), {}
        around = loops_around(s.kernel, host.name)
    loop = pick(draw, around[: draw(st.integers(1, len(around)))]).var.name
    if not forwards and not draw(st.integers(0, 2)):
        yield "compute_inline", (guest.name,), {}
        return
    yield ("reverse_compute_at" if forwards else "compute_at"), (guest.name, loop), {}
    if draw(st.booleans()):
        yield "store_at", (writer.writes[0].buffer.name, around[0].var.name), {}
        yield "fold_storage", (writer.writes[0].buffer.name, 0, draw(st.integers(1, 4))), {}
    elif not forwards and draw(st.booleans()):
        yield "compute_root", (guest.name,), {}


def versions(draw: Any, s: Schedule) -> Iterator[Step]:
    """A version for a condition, and something done to it alone."""
    names = [v.name for v in s.kernel.scalars if v.dtype.is_integer] or list(s.sizes)
    loops = [f for f in all_loops(s.kernel) if isinstance(f, For)]
    if not names or not loops:
        return
    test = pick(draw, ["{} % 4 == 0", "{} == 3", "{} >= 4 and {} < 100", "not {} == 1"])
    yield "specialize", (pick(draw, loops).var.name, test.replace("{}", pick(draw, names))), {}
    made = last_made(s)
    if made and made[0].endswith("_s"):
        yield "split", (pick(draw, list(made)), pick(draw, [2, 4])), {}


RECIPES: tuple[Recipe, ...] = (
    pad_tiles, pad_tiles, pad_tiles, tensorize_inner, tensorize_inner, take_turns, partial_results, partial_results,
    break_up, wavefront, epilogue, epilogue, versions,
)  # fmt: skip
