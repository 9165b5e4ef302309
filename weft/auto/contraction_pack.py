"""What a contraction copies into another order first, and where.

A vector operand is laid out in panels: the elements of a tile's lanes side by side, panel after panel. That is a must
where lanes are apart in memory, and pays where the operand is large and read for many rows. An operand that is zero
outside its edges is copied with zeros around it, so that no read has to be tested; one that goes on there (`edge`,
`wrap`, `reflect`) with what it goes on with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import takewhile
from math import gcd, prod

from weft.auto.contraction_dots import finish_copy
from weft.auto.contraction_nest import Nest, part_loops
from weft.auto.contraction_plan import Contraction, ContractionPlan, footprint, packed_layout
from weft.auto.contraction_time import copy_depth
from weft.auto.draft import Draft
from weft.auto.moves import turn_copy
from weft.auto.parallel_loops import parallel_outermost
from weft.auto.pointwise import schedule_pointwise
from weft.auto.stages import Stage, StageAccess
from weft.ir.affine import affine_form
from weft.ir.expr import Const, Select
from weft.ir.visit import walk
from weft.schedules.find import find_block

#: Times that an element is read, each time with a test whether it exists, before a copy that needs none pays.
MANY_TESTS = 4
#: Elements behind each row that are tried, and steps of a sum that are looked at.
MOST_APART, MOST_STEPS = 17, 64


def surround_operands(draft: Draft, name: str, plan: ContractionPlan) -> dict[str, str]:
    """Operands that are read beyond their edges, copied with what is there around them where read often enough.

    The blocks that copy, by the buffers that they fill. None where all that a test is about is written out but one
    loop: its first and last iterations become code of their own (`separate_borders`), and nothing is left to test.
    """
    stage = draft.stage(name)
    copies: dict[str, str] = {}
    for access in {a.buffer.name: a for a in stage.reads if a.guarded}.values():
        reads = stage.points // max(1, footprint(stage, access))
        is_made_here = access.buffer.name not in {b.name for b in draft.s.kernel.buffers}
        if is_made_here and draft.attempt(_surround_storage, draft, stage, access) is None:
            continue
        if reads >= MANY_TESTS and not _is_known_where_written(draft, stage, plan, access):
            draft.attempt(_surround, draft, stage, access, copies)
    return copies


def _is_known_where_written(draft: Draft, stage: Stage, plan: ContractionPlan, access: StageAccess) -> bool:
    c = Contraction(stage, plan, draft.lanes(stage), draft.enough_sums)
    if not c.is_written_out:
        return False
    windows = [
        row
        for row in access.rows or ()
        if any(stage.by_name[n].is_reduction and stage.by_name[n].count > 1 for n in row)
    ]
    moving = {n for row in windows for n in row if not stage.by_name[n].is_reduction}
    left = [n for n in moving if c.tile.get(n, 1) < stage.by_name[n].count]
    return plan.lane not in moving and len(left) <= 1


def _surround_storage(draft: Draft, stage: Stage, access: StageAccess) -> None:
    buffer = access.buffer.name
    for block in draft.s.surround_storage(buffer):
        schedule_pointwise(draft, block.name)
        draft.scheduled.add(block.name)
    draft.decide("packing", stage.name, f"`{buffer}` is kept with zeros around it", "no read has to be tested then")


def _surround(draft: Draft, stage: Stage, access: StageAccess, copies: dict[str, str]) -> None:
    buffer, reads = access.buffer.name, stage.points // max(1, footprint(stage, access))
    load, storage = draft.s.surround(buffer, at=_home(stage, access), readers=[stage.name])
    is_zero = any(isinstance(n, Select) for n in walk(find_block(draft.s.kernel, load.name)))
    around = "with zeros around it" if is_zero else "with what is around it"
    draft.decide("packing", stage.name, f"`{buffer}` copied {around}", f"each element is read {reads} times")
    copies[storage.name] = load.name


def place_copies(draft: Draft, c: Contraction, nest: Nest, copies: Mapping[str, str]) -> None:
    """The copies made by `surround_operands`, each in the loops that decide which part of it is read."""
    own = {i.loop: i.name for i in c.stage.spatial}

    def decides(readers: Sequence[StageAccess], loop: str) -> bool:
        return loop in own and all(a.subscript_of(own[loop]) is not None for a in readers)

    for buffer, load in copies.items():
        readers = [a for a in c.operands if a.buffer.name == buffer]
        settled = takewhile(partial(decides, readers), (loop for loop in nest.outer if nest.counts[loop] > 1))
        inside = [loop for loop in settled if nest.takes(loop)]
        if inside:
            draft.s.compute_at(load, inside[-1])
        elif draft.pays_threads(c.stage):
            parallel_outermost(draft, load)
        draft.scheduled.add(load)


def fill_up_rows(draft: Draft, c: Contraction, copies: Mapping[str, str]) -> None:
    """Rows of copies made by `surround_operands` as long as whole vectors reach: the last one needs no test then."""
    rest = -c.lane.count % c.vector
    for buffer in copies if rest else ():
        reads = [a for a in c.operands if a.buffer.name == buffer and a.uses(c.plan.lane)]
        steps = {(a.rows or ({},))[-1].get(c.plan.lane) for a in reads}
        if steps == {1}:
            draft.s.pad_rows(buffer, rest)


def spread_rows(draft: Draft, c: Contraction, nest: Nest, copies: Mapping[str, str]) -> None:
    """Rows of copies made by `surround_operands` moved apart where the lines that a loop of steps reads, to read them
    again for the next place of a window, do not fit the sets of the first cache that they meet in."""
    inside = nest.of("reductions")[-1:]
    long = [i.name for i in c.stage.reductions if i.count > 1]
    if not inside or not long:
        return
    step, count = (c.plan.steps[-1][0] if c.plan.steps else long[-1]), min(nest.counts[inside[0]], MOST_STEPS)
    for access in (a for a in c.operands if a.buffer.name in copies and not a.uses(c.plan.lane)):
        if (access.rows or ({},))[-1].get(step) or not all(isinstance(n, Const) for n in access.buffer.shape):
            continue
        crowds = (_crowd(draft, c, access, {**c.rows, step: count}, more) for more in range(MOST_APART))
        ways = draft.model.levels[0].ways
        more = next((n for n, crowd in enumerate(crowds) if crowd <= ways), 0)
        if more:
            draft.s.pad_rows(access.buffer.name, more)
            why = "what steps read again would meet in a few places of the first cache"
            draft.decide("packing", c.stage.name, f"rows of `{access.buffer.name}` are {more} elements apart", why)


def _crowd(draft: Draft, c: Contraction, access: StageAccess, counts: Mapping[str, int], more: int) -> int:
    """How many lines meet in one set of the first cache, at most, of those read while the iterators ``counts`` go on so
    often, with ``more`` elements behind each row."""
    near, size = draft.model.levels[0], access.buffer.dtype.itemsize
    *outer, row = (int(n.value) for n in access.buffer.shape if isinstance(n, Const))
    strides = [prod([*outer[d + 1 :], row + more]) for d in range(len(outer))] + [1]
    steps = {n: sum(row.get(n, 0) * by for row, by in zip(access.rows or (), strides)) for n in counts}
    places = {0}
    for name in counts:
        places = {place + n * steps[name] for place in places for n in range(counts[name])}
    lines = {place * size // near.line for place in places}
    return max(Counter(line % (near.size // near.line // max(near.ways, 1)) for line in lines).values())


def pack_operands(draft: Draft, c: Contraction, nest: Nest) -> list[str]:
    """Copies what the plan says; all reads of a buffer go to one copy.

    Copies of constants that the first cache does not hold: what else runs between calls, such as the other layers of a
    model, has driven them out of the second one too, as a rule.
    """
    cold = []
    for access in c.packed:
        storage = _pack(draft, c, access, _panel_loop(draft, c, nest, access))
        size = footprint(c.stage, access) * access.buffer.dtype.itemsize
        if access.buffer.name in draft.constants and size > draft.cache("L1"):
            cold.append(storage)
    return cold


def pack_rows(draft: Draft, c: Contraction) -> None:
    """Operands of which one element at a time is used, laid out so that a step of the sum finds its rows together."""
    for access, row in c.by_rows:
        tile = c.rows[row]
        _copy_in_tiles(draft, c, access, row, tile, None)
        what = f"`{access.buffer.name}` copied once, {tile} rows side by side"
        draft.decide("packing", c.stage.name, what, "each step of the sum would take them from other lines")


def _home(stage: Stage, access: StageAccess) -> str | None:
    """The outer loop in which ``access`` always touches the same elements; None outside all."""
    return ([None, *stage.outer])[stage.home_of(access)]


def _panel_loop(draft: Draft, c: Contraction, nest: Nest, access: StageAccess) -> str | None:
    """Where a panel is copied: inside the loop through panels; None for all at once, where threads share them."""
    depth = copy_depth(draft, c, access, part_loops(c))
    return nest.outer[depth - 1] if depth else _home(c.stage, access)


def _pack(draft: Draft, c: Contraction, access: StageAccess, at: str | None) -> str:
    """Copies so that the elements of a tile's lanes are side by side; the copy."""
    tile = c.plan.width
    storage = _copy_in_tiles(draft, c, access, c.plan.lane, tile, at)
    where = "once" if at is None else f"at `{at}`"
    what = f"`{access.buffer.name}` copied {where} with {tile} elements along `{c.plan.lane}` side by side"
    draft.decide("packing", c.stage.name, what, _reason(c, access))
    return storage


def _copy_in_tiles(draft: Draft, c: Contraction, access: StageAccess, name: str, tile: int, at: str | None) -> str:
    """A copy of what is read through ``access``, with ``tile`` elements along iterator ``name`` side by side."""
    stage = c.stage
    along, i = access.subscript_of(name), stage.by_name[name]
    assert along is not None, "only such are packed"
    if (step := _outer_step(draft, stage, name)) % tile:
        tile = step  # tiles begin where shared loops are, not at multiples of their own size
    is_padded = c.plan.dot is not None and name == c.plan.lane and i.count % c.plan.dot.lanes > 0
    layout = packed_layout(access, c.plan, along, None if i.exact and i.count <= tile and not is_padded else tile)
    load, storage = draft.s.pack(access.buffer.name, layout, at=at, readers=[stage.name], pad=is_padded)
    if load is not None:  # a temporary is stored so in the first place
        draft.scheduled.add(load.name)
        finish_copy(draft, c, access, load.name)
        if at is not None and c.plan.dot is None:  # made again in every round of the loop, not once
            turn_copy(draft, load.name)
        if at is None and draft.pays_threads(stage):
            parallel_outermost(draft, load.name)
    return str(storage.name)


def _outer_step(draft: Draft, stage: Stage, name: str) -> int:
    """What loops around ``stage`` move its iterator ``name`` on by, or a divisor of all they do; 0: nothing."""
    form = affine_form(next(i.binding for i in find_block(draft.s.kernel, stage.name).iters if i.var.name == name))
    return 0 if form is None else gcd(*(c for loop, c in form.items() if loop in stage.outer))


def _reason(c: Contraction, access: StageAccess) -> str:
    if access.stride(c.plan.lane) != 1:
        return "they become lanes and are apart in memory"
    return "large, and read for many rows"
