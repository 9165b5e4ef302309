"""Transposes and other moves: what is read along memory by one iterator is written along memory by another.

A block copies a square of both into shared memory, 16 bytes at a time along what is read, and writes it out 16 bytes at
a time along what is written. Rows in shared memory are a word further apart than they are long, so that neither way
many threads meet in one bank.
"""

from __future__ import annotations

from math import gcd

from weft.auto.gpu.draft import THREADS, GpuDraft, lanes_for
from weft.auto.gpu.grid import as_one
from weft.auto.moves import turned_iterators
from weft.auto.stages import Stage, StageIter

#: Elements of a side of a square: larger ones make more threads meet in a bank.
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
    s = draft.s
    lanes = lanes_for(stage.accesses)
    sides = [_side(read, lanes), _side(written, lanes)]
    others = [x for x in stage.loops if x not in (stage.loop_of(read.name), stage.loop_of(written.name))]
    read_blocks, along_read = map(str, s.split(stage.loop_of(read.name), sides[0]))
    written_blocks, along_written = map(str, s.split(stage.loop_of(written.name), sides[1]))
    s.reorder(*others, read_blocks, written_blocks, along_read, along_written)
    turned = dict.fromkeys(a.buffer for a in stage.reads if a.stride(read.name) == 1 != a.stride(written.name))
    for buffer in turned:
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
