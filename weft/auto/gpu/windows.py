"""Sums over small windows by each thread's own arithmetic: convolutions of single channels or few of them.

A thread has several results along the iterator that the window slides along, and all lanes of a vector across::

    thread: everything else
      rows of the window
        what all of its results read of one row, in registers: each element is loaded once
          taps of the row, channels
            results of the thread, lanes

Matrix instructions would multiply zeros most of the time where so few channels meet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, prod

from weft.auto.align import counterparts
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.gpu.grid import BLOCK_SIZES, Shape, as_one, spread
from weft.auto.gpu.points import POINTS
from weft.auto.gpu.streams import Grid, Stream, streams_seconds
from weft.auto.gpu.tiles import TILES
from weft.auto.stages import Stage, StageAccess, StageIter, buffer_bytes
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.schedules.layouts import LETTERS
from weft.target.cuda.rates import SECTOR

#: Results of a thread along the window's way, at most, and registers it may have for them and what they are made of.
MOST, MOST_REGISTERS = 8, 168
#: Products of a thread that are written out, at most; of more, those of a row.
WRITTEN_OUT = 1024


@dataclass(frozen=True, slots=True)
class Window:
    """``image`` is read at places that move along with ``slid``, a dimension's ``taps`` around each; ``lane`` is the
    iterator along which results lie side by side. ``rows`` are the sums around those of a row."""

    image: StageAccess
    slid: StageIter
    lane: StageIter
    taps: StageIter
    rows: tuple[StageIter, ...]
    inner: tuple[StageIter, ...]
    step: int
    apart: int

    def width(self, own: int) -> int:
        """Places of a row that ``own`` results read."""
        return (own - 1) * self.step + (self.taps.count - 1) * self.apart + 1


@dataclass(frozen=True, slots=True)
class WindowsPlan:
    """Threads of a block, results of each along the window's way, and lanes across."""

    threads: int
    own: int
    lanes: int
    way: str = "by rows of windows"


def read_window(stage: Stage) -> Window | None:
    """The window that ``stage`` sums over; None where none slides, or results do not lie side by side across it."""
    known = all(i.extent is not None and i.exact for i in stage.iters)
    if stage.op == "=" or stage.is_inside or not stage.is_plain or not known:
        return None
    beside = [i for i in stage.spatial if stage.write.stride(i.name) == 1 and i.loop is not None and i.count > 1]
    found = [w for a in stage.distinct_reads if beside for w in _windows(stage, a, beside[0])]
    return min(found, key=lambda w: abs(w.image.stride(w.slid.name) or 0), default=None)


def _windows(stage: Stage, image: StageAccess, lane: StageIter) -> list[Window]:
    found = []
    for row in image.rows or ():
        used = [stage.by_name[name] for name, n in row.items() if n]
        slid, taps = ([i for i in used if i.is_reduction == summed] for summed in (False, True))
        if len(slid) != 1 or len(taps) != 1 or slid[0] is lane or slid[0].loop is None or taps[0].count == 1:
            continue
        step, apart = row[slid[0].name], row[taps[0].name]
        if step <= 0 or apart <= 0 or step >= (taps[0].count - 1) * apart + 1:
            continue
        others = [i for i in stage.reductions if i is not taps[0] and i.count > 1]
        inner = tuple(i for i in others if image.stride(i.name) == 1)
        rows = tuple(i for i in others if i not in inner)
        found.append(Window(image, slid[0], lane, taps[0], rows, inner, step, apart))
    return found


def windows_plans(draft: GpuDraft, stage: Stage) -> list[WindowsPlan]:
    reader = epilogue_of(draft, stage)
    window = None if reader is None else read_window(stage)
    if window is None or reader is None or not draft.is_fast:
        return []
    widest = max(a.buffer.dtype.itemsize for a in (*stage.distinct_reads, reader.write))
    lanes = gcd(window.lane.count, WIDEST // widest)
    if lanes == 1 or not _has_lanes(window):
        return []
    return [
        WindowsPlan(threads, own, lanes)
        for own in range(MOST, 1, -1)
        for threads in BLOCK_SIZES[1:3]
        if window.slid.count % own == 0 and _registers(window, own, lanes) <= MOST_REGISTERS
    ]


def _has_lanes(window: Window) -> bool:
    """Whether what a thread reads of the image lies side by side: along its results, or along what each sums."""
    image, along = window.image, window.inner if not window.image.uses(window.lane.name) else (window.lane,)
    return len(along) == 1 and all(image.stride(i.name) == 1 and image.subscript_of(i.name) is not None for i in along)


def _across(window: Window, lanes: int) -> int:
    """Elements of the image side by side that a thread reads at each place."""
    return lanes if window.image.uses(window.lane.name) else prod(i.count for i in window.inner)


def _registers(window: Window, own: int, lanes: int) -> int:
    weights = lanes * prod(i.count for i in window.inner)
    return own * lanes + window.width(own) * _across(window, lanes) + weights + 24


def apply_windows(draft: GpuDraft, name: str, plan: WindowsPlan) -> None:
    stage = draft.stage(name)
    reader = epilogue_of(draft, stage)
    window = None if reader is None else read_window(stage)
    assert reader is not None
    assert window is not None
    copies = _beside(draft, stage, window)
    outer = _own_results(draft, stage, reader, window, plan)
    draft.s.compute_at(name, outer[-1])
    _sum_rows(draft, name, window, plan, len(outer))
    spread(draft, as_one(draft, outer), Shape(plan.threads))
    for copy in copies:
        next((s for s in (TILES, POINTS) if s.schedule(draft, copy)), None)
    draft.scheduled |= {name, reader.name, *copies}
    _tell(draft, stage, reader, window, plan)


def _beside(draft: GpuDraft, stage: Stage, window: Window) -> list[str]:
    """Operands of which neighbouring threads would read elements far apart get copies in which these are neighbours:
    the blocks that make them."""
    made = []
    threads = _thread_iterator(stage, window)
    for a in stage.distinct_reads:
        dimension = None if threads is None else a.subscript_of(threads.name)
        step = 0 if threads is None else abs(a.stride(threads.name) or 0) * a.buffer.dtype.itemsize
        if a is window.image or dimension is None or step < SECTOR or dimension == a.buffer.rank - 1:
            continue
        others = [d for d in range(a.buffer.rank - 1) if d != dimension]
        layout = " ".join(LETTERS[d] for d in (*others, dimension, a.buffer.rank - 1))
        copy, storage = draft.s.pack(a.buffer.name, layout, pad=True, readers=[stage.name])
        draft.s.store_at(storage)  # so that it is there around what reads the sums, too
        made.append(str(copy))
        what = f"a copy of `{a.buffer.name}` with the elements of neighbouring threads side by side"
        draft.decide("packing", stage.name, what, "they are read at once")
    return made


def _thread_iterator(stage: Stage, window: Window) -> StageIter | None:
    """The iterator that neighbouring threads differ in."""
    others = [i for i in stage.spatial if i.loop is not None and i.count > 1 and i is not window.lane]
    near = min(others, key=lambda i: stage.write.stride(i.name) or 0, default=None)
    return near if window.lane.count <= WIDEST // 2 else None


def _own_results(draft: GpuDraft, stage: Stage, reader: Stage, window: Window, plan: WindowsPlan) -> list[str]:
    """The loops of the reader cut so that a thread has some results along the window's way, and lanes: those around."""
    s, theirs = draft.s, counterparts(stage, reader)
    slid, lane = (reader.loop_of(theirs[i.name]) for i in (window.slid, window.lane))
    order = sorted((i for i in reader.spatial if i.loop is not None), key=lambda i: -(reader.write.stride(i.name) or 0))
    along, mine = map(str, s.split(slid, plan.own))
    across, lanes = map(str, s.split(lane, plan.lanes))
    renamed = {slid: along, lane: across}
    outer = [renamed.get(str(i.loop), str(i.loop)) for i in order]
    s.reorder(*outer, mine, lanes)
    s.unroll(mine)
    s.vectorize(lanes)
    return outer


def _sum_rows(draft: GpuDraft, name: str, window: Window, plan: WindowsPlan, around: int) -> None:
    """The sums of a thread: rows of the window one after another, each read once."""
    s, stage = draft.s, draft.stage(name)
    summed = [stage.loop_of(i.name) for i in (*window.rows, window.taps, *window.inner)]
    mine = [x for x in map(str, s.loops(name)[around:]) if x not in summed]
    if len(mine) < 2:
        raise ScheduleError(f"`{name}` has no results side by side")
    s.reorder(*summed, *mine)
    rows = len(window.rows)
    at, image = str(s.loops(name)[around + rows - 1]), window.image.buffer.name
    copy, storage = (s.surround if window.image.guarded else s.cache_read)(image, at=at, readers=[name])
    s.set_scope(str(storage), "register")
    _write_out(draft, str(copy), around + rows)
    for a in (a for a in stage.distinct_reads if a.buffer.name != image):
        kept, _ = s.cache_read(a.buffer.name, at=summed[rows], scope="register", readers=[name])
        _write_out(draft, str(kept), around + rows + 1)
    products = plan.own * plan.lanes * prod(i.count for i in (*window.rows, window.taps, *window.inner))
    if rows and products > WRITTEN_OUT:  # not all of them: rows stay a loop
        _write_out(draft, str(s.decompose_reduction(name, at=summed[0])), around)
    for loop in (*(summed if products <= WRITTEN_OUT else summed[rows:]), *mine[:-1]):
        s.unroll(loop)
    s.vectorize(mine[-1])


def _write_out(draft: GpuDraft, copy: str, around: int) -> None:
    *loops, last = (str(x) for x in draft.s.loops(copy)[around:])
    for loop in loops:
        draft.s.unroll(loop)
    draft.s.vectorize(last)
    draft.scheduled.add(copy)


def windows_prices(draft: GpuDraft, stage: Stage) -> Callable[[WindowsPlan], float]:
    reader = epilogue_of(draft, stage)
    window = None if reader is None else read_window(stage)
    assert reader is not None
    assert window is not None
    results = prod(i.count for i in stage.spatial)
    rows, each = prod(i.count for i in window.rows), window.taps.count * prod(i.count for i in window.inner)

    def seconds(plan: WindowsPlan) -> float:
        across = _across(window, plan.lanes)
        elements = rows * window.width(plan.own) * across
        weights = rows * each * plan.lanes
        item = window.image.buffer.dtype.itemsize
        used = -(-window.slid.count // plan.own) * plan.own / window.slid.count
        blocks = results * used / (plan.threads * plan.own * plan.lanes)
        streams = [
            Stream(elements / across, across * item, across * item, buffer_bytes(window.image.buffer), turns=rows),
            Stream(weights / plan.lanes, plan.lanes * item, plan.lanes * item, buffer_bytes(window.image.buffer) / 64),
            Stream(plan.own, plan.lanes * reader.write.buffer.dtype.itemsize, plan.lanes * item,
                   buffer_bytes(reader.write.buffer), is_store=True),
        ]  # fmt: skip
        operations = rows * each * plan.own * plan.lanes + elements + weights
        grid = Grid(blocks, plan.threads, operations, registers=_registers(window, plan.own, plan.lanes))
        return streams_seconds(draft.machine, grid, streams)

    return seconds


def _tell(draft: GpuDraft, stage: Stage, reader: Stage, window: Window, plan: WindowsPlan) -> None:
    what = f"{plan.own} results a thread along `{window.slid.name}`, {plan.lanes} along `{window.lane.name}`"
    read = window.width(plan.own)
    why = f"of each row of a window it loads {read} elements of `{window.image.buffer.name}` once"
    draft.decide("registers", stage.name, what, why)
    draft.decide("fusion", reader.name, f"computed with each result of `{stage.name}`", "it need not be stored")


WINDOWS: Strategy[GpuDraft] = Strategy("windows", windows_plans, apply_windows, windows_prices)
