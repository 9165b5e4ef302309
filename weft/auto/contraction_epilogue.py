"""What is done with the sums of a contraction, element by element, while they are at hand: bias, activation, a cast.

Where that takes few operations, it reads the registers that sums are in, and what is in between is never stored. Where
it takes many, it runs in a loop of its own through the part of the sums that is still in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.auto.align import counterparts
from weft.auto.contraction_nest import INNER, Nest, part_loops, split_loop
from weft.auto.contraction_plan import Contraction
from weft.auto.draft import Draft
from weft.auto.estimate_regions import MAX_COPIES
from weft.auto.stages import Stage, StageAccess
from weft.ir.expr import Expr
from weft.schedules.find import find_loop
from weft.schedules.layouts import LETTERS
from weft.schedules.loop_facts import trip_count


def find_epilogue(draft: Draft, stage: Stage) -> Stage | None:
    """The stage that alone reads what ``stage`` computes, each element once and where it stands."""
    reader = draft.only_reader(stage)
    if reader is None or (stage.is_inside and not _goes_along(stage, reader)):
        return None
    reads = [a for a in reader.reads if a.buffer.name == stage.write.buffer.name]
    written, made = _sizes(reader, reader.write), _sizes(stage, stage.write)
    same = made is not None and all(_sizes(reader, a) == made == written for a in reads)
    return reader if same and reader.position > stage.position else None


def _goes_along(stage: Stage, reader: Stage) -> bool:
    """Whether every loop of the result has one of ``reader`` that goes along with it."""
    theirs = counterparts(stage, reader)
    return all(i.name in theirs for i in stage.spatial if i.loop is not None)


def _sizes(stage: Stage, access: StageAccess) -> list[Expr] | None:
    """The sizes of the dimensions that ``access`` goes along; None where one is not an iterator of its own alone."""
    if access.rows is None:
        return None
    moving = [d for d, row in enumerate(access.rows) if any(stage.by_name[n].loop is not None for n in row)]
    used = [name for d in moving for name in access.rows[d]]
    plain = all([*access.rows[d].values()] == [1] and access.offsets[d] == 0 for d in moving)
    return [access.buffer.shape[d] for d in moving] if plain and len({*used}) == len(used) else None


def join_registers(draft: Draft, c: Contraction, nest: Nest, reader: Stage) -> None:
    """``reader`` after the last step of each tile, from the registers that its sums are in."""
    at = nest.outer[-1]
    draft.s.reverse_compute_at(reader.name, at)
    draft.s.store_at(c.stage.write.buffer.name, at)
    keep_for_reader(draft, c, nest)
    _run_as_tile(draft, c, reader)
    _tell_joined(draft, c, reader)


def _tell_joined(draft: Draft, c: Contraction, reader: Stage) -> None:
    draft.scheduled.add(reader.name)
    why = f"{reader.operations} operations an element, on sums still in registers"
    draft.decide("fusion", reader.name, f"done at the end of each tile of `{c.stage.name}`", why)


def join_inside(draft: Draft, c: Contraction, reader: Stage) -> Nest:
    """The nest of ``c`` in the loops of ``reader``, which go through the same tiles.

    In loops shared with others a contraction computes what those need of it, no more. So it is not ``reader`` that
    moves to where elements are finished, but the contraction to where they are asked for.
    """
    loops, theirs = part_loops(c), counterparts(c.stage, reader)
    own = {i.name: reader.by_name[theirs[i.name]] for i in c.stage.spatial if i.loop is not None}
    cut = {name: split_loop(draft, i, [x.step for x in loops if x.of == name]) for name, i in own.items()}
    nest = Nest()
    for loop in loops:
        if loop.part not in INNER:
            nest.add(loop, cut[loop.of].pop(0))
    tile = [x for name in (*c.rows, c.plan.lane) for x in cut[name]]
    others = [x for x in draft.stage(reader.name).loops if x not in (*nest.order, *tile)]
    draft.s.reorder(*nest.order, *others, *tile)
    draft.s.compute_at(c.stage.name, nest.order[-1])
    _run_in_registers(draft, [*others, *tile])
    inner = [x for x in loops if x.part in INNER]
    moved = {i.name: i for i in draft.stage(c.stage.name).iters if i.loop is not None}
    cut = {name: split_loop(draft, i, [x.step for x in inner if x.of == name]) for name, i in moved.items()}
    for loop in inner:
        nest.add(loop, cut[loop.of].pop(0))
    _tell_joined(draft, c, reader)
    return nest


def move_to_reader(draft: Draft, name: str, reader: Stage, loop: str) -> None:
    """Block ``name`` computed in ``loop`` of ``reader``, which becomes its outermost."""
    if reader.loops[0] != loop:
        draft.s.reorder(loop, *(x for x in reader.loops if x != loop))
    draft.s.compute_at(name, loop)


def keep_for_reader(draft: Draft, c: Contraction, nest: Nest) -> None:
    """The sums of a tile in registers until what alone reads them, in the same loop, is done with them."""
    sums = c.stage.write.buffer.name
    draft.s.set_scope(sums, "register")
    draft.s.decompose_reduction(c.stage.name, at=nest.of("reductions")[0])
    if c.turns:
        draft.s.pack(sums, lanes_last(c))


def may_join(c: Contraction, reader: Stage) -> bool:
    """Whether ``reader`` can be written out after each tile: all are whole sums, and it is not long.

    A last tile that is not full is written out by itself. In loops shared with others all must be full.
    """
    whole = c.plan.blocking is None and any(i.count > c.tile.get(i.name, 1) for i in c.stage.spatial)
    copies = c.sums * max(1, reader.operations)
    if c.edges:
        return whole and not c.stage.outer and _is_last_known(c) and 2 * copies <= MAX_COPIES
    return whole and copies <= MAX_COPIES


def _is_last_known(c: Contraction) -> bool:
    """Whether it is known when compiling how large the last tile along each iterator is."""
    return all(i.exact and i.extent is not None for i in c.stage.spatial if i.name in c.tile)


def join_panels(draft: Draft, c: Contraction, loop: str, reader: Stage) -> None:
    """``reader`` after each iteration of ``loop``, on what that has computed."""
    draft.s.reverse_compute_at(reader.name, loop)
    draft.s.store_at(c.stage.write.buffer.name, loop)
    draft.scheduled.add(reader.name)
    why = f"{reader.operations} operations an element, on sums still in the cache"
    draft.decide("fusion", reader.name, f"done in each iteration of `{loop}`", why)


def lanes_last(c: Contraction) -> str:
    """The layout of sums in which those of a vector are side by side."""
    along = c.stage.write.subscript_of(c.plan.lane)
    rank = c.stage.write.buffer.rank
    order = [LETTERS[d] for d in range(rank) if d != along]
    return " ".join(order if along is None else [*order, LETTERS[along]])


def _run_as_tile(draft: Draft, c: Contraction, reader: Stage) -> None:
    """The loops of ``reader`` through a tile as those of the contraction: rows unrolled, lanes inside."""
    tile = c.tile
    theirs = counterparts(c.stage, reader)
    lanes, *rows = (_whole(draft, reader.loop_of(theirs[name]), tile[name]) for name in tile)
    own = [loop for loop in draft.stage(reader.name).loops if loop not in (*rows, lanes)]
    draft.s.reorder(*own, *rows, lanes)
    _run_in_registers(draft, [*own, *rows, lanes])


def _whole(draft: Draft, loop: str, size: int) -> str:
    """``loop`` through all of a tile that is so large, with a test where the last one is not full."""
    if trip_count(find_loop(draft.s.kernel, loop), {}) == size:
        return loop
    return str(draft.s.split(loop, size)[1])


def _run_in_registers(draft: Draft, loops: Sequence[str]) -> None:
    *rows, lanes = loops
    draft.s.vectorize(lanes)
    for loop in rows:
        draft.s.unroll(loop)
