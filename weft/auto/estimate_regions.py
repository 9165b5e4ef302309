"""The innermost loop that really runs around a statement, with everything unrolled or in lanes inside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from weft.auto.estimate_vectors import Lanes
from weft.ir.expr import Const
from weft.schedules.index_forms import variables
from weft.schedules.nests import Access, Leaf, Nest

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
        return Counts(
            self.multiplies * by, self.simple * by, self.loads * by,
            self.stores * by, self.shuffles * by, self.control * by,
        )  # fmt: skip

    def plus(self, other: Counts) -> Counts:
        return Counts(
            self.multiplies + other.multiplies, self.simple + other.simple, self.loads + other.loads,
            self.stores + other.stores, self.shuffles + other.shuffles, self.control + other.control,
        )  # fmt: skip

    @property
    def total(self) -> float:
        return self.multiplies + self.simple + self.loads + self.stores + self.shuffles + self.control


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
        """Whether lanes access elements of their own."""
        name = "" if self.lanes is None else self.lanes.nest.name
        return self.lanes is not None and (access.moves_with(name) or name in access.private)

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

    def share(self) -> float:
        """The share of the body's runs that are made: lanes that do nothing take their time all the same."""
        found = self.leaf.share
        for test in self.leaf.tests:
            if self.lanes is not None and self.lanes.nest.name in test.loops and test.share > 0:
                found /= test.share
        return found

    def is_register(self, access: Access) -> bool:
        return access.buffer.name in self.registers


@dataclass(slots=True)
class _Loop:
    """A loop around a statement: how often it really runs, and whether it is unrolled."""

    nest: Nest
    trips: float
    unrolled: bool


def find_loops(leaf: Leaf, lanes: Lanes | None) -> list[_Loop]:
    """The loops around ``leaf``, lanes counted in vectors; those that pick registers are unrolled.

    Loops that an instruction does at once run once.
    """
    copies = 1.0
    chain: list[_Loop] = []
    registers = [a for a in leaf.accesses if a.buffer.scope == "register"]
    at_once = leaf.at_once
    for nest in leaf.nests:
        trips = 1.0 if nest in at_once else max(1.0, float(nest.trips))
        in_lanes = lanes is not None and nest is lanes.nest
        if lanes is not None and in_lanes:
            trips = ceil(trips / lanes.count)
        unrolled = nest.kind == "unroll" or trips == 1
        if not unrolled and nest.kind in ("serial", "vector") and trips * copies <= MAX_COPIES:
            unrolled = any(nest.name in a.moving for a in registers)
        copies *= trips if unrolled else 1.0
        chain.append(_Loop(nest, trips, unrolled))
    return chain


def find_registers(leaves: Sequence[Leaf], lanes: Mapping[Leaf, Lanes]) -> frozenset[str]:
    """Temporaries that really are registers: small, whole vectors, and no loop that runs picks elements of them."""
    asked: set[str] = set()
    in_memory: set[str] = set()
    for leaf in leaves:
        own = [a for a in leaf.accesses if a.is_temporary]
        if own:
            asked.update(a.buffer.name for a in own)
            loops = find_loops(leaf, lanes.get(leaf))
            in_memory.update(a.buffer.name for a in own if _is_memory(a, lanes.get(leaf), loops))
    return frozenset(asked - in_memory)


def _is_memory(a: Access, lanes: Lanes | None, loops: Sequence[_Loop]) -> bool:
    copies = 1.0
    for loop in loops:
        if a.moves_with(loop.nest.name):
            if not loop.unrolled:
                return True
            copies *= loop.trips
    if lanes is not None and a.moves_with(lanes.nest.name):
        apart = a.step(lanes.nest.name) not in (0, 1)
        return copies > MAX_COPIES or apart or (a.buffer.scope != "register" and _has_odd_rows(a, lanes))
    return copies > MAX_COPIES


def _has_odd_rows(a: Access, lanes: Lanes) -> bool:
    """Whether vectors along the rows of a buffer overlap: only rows of registers are padded."""
    along = [size for size, form in zip(a.buffer.shape, a.forms) if lanes.nest.name in variables(form)]
    return any(isinstance(size, Const) and int(size.value) % lanes.count != 0 for size in along)


def is_masked(leaf: Leaf, lanes: Lanes | None) -> bool:
    """Whether some lanes may do nothing."""
    if lanes is None:
        return False
    return bool(lanes.nest.trips % lanes.count) or any(lanes.nest.name in test.loops for test in leaf.tests)


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


def start_is_hoisted(leaf: Leaf) -> bool:
    """Whether the loops of the reduction are innermost, so that its start stands in front of them."""
    inner = [n.name in leaf.reduced for n in leaf.nests if n.trips > 1]
    return sorted(inner) == inner


def updates(leaf: Leaf) -> bool:
    """Whether a statement reads the element that it writes."""
    write = leaf.write
    return any(not a.is_store and a.buffer.name == write.buffer.name and a.forms == write.forms for a in leaf.accesses)
