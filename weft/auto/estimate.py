"""How long a scheduled program will take, and what holds it up, by the model of the machine.

>>> estimate(s.kernel, machine_model(), threads=1).seconds

For each statement: cycles of the core with its data in the first cache (`estimate_compute`), and the time that its
traffic takes between each pair of caches (`estimate_traffic`). They overlap, so the longest counts most; statements
that hand values on in registers do so together, for the results of one tile leave while the next is computed. Caches
are taken to be warm: what the whole program touches and a cache holds is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from weft.auto.estimate_compute import Work, infer_works
from weft.auto.estimate_regions import Counts
from weft.auto.estimate_traffic import TrafficModel
from weft.auto.estimate_vectors import Lanes, choose_vectors
from weft.ir.stmt import Kernel
from weft.schedules.nests import Leaf, Nest, Program, read_nests
from weft.target.cpu.machine_model import MachineModel

#: How much of the shorter times hides behind the longest: times are added as if raised to this power.
OVERLAP = 4.0
#: Seconds until a line comes from the second cache, the third, and memory, and how many are under way at once.
LATENCY, AT_ONCE = (4e-9, 14e-9, 1e-7), 12.0
#: Seconds of a call, before and after its loops.
CALL = 3e-7


@dataclass(slots=True)
class NestEstimate:
    """One statement: its block, the loops around it, its seconds by what takes them, and the bytes into each cache."""

    block: str
    loops: tuple[str, ...]
    seconds: float
    bound: str
    parts: Mapping[str, float]
    traffic: Mapping[str, float]
    flops: float
    counts: Counts
    lanes: int
    threads: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """The program: ``bound`` is what takes most of the time (compute, latency, a cache, memory, overhead)."""

    seconds: float
    bound: str
    flops: float
    traffic: Mapping[str, float]
    parts: Mapping[str, float]
    nests: tuple[NestEstimate, ...]
    threads: int
    peak: float = field(default=0.0)


def estimate(
    kernel: Kernel,
    model: MachineModel,
    threads: int = 1,
    *,
    fast: bool = True,
    sizes: Mapping[str, int] | None = None,
) -> Estimate:
    """The time of ``kernel``, scheduled but not lowered, on ``threads`` threads of ``model``.

    ``fast`` numerics fuse products into sums; ``sizes`` are values of symbolic sizes.
    """
    return estimate_program(read_nests(kernel, sizes), model, threads, fast=fast)


def estimate_program(program: Program, model: MachineModel, threads: int = 1, *, fast: bool = True) -> Estimate:
    """The time of nests, those of a scheduled kernel or those that a plan would make."""
    lanes = choose_vectors(program.root, model, fast)
    traffic = TrafficModel(program, model.line, lanes)
    works = infer_works(traffic.leaves, lanes, model, fast)
    kept = [_estimate_leaf(leaf, works[leaf], lanes.get(leaf), traffic, model, threads) for leaf in traffic.leaves]
    _overlap_tiles(traffic.leaves, kept)
    return _total(kept, _parallel_seconds(program, model, threads), model, threads)


def _overlap_tiles(leaves: Sequence[Leaf], found: Sequence[NestEstimate]) -> None:
    """Statements around one tile in registers take the time of all they do together, each its part of it."""
    tiles: dict[str, list[NestEstimate]] = {}
    for leaf, nest in zip(leaves, found):
        tile = next((a.buffer.name for a in leaf.accesses if a.buffer.scope == "register"), None)
        if tile is not None:
            tiles.setdefault(tile, []).append(nest)
    for nests in tiles.values():
        parts = [sum(each) for each in zip(*(n.parts.values() for n in nests))]
        alone = sum(n.seconds for n in nests)
        for nest in nests:
            nest.seconds *= _overlapped(parts) / alone if alone else 1.0


def _overlapped(parts: Iterable[float]) -> float:
    return float(sum(p**OVERLAP for p in parts) ** (1 / OVERLAP))


def _estimate_leaf(
    leaf: Leaf, work: Work, lanes: Lanes | None, traffic: TrafficModel, model: MachineModel, threads: int
) -> NestEstimate:
    speedup = _speedup(leaf, threads, model)
    parts = {"compute": work.cycles / model.frequency / speedup}
    moved: dict[str, float] = {}
    for nearer, level in zip(model.levels, model.levels[1:]):
        t = traffic.of(leaf, nearer.usable)
        together = speedup if level.shared_by == 1 else min(speedup, level.read_all / level.read)
        past = t.streamed / (model.stream if level is model.memory else level.write)
        jumps = t.jumps * LATENCY[min(len(moved), len(LATENCY) - 1)] / AT_ONCE / speedup
        parts[level.name] = (t.read / level.read + t.written / level.write + past) / together + jumps
        moved[nearer.name] = t.read + t.written + t.streamed
    bound = max(parts, key=lambda name: parts[name])
    return NestEstimate(
        block=leaf.block,
        loops=tuple(n.name for n in leaf.nests),
        seconds=_overlapped(parts.values()),
        bound=work.bound or bound if bound == "compute" else bound,
        parts=parts,
        traffic=moved,
        flops=work.flops,
        counts=work.counts,
        lanes=lanes.count if lanes else 1,
        threads=round(speedup),
    )


def _speedup(leaf: Leaf, threads: int, model: MachineModel) -> float:
    """How many threads really share the iterations of the outermost parallel loop, or of some in a row, as one."""
    if threads == 1:
        return 1.0
    usable, trips = min(threads, model.cores), 1.0
    for nest in leaf.nests:
        if nest.kind in ("parallel", "block"):
            trips *= max(1.0, nest.trips)
        elif trips > 1:
            break
    return max(1.0, trips / -(-trips // usable))


def _parallel_seconds(program: Program, model: MachineModel, threads: int) -> float:
    if threads == 1:
        return 0.0
    return model.parallel_start * _starts(program.root, 1.0)


def _starts(nest: Nest, times: float) -> float:
    """How often parallel loops are started; those inside others run alone."""
    total = 0.0
    for child in nest.parts:
        if isinstance(child, Nest):
            if child.kind in ("parallel", "block"):
                total += times
            else:
                total += _starts(child, times * max(1.0, child.trips))
    return total


def _total(found: list[NestEstimate], starts: float, model: MachineModel, threads: int) -> Estimate:
    parts: dict[str, float] = {}
    traffic: dict[str, float] = {}
    bounds: dict[str, float] = {"overhead": starts + CALL}
    for nest in found:
        bounds[nest.bound] = bounds.get(nest.bound, 0.0) + nest.seconds
        for name, value in nest.parts.items():
            parts[name] = parts.get(name, 0.0) + value
        for name, value in nest.traffic.items():
            traffic[name] = traffic.get(name, 0.0) + value
    seconds = sum(n.seconds for n in found) + starts + CALL
    parts["overhead"] = starts + CALL
    bound = max(bounds, key=lambda name: bounds[name])
    flops = sum(n.flops for n in found)
    return Estimate(seconds, bound, flops, traffic, parts, tuple(found), threads, model.peak)
