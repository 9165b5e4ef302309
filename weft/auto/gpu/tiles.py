"""Transposes and other moves: what is read along memory by one iterator is written along memory by another.

A thread copies a small square into its registers, 16 bytes at a time along what is read, and writes it out 16 bytes at
a time along what is written. Threads of a warp lie so that what they read together is a line of memory, and what they
write together whole sectors.

Where sizes do not come out even, a block copies a square into shared memory. Rows there are a word further apart than
they are long, so that neither way many threads meet in one bank.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

from weft.auto.gpu.draft import THREADS, GpuDraft, lanes_for
from weft.auto.gpu.grid import as_one, split_lanes
from weft.auto.gpu.streams import Grid, Stream, streams_seconds
from weft.auto.moves import turned_iterators
from weft.auto.stages import Stage, StageIter
from weft.auto.strategy import Strategy
from weft.ir.buffer import Buffer
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import BANKS, SECTOR, rates_of

#: Elements of a side of a square of one thread, at most: all of it is in registers.
OWN_SIDE = 8
#: Threads along what is read, a line of memory, and along what is written, at most.
ALONG_READ, ALONG_WRITTEN = 8, 16
#: Elements of a side of a square in shared memory: larger ones make more threads meet in a bank.
SIDE = 64
#: Bytes of a word of shared memory: neighbouring words are in different banks.
WORD = 4


@dataclass(frozen=True, slots=True)
class SquaresPlan:
    """Squares of ``side`` by ``side`` in a thread's registers, and how many threads a block has along what is read and
    along what is written."""

    side: int
    along_read: int
    along_written: int
    way: str = "through registers"


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """Squares of a block in shared memory, ``read`` by ``written`` elements, moved by ``threads``, ``lanes`` of each at
    a time."""

    read: int
    written: int
    lanes: int
    threads: int
    way: str = "through shared memory"


def tiles_plans(draft: GpuDraft, stage: Stage) -> list[SquaresPlan | SharedPlan]:
    """Through registers where squares come out even, through shared memory anywhere."""
    pair = turned_iterators(stage)
    if pair is None or stage.outer or not stage.is_plain or not stage.is_affine:
        return []
    if not all(i.extent is not None and i.exact and i.extent >= 8 for i in pair):
        return []
    return [*_square_plans(stage, *pair), *_shared_plans(draft, stage, *pair)]


def apply_tiles(draft: GpuDraft, name: str, plan: SquaresPlan | SharedPlan) -> None:
    stage = draft.stage(name)
    pair = turned_iterators(stage)
    assert pair is not None
    if isinstance(plan, SquaresPlan):
        _through_registers(draft, stage, *pair, plan)
    else:
        _through_shared(draft, stage, *pair, plan)


def _square_plans(stage: Stage, written: StageIter, read: StageIter) -> list[SquaresPlan]:
    """Squares that come out even, of threads that are whole warps, those whose accesses are widest first."""
    widest = min(OWN_SIDE, lanes_for(stage.accesses))
    usual = (gcd(read.count // widest, ALONG_READ), gcd(written.count // widest, ALONG_WRITTEN))
    shapes = [usual, *((r, w) for r in (4, 8, 16, 32) for w in (4, 8, 16, 32))]
    found = [
        SquaresPlan(side, r, w)
        for side in (n for n in (widest, widest // 2) if n > 1)
        for r, w in shapes
        if not read.count % (side * r) and not written.count % (side * w)
        if r * w % WARP == 0 and r * w <= 2 * THREADS
    ]
    return list(dict.fromkeys(found))


def _shared_plans(draft: GpuDraft, stage: Stage, written: StageIter, read: StageIter) -> list[SharedPlan]:
    lanes = lanes_for(stage.accesses)
    size = max(a.buffer.dtype.itemsize for a in stage.reads)
    usual = SharedPlan(_side(read, lanes, SIDE), _side(written, lanes, SIDE), lanes, THREADS)
    found = [
        SharedPlan(_side(read, lanes, r), _side(written, lanes, w), n, threads)
        for r in (32, 64, 128)
        for w in (32, 64, 128)
        for n in dict.fromkeys((lanes // 2 or 1, lanes))
        for threads in (128, 256)
    ]
    room = draft.machine.shared_per_block
    return [p for p in dict.fromkeys([usual, *found]) if p.read * (p.written + 2 * WORD) * size <= room]


def _through_registers(
    draft: GpuDraft, stage: Stage, written: StageIter, read: StageIter, squares: SquaresPlan
) -> None:
    s = draft.s
    others = [x for x in stage.loops if x not in (stage.loop_of(read.name), stage.loop_of(written.name))]
    read_blocks, read_inside = map(str, s.split(stage.loop_of(read.name), squares.side * squares.along_read))
    written_blocks, written_inside = map(
        str, s.split(stage.loop_of(written.name), squares.side * squares.along_written)
    )
    read_thread, read_own = map(str, s.split(read_inside, squares.side))
    written_thread, written_own = map(str, s.split(written_inside, squares.side))
    s.reorder(*others, written_blocks, read_blocks, written_thread, read_thread, read_own, written_own)
    for buffer in _turned(stage, written, read):
        block, storage = s.cache_read(buffer.name, at=read_thread, scope="register", readers=[stage.name])
        draft.check_size(str(storage), squares.side**2)
        *outer, inner = [str(x) for x in s.loops(block)][len(others) + 4 :]
        s.vectorize(inner)
        for loop in outer:
            s.unroll(loop)
        draft.scheduled.add(str(block))
    s.vectorize(written_own)
    s.unroll(read_own)
    for loop in (written_thread, read_thread):
        s.bind(loop, "thread")
    for loop in (*others, written_blocks, read_blocks):
        s.bind(loop, "block")
    what = f"squares of {squares.side} by {squares.side} of `{read.name}` and `{written.name}` in a thread's registers"
    draft.decide("tiling", stage.name, what, f"read along `{read.name}`, written along `{written.name}`")


def _turned(stage: Stage, written: StageIter, read: StageIter) -> list[Buffer]:
    """What is read along memory where it is not written so."""
    found = (a.buffer for a in stage.reads if a.stride(read.name) == 1 != a.stride(written.name))
    return list(dict.fromkeys(found))


def _through_shared(draft: GpuDraft, stage: Stage, written: StageIter, read: StageIter, plan: SharedPlan) -> None:
    s, name = draft.s, stage.name
    sides, lanes = (plan.read, plan.written), plan.lanes
    others = [x for x in stage.loops if x not in (stage.loop_of(read.name), stage.loop_of(written.name))]
    read_blocks, along_read = map(str, s.split(stage.loop_of(read.name), sides[0]))
    written_blocks, along_written = map(str, s.split(stage.loop_of(written.name), sides[1]))
    s.reorder(*others, read_blocks, written_blocks, along_read, along_written)
    for buffer in _turned(stage, written, read):
        block, storage = s.cache_read(buffer.name, at=written_blocks, scope="shared", readers=[name])
        loops = [str(x) for x in s.loops(block)][len(others) + 2 :]
        _on_threads(draft, loops, gcd(read.count, sides[0], lanes), plan.threads)
        s.pad_rows(storage, max(1, WORD // buffer.dtype.itemsize))
        draft.scheduled.add(str(block))
    _on_threads(draft, [along_read, along_written], gcd(written.count, sides[1], lanes), plan.threads)
    for loop in (*others, read_blocks, written_blocks):
        s.bind(loop, "block")
    what = f"squares of {sides[0]} by {sides[1]} of `{read.name}` and `{written.name}` through shared memory"
    draft.decide("tiling", name, what, f"read along `{read.name}`, written along `{written.name}`")


def _side(i: StageIter, lanes: int, most: int) -> int:
    """A divisor of the extent near ``most``, so that all squares are full; ``most`` itself where there is none."""
    if i.count <= most:
        return i.count
    even = [n for n in range(most // 2, most + 1) if i.count % n == 0]
    return max(even, key=lambda n: (gcd(n, lanes), n), default=most)


def _on_threads(draft: GpuDraft, loops: list[str], lanes: int, threads: int) -> None:
    """The elements of a square on the threads of a block, ``lanes`` of them at a time."""
    s = draft.s
    outer, lane = split_lanes(draft, loops[-1], lanes)
    rounds, thread = map(str, s.split(as_one(draft, [*loops[:-1], outer]), threads))
    s.reorder(thread, rounds)
    s.bind(thread, "thread")
    s.unroll(rounds)
    for loop in lane:
        s.vectorize(loop)


def tiles_prices(draft: GpuDraft, stage: Stage) -> Callable[[SquaresPlan | SharedPlan], float]:
    """Both ways every element is read and written once; they differ in how wide accesses are and whom they meet."""
    pair = turned_iterators(stage)
    assert pair is not None
    barriers = 2.0 * rates_of(draft.machine.capability).barrier

    def seconds(plan: SquaresPlan | SharedPlan) -> float:
        found = _squares(stage, plan) if isinstance(plan, SquaresPlan) else _shared(stage, *pair, plan, barriers)
        return streams_seconds(draft.machine, *found)

    return seconds


def _squares(stage: Stage, plan: SquaresPlan) -> tuple[Grid, list[Stream]]:
    threads, each = plan.along_read * plan.along_written, plan.side**2
    beside = (plan.along_read, WARP // plan.along_read)  # threads of a warp along what is read, what is written
    streams = [_side_stream(stage, plan.side, plan.side, n, store) for n, store in zip(beside, (False, True))]
    return Grid(stage.points / (threads * each), threads, 2.0 * each, each * _widest(stage) / 4), streams


def _shared(
    stage: Stage, written: StageIter, read: StageIter, plan: SharedPlan, barriers: float
) -> tuple[Grid, list[Stream]]:
    item = _widest(stage)
    fetched, stored = gcd(read.count, plan.read, plan.lanes), gcd(written.count, plan.written, plan.lanes)
    each = plan.read * plan.written // plan.threads or 1
    words = max(1.0, fetched * item / WORD)  # of a thread, stored one by one
    meet = words / fetched * _conflicts(words, plan.read * item / WORD) + _conflicts(stored, plan.written)
    meet *= plan.threads / WARP * each
    room = plan.read * (plan.written + 2) * item
    blocks = -(-read.count // plan.read) * -(-written.count // plan.written)
    rest = stage.points // max(1, read.count * written.count)
    sides = ((fetched, plan.read, False), (stored, plan.written, True))
    streams = [_side_stream(stage, each / lanes, lanes, side // lanes, store) for lanes, side, store in sides]
    return Grid(blocks * rest, plan.threads, 4.0 * each, each * item / 4, room, barriers, meet), streams


def _widest(stage: Stage) -> int:
    return max(a.buffer.dtype.itemsize for a in stage.accesses)


def _conflicts(apart: float, reach: float) -> float:
    """How many threads of a warp meet in a bank whose words are ``apart`` from one to the next, in a row of ``reach``:
    from the next row on, those in between are used."""
    return max(1.0, min(apart, reach / BANKS))


def _side_stream(stage: Stage, count: float, lanes: int, neighbours: int, is_store: bool) -> Stream:
    """``count`` accesses of ``lanes`` elements, of ``neighbours`` threads side by side each time.

    Of a part of a sector that is written, all of it is read and written.
    """
    item = stage.write.buffer.dtype.itemsize
    width = lanes * item
    parts = SECTOR / (min(WARP, neighbours) * width)
    whole = stage.points * item * (2 * parts if is_store and parts > 1 else 1)
    return Stream(count, width, width, whole, is_store, beside=min(WARP, neighbours), aligned=neighbours * width)


TILES: Strategy[GpuDraft] = Strategy("tiles", tiles_plans, apply_tiles, tiles_prices)
