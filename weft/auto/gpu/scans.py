"""Recurrences of first order, such as running sums: a block has a row, or some columns, in chunks of its threads.

A row goes through shared memory, so that threads side by side read and write side by side, wherever it begins::

    block: rows
      thread: the row comes to shared memory
      thread: chunks are added up
      chunks of chunks, likewise; those one after another
      thread: results of a chunk
      thread: results go to memory

A chunk has an odd number of steps: threads that read as far apart meet in no bank of shared memory. Rows that shared
memory has no room for, and columns, whose steps lie across memory, go through it segment after segment, those of
columns fetched while the one before is added up; columns that cannot be cut into such are read twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from weft.auto.gpu.contraction_operands import cooperate
from weft.auto.gpu.draft import GpuDraft, whole_warps
from weft.auto.gpu.grid import as_one
from weft.auto.stages import Stage, StageAccess, StageIter, buffer_bytes
from weft.auto.strategy import Strategy, one_way
from weft.target.cuda.rates import RESERVED_SHARED, SECTOR

#: Chunks of a row, about, steps of the shortest, and chunks that may be handed on one after another.
CHUNKS, SHORTEST, FEW_CHUNKS = 256, 5, 32
#: Chunks of columns (an odd number, as they lie side by side in shared memory), steps that are under way, and columns
#: of a block at most.
COLUMN_CHUNKS, DOWN, WIDEST_BLOCK = 31, 8, 32
#: Steps of columns in shared memory at a time, about, segments that are there at once, blocks that share a
#: multiprocessor meanwhile; and steps of a row too long for shared memory.
COLUMN_STEPS, RING, BESIDE, ROW_STEPS = 256, 3, 2, 4096
#: The same where no such number divides a row: 257 chunks, one more than 16 times 16, of so many steps.
EVEN_CHUNKS, EVEN_LENGTHS = 257, (15, 17, 13, 19, 11)
#: Steps of rows, at least.
FEWEST_STEPS = 2 * SHORTEST * FEW_CHUNKS
#: What is read twice takes up one of so many parts of the second cache.
IN_CACHE = 2
#: Bytes of elements: narrower ones would be rounded at each step.
WORDS = (4, 8)


def fits_scans(draft: GpuDraft, stage: Stage) -> bool:
    """Whether it goes on from its own results, along rows that shared memory has room for or down long columns."""
    if stage.op != "=" or stage.is_inside or stage.steps or not stage.is_plain or not stage.reads_target:
        return False
    step = _step(stage)
    if step is None or not all(i.exact and i.extent is not None for i in stage.iters):
        return False
    if any(a.buffer.dtype.itemsize not in WORDS for a in stage.accesses):
        return False
    if stage.write.stride(step.name) != 1:
        beside = _beside(stage)
        return beside is not None and bool(_widths(beside)) and step.count >= DOWN * COLUMN_CHUNKS
    return step.count >= FEWEST_STEPS


def _has_room(draft: GpuDraft, stage: Stage, step: StageIter) -> bool:
    """Whether shared memory holds a whole row of all that is read and written along it."""
    row = sum(a.buffer.dtype.itemsize for a in (*_along(stage, step), stage.write)) * step.count
    return row + RESERVED_SHARED + (CHUNKS << 6) <= draft.machine.shared_per_block


def _evenly(count: int, about: int) -> int | None:
    """The number nearest to ``about``, from half to twice of it, that divides ``count``; None where none does."""
    near = [n for n in range(about // 2, 2 * about + 1) if count % n == 0]
    return min(near, key=lambda n: abs(n - about), default=None)


def _nearly(count: int) -> int:
    """Steps that are cut evenly and leave enough of ``count`` to be cut as well."""
    lengths = [EVEN_CHUNKS * n for n in EVEN_LENGTHS]
    return next((n for n in lengths if count % n >= FEWEST_STEPS), lengths[0])


def _beside(stage: Stage) -> StageIter | None:
    """The iterator along which results lie side by side."""
    return next((i for i in stage.spatial if stage.write.stride(i.name) == 1), None)


def _widths(beside: StageIter) -> list[int]:
    """Columns that a block can have: as many as divide all of them, whole sectors of memory first."""
    found = [n for n in range(WIDEST_BLOCK, SECTOR // 4 - 1, -1) if beside.count % n == 0]
    return sorted(found, key=lambda n: n % (SECTOR // 4) != 0)


def _step(stage: Stage) -> StageIter | None:
    """The only iterator that is no result's alone."""
    return stage.reductions[0] if len(stage.reductions) == 1 else None


def _along(stage: Stage, i: StageIter) -> list[StageAccess]:
    """What is read side by side along ``i``, and is no result."""
    target = stage.write.buffer.name
    return [a for a in stage.distinct_reads if a.buffer.name != target and a.is_affine and a.stride(i.name) == 1]


def schedule_scans(draft: GpuDraft, name: str) -> None:
    stage = draft.stage(name)
    step, beside = _step(stage), _beside(stage)
    assert step is not None
    if stage.write.stride(step.name) == 1 or beside is None:
        _schedule_rows(draft, stage, step)
    else:
        _schedule_columns(draft, stage, step, beside)
    draft.scheduled |= {b for b in map(str, draft.s.blocks()) if draft.stage(b).is_inside}


def _schedule_columns(draft: GpuDraft, stage: Stage, step: StageIter, beside: StageIter) -> None:
    """Threads side by side have columns side by side, others have other chunks of them."""
    s, machine = draft.s, draft.machine
    down, across = stage.loop_of(step.name), stage.loop_of(beside.name)
    others = [x for x in stage.loops if x not in (down, across)]
    if [*others, across, down] != list(stage.loops):
        s.reorder(*others, across, down)
    rest = stage.points // (step.count * beside.count)
    widths = _widths(beside)
    short = _evenly(step.count, COLUMN_STEPS) if step.count > 2 * COLUMN_STEPS else None
    many = machine.sms * (BESIDE if short else 1) * 7 // 8
    width = next((w for w in widths if rest * beside.count >= w * many), min(widths))
    tile, own = map(str, s.split(across, width))
    rows, segment = short or _segment(draft, stage, step), []
    if rows < step.count:
        part, down = map(str, s.split(down, rows))
        s.reorder(part, own, down)
        segment = [f"{rows} steps after another"]
    length = DOWN if short else -(-rows // (COLUMN_CHUNKS * DOWN)) * DOWN
    made = s.scan(down, length)
    for storage in made.storage:
        s.expand_storage(storage)
    carried = s.fission(own, made.totals)
    results = s.fission(carried, made.carries)
    for chunks, columns in ((made.totals, own), (made.results, str(results))):
        s.reorder(chunks, columns)
        s.bind(chunks, "thread")
    for loop in (own, carried, results):
        s.bind(loop, "thread")
    if short:
        inputs = [a.buffer.name for a in _along(stage, beside) if a.stride(step.name)]
        threads = whole_warps(width * -(-rows // length))
        _fetch_ahead(draft, inputs, part, len(others) + 2, threads)
        segment.append(f"fetched {RING - 1} segments ahead")
    for steps in (made.added, made.run):
        s.unroll(s.split(steps, DOWN)[1])
    s.unroll(made.carries)
    for loop in (*others, tile):
        s.bind(loop, "block")
    what = ", ".join([f"{width} columns a block", *segment, f"in chunks of {length} steps, each by a thread"])
    draft.decide("parallel", stage.name, what, "what a chunk adds up to needs no other")


def _fetch_ahead(draft: GpuDraft, inputs: Sequence[str], part: str, outer: int, threads: int) -> None:
    """What a segment reads comes to shared memory while those before it are added up."""
    s = draft.s
    loads = [tuple(map(str, s.cache_read(b, at=part, scope="shared"))) for b in dict.fromkeys(inputs)]
    for load, storage in loads:
        cooperate(draft, load, storage, outer, threads, written_out=True)
    s.pipeline(*(storage for _, storage in loads), stages=RING)


def _segment(draft: GpuDraft, stage: Stage, step: StageIter) -> int:
    """Steps that all blocks go through twice before the next: so few that the second cache still has what was read."""
    row = sum(buffer_bytes(a.buffer) for a in stage.distinct_reads) // step.count
    most = min(step.count, draft.machine.l2_bytes // (IN_CACHE * max(1, row)))
    even = (n for n in range(most, DOWN * COLUMN_CHUNKS - 1, -1) if step.count % n == 0)
    return next(even, step.count)


def _schedule_rows(draft: GpuDraft, stage: Stage, step: StageIter) -> None:
    s, name = draft.s, stage.name
    along = stage.loop_of(step.name)
    blocks = [x for x in stage.loops if x != along] or [str(s.wrap(along))]
    if [*blocks, along] != list(stage.loops) and stage.loops != (along,):
        s.reorder(*blocks, along)
    inputs, target = [a.buffer.name for a in _along(stage, step)], stage.write.buffer.name
    _join_start(draft, stage, blocks)
    count, around = step.count, list(blocks)
    if not _has_room(draft, stage, step):
        count = _evenly(step.count, ROW_STEPS) or _nearly(step.count)
        part, along = _in_segments(draft, stage, along, count, blocks[-1])
        around.append(part)
    length = _odd_length(count, is_whole=count == step.count)
    threads = -(-count // length)
    ring = RING + _is_one_more(draft, stage, step, count)
    levels = [s.scan(along, length)]
    if threads > FEW_CHUNKS:
        levels.append(s.scan(levels[0].carries, _root(threads - 1) or isqrt(threads)))
    loads = [tuple(map(str, s.cache_read(b, at=around[-1], scope="shared"))) for b in dict.fromkeys(inputs)]
    before = {str(b) for b in s.blocks()}
    s.cache_write(target, scope="shared", at=around[-1])
    copies = [b for b in map(str, s.blocks()) if b not in before]
    for made in levels:
        for chunks in (made.totals, made.results):
            s.bind(chunks, "thread")
        for steps in (made.added, made.run):
            s.unroll(steps)
    s.unroll(levels[-1].carries)
    for load, storage in loads:
        if len(s.loops(load)) > len(around) + 1:
            cooperate(draft, load, storage, len(around), whole_warps(threads), written_out=True)
        else:
            copies.append(load)
    for copy in copies:
        _spread_row(draft, copy, len(around), whole_warps(threads))
    if count < step.count and loads:
        s.pipeline(*(storage for _, storage in loads), stages=ring)
    for loop in blocks:
        s.bind(loop, "block")
    pieces = f", {count} steps after another, fetched {ring - 1} ahead" if count < step.count else ""
    what = f"{threads} chunks of {length} steps a row{pieces}, each by a thread"
    draft.decide("parallel", name, what, "what a chunk adds up to needs no other")


def _is_one_more(draft: GpuDraft, stage: Stage, step: StageIter, count: int) -> bool:
    """Whether one more segment of ``count`` steps is fetched ahead: where it was timed, that paid if a multiprocessor
    has two rows at most. Shared memory has to have room for both."""
    sizes = [a.buffer.dtype.itemsize for a in _along(stage, step)]
    room = count * ((RING + 1) * sum(sizes) + stage.write.buffer.dtype.itemsize) + (CHUNKS << 6)
    return stage.points <= 2 * draft.machine.sms * step.count and 2 * room <= draft.machine.shared_per_block


def _in_segments(draft: GpuDraft, stage: Stage, along: str, count: int, rows: str) -> tuple[str, str]:
    """The loops over segments of ``count`` steps, and through one. What is left of rows is a nest of its own after it,
    which goes on from there."""
    s = draft.s
    before = {str(b) for b in s.blocks()}
    part, along = map(str, s.split(along, count, tail="separate"))
    for rest in [b for b in map(str, s.blocks()) if b not in before]:
        s.fission(rows, part)
        draft.decide(
            "tiling",
            stage.name,
            f"`{rest}` does what {count} steps at a time leave of rows",
            "they do not come out even",
        )
    return part, along


def _join_start(draft: GpuDraft, stage: Stage, blocks: list[str]) -> None:
    """What the first step goes on from is computed with the row, where it is a nest over the same rows before it."""
    writers = [w for w in draft.stages.writers(stage.write.buffer.name) if w.position < stage.position]
    for first in writers[-1:]:
        alike = len(first.loops) == len(blocks) == 1 and not first.outer
        if alike and draft.attempt(draft.s.fuse_loops, first.loops[0], blocks[0]) is None:
            blocks[0] = first.loops[0]
            draft.scheduled.add(first.name)
            what = f"computed with each row of `{stage.name}`"
            draft.decide("fusion", first.name, what, "the first step goes on from it")


def _odd_length(count: int, *, is_whole: bool) -> int:
    """Steps of a chunk: an odd number, where possible one that divides all of them, so that none is tested for, and
    leaves as many chunks as can be cut likewise. Segments of rows, of which there are few, need threads."""
    least = max(SHORTEST, -(-count // CHUNKS)) | 1
    near = range(max(SHORTEST, 3 * least // 4) | 1, (4 if is_whole else 3) * least // 2 + 1, 2)
    even = [n for n in near if count % n == 0]
    return min(even, key=lambda n: (_root(count // n - 1) is None, abs(n - least)), default=least)


def _root(count: int) -> int | None:
    """The divisor of ``count`` that is nearest to its root, where one is near."""
    about = isqrt(count)
    near = [n for n in range(about * 2 // 3, about * 3 // 2 + 1) if n and count % n == 0]
    return min(near, key=lambda n: abs(n - about), default=None)


def _spread_row(draft: GpuDraft, copy: str, outer: int, threads: int) -> None:
    """Elements side by side on threads side by side; one alone is anyone's."""
    s = draft.s
    loops = [str(x) for x in s.loops(copy)][outer:]
    if not loops:
        return
    turns, thread = map(str, s.split(as_one(draft, loops), threads))
    s.reorder(thread, turns)
    s.bind(thread, "thread")
    s.unroll(turns)


SCANS: Strategy[GpuDraft] = one_way("scans", fits_scans, schedule_scans)


def take_scans(draft: GpuDraft) -> None:
    """All of them, before others take the nests that they start from."""
    tried = set[str]()
    while names := [s.name for s in draft.stages if s.name not in tried]:  # what is left of rows comes as another
        tried |= {*names}
        for name in names:
            if name in draft.stages and name not in draft.scheduled:
                SCANS.schedule(draft, name)
