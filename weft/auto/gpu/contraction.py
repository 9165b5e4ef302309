"""Products of matrices and their like on a GPU: tiles of sums in registers, operands in shared memory.

What comes out, outermost first::

    block: batches, tiles of rows, tiles of columns
      sums of the tile
      pieces of the depth                       operands copied to shared memory some pieces ahead
        thread: rows and columns of the tile
          steps of a piece
            sums of a thread, unrolled
      what is done with each sum, stored

With matrix instructions the threads are the lanes of warps, and the steps and sums of a warp one instruction after
another. The sizes are `contraction_tiles`'s answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.auto.gpu.box_loops import cut_deep_box, open_operands, turn_operands
from weft.auto.gpu.contraction_copies import cut_depth, move_apart, surround_operands
from weft.auto.gpu.contraction_digits import VECTOR, cut_tile, run_all, split_names
from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_operands import (
    cooperate,
    keep_in_registers,
    outer_loops,
    padding_of,
    run_beyond,
    stage_operand,
    store_results,
)
from weft.auto.gpu.contraction_product import Product, Side, read_product
from weft.auto.gpu.contraction_prologue import find_prologue, has_prologue
from weft.auto.gpu.contraction_results import (
    Kept,
    Nest,
    digits_of,
    find_reader,
    has_room,
    is_narrow,
    keep_sums,
    reads_beside,
)
from weft.auto.gpu.contraction_spread import comes_packed, packed_part, packed_stages, schedule_spread
from weft.auto.gpu.contraction_tiles import (
    FEWEST_STAGES,
    ROWS,
    ContractionPlan,
    Tiles,
    contraction_tiles,
    count_blocks,
    deep_plans,
    made_tiles,
    possible_plans,
    twin_tiles,
    with_stages,
)
from weft.auto.gpu.contraction_time import product_seconds
from weft.auto.gpu.contraction_twins import find_twins
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.grid import as_one
from weft.auto.gpu.points import POINTS
from weft.auto.gpu.tiles import TILES
from weft.auto.stages import Stage
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.schedules.schedule import Schedule
from weft.target.cuda.async_copies import SIZES
from weft.target.cuda.intrinsics import STEP_BYTES
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.rates import RESERVED_SHARED, rates_of

#: Products of a thread that are written out, at most: more are no quicker, and take long to compile.
WRITTEN_OUT = 1024


def contraction_plans(draft: GpuDraft, stage: Stage) -> list[ContractionPlan]:
    """Tiles for all instructions that the machine has for this, and of each thread's own arithmetic, best first: no
    tiles are the usual ones."""
    product = read_product(stage, surrounded=False, gathered=draft.gathered)
    others = _turned_prices(draft, stage) | deep_prices(draft, stage)
    if product is None:
        draft.expected[stage.name] = others
        return sorted(others, key=others.__getitem__)
    known = (("groups", True), ("warps", False))
    kinds = [kind for kind, grouped in known if find_instruction(draft, product, grouped=grouped)]
    prologue = find_prologue(draft, product) if "warps" in kinds else None
    tiles = contraction_tiles(product, draft.machine, (*kinds, "threads") if prologue is None else ("warps",))
    if prologue is not None:
        tiles = _unpacking(draft, product, prologue, tiles)
        product = replace(product, packed=packed_part(prologue))
    reader = epilogue_of(draft, stage)
    if reader is not None and is_narrow(reader):
        product = replace(product, stored=reader.write.buffer.dtype.itemsize)
        beside = reads_beside(product, reader)
        tiles = [t for t in tiles if not t.grouped or has_room(draft, product, t, reader, beside)]
    plans = possible_plans(product, draft.machine, tiles, may_part=draft.is_fast)
    prices = _prices(product, draft.machine, plans)
    if reader is not None and (twins := find_twins(draft, product)):
        together = [
            t for t in twin_tiles(product, draft.machine, 1 + len(twins)) if has_room(draft, product, t, reader, False)
        ]
        apart = len(twins) * min(prices.values(), default=0.0)  # the others would come after
        prices = {plan: seconds + apart for plan, seconds in prices.items()}
        prices |= {p: product_seconds(product, draft.machine, p) for p in map(ContractionPlan, together)}
    prices |= others
    draft.expected[stage.name] = prices
    return sorted(prices, key=prices.__getitem__)


def _prices(product: Product, machine: GpuMachine, plans: Sequence[ContractionPlan]) -> dict[ContractionPlan, float]:
    """What each takes; those of threads' own arithmetic are left out where others are done before its multiplications
    alone would be."""
    prices = {p: product_seconds(product, machine, p) for p in plans if p.tiles.warps}
    multiplied = product.results * product.steps / (machine.sms * machine.clock * rates_of(machine.capability).fma)
    if prices and min(prices.values()) < multiplied:
        return prices
    return prices | {p: product_seconds(product, machine, p) for p in plans if not p.tiles.warps}


def _unpacking(draft: GpuDraft, product: Product, prologue: Stage, tiles: list[Tiles]) -> list[Tiles]:
    """Those of products that make an operand: where what it is made of is much smaller, that comes ahead, as many
    pieces as shared memory has room for beside one block or two, and lanes make what they multiply."""
    rows, columns = (side.iterator.count for side in product.sides)
    size, machine = prologue.write.buffer.dtype.itemsize, draft.machine
    ahead: dict[Tiles, None] = {}
    if rows <= ROWS and size == 2 and draft.is_fast and comes_packed(prologue):
        for t in made_tiles(rows, columns, product.deep, size):
            rooms = (machine.shared_per_block, machine.shared_per_sm // 2)
            stages = (packed_stages(prologue, t, room - RESERVED_SHARED) for room in rooms)
            made = (replace(t, stages=min(n, product.deep // t.depth)) for n in stages)
            ahead |= dict.fromkeys(m for m in made if m.stages > FEWEST_STAGES)
    return list(ahead) or [t for t in tiles if t.rows >= rows and not t.fetched]


def _turned_prices(draft: GpuDraft, stage: Stage) -> dict[ContractionPlan, float]:
    """Plans that take boxes from copies of operands in which the depth lies along memory, and what each takes."""
    product = read_product(stage, surrounded=False, turned=True)
    if product is None or product.boxed is None or not any(s.turned for s in product.sides):
        return {}
    if not find_instruction(draft, product, grouped=True):
        return {}
    tiles = contraction_tiles(product, draft.machine, ("groups",))
    reader = epilogue_of(draft, stage)
    if reader is not None and is_narrow(reader):
        product = replace(product, stored=reader.write.buffer.dtype.itemsize)
        beside = reads_beside(product, reader)
        tiles = [t for t in tiles if has_room(draft, product, t, reader, beside)]
    plans = possible_plans(product, draft.machine, tiles, may_part=draft.is_fast)
    turned = [replace(p, turned=True) for p in plans if p.boxed and not p.moved]
    return {p: product_seconds(product, draft.machine, p, draft.constants) for p in turned}


def deep_prices(draft: GpuDraft, stage: Stage) -> dict[ContractionPlan, float]:
    """Plans whose pieces of the depth are boxes of both operands, and what each takes."""
    product = read_product(stage, surrounded=False, deep_boxes=True)
    if product is None or not draft.is_fast or product.why_not_fetched(draft.machine) is not None:
        return {}
    if not find_instruction(draft, product, grouped=True):
        return {}
    plans = deep_plans(product, draft.machine)
    reader = epilogue_of(draft, stage)
    if reader is not None and is_narrow(reader):
        product = replace(product, stored=reader.write.buffer.dtype.itemsize)
        beside = reads_beside(product, reader)
        plans = [p for p in plans if p.parts > 1 or has_room(draft, product, p.tiles, reader, beside)]
    return {p: product_seconds(product, draft.machine, p) for p in plans}


def contraction_prices(draft: GpuDraft, stage: Stage) -> Callable[[ContractionPlan], float]:
    return draft.expected[stage.name].__getitem__


def apply_contraction(draft: GpuDraft, name: str, plan: ContractionPlan) -> None:
    found = read_product(draft.stage(name), surrounded=False, turned=plan.turned)
    copies = turn_operands(draft, found) if found is not None and plan.turned else []
    boxed = _boxed_sides(draft, name, plan)
    copies += [*surround_operands(draft, name, boxed), *(move_apart(draft, name) if plan.moved else ())]
    found = read_product(draft.stage(name), surrounded=not boxed, gathered=draft.gathered, deep_boxes=bool(plan.deep))
    if found is None:
        raise ScheduleError(f"`{name}` tests what it reads")
    product, opened = open_operands(draft, plan.of(found))
    prologue = find_prologue(draft, product) if plan.tiles.warps and not copies else None
    if plan.deep:
        product = cut_deep_box(draft, product, plan.parts)
    elif plan.parts > 1:
        product = cut_depth(draft, product, plan.parts)
    plan = replace(plan, tiles=with_stages(product, plan.tiles, draft.machine))
    twins = find_twins(draft, product) if plan.tiles.twins > 1 else ()
    if plan.tiles.spread > 1:
        schedule_spread(draft, product, plan.tiles, prologue)
    else:
        _schedule(draft, (product, *twins), plan.tiles, prologue)
    for copy in opened:
        draft.s.compute_inline(copy)
    for p in (product, *twins):
        _tell(draft, p, plan)
    if plan.parts > 1:
        POINTS.schedule(draft, name)
    for copy in copies:  # as it was made until here, so that what it fills can be seen
        next((s for s in (TILES, POINTS) if s.schedule(draft, copy)), None)
    draft.scheduled |= {*copies}


def _boxed_sides(draft: GpuDraft, name: str, plan: ContractionPlan) -> list[Side]:
    """The operands that boxes are taken of."""
    found = read_product(draft.stage(name), surrounded=False, gathered=draft.gathered, deep_boxes=bool(plan.deep))
    if found is None:
        return []
    return [*found.sides] if plan.deep else [side for side in plan.of(found).sides if side.sizes]


def _schedule(draft: GpuDraft, every: tuple[Product, ...], tiles: Tiles, prologue: Stage | None) -> None:
    """``every`` product of the same rows, by the same loops over blocks and pieces; ``prologue`` makes an operand."""
    s, p = draft.s, every[0]
    reader = find_reader(draft, p)
    nests, steps, single = zip(*(_cut_nest(draft, q, tiles) for q in every))
    nest, *others = nests
    for other in others:
        for first, second in zip(nest.around_piece, other.around_piece):
            s.fuse_loops(first, second)
    kept = keep_sums(draft, every, tiles, nest, reader)
    shares = (tiles.shares[0], *(tiles.shares[1] for _ in every))
    sides = (p.rows, *(q.columns for q in every))
    operands = [stage_operand(draft, side, nest.piece, tiles, share) for side, share in zip(sides, shares)]
    for q, start in zip(every, kept.starts):
        run_beyond(draft, q, tiles, start)
    if prologue is not None:
        s.compute_inline(prologue.name)
        what = "computed on the way to shared memory"
        draft.decide("fusion", prologue.name, what, "one block uses each element")
    for side in (side for side in sides if side.gathered):
        s.compute_inline(side.buffer)
        what = "computed on the way to shared memory"
        draft.decide("fusion", side.buffer, what, "it is never in memory")
    for side, (_, storage) in zip(sides, () if tiles.warps else operands):
        keep_in_registers(draft, storage, steps[0] if side.along_depth else single[0])
    _bind(draft, nests, kept)
    for side, (load, storage) in zip(sides, operands):
        cooperate(
            draft, load, storage, len(nest.around_piece), tiles.threads, written_out=side.whole_bytes >= min(SIZES),
            widest=side.gathered or WIDEST,
        )  # fmt: skip
    store_results(draft, kept, reader, tiles)
    for loop in () if tiles.warps else (steps[0], single[0], *nest.own):
        s.unroll(loop)
    if p.is_boxed:
        as_one(draft, (*p.around, nest.piece))  # so that copies run ahead from tap to tap
    s.pipeline(*(storage for _, storage in operands), stages=tiles.stages)
    for side, (_, storage) in zip(sides, operands):
        if padding := padding_of(side, tiles):
            s.pad_rows(storage, padding)
    for q, loop in zip(every, steps if tiles.warps else ()):
        s.tensorize(loop, find_instruction(draft, q, grouped=tiles.grouped) or "")


def _cut_nest(draft: GpuDraft, p: Product, tiles: Tiles) -> tuple[Nest, str, str]:
    """The loops of a product in order, and those through the steps of a piece and within one of them."""
    s, size = draft.s, p.rows.access.buffer.dtype.itemsize
    outer, down, across, piece, k = outer_loops(draft, p, tiles)
    steps, step = split_names(s, k, STEP_BYTES // size if tiles.warps else VECTOR)
    rounds, steps = ((), steps) if tiles.warps else _written_out(s, steps, tiles)
    if p.is_boxed:
        s.reorder(*outer, *p.around, piece, *down, *across, steps, step)
    tile = [as_one(draft, loops) for loops in (down, across)]
    nest = Nest(outer, p.around, piece, *cut_tile(s, p, tiles, tile))
    inside = (steps, *nest.own, step) if tiles.warps else (*rounds, steps, step, *nest.own)
    s.reorder(*nest.around_piece, *nest.threads, *inside)
    return nest, steps, step


def _written_out(s: Schedule, quads: str, tiles: Tiles) -> tuple[tuple[str, ...], str]:
    """The loop through a piece, four steps at a time, as rounds that are written out."""
    most = WRITTEN_OUT // (tiles.own_rows * tiles.own_columns * VECTOR)
    if tiles.depth // VECTOR <= most:
        return (), quads
    rounds, quads = split_names(s, quads, max(1, most))
    return (rounds,), quads


def _bind(draft: GpuDraft, nests: Sequence[Nest], kept: Kept) -> None:
    s = draft.s
    starts = [digits_of(draft, nest, start) for nest, start in zip(nests, kept.starts)]
    run_all(s, "block", [x for x in nests[0].outer if x != nests[0].piece])
    for nest, (threads, own) in zip(nests, starts):
        run_all(s, "thread", nest.threads)
        run_all(s, "thread", threads)
        run_all(s, "unroll", own)
    run_all(s, "thread", kept.threads)
    run_all(s, "unroll", kept.own[:-1])
    s.vectorize(kept.own[-1])


def _tell(draft: GpuDraft, p: Product, plan: ContractionPlan) -> None:
    tiles, blocks = plan.tiles, count_blocks(p, plan.tiles)
    who = "warp" if tiles.warps else "thread"
    why = f"{blocks} blocks for {draft.machine.sms} multiprocessors"
    draft.decide("tiling", p.name, f"blocks of {tiles.name} sums", why)
    for side in (s for s in p.sides if s.sizes):
        along = ", ".join(f"{n} `{i.name}`" for i, n in zip(side.box, side.sizes))
        what = f"tiles are boxes of `{side.access.buffer.name}`: {along}"
        draft.decide("tiling", p.name, what, "the fewest tiles, of which few are not full")
    how = "matrix instructions" if tiles.warps else f"{tiles.own_rows + tiles.own_columns} loads for each step"
    draft.decide("registers", p.name, f"{tiles.own_rows} x {tiles.own_columns} sums a {who}", how)
    if tiles.spread > 1:
        draft.decide("parallel", p.name, f"{tiles.spread} warps share the depth of a sum", "few rows: few sums")
    size = max(s.access.buffer.dtype.itemsize for s in p.sides)
    deep = f"operands {tiles.depth} steps at a time in shared memory, {tiles.stages - 1} ahead"
    used, most = tiles.shared_bytes(size) >> 10, draft.machine.shared_per_block >> 10
    room = f"{used} KiB of {most}" if used <= most else f"of {most} KiB, for columns come as what they are made of"
    draft.decide("storage", p.name, deep, room)
    if tiles.grouped:
        problem = p.why_not_fetched(draft.machine)
        by = "all threads" if problem else "the copy engine, for blocks that go from tile to tile"
        draft.decide("storage", p.name, f"copied by {by}", problem or "if arrays begin at multiples of 16 bytes")
    draft.scheduled.add(p.name)


CONTRACTION: Strategy[GpuDraft] = Strategy("contraction", contraction_plans, apply_contraction, contraction_prices)


def take_prologues(draft: GpuDraft) -> None:
    """Products that make an operand themselves, before what makes it gets a launch of its own."""
    for name in [s.name for s in draft.stages]:
        if name not in draft.stages or name in draft.scheduled:
            continue
        gathers = any(a.buffer.name in draft.gathered for a in draft.stage(name).reads)
        if gathers or has_prologue(draft, draft.stage(name)):
            CONTRACTION.schedule(draft, name)
