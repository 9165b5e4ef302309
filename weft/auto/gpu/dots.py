"""Products of a step of a recurrence: each sum by a few threads, and what is done with the sums in the same block.

Steps wait for one another, so one of them is to be short: all multiprocessors have a tile of it, threads share the
depth of each sum, and nothing is stored that the same thread can use. What comes out, outermost first::

    block: batches, tiles of rows, tiles of columns
      what a tile reads of both operands, in shared memory
      thread: rows and columns of the tile
        thread: lanes of the depth, four neighbours at a time
          sums of the other iterators (the gates of a hidden unit), in registers
        sums of all lanes
        what is done with them

An operand that is the same in every step stays in shared memory once the launches of all steps are one (`persist`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil, inf, prod

from weft.auto.contraction_plan import is_contraction
from weft.auto.gpu.contraction import contraction_plans, contraction_prices
from weft.auto.gpu.contraction_digits import VECTOR, split_names
from weft.auto.gpu.contraction_operands import cooperate, keep_in_registers
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.launch_time import LaunchWork, launch_time
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.auto.strategy import Strategy
from weft.schedules.layouts import LETTERS
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import ISSUE, L1_BYTES, rates_of

#: Sums of a thread, and steps through its part of the depth that are written out, at most.
MOST_SUMS, WRITTEN_OUT = 16, 8
#: Rows and columns of a tile at most, which are to divide all of them, and lanes that share the depth.
TILES, LANES = range(1, 33), (1, 2, 4, 8, 16, 32)
#: Threads of a block: fewer leave its multiprocessor idle while they wait.
FEWEST_THREADS, MOST_THREADS = 64, 512


@dataclass(frozen=True, slots=True)
class DotsPlan:
    """``rows`` by ``columns`` of a block, ``lanes`` threads for the depth of each."""

    rows: int
    columns: int
    lanes: int

    @property
    def way(self) -> str:
        return "dots"

    @property
    def threads(self) -> int:
        return self.rows * self.columns * self.lanes


@dataclass(frozen=True, slots=True)
class Dots:
    """A product: tiled iterators (``sides``, with the operand each is of), the ``depth``, ``own`` ones that a thread
    has all of, and ``batch`` ones over blocks. ``readers`` are the stages that use the sums, and nobody else does."""

    stage: Stage
    sides: tuple[tuple[StageAccess, StageIter | None], ...]
    depth: StageIter
    own: tuple[StageIter, ...]
    batch: tuple[StageIter, ...]
    readers: tuple[str, ...]

    @property
    def sums(self) -> int:
        return prod(i.count for i in self.own)

    def own_of(self, access: StageAccess) -> int:
        """Elements of an operand for each row or column of its side, and step of the depth."""
        return prod(i.count for i in self.own if access.uses(i.name))


def read_dots(draft: GpuDraft, stage: Stage) -> Dots | None:
    """``stage`` as dot products of a step; None where it is none."""
    if not stage.steps or stage.op != "+" or stage.is_inside or not is_contraction(stage) or not draft.is_fast:
        return None
    reads = stage.distinct_reads
    readers = _readers(draft, stage)
    exact = all(i.exact and i.extent is not None for i in stage.iters)
    if len(reads) != 2 or reads[0].buffer.name == reads[1].buffer.name or not exact or readers is None:
        return None
    summed = [i for i in stage.reductions if i.count > 1]
    plain = all(a.subscript_of(i.name) is not None for a in reads for i in stage.iters if i.loop and a.uses(i.name))
    if len(summed) != 1 or not plain or any(a.guarded or not a.uses(summed[0].name) for a in reads):
        return None
    users = {i: [a for a in reads if a.uses(i.name)] for i in stage.spatial if i.loop}
    alone = ((i for i, found in users.items() if found == [a]) for a in reads)
    tiled = tuple(max(found, key=lambda i: i.count, default=None) for found in alone)
    own = tuple(i for i, found in users.items() if len(found) < 2 and i not in tiled)
    batch = tuple(i for i, found in users.items() if len(found) == 2)
    dots = Dots(stage, tuple(zip(reads, tiled)), summed[0], own, batch, readers)
    return dots if dots.sums <= MOST_SUMS else None


def _readers(draft: GpuDraft, stage: Stage) -> tuple[str, ...] | None:
    """The stages of the same step that use the sums, in order; None where others do, too, or they sum up themselves."""
    stages = draft.stages
    found = stages.consumers(stage)
    if stages.is_output(stage) or stages.writers(stage.write.buffer.name) != (stage,) or not found:
        return None
    fine = all(r.op == "=" and not r.reductions and r.outer == stage.outer and r.is_plain for r in found)
    return tuple(r.name for r in found) if fine else None


def dots_plans(draft: GpuDraft, stage: Stage) -> list[DotsPlan]:
    """Tiles whose operands fit shared memory, best first, where they are quicker than large tiles of sums would be."""
    dots = read_dots(draft, stage)
    if dots is None:
        return []
    rows, columns = ([1] if i is None else [n for n in TILES if i.count % n == 0] for _, i in dots.sides)
    lanes = [n for n in LANES if n * VECTOR < 2 * dots.depth.count]
    plans = [DotsPlan(*sizes) for sizes in product(rows, columns, lanes)]
    room = draft.machine.shared_per_block
    plans = [p for p in plans if FEWEST_THREADS <= p.threads <= MOST_THREADS and sum(_shared_bytes(dots, p)) <= room]
    limit = _otherwise(draft, dots)
    prices = {p: dots_seconds(draft, dots, p) for p in plans}
    draft.expected[stage.name] = {p: seconds for p, seconds in prices.items() if seconds < limit}
    return sorted(draft.expected[stage.name], key=prices.__getitem__)


def _otherwise(draft: GpuDraft, dots: Dots) -> float:
    """What the product takes as one of matrices, with a launch for everything that is done with its sums."""
    others = contraction_plans(draft, dots.stage)
    rates = rates_of(draft.machine.capability)
    each = rates.launch + 2 * rates.memory_latency / draft.machine.clock
    best = draft.expected[dots.stage.name][others[0]] if others else inf
    return best + len(dots.readers) * each


def _shared_bytes(dots: Dots, plan: DotsPlan) -> list[int]:
    """What a block keeps of each operand."""
    deep = ceil(dots.depth.count / (plan.lanes * VECTOR)) * plan.lanes * VECTOR
    return [
        n * dots.own_of(a) * deep * a.buffer.dtype.itemsize for n, (a, _) in zip((plan.rows, plan.columns), dots.sides)
    ]


def dots_seconds(draft: GpuDraft, dots: Dots, plan: DotsPlan) -> float:
    """One launch; an operand that stays the same from step to step is on its multiprocessor already.

    What a block does comes in turns, with barriers in between: fetching, adding up, and what follows.
    """
    machine, rates = draft.machine, rates_of(draft.machine.capability)
    sizes = (plan.rows, plan.columns)
    blocks = prod(ceil((1 if i is None else i.count) / n) for (_, i), n in zip(dots.sides, sizes))
    blocks *= prod(i.count for i in dots.batch)
    written = {w.write.buffer.name for w in draft.stages if w.outer == dots.stage.outer}
    fetched = sum(n for n, (a, _) in zip(_shared_bytes(dots, plan), dots.sides) if a.buffer.name in written)
    rounds, warps = ceil(dots.depth.count / (plan.lanes * VECTOR)), plan.threads / WARP
    across = min(plan.columns, max(1, WARP // plan.lanes))
    apart = (max(1, WARP // plan.lanes // across), across)
    cycles = [max(1.0, n * plan.lanes * VECTOR * 4 / L1_BYTES) for n in apart]
    lsu = warps * rounds * sum(c * dots.own_of(a) for c, (a, _) in zip(cycles, dots.sides))
    alone = rounds * (2 * rates.shared_latency + VECTOR * dots.sums)
    turns = fetched / rates.l2_bytes + max(lsu, warps * rounds * VECTOR * dots.sums / ISSUE)
    shuffles = plan.lanes.bit_length() * (rates.shared_latency + 2 * dots.sums)
    work = LaunchWork(
        blocks=blocks,
        threads=plan.threads,
        registers=32 + 3 * dots.sums,
        shared=sum(_shared_bytes(dots, plan)),
        dram=0.0,
        l2=blocks * fetched,
        issued=warps * rounds * (VECTOR * dots.sums + 4),
        lsu=lsu,
        chain=max(alone, ceil(blocks / machine.sms) * turns) + shuffles + 2 * rates.barrier,
        trips=2.0,
    )
    return launch_time(work, machine).seconds


def apply_dots(draft: GpuDraft, name: str, plan: DotsPlan) -> None:
    s, dots = draft.s, read_dots(draft, draft.stage(name))
    assert dots is not None
    stage, sums = dots.stage, dots.stage.write.buffer.name
    tiles = [
        split_names(s, stage.loop_of(i.name), n)
        for (_, i), n in zip(dots.sides, (plan.rows, plan.columns))
        if i is not None
    ]
    rounds, rest = split_names(s, stage.loop_of(dots.depth.name), plan.lanes * VECTOR)
    lanes, step = split_names(s, rest, VECTOR)
    outer = [*(stage.loop_of(i.name) for i in dots.batch), *(tile for tile, _ in tiles)]
    inner = [i for _, i in tiles]
    own = [stage.loop_of(i.name) for i in dots.own]
    s.reorder(*outer, *inner, lanes, rounds, *own, step)
    _join_readers(draft, dots, inner[-1])
    s.store_at(sums, inner[-1])
    before = {str(b) for b in s.blocks()}
    part = str(s.rfactor(lanes)[0])
    (start,) = {str(b) for b in s.blocks()} - before - {part}
    copies = [_copy_operand(draft, dots, a, i, outer[-1], part) for a, i in dots.sides]
    draft.attempt(s.pad, part)  # steps beyond the end of the depth add zeros
    if plan.lanes * VECTOR * WRITTEN_OUT < dots.depth.count:
        _, rounds = split_names(s, rounds, WRITTEN_OUT)
    for _, storage in copies:
        keep_in_registers(draft, storage, rounds)
    _bind(draft, outer, [*inner, lanes], [rounds, *own, step])
    _spread_rest(draft, start, name, len(outer) + len(inner))
    for load, storage in copies:
        cooperate(draft, load, storage, len(outer), plan.threads, written_out=True)
    draft.scheduled |= {name, part, start}
    what = f"blocks of {plan.rows} x {plan.columns}, {dots.sums} sums of each"
    draft.decide("tiling", name, what, "a step waits for the one before")
    draft.decide("parallel", name, f"{plan.lanes} threads share the depth of a sum", f"{plan.threads} threads a block")


def _join_readers(draft: GpuDraft, dots: Dots, at: str) -> None:
    """What is done with the sums where they are; then also what is done with that, as far as it goes."""
    joined = {dots.stage.name}
    after = [r.name for r in draft.stages if r.position > dots.stage.position and r.outer == dots.stage.outer]
    for name in after:
        reader = draft.stage(name)
        used = {p.name for p in draft.stages.producers(reader)}
        if not used & joined or reader.op != "=" or reader.reductions or name in draft.scheduled:
            continue
        refusal = draft.attempt(draft.s.reverse_compute_at, name, at)
        if refusal is not None and name in dots.readers:
            raise refusal
        if refusal is None:
            joined.add(name)
            draft.scheduled.add(name)
            draft.decide("fusion", name, f"done with the sums of `{dots.stage.name}`", "they are in registers")


def _copy_operand(
    draft: GpuDraft, dots: Dots, access: StageAccess, tiled: StageIter | None, at: str, reader: str
) -> tuple[str, str]:
    """What a block reads of an operand in shared memory, the depth last; loaded by which block."""
    places = [None if i is None else access.subscript_of(i.name) for i in (tiled, dots.depth)]
    last = [LETTERS[d] for d in places if d is not None]
    others = [LETTERS[d] for d in range(access.buffer.rank) if LETTERS[d] not in last]
    layout = " ".join([*others, *last])
    load, storage = draft.s.pack(access.buffer.name, layout, at=at, scope="shared", pad=True, readers=[reader])
    return str(load), str(storage)


def _bind(draft: GpuDraft, blocks: list[str], threads: list[str], unrolled: list[str]) -> None:
    for loop in blocks:
        draft.s.bind(loop, "block")
    for loop in threads:
        draft.s.bind(loop, "thread")
    for loop in unrolled:
        draft.s.unroll(loop)


def _spread_rest(draft: GpuDraft, start: str, total: str, around: int) -> None:
    """Where the lanes' sums start, and where they are added up; ``around`` are the loops around both."""
    lanes, *own = [str(x) for x in draft.s.loops(start)[around:]]
    *also, _ = [str(x) for x in draft.s.loops(total)[around:]]
    _bind(draft, [], [lanes], [*own, *also])


DOTS: Strategy[GpuDraft] = Strategy("dots", dots_plans, apply_dots, contraction_prices)
