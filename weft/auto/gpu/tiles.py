"""Transposes and other moves: what is read along memory by one iterator is written along memory by another.

A thread copies a small square into its registers, 16 bytes at a time along what is read, and writes it out 16 bytes at
a time along what is written. Threads of a warp lie so that what they read together is a line of memory, and what they
write together whole sectors.

Where sizes do not come out even, a block copies a square into shared memory. Rows there are a word further apart than
they are long, so that neither way many threads meet in one bank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from weft.auto.gpu.draft import THREADS, GpuDraft, lanes_for
from weft.auto.gpu.grid import as_one
from weft.auto.moves import turned_iterators
from weft.auto.stages import Stage, StageIter
from weft.ir.buffer import Buffer
from weft.target.cuda.machine import WARP

#: Elements of a side of a square of one thread, at most: all of it is in registers.
OWN_SIDE = 8
#: Threads along what is read, a line of memory, and along what is written, at most.
ALONG_READ, ALONG_WRITTEN = 8, 16
#: Elements of a side of a square in shared memory: larger ones make more threads meet in a bank.
SIDE = 64
#: Bytes of a word of shared memory: neighbouring words are in different banks.
WORD = 4


def fits_tiles(draft: GpuDraft, stage: Stage) -> bool:
    pair = turned_iterators(stage)
    if pair is None or stage.outer or not stage.is_plain or not stage.is_affine:
        return False
    return all(i.extent is not None and i.exact and i.extent >= 8 for i in pair)


def schedule_tiles(draft: GpuDraft, name: str) -> None:
    stage = draft.stage(name)
    pair = turned_iterators(stage)
    assert pair is not None
    written, read = pair
    squares = _own_squares(stage, written, read)
    if squares is None or draft.attempt(lambda: _through_registers(draft, stage, written, read, squares)) is not None:
        _through_shared(draft, stage, written, read)


@dataclass(frozen=True, slots=True)
class _Squares:
    """A thread's ``side``, and how many threads a block has along what is read and along what is written."""

    side: int
    along_read: int
    along_written: int


def _own_squares(stage: Stage, written: StageIter, read: StageIter) -> _Squares | None:
    """Squares that come out even, of threads that are whole warps; None where there are none."""
    side = min(OWN_SIDE, lanes_for(stage.accesses))
    if side == 1 or written.count % side or read.count % side:
        return None
    along_read = gcd(read.count // side, ALONG_READ)
    along_written = gcd(written.count // side, ALONG_WRITTEN)
    return _Squares(side, along_read, along_written) if along_read * along_written % WARP == 0 else None


def _through_registers(draft: GpuDraft, stage: Stage, written: StageIter, read: StageIter, squares: _Squares) -> None:
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


def _through_shared(draft: GpuDraft, stage: Stage, written: StageIter, read: StageIter) -> None:
    name = stage.name
    s = draft.s
    lanes = lanes_for(stage.accesses)
    sides = [_side(read, lanes), _side(written, lanes)]
    others = [x for x in stage.loops if x not in (stage.loop_of(read.name), stage.loop_of(written.name))]
    read_blocks, along_read = map(str, s.split(stage.loop_of(read.name), sides[0]))
    written_blocks, along_written = map(str, s.split(stage.loop_of(written.name), sides[1]))
    s.reorder(*others, read_blocks, written_blocks, along_read, along_written)
    for buffer in _turned(stage, written, read):
        block, storage = s.cache_read(buffer.name, at=written_blocks, scope="shared", readers=[name])
        loops = [str(x) for x in s.loops(block)][len(others) + 2 :]
        _on_threads(draft, loops, gcd(read.count, sides[0], lanes))
        s.pad_rows(storage, max(1, WORD // buffer.dtype.itemsize))
        draft.scheduled.add(str(block))
    _on_threads(draft, [along_read, along_written], gcd(written.count, sides[1], lanes))
    for loop in (*others, read_blocks, written_blocks):
        s.bind(loop, "block")
    what = f"squares of {sides[0]} by {sides[1]} of `{read.name}` and `{written.name}` through shared memory"
    draft.decide("tiling", name, what, f"read along `{read.name}`, written along `{written.name}`")


def _side(i: StageIter, lanes: int) -> int:
    """A divisor of the extent near `SIDE`, so that all squares are full; `SIDE` itself where there is none."""
    if i.count <= SIDE:
        return i.count
    even = [n for n in range(SIDE // 2, SIDE + 1) if i.count % n == 0]
    return max(even, key=lambda n: (gcd(n, lanes), n), default=SIDE)


def _on_threads(draft: GpuDraft, loops: list[str], lanes: int) -> None:
    """The elements of a square on the threads of a block, ``lanes`` of them at a time."""
    s = draft.s
    lane = None
    if lanes > 1:
        outer, lane = map(str, s.split(loops[-1], lanes))
        loops = [*loops[:-1], outer]
    rounds, thread = map(str, s.split(as_one(draft, loops), THREADS))
    s.reorder(thread, rounds)
    s.bind(thread, "thread")
    s.unroll(rounds)
    if lane is not None:
        s.vectorize(lane)
