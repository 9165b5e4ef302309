"""Loops over points as a grid: blocks of threads, several points a thread, neighbouring threads at neighbouring points.

>>> spread(draft, "f", Shape(threads=256, each=2))    # f over 4096 vectors
block f_o in 0:8 { thread f_i_i in 0:256 { unroll f_i_o in 0:2 { ... } } }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.auto.gpu.draft import THREADS, GpuDraft, whole_warps
from weft.target.cuda.machine import WARP

#: Threads of a block, and points of a thread, that plans choose among.
BLOCK_SIZES, EACH = (64, 128, 256, 512), (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Shape:
    """``threads`` of a block, and points (or vectors of them) that ``each`` works on."""

    threads: int
    each: int = 1


@dataclass(frozen=True, slots=True)
class Spread:
    """The loops that a loop over points became; ``each`` is None where a thread has one."""

    block: str
    thread: str
    each: str | None


def choose_shape(draft: GpuDraft, count: int | None, read_bytes: int) -> Shape:
    """Threads and points each for ``count`` points of which each reads ``read_bytes``.

    Each thread gets so many that enough bytes are under way, as long as there are blocks for all multiprocessors.
    """
    threads = THREADS
    if count is not None:
        while threads > 2 * WARP and not draft.fills(-(-count // threads)):
            threads //= 2
        threads = min(threads, whole_warps(count))
    wanted = draft.bytes_in_flight / max(1, read_bytes * draft.machine.max_threads_per_sm)
    each = 1
    while each < wanted and each < 4 and (count is None or draft.fills(-(-count // (2 * each * threads)))):
        each *= 2
    return Shape(threads, each)


def possible_shapes(draft: GpuDraft, count: int | None, read_bytes: int) -> list[Shape]:
    """The usual one first; then all with whole warps and a few points each that leave no multiprocessor out."""
    usual = choose_shape(draft, count, read_bytes)
    shapes = [Shape(threads, each) for threads in BLOCK_SIZES for each in EACH]
    most = max(usual.threads * usual.each, (count or 1 << 40) // draft.machine.sms)
    return list(dict.fromkeys([usual, *(s for s in shapes if s.threads * s.each <= most)]))


def as_one(draft: GpuDraft, loops: Sequence[str]) -> str:
    """``loops``, perfectly nested, as one."""
    return str(draft.s.fuse(*loops)) if len(loops) > 1 else loops[0]


def spread(draft: GpuDraft, loop: str, shape: Shape, inner: Sequence[str] = ()) -> Spread:
    """``loop`` over the grid; ``inner`` are the loops right inside it, which stay innermost."""
    s, each = draft.s, None
    block, thread = map(str, s.split(loop, shape.threads * shape.each))
    if shape.each > 1:
        each, thread = map(str, s.split(thread, shape.threads))
        s.reorder(thread, each, *inner)
    s.bind(block, "block")
    s.bind(thread, "thread")
    if each is not None:
        s.unroll(each)
    return Spread(block, thread, each)


def split_lanes(draft: GpuDraft, loop: str, lanes: int) -> tuple[str, tuple[str, ...]]:
    """``loop`` over vectors of ``lanes``, and the loop over those of one, where there is more than one."""
    if lanes == 1:
        return loop, ()
    outer, lane = map(str, draft.s.split(loop, lanes))
    return outer, (lane,)
