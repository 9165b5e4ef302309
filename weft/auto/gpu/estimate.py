"""How long a scheduled GPU program will take, and what holds it up, by a model of the machine.

>>> estimate_gpu(s.kernel, gpu_for_arch("sm_90")).seconds

Every nest at the top of the program is a launch. Of each statement in it: instructions of warps, sectors that an access
of a warp touches, conflicts of banks, traffic by footprints, what waits for what. `launch_time` makes seconds of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from math import ceil, prod

from weft.auto.costs import point_cost
from weft.auto.gpu.estimate_access import WarpAccess, warp_access
from weft.auto.gpu.launch_time import LaunchTime, LaunchWork, combination_cycles, launch_time
from weft.auto.gpu.streams import ACCESS, BASE_REGISTERS, DEPENDENT, SPECIAL
from weft.auto.stages import buffer_bytes
from weft.ir.expr import Const
from weft.ir.stmt import Kernel
from weft.schedules.footprint import infer_touches
from weft.schedules.nests import Access, Leaf, Nest, read_nests
from weft.target.cuda.machine import WARP, GpuMachine
from weft.target.cuda.rates import L1_BYTES, SECTOR, Rates, rates_of

#: Copies of a statement from which on none waits for the result of another.
INDEPENDENT = 32


@dataclass(frozen=True, slots=True)
class LaunchEstimate:
    """One launch: the blocks of statements in it, what it does, and how long that takes."""

    names: tuple[str, ...]
    work: LaunchWork
    time: LaunchTime


@dataclass(frozen=True, slots=True)
class GpuEstimate:
    """The program: its launches one after another; ``bound`` is what takes most of the longest."""

    seconds: float
    bound: str
    launches: tuple[LaunchEstimate, ...]


def estimate_gpu(kernel: Kernel, machine: GpuMachine, *, sizes: Mapping[str, int] | None = None) -> GpuEstimate:
    """The time of ``kernel``, scheduled but not lowered, on ``machine``; ``sizes`` are values of symbolic sizes."""
    rates = rates_of(machine.capability)
    found = []
    warm: set[str] = set()  # what launches before have left in the second cache
    for nest in read_nests(kernel, sizes).root.parts:
        if isinstance(nest, Nest):
            launch = _Launch(nest, machine, rates, warm)
            work = launch.work()
            found.append(LaunchEstimate(launch.names, work, launch_time(work, machine)))
            warm |= launch.left_warm
    longest = max(found, key=lambda x: x.time.seconds, default=None)
    bound = longest.time.bound if longest is not None else "nothing"
    return GpuEstimate(sum(x.time.seconds for x in found), bound, tuple(found))


@dataclass(slots=True)
class _Place:
    """The loops around a statement by what they are, and how often a thread runs it."""

    blocks: list[Nest]
    threads: list[Nest]
    own: list[Nest]
    vector: Nest | None
    runs: float

    @property
    def warps(self) -> int:
        return ceil(prod(n.trips for n in self.threads) / WARP)

    @property
    def in_order(self) -> float:
        """Iterations that a thread runs one after another, not written out."""
        return prod(n.trips for n in self.own if n.kind == "serial")

    def executions(self, access: Access) -> float:
        """How often a thread makes an access: what inner loops do not move is made once for all of them."""
        moving = [i for i, n in enumerate(self.own) if n is not self.vector and access.moves_with(n.name)]
        last = moving[-1] + 1 if moving else 0
        return prod(n.trips for n in self.own[:last] if n is not self.vector)


def _place(leaf: Leaf) -> _Place:
    kinds = {"block": [], "thread": []}  # type: dict[str, list[Nest]]
    own = [n for n in leaf.nests if n.kind not in kinds]
    for n in leaf.nests:
        if n.kind in kinds:
            kinds[n.kind].append(n)
    vector = own[-1] if own and own[-1].kind == "vector" else None
    runs = prod(n.trips for n in own) * leaf.share
    return _Place(kinds["block"], kinds["thread"], own, vector, runs)


@dataclass(slots=True)
class _Launch:
    nest: Nest
    machine: GpuMachine
    rates: Rates
    warm: set[str]
    names: tuple[str, ...] = ()
    left_warm: set[str] = field(default_factory=set)
    fetched: set[tuple[str, str]] = field(default_factory=set)
    shared: dict[str, int] = field(default_factory=dict)
    registers: dict[str, float] = field(default_factory=dict)
    moved: dict[tuple[str, bool], float] = field(default_factory=dict)
    l2: float = 0.0
    issued: float = 0.0
    lsu: float = 0.0
    special: float = 0.0
    matrix: float = 0.0
    chain: float = 0.0
    trips: float = 0.0

    def work(self) -> LaunchWork:
        leaves = list(self.nest.below())
        places = [_place(leaf) for leaf in leaves]
        self.names = tuple(dict.fromkeys(leaf.block for leaf in leaves))
        blocks = max((prod(n.trips for n in p.blocks) for p in places), default=1.0)
        threads = int(max((prod(n.trips for n in p.threads) for p in places), default=1))
        for leaf, place in zip(leaves, places):
            self._add(leaf, place, threads)
        dram = sum(self.moved.values())
        registers = min(255, BASE_REGISTERS + round(sum(self.registers.values())))
        shared = sum(self.shared.values())
        counts = (self.issued, self.lsu, self.special, self.matrix, self.chain, self.trips)
        return LaunchWork(blocks, threads, registers, shared, dram, self.l2 * blocks, *counts)

    def _add(self, leaf: Leaf, place: _Place, threads: int) -> None:
        if leaf.intrinsic is not None:
            self._add_matrix(leaf, place)
            return
        if _combines_threads(leaf, place):
            self._add_combination(threads)
            return
        runs = place.runs * point_cost(leaf.value) / 2  # a product and the sum it goes into are one instruction
        waits = 0.0
        for access in leaf.accesses:
            waits = max(waits, self._add_access(leaf, access, place))
        self.issued += place.warps * runs
        self.special += place.warps * runs * SPECIAL
        written_out = place.runs / max(1.0, place.in_order)
        dependent = DEPENDENT if written_out < INDEPENDENT else 1.0
        self.chain += place.in_order * leaf.share * waits + runs * dependent

    def _add_access(self, leaf: Leaf, access: Access, place: _Place) -> float:
        """Counts ``access``; the cycles until what it reads is there."""
        kind = memory_of(access)
        if kind == "registers":
            own = prod(n.trips for n in place.own if access.moves_with(n.name))
            held = own * access.buffer.dtype.itemsize / 4
            self.registers[access.buffer.name] = max(held, self.registers.get(access.buffer.name, 0.0))
            return 0.0
        found = warp_access(access, place.threads, place.vector)
        times = place.warps * place.executions(access) * leaf.share
        self.issued += times * found.count * ACCESS
        self.lsu += times * found.cycles
        if kind == "shared":
            self.shared[access.buffer.name] = buffer_bytes(access.buffer)
            return 0.0 if access.is_store else self.rates.shared_latency
        self._add_traffic(leaf, access, place, found, times)
        if access.is_store:
            return 0.0
        ahead = max(1, _stages(leaf) - 1)
        if access.buffer.name in self.warm:
            return self.rates.l2_latency / ahead
        self.trips = max(self.trips, place.in_order * leaf.share / ahead)
        return 0.0

    def _add_traffic(self, leaf: Leaf, access: Access, place: _Place, found: WarpAccess, times: float) -> None:
        (touch,) = infer_touches(_only(leaf, access), SECTOR)
        sectors, whole, name = times * found.sectors * SECTOR, touch.touched[0], access.buffer.name
        if not access.is_store:  # the first cache has what the block has read before, also by an access next to this
            is_next = (leaf.block, name) in self.fetched
            sectors = 0.0 if is_next else min(sectors, touch.touched[len(place.blocks)])
        self.fetched.add((leaf.block, name))
        self.l2 += sectors
        if whole <= self.machine.l2_bytes / 2:
            self.left_warm.add(name)
        if not (name in self.warm and not access.is_store):
            key = (name, access.is_store)
            self.moved[key] = max(whole, self.moved.get(key, 0.0))

    def _add_combination(self, threads: int) -> None:
        """A reduction over threads: shuffles within warps, then one element a warp through shared memory."""
        warps = ceil(threads / WARP)
        self.issued += warps * 12
        self.chain += combination_cycles(self.rates, threads)

    def _add_matrix(self, leaf: Leaf, place: _Place) -> None:
        """Products on their own units; operands are read from shared memory once for a warp, and what all warps of a
        group need once for the group."""
        name, rates = leaf.intrinsic or "", self.rates
        is_grouped = name.startswith("wgmma")
        slower = 2 if "tf32" in name else 1
        rate = rates.wgmma * rates.wgmma_share if is_grouped else rates.mma * rates.mma_share / slower
        cycles = prod(n.trips for n in place.threads) * place.runs / rate
        *warps, row, column = place.threads  # those of the last two loops are the lanes of a warp
        for access in leaf.accesses:
            if memory_of(access) == "registers":
                self._add_access(leaf, access, place)
                continue
            count = prod(n.trips for n in (*place.own, row, column) if access.moves_with(n.name))
            is_alike = is_grouped and not any(access.moves_with(n.name) for n in warps)
            read = place.warps * leaf.share * count * access.buffer.dtype.itemsize / (4 if is_alike else 1)
            self.lsu += read / (L1_BYTES * rates.shared_share)
        pieces = prod(n.trips for n in takewhile(lambda n: n.kind != "thread", leaf.nests) if n.kind == "serial")
        self.matrix += cycles
        self.chain += pieces * (rates.barrier + rates.shared_latency + rates.mma_latency) + cycles


def memory_of(access: Access) -> str:
    """Where an access goes: storage that a block makes is spread over the registers of its threads, unless shared."""
    if access.buffer.scope == "register":
        return "registers"
    if access.buffer.scope == "shared":
        return "shared"
    return "registers" if access.is_temporary and access.private else "memory"


def _combines_threads(leaf: Leaf, place: _Place) -> bool:
    """Whether it reduces what every thread has to one result: a loop over parts that threads have made."""
    over = [n for n in place.own if n.name in leaf.reduced and n.trips > 1 and n.kind == "serial"]
    reads = [a for a in leaf.accesses if not a.is_store and a.buffer.name != leaf.write.buffer.name]
    if leaf.starts or any(memory_of(a) == "memory" for a in reads):
        return False
    of_block = [a for a in reads if memory_of(a) == "registers" and a.buffer.scope != "register"]
    return any(a.moves_with(n.name) for n in over for a in of_block)


def _stages(leaf: Leaf) -> int:
    """How many pieces of shared memory a copy goes through in turn: so many less one are under way."""
    if leaf.write.buffer.scope != "shared":
        return 2
    turns = [t.modulus for f in leaf.write.forms for t in f.coefficients if t.modulus]
    sizes = [int(n.value) for n in leaf.write.buffer.shape[:1] if isinstance(n, Const)]
    return sizes[0] if turns and sizes else 2


def _only(leaf: Leaf, access: Access) -> Leaf:
    return Leaf(leaf.value, (access,), leaf.nests, leaf.share, leaf.tests, leaf.forms)
