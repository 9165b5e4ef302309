"""What a core does for one statement: instructions by kind, and the cycles they take.

Looked at is the innermost loop that really runs, with everything unrolled or in lanes inside it: what it loads,
computes and stores in one go, whether sums stay in registers, and whether they wait for one another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from weft.auto.estimate_vectors import Lanes, data_bits
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.schedules.index_forms import variables
from weft.schedules.nests import Access, Leaf, Nest
from weft.target.cpu.machine_model import MachineModel

#: Vector instructions of the functions that take many, in the length of multiplications (measured).
CALL_COST = {
    "exp": 9, "exp2": 7, "expm1": 12, "log": 21, "log2": 24, "log10": 25, "log1p": 28, "sin": 15, "cos": 16,
    "tan": 22, "asin": 14, "acos": 16, "atan": 17, "sinh": 20, "cosh": 14, "tanh": 19, "asinh": 45, "acosh": 42,
    "atanh": 40, "cbrt": 35, "sigmoid": 16, "erf": 22, "erfc": 38, "tgamma": 500, "lgamma": 280, "sqrt": 8,
    "rsqrt": 14, "pow": 80, "atan2": 28, "fmod": 45, "hypot": 30, "fma": 1,
}  # fmt: skip
DIVISION, INTEGER_DIVISION, TO_INTEGER = 5.0, 12.0, 20.0
#: Instructions to load or store one element of a vector that lies apart from the others.
GATHERED, SCATTERED = 1.6, 2.0
#: Cycles from a stored sum to the next one that is loaded from the same place.
THROUGH_MEMORY = 6.0
#: Loop control, in instructions, and what entering a loop costs, in cycles; a long loop's end is not foreseen.
CONTROL, ENTER, UNFORESEEN, FORESEEN_TRIPS = 2.0, 4.0, 12.0, 40
#: Instructions in a loop body beyond which they no longer come from the cache of decoded ones.
LONG_BODY = 4000.0
#: Instructions that a core looks ahead.
IN_FLIGHT = 250.0
#: Copies up to which the code generator unrolls loops through registers.
MAX_COPIES = 256


@dataclass(slots=True)
class Counts:
    """Instructions of some run: ``multiplies`` use the multiply-add units, ``simple`` any vector unit.

    ``loads`` and ``stores`` are in whole vectors; ``scalar`` ones take half the time of one.
    """

    multiplies: float = 0.0
    simple: float = 0.0
    loads: float = 0.0
    stores: float = 0.0
    shuffles: float = 0.0
    control: float = 0.0

    def scaled(self, by: float) -> Counts:
        return Counts(*(getattr(self, name) * by for name in Counts.__slots__))

    def plus(self, other: Counts) -> Counts:
        return Counts(*(getattr(self, name) + getattr(other, name) for name in Counts.__slots__))

    @property
    def total(self) -> float:
        return self.multiplies + self.simple + self.loads + self.stores + self.shuffles + self.control


@dataclass(slots=True)
class Work:
    """What a statement takes of one core, in all: cycles, instructions, and what holds it up."""

    cycles: float
    counts: Counts
    flops: float
    bound: str
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Region:
    """The innermost loop that runs, and what is inside it.

    ``runs`` are the loops around the body, outermost first, with their trips; ``copies`` the unrolled ones inside it,
    ``outer_copies`` how many copies of the loop itself there are. ``registers`` names buffers that are registers.
    """

    leaf: Leaf
    lanes: Lanes | None
    runs: list[tuple[Nest, float]]
    outer_copies: float
    copies: list[tuple[Nest, float]]
    registers: frozenset[str]

    @property
    def vectors(self) -> float:
        """Registers that hold the lanes of one value."""
        return 1.0 if self.lanes is None else self.lanes.registers

    def varies(self, access: Access) -> bool:
        return self.lanes is not None and access.moves_with(self.lanes.nest.name)

    def instances(self, access: Access) -> float:
        """Different elements (or vectors) among the unrolled copies."""
        count = 1.0
        for nest, trips in self.copies:
            if access.moves_with(nest.name):
                count *= trips
        return count

    def all_copies(self) -> float:
        count = 1.0
        for _, trips in self.copies:
            count *= trips
        return count

    def is_register(self, access: Access) -> bool:
        return access.buffer.name in self.registers


@dataclass(slots=True)
class _Loop:
    """A loop around a statement: how often it really runs, and whether it is unrolled."""

    nest: Nest
    trips: float
    unrolled: bool


def find_loops(leaf: Leaf, lanes: Lanes | None) -> list[_Loop]:
    """The loops around ``leaf``, lanes counted in vectors; those that pick registers are unrolled."""
    copies = 1.0
    chain: list[_Loop] = []
    for nest in leaf.nests:
        trips = max(1.0, float(nest.trips))
        in_lanes = lanes is not None and nest is lanes.nest
        if lanes is not None and in_lanes:
            trips = ceil(trips / lanes.count)
        unrolled = nest.kind == "unroll" or trips == 1
        if not unrolled and nest.kind in ("serial", "vector") and trips * copies <= MAX_COPIES:
            unrolled = any(a.buffer.scope == "register" and a.moves_with(nest.name) for a in leaf.accesses)
        copies *= trips if unrolled else 1.0
        chain.append(_Loop(nest, trips, unrolled))
    return chain


def find_registers(leaves: Sequence[Leaf], lanes: Mapping[Leaf, Lanes]) -> frozenset[str]:
    """Buffers that really are registers: no loop that runs picks elements of them."""
    asked: set[str] = set()
    moved: set[str] = set()
    for leaf in leaves:
        own = [a for a in leaf.accesses if a.buffer.scope == "register"]
        if own:
            asked.update(a.buffer.name for a in own)
            runs = [loop.nest.name for loop in find_loops(leaf, lanes.get(leaf)) if not loop.unrolled]
            moved.update(a.buffer.name for a in own if any(a.moves_with(name) for name in runs))
    return frozenset(asked - moved)


def find_region(leaf: Leaf, lanes: Lanes | None, registers: frozenset[str]) -> Region:
    """Which loops run, and which are unrolled inside the innermost one that does."""
    chain = find_loops(leaf, lanes)
    last = max((n for n, loop in enumerate(chain) if not loop.unrolled), default=-1)
    runs = [(loop.nest, loop.trips) for loop in chain[: last + 1] if not loop.unrolled]
    outer = 1.0
    for loop in chain[: last + 1]:
        outer *= loop.trips if loop.unrolled else 1.0
    inside = [(loop.nest, loop.trips) for loop in chain[last + 1 :] if loop.trips > 1]
    return Region(leaf, lanes, runs, outer, inside, registers)


def infer_work(leaf: Leaf, lanes: Lanes | None, registers: frozenset[str], model: MachineModel, fast: bool) -> Work:
    """The cycles of ``leaf`` in the whole program, on one core, its data being in the first cache."""
    if any(n.trips <= 0 for n in leaf.nests) or leaf.share <= 0:
        return Work(0.0, Counts(), 0.0, "")
    region = find_region(leaf, lanes, registers)
    times = region.outer_copies * leaf.share
    for _, trips in region.runs:
        times *= trips
    if leaf.starts and _start_is_hoisted(leaf):
        region.runs = [(n, t) for n, t in region.runs if n.name not in leaf.reduced]
    arithmetic, flops = _Expression(region, fast).count()
    body = Counts(control=CONTROL).plus(arithmetic)
    kept = _kept_in_register(region)
    moved, outside = _memory(region, kept, model)
    body = body.plus(moved).plus(_guards(region, model))
    spilled = _spills(region, kept, model)
    body.loads += spilled
    body.stores += spilled
    if leaf.intrinsic is not None:
        body = _as_instruction(region, body)
    cycles = _cycles(body, model)
    wait = _latency(region, kept, body.total, model)
    bound = "latency" if wait > cycles else "spills" if spilled else ""
    total = times * max(cycles, wait, 1.0) + _loop_overhead(region)
    total += _cycles(outside, model) * times / max(1.0, region.runs[-1][1] if region.runs else 1.0)
    return Work(total, body.scaled(times), flops * times, bound)


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


def _start_is_hoisted(leaf: Leaf) -> bool:
    """Whether the loops of the reduction are innermost, so that its start stands in front of them."""
    inner = [n.name in leaf.reduced for n in leaf.nests if n.trips > 1]
    return sorted(inner) == inner


def _as_instruction(region: Region, body: Counts) -> Counts:
    """A hardware instruction does what the innermost loops say at once."""
    return Counts(multiplies=1.0, loads=min(1.5, body.loads), control=body.control)


class _Expression:
    """Counts the instructions of a value, each as often as copies differ."""

    def __init__(self, region: Region, fast: bool) -> None:
        self.region = region
        self.fast = fast
        self.counts = Counts()
        self.flops = 0.0
        self.bits = data_bits(region.leaf)
        self.seen: dict[Expr, frozenset[str]] = {}

    def count(self) -> tuple[Counts, float]:
        self.visit(self.region.leaf.value)
        return self.counts, self.flops

    def visit(self, e: Expr) -> frozenset[str]:
        """The loops that ``e`` depends on; its instructions are counted on the first visit."""
        known = self.seen.get(e)
        if known is None:
            known = self.seen[e] = self._visit(e)
        return known

    def _visit(self, e: Expr) -> frozenset[str]:
        if isinstance(e, Const):
            return frozenset()
        if isinstance(e, Var):
            form = self.region.leaf.forms.get(e.name)
            return frozenset() if form is None else variables(form)
        if isinstance(e, Load):
            return self._depends(*e.indices, count=False)
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Call):
            on = self._depends(*e.args)
            self._add(on, CALL_COST.get(e.name, 2), flops=2 if e.name == "fma" else 1)
            return on
        if isinstance(e, Select):
            on = self._depends(e.condition, e.then, e.otherwise)
            self._add(on, 0, simple=1.0)
            return on
        if isinstance(e, Compare):
            on = self._depends(e.left, e.right)
            wide = e.left.dtype.bits / min(64, self.bits) if e.left.dtype.is_integer else 1.0
            self._add(on, 0, simple=wide)
            return on
        if isinstance(e, Cast):
            on = self._depends(e.operand)
            hard = e.operand.dtype.is_float and not e.dtype.is_float
            free = e.operand.dtype == e.dtype or isinstance(e.operand, Var)
            self._add(on, 0, simple=TO_INTEGER if hard else 0.0 if free else 1.0)
            return on
        if isinstance(e, Unary):
            on = self._depends(e.operand)
            self._add(on, 0, simple=1.0, flops=1)
            return on
        return frozenset()

    def _depends(self, *parts: Expr, count: bool = True) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for part in parts:
            found |= self.visit(part) if count else self._variables(part)
        return found

    def _variables(self, e: Expr) -> frozenset[str]:
        if isinstance(e, Var):
            form = self.region.leaf.forms.get(e.name)
            return frozenset() if form is None else variables(form)
        if isinstance(e, Binary):
            return self._variables(e.left) | self._variables(e.right)
        if isinstance(e, Load):
            return frozenset().union(*map(self._variables, e.indices))
        return self._variables(e.operand) if isinstance(e, (Cast, Unary)) else frozenset()

    def _binary(self, e: Binary) -> frozenset[str]:
        on = self._depends(e.left, e.right)
        if e.op == "/":
            scaled = self.fast and isinstance(e.right, Const)
            steady = (
                self.fast and self.region.lanes is not None and self.region.lanes.nest.name not in self.visit(e.right)
            )
            self._add(on, 1.0 if scaled or steady else DIVISION, flops=1)
        elif e.op in ("//", "%", "tdiv", "tmod"):
            self._add(on, INTEGER_DIVISION, flops=1)
        elif e.op == "*":
            self._add(on, 1.0, flops=1)
        elif e.op in ("+", "-") and self._fuses(e):
            self._add(on, 0.0, flops=1)
        elif e.op in ("min", "max"):
            self._add(on, 0, simple=2.0 if e.dtype.is_float else 1.0, flops=1)
        else:
            self._add(on, 0, simple=1.0, flops=1)
        return on

    def _fuses(self, e: Binary) -> bool:
        """Whether a sum takes a product in, in one instruction."""
        return self.fast and e.dtype.is_float and any(isinstance(s, Binary) and s.op == "*" for s in (e.left, e.right))

    def _add(self, on: frozenset[str], multiplies: float, simple: float = 0.0, flops: float = 0.0) -> None:
        region = self.region
        copies = 1.0
        for nest, trips in region.copies:
            if nest.name in on:
                copies *= trips
        in_lanes = region.lanes is not None and region.lanes.nest.name in on
        self.flops += flops * region.all_copies() * (region.lanes.count if region.lanes else 1)
        times = copies * (region.vectors if in_lanes else 1.0)
        self.counts.multiplies += multiplies * times
        self.counts.simple += simple * times


def _kept_in_register(region: Region) -> bool:
    """Whether the element written stays in a register while the innermost loop runs."""
    leaf = region.leaf
    if not leaf.accesses or not leaf.write.is_store:
        return True
    write = leaf.write
    if region.is_register(write):
        return True
    if not region.runs or leaf.starts or not _updates(leaf):
        return False
    innermost = region.runs[-1][0]
    inside = leaf.nests[leaf.nests.index(innermost) :]
    return not any(write.moves_with(n.name) for n in inside)


def _updates(leaf: Leaf) -> bool:
    """Whether a statement reads the element that it writes."""
    write = leaf.write
    return any(not a.is_store and a.buffer.name == write.buffer.name and a.forms == write.forms for a in leaf.accesses)


def _memory(region: Region, kept: bool, model: MachineModel) -> tuple[Counts, Counts]:
    """Loads and stores of a body, and those that happen once around the innermost loop."""
    leaf = region.leaf
    inside, outside = Counts(), Counts()
    shared = not _splits_copies(region)
    for a in leaf.accesses:
        if region.is_register(a):
            continue
        own = leaf.write.is_store and a.buffer.name == leaf.write.buffer.name and a.forms == leaf.write.forms
        cost = _access(region, a, model).scaled(region.instances(a) if shared or a.is_store else region.all_copies())
        if own and kept:
            outside = outside.plus(cost)
        else:
            inside = inside.plus(cost)
    return inside, outside


def _access(region: Region, a: Access, model: MachineModel) -> Counts:
    """One access, of all lanes."""
    size = a.buffer.dtype.itemsize
    lanes = region.lanes
    if lanes is None or not region.varies(a):
        return Counts(stores=0.5) if a.is_store else Counts(loads=0.5)
    step = a.step(lanes.nest.name)
    vectors = max(0.5, lanes.count * size * 8 / model.vector_bits)
    if step in (1, -1):
        turned = vectors if step == -1 else 0.0
        crossing = 1.0 if _is_aligned(a, lanes, model) else 1.6
        return (
            Counts(stores=vectors * crossing, shuffles=turned)
            if a.is_store
            else Counts(loads=vectors * crossing, shuffles=turned)
        )
    if step is not None and 1 < step <= 4 and not a.is_store:
        return Counts(loads=vectors * step, shuffles=vectors * step)
    if a.is_store:
        return Counts(stores=0.5 * lanes.count, shuffles=SCATTERED * lanes.count)
    return Counts(loads=0.5 * lanes.count, shuffles=GATHERED * lanes.count)


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


def _splits_copies(region: Region) -> bool:
    """Whether tests stand between the unrolled copies, so that each loads for itself."""
    inner = {nest.name for nest, _ in region.copies}
    if any(tested & inner for tested in region.leaf.tests):
        return True
    return bool(inner) and not region.leaf.starts and not _start_is_hoisted(region.leaf)


def _guards(region: Region, model: MachineModel) -> Counts:
    """Tests inside the innermost loop: a branch a copy, or masks made from the lanes' numbers.

    Those that only ask about loops that run have become the bounds of the loops.
    """
    found = Counts()
    inner = {nest.name for nest, _ in region.copies}
    copies = region.all_copies() if _splits_copies(region) else 1.0
    for tested in region.leaf.tests:
        if region.lanes is not None and region.lanes.nest.name in tested:
            found.simple += copies * (3.0 * region.lanes.count * 64 / model.vector_bits + 2.0)
        elif tested & inner:
            found.control += 2.0 * copies
    if region.leaf.reduced and not region.leaf.starts and not _start_is_hoisted(region.leaf):
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
    if not leaf.accesses or not leaf.write.is_store or not _updates(leaf) or not region.runs:
        return 0.0
    innermost, trips = region.runs[-1]
    if leaf.write.moves_with(innermost.name) and not (region.lanes and region.lanes.folded):
        return 0.0
    chain = region.all_copies() / max(1.0, region.instances(leaf.write))
    step = model.fma_latency + (0.0 if kept else THROUGH_MEMORY)
    if isinstance(leaf.value, Binary) and leaf.value.op in ("min", "max"):
        step += 3.0
    together = max(1.0, IN_FLIGHT / (trips * max(1.0, instructions)))
    return step * chain / together


def _loop_overhead(region: Region) -> float:
    """Cycles to enter and leave loops."""
    total, times = 0.0, region.outer_copies
    for _, trips in region.runs:
        total += times * (ENTER + (UNFORESEEN if trips > FORESEEN_TRIPS else 0.0))
        times *= trips
    return total * region.leaf.share
