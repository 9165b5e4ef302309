"""What a core does for each statement: instructions by kind, and the cycles they take.

Statements that share their innermost loop run side by side in it: what they load, compute and store together takes
the time of the busiest unit, or of the longest wait of a sum for the one before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.auto.estimate_regions import Counts, Region, find_region, find_registers, is_masked, start_is_hoisted, updates
from weft.auto.estimate_values import count_value
from weft.auto.estimate_vectors import Lanes
from weft.ir.expr import Binary
from weft.schedules.nests import Access, Leaf, Nest
from weft.target.cpu.machine_model import MachineModel

#: Loads' worth of time for one element that goes to all lanes: many of them meet in the banks of the first cache.
BROADCAST = 1.2
#: The same for each of the vectors that lanes some elements apart are picked from: picking takes units of its own.
STEPPED = 2.0
#: And for one element by itself.
SCALAR = 0.5
#: Instructions to load or store one element of a vector that lies apart from the others.
GATHERED, SCATTERED = 2.5, 2.5
#: Stores' worth of time for one of them: each opens a line of its own.
APART = 1.5
#: Cycles from a stored sum to the next that is loaded from the same place; nothing is handed on under a mask.
THROUGH_MEMORY, UNDER_MASK = 6.0, 26.0
#: Loop control, in instructions, and what entering a loop costs, in cycles; a long loop's end is not foreseen.
CONTROL, ENTER, UNFORESEEN, FORESEEN_TRIPS = 2.0, 2.0, 12.0, 40
#: Instructions that combine the lanes of a sum.
FOLD = 24.0
#: Instructions in a loop body beyond which they no longer come from the cache of decoded ones.
LONG_BODY = 4000.0
#: Instructions that a core looks ahead.
IN_FLIGHT = 250.0


@dataclass(slots=True)
class Work:
    """What a statement takes of one core, in all: cycles, instructions, and what holds it up."""

    cycles: float
    counts: Counts
    flops: float
    bound: str


@dataclass(slots=True)
class _Body:
    """A statement in its innermost loop, which runs ``times`` times; ``outside`` happens once around it."""

    region: Region
    counts: Counts
    outside: Counts
    wait: float
    times: float
    flops: float
    spilled: float


def infer_works(
    leaves: Sequence[Leaf], lanes: Mapping[Leaf, Lanes], model: MachineModel, fast: bool
) -> dict[Leaf, Work]:
    """The cycles of each statement in the whole program, on one core, its data being in the first cache."""
    registers = find_registers(leaves, lanes)
    found: dict[Leaf, Work] = {}
    together: dict[tuple[Nest | None, float], list[_Body]] = {}
    for leaf in leaves:
        if any(n.trips <= 0 for n in leaf.nests) or leaf.share <= 0:
            found[leaf] = Work(0.0, Counts(), 0.0, "")
            continue
        body = _body(find_region(leaf, lanes.get(leaf), registers), model, fast)
        innermost = body.region.runs[-1][0] if body.region.runs else None
        together.setdefault((innermost, body.times), []).append(body)
    for bodies in together.values():
        found.update(_works(bodies, model))
    return found


def _body(region: Region, model: MachineModel, fast: bool) -> _Body:
    leaf = region.leaf
    times = region.outer_copies * region.share()
    for _, trips in region.runs:
        times *= trips
    if leaf.starts and start_is_hoisted(leaf):
        region.runs = [(n, t) for n, t in region.runs if n.name not in leaf.reduced]
    counts, flops = count_value(region, fast)
    kept = _kept_in_register(region)
    moved, outside = _memory(region, kept, model)
    counts = counts.plus(moved)
    if region.lanes is not None and not model.has_masks and _tests_lanes(region):
        counts = counts.scaled(region.lanes.count / region.lanes.registers)  # each lane by itself
    counts = counts.plus(_guards(region, model))
    spilled = _spills(region, kept, model)
    counts.loads += spilled
    counts.stores += spilled
    if region.lanes is not None and region.lanes.folded:
        outside = outside.plus(Counts(simple=FOLD))
    if leaf.intrinsic is not None:
        counts, flops = _as_instruction(region, counts, model), flops * math.prod(n.trips for n in leaf.at_once)
    return _Body(region, counts, outside, _latency(region, kept, counts.total, model), times, flops, spilled)


def _works(bodies: list[_Body], model: MachineModel) -> dict[Leaf, Work]:
    """Statements that run in one loop, each with its part of the time."""
    total = Counts(control=CONTROL)
    for body in bodies:
        total = total.plus(body.counts)
    wait = max(body.wait for body in bodies)
    cycles = _cycles(total, model)
    alone = [_cycles(body.counts, model) + 0.01 for body in bodies]
    found = {}
    for body, own in zip(bodies, alone):
        inner = body.region.runs[-1][1] if body.region.runs else 1.0
        spent = body.times * max(cycles, wait, 1.0) * own / sum(alone)
        spent += _loop_overhead(body.region) / len(bodies) + _cycles(body.outside, model) * body.times / inner
        bound = "latency" if wait > cycles else "spills" if body.spilled else ""
        found[body.region.leaf] = Work(
            spent,
            body.counts.scaled(body.times),
            body.flops * body.times * body.region.leaf.share / body.region.share(),
            bound,
        )
    return found


def _cycles(c: Counts, model: MachineModel) -> float:
    """The busiest of the units, or the instructions that come in."""
    width = model.issue_width if c.total < LONG_BODY else model.issue_width / 2
    return max(
        c.multiplies / model.fma_units,
        (c.multiplies + c.simple + c.shuffles) / (2 * model.fma_units),
        c.loads / model.load_units,
        c.stores / model.store_units,
        c.total / width,
    )


def _as_instruction(region: Region, body: Counts, model: MachineModel) -> Counts:
    """One for each copy, which keeps the multiply-add units as long as sums in as many vectors would."""
    write = region.leaf.write
    results = math.prod(n.trips for n in region.leaf.at_once if write.moves_with(n.name))
    vectors = max(1.0, results / model.lanes(write.buffer.dtype.bits))
    return Counts(region.all_copies() * vectors, loads=body.loads / SCALAR, control=body.control)


def _kept_in_register(region: Region) -> bool:
    """Whether the element written stays in a register while the innermost loop runs."""
    leaf = region.leaf
    if not leaf.accesses or not leaf.write.is_store:
        return True
    write = leaf.write
    if region.is_register(write):
        return True
    if not region.runs or leaf.starts or not updates(leaf):
        return False
    innermost = region.runs[-1][0]
    inside = leaf.nests[leaf.nests.index(innermost) :]
    return not any(write.moves_with(n.name) for n in inside)


def _memory(region: Region, kept: bool, model: MachineModel) -> tuple[Counts, Counts]:
    """Loads and stores of a body, and those that happen once around the innermost loop."""
    leaf = region.leaf
    inside, outside = Counts(), Counts()
    shared = not _splits_copies(region)
    for a in leaf.accesses:
        if region.is_register(a):
            continue
        own = leaf.write.is_store and a.buffer.name == leaf.write.buffer.name and a.forms == leaf.write.forms
        turned = _turned(region, a, model)
        times = _instances(region, a) if shared or a.is_store else region.all_copies()
        cost = turned or _access(region, a, model).scaled(times)
        if own and kept:
            outside = outside.plus(cost)
        else:
            inside = inside.plus(cost)
    return inside, outside


def _instances(region: Region, a: Access) -> float:
    """Different vectors of ``a`` among the copies, less those that other accesses of the statement load too."""
    count = region.instances(a)
    lane = "" if region.lanes is None else region.lanes.nest.name
    for nest, trips in region.copies:
        if a.is_store or trips == 1 or not a.moves_with(nest.name):
            continue
        for b in region.leaf.accesses:
            ahead = _ahead(a, b, nest.name, lane)
            if 0 < ahead < trips:
                count *= ahead / trips
                break
    return count


def _ahead(a: Access, b: Access, name: str, lane: str) -> int:
    """How many copies ahead of ``a`` another access loads the same, or 0 where it never does."""
    if b is a or b.is_store or a.buffer.name != b.buffer.name:
        return 0
    ahead = 0
    for one, other in zip(a.forms, b.forms):
        if one.coefficients != other.coefficients:
            return 0
        apart = other.constant - one.constant
        if apart:
            step = sum(c for t, c in one.coefficients.items() if t.variable == name)
            if not step or apart % step or any(t.variable == lane for t in one.coefficients):
                return 0
            ahead = apart // step
    return ahead


def _access(region: Region, a: Access, model: MachineModel) -> Counts:
    """One access, of all lanes."""
    size = a.buffer.dtype.itemsize
    lanes = region.lanes
    if lanes is None or not region.varies(a):
        if lanes is None or a.is_store:
            return Counts(stores=SCALAR) if a.is_store else Counts(loads=SCALAR)
        return Counts(loads=BROADCAST, control=1 - BROADCAST)  # longer under way, but one instruction
    step = a.step(lanes.nest.name, lanes.count)
    vectors = max(0.5, lanes.registers * size * 8 / lanes.bits)
    crossing = 1.0 if _is_aligned(a, lanes, model) else 1.6
    if step in (1, -1):
        turned = vectors if step == -1 else 0.0
        return (
            Counts(stores=vectors * crossing, shuffles=turned)
            if a.is_store
            else Counts(loads=vectors * crossing, shuffles=turned)
        )
    if step is not None and 1 < step <= 4 and not a.is_store:
        return Counts(loads=STEPPED * vectors * step * crossing, shuffles=vectors * step)
    if a.is_store:
        return Counts(stores=APART * lanes.count, shuffles=SCATTERED * lanes.count)
    return Counts(loads=0.5 * lanes.count, shuffles=GATHERED * lanes.count)


def _turned(region: Region, a: Access, model: MachineModel) -> Counts | None:
    """A tile that is accessed across its rows goes through registers: its rows are vectors, exchanged in halves.

    A part of a vector takes an access as a whole one does.
    """
    if region.lanes is None or not region.copies or a.buffer.dtype.bits < 32:
        return None
    nest, rows = region.copies[-1]
    lanes = region.lanes.count
    side = int(min(rows, lanes, model.lanes(a.buffer.dtype.bits)))
    if a.step(nest.name) != 1 or a.step(region.lanes.nest.name) in (0, 1, None) or region.leaf.tests:
        return None
    if side < 4 or side & (side - 1) or rows % side or lanes % side:
        return None
    vectors = lanes * max(1.0, rows * a.buffer.dtype.bits / model.vector_bits)
    exchanged = rows * lanes / side * math.log2(side)
    others = region.instances(a) / rows
    moved = Counts(stores=APART * vectors) if a.is_store else Counts(loads=vectors)
    return moved.plus(Counts(shuffles=exchanged)).scaled(others)


def _is_aligned(a: Access, lanes: Lanes, model: MachineModel) -> bool:
    """Whether vectors start on whole vectors of memory, so that none lies across two lines."""
    whole = model.lanes(a.buffer.dtype.itemsize * 8)
    for form, stride in zip(a.forms, a.strides):
        if form.constant * stride % whole:
            return False
        for term, times in form.coefficients.items():
            if term.variable != lanes.nest.name and times * stride % whole:
                return False
    return True


def _inner_tests(region: Region) -> list[frozenset[str]]:
    """The tests that stay in the body, by the loops they ask about.

    A loop that a test asks about is cut where the test starts to matter; masks that are always the same cost nothing.
    So it is with the tiles of one loop, or of several that count them together: all but the last are full, which is
    asked before them. Sums in registers are computed without tests, by whole tiles; results are tested, of tiles that
    are not full, as along a diagonal.
    """
    if not region.leaf.tests:
        return []
    innermost = region.runs[-1][0].name if region.runs else ""
    tile = {nest.name for nest, _ in region.copies} | ({region.lanes.nest.name} if region.lanes is not None else set())
    once = {nest.name for nest in region.leaf.nests if nest.trips <= 1}
    found = ((test.loops - once, test.ends) for test in region.leaf.tests)
    in_registers = bool(region.leaf.accesses) and region.is_register(region.leaf.write)
    most = math.inf if in_registers else 1
    return [t for t, ends in found if innermost not in t and not (t & tile and (ends or len(t - tile) <= most)) and t]


def _tests_lanes(region: Region) -> bool:
    return region.lanes is not None and any(region.lanes.nest.name in tested for tested in _inner_tests(region))


def _splits_copies(region: Region) -> bool:
    """Whether tests stand between the unrolled copies, so that each loads for itself."""
    inner = {nest.name for nest, _ in region.copies}
    if any(tested & inner for tested in _inner_tests(region)):
        return True
    return bool(inner) and region.leaf.restarts and not start_is_hoisted(region.leaf)


def _guards(region: Region, model: MachineModel) -> Counts:
    """Tests inside the innermost loop: a branch a copy, or masks made from the lanes' numbers.

    Those that only ask about loops that run have become the bounds of the loops.
    """
    found = Counts()
    inner = {nest.name for nest, _ in region.copies}
    copies = region.all_copies() if _splits_copies(region) else 1.0
    for tested in _inner_tests(region):
        if region.lanes is not None and region.lanes.nest.name in tested:
            found.simple += copies * (3.0 * region.lanes.count * 64 / model.vector_bits + 2.0)
        elif tested & inner:
            found.control += 2.0 * copies
    if region.leaf.restarts and not start_is_hoisted(region.leaf):
        found.control += 2.0 * copies
    return found


def _spills(region: Region, kept: bool, model: MachineModel) -> float:
    """Sums that do not fit the registers: they are loaded and stored again in every run of the body."""
    leaf = region.leaf
    if not kept or not leaf.accesses or not leaf.write.is_store or not region.runs:
        return 0.0
    sums = region.instances(leaf.write) * (region.vectors if region.varies(leaf.write) else 1.0)
    own = leaf.write.buffer.name
    operands = [region.vectors for a in leaf.accesses if a.buffer.name != own and region.varies(a)]
    excess = sums + min(operands, default=0.0) + 1 - model.vector_registers
    return max(0.0, min(1.5 * sums, 3.0 * excess))


def _latency(region: Region, kept: bool, instructions: float, model: MachineModel) -> float:
    """Cycles that one body waits for the sums of the one before; short loops overlap with the next ones."""
    leaf = region.leaf
    if not leaf.accesses or not leaf.write.is_store or not updates(leaf) or not region.runs:
        return 0.0
    innermost, trips = region.runs[-1]
    if leaf.write.moves_with(innermost.name) and not (region.lanes and region.lanes.folded):
        return 0.0
    chain = region.all_copies() / max(1.0, region.instances(leaf.write))
    memory = UNDER_MASK if is_masked(leaf, region.lanes) else THROUGH_MEMORY
    step = model.fma_latency + (0.0 if kept else memory)
    if isinstance(leaf.value, Binary) and leaf.value.op in ("min", "max"):
        step -= model.fma_latency / 2 - 1
    together = max(1.0, IN_FLIGHT / (trips * max(1.0, instructions)))
    return step * chain / together


def _loop_overhead(region: Region) -> float:
    """Cycles to enter and leave loops."""
    total, times = 0.0, region.outer_copies
    for _, trips in region.runs:
        total += times * (ENTER + (UNFORESEEN if trips > FORESEEN_TRIPS else 0.0))
        times *= trips
    return total * region.share()
