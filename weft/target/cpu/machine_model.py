"""A machine as schedules see it: how much it computes in a cycle, what its caches hold, how fast data move.

A `Machine` holds all of it as facts and texts, cheap to read and to compare; its `MachineModel` says what code costs.
Each figure is read from the system, measured (`weft machine --measure`), given (a JSON file named by ``WEFT_MACHINE``)
or assumed; ``sources`` says which.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, get_args

from weft.ir.errors import TargetError
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.host_facts import USUAL, CacheFacts, HostFacts

Source = Literal["read", "measured", "assumed", "given"]


@dataclass(frozen=True, slots=True)
class Level:
    """A cache, or memory (the last level, ``size`` 0), and the bytes a second that come from it or go to it.

    ``read`` and ``write`` are what one core moves, ``read_all`` and ``write_all`` what all of them move together.
    ``shared_by`` counts the cores that use the same one; ``usable`` are the bytes that stay while others use it too.
    """

    name: str
    size: int
    ways: int
    line: int
    shared_by: int
    usable: int
    read: float
    write: float
    read_all: float
    write_all: float


@dataclass(frozen=True, slots=True)
class MachineModel:
    """What code costs on a machine. Units count whole vectors a cycle, so 0.5 is one in two cycles."""

    name: str
    cores: int
    threads: int
    frequency: float
    vector_bits: int
    vector_registers: int
    fma_units: float
    fma_latency: float
    load_units: float
    store_units: float
    issue_width: float
    levels: tuple[Level, ...]
    parallel_start: float
    stream: float
    has_masks: bool
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False)

    @property
    def caches(self) -> dict[str, int]:
        """Bytes by cache level, nearest first."""
        return {level.name: level.size for level in self.levels[:-1]}

    @property
    def memory(self) -> Level:
        return self.levels[-1]

    @property
    def line(self) -> int:
        """Bytes that move together."""
        return self.levels[0].line

    @property
    def peak(self) -> float:
        """Float32 operations a second of one core, all fused multiply-adds."""
        return 2 * self.fma_units * self.lanes(32) * self.frequency

    def lanes(self, bits: int) -> int:
        """How many elements of ``bits`` bits one vector register holds."""
        return max(1, self.vector_bits // bits)

    def source(self, name: str) -> Source:
        """Where a figure comes from; those of a level are named ``L2.read``."""
        return self.sources.get(name, "assumed")

    def with_measured(self, figures: Mapping[str, float], source: Source = "measured") -> MachineModel:
        """This model with some figures, named as for `source`, replaced."""
        own: dict[str, Any] = {name: value for name, value in figures.items() if "." not in name}
        sources = {**self.sources, **dict.fromkeys(figures, source)}
        return replace(self, **own, levels=tuple(_with_rates(v, figures) for v in self.levels), sources=sources)

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1) + "\n"


def _with_rates(level: Level, figures: Mapping[str, float]) -> Level:
    """``level`` with those of its figures that ``figures`` has."""
    rates: dict[str, Any] = {}
    for name, value in figures.items():
        whose, dot, what = name.partition(".")
        if dot and whose == level.name:
            rates[what] = int(value) if what == "usable" else value
    return replace(level, **rates)


@functools.lru_cache(maxsize=64)
def model_of(machine: Machine) -> MachineModel:
    """What was given or measured of ``machine``, and usual values for the rest."""
    if not machine.figures:
        return assume_model(machine)
    given = os.environ.get("WEFT_MACHINE")
    try:
        return parse_model(machine.figures, given or "in the artifact store", machine)
    except TargetError:
        if given:
            raise
        return assume_model(machine)  # measured by another version of Weft


def assume_model(machine: Machine | None = None, facts: HostFacts | None = None) -> MachineModel:
    """The model of ``machine`` (this host unless given) from what the system says, and usual values for the rest."""
    machine = machine or host_machine()
    facts = facts or machine.facts
    threads, cores = max(1, facts.threads), max(1, facts.cores)
    hertz = (facts.megahertz or 2500.0) * 1e6
    vectors = 1.0 if _splits_vectors(machine, facts) else 2.0
    levels = _levels(facts.caches, cores, hertz, vectors * machine.vector_bits / 8)
    sources: dict[str, Source] = dict.fromkeys((f.name for f in fields(MachineModel)), "assumed")
    sources |= dict.fromkeys(("vector_bits", "vector_registers", "has_masks"), "read")
    sources |= {name: "read" for name, value in (("threads", facts.threads), ("cores", facts.cores)) if value}
    sources |= {"frequency": "read"} if facts.megahertz else {}
    sources |= {level.name: "read" for level in levels[:-1]} if facts.caches else {}
    return MachineModel(
        name=f"{machine.name} ({facts.name})" if facts.name else machine.name,
        cores=cores,
        threads=threads,
        frequency=hertz,
        vector_bits=machine.vector_bits,
        vector_registers=32 if machine.has_masks or not machine.is_x86 else 16,
        fma_units=vectors,
        fma_latency=4.0,
        load_units=vectors,
        store_units=vectors / 2,
        issue_width=6.0 if machine.has_masks else 4.0,
        levels=levels,
        parallel_start=3e-6,
        stream=levels[-1].write * 1.5,
        has_masks=machine.has_masks,
        sources=sources,
    )


def _splits_vectors(machine: Machine, facts: HostFacts) -> bool:
    """Whether the widest vectors go through units of half their width: AVX-512 on AMD's cores before Zen 5."""
    return machine.vector_bits == 512 and facts.vendor == "AuthenticAMD" and facts.family < 26


#: Bytes a cycle one core reads from the second cache and from those behind it, and bytes a second from memory.
_NEAR, _FAR, _MEMORY = 32.0, 12.0, 12e9
#: The part of a shared cache that other work leaves to a program.
_SHARED = 0.5
#: Cores that use all of what memory gives.
_MEMORY_CORES = 6


def _levels(caches: tuple[CacheFacts, ...], cores: int, hertz: float, first: float) -> tuple[Level, ...]:
    """The caches and memory; ``first`` is what the core takes from the nearest cache in a cycle."""
    caches = caches or USUAL.caches
    levels = []
    for n, cache in enumerate(caches):
        read = hertz * (first if n == 0 else _NEAR if n == 1 else _FAR)
        shared = min(cores, cache.shared_by)
        together = cores if shared == 1 else cores * 0.8 if cores > 1 else 1
        rates = (read, read / 2, read * together, read / 2 * together)
        usable = cache.size if shared == 1 else int(cache.size * _SHARED)
        levels.append(Level(f"L{cache.level}", cache.size, cache.ways, cache.line, shared, usable, *rates))
    together = min(cores, _MEMORY_CORES)
    rates = (_MEMORY, _MEMORY / 2, _MEMORY * together, _MEMORY / 2 * together)
    return (*levels, Level("memory", 0, 0, caches[0].line, cores, 0, *rates))


def parse_model(text: str, name: str = "<text>", machine: Machine | None = None) -> MachineModel:
    """The model that ``text``, JSON as `MachineModel.to_json` writes it, describes; the rest as for ``machine``."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(name, f"it is not JSON: {error}") from None
    if not isinstance(given, dict):
        raise _wrong(name, "it is not an object of figures")
    base = assume_model(machine)
    kinds = {f.name: type(getattr(base, f.name)) for f in fields(base) if f.name not in ("levels", "sources")}
    unknown = sorted(given.keys() - kinds.keys() - {"levels", "sources"})
    if unknown:
        raise _wrong(name, f"there is no figure `{unknown[0]}`; there are {', '.join(kinds)}, levels")
    values = {key: _figure(name, key, given[key], kinds[key]) for key in given.keys() & kinds.keys()}
    if "levels" in given:
        values["levels"] = _levels_in_order(name, tuple(_level(name, e) for e in _list(name, given["levels"])))
    told: dict[str, Any] = {**base.sources, **dict.fromkeys(values, "given"), **_sources(name, given)}
    return replace(base, **values, sources=told)


def _sources(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    sources = given.get("sources") or {}
    if not isinstance(sources, dict) or not all(value in get_args(Source) for value in sources.values()):
        raise _wrong(name, f"`sources` says of figures, by name, one of {', '.join(get_args(Source))}")
    return sources


def _list(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) < 2:
        raise _wrong(name, "`levels` lists at least one cache and, last, memory")
    return value


def _levels_in_order(name: str, levels: tuple[Level, ...]) -> tuple[Level, ...]:
    """Caches hold something, and memory, which comes last, says no size."""
    for level in levels[:-1]:
        if level.size < level.line or not level.usable:
            what = f"is of {level.size} bytes, {level.usable} of them usable"
            raise _wrong(name, f"`levels` lists `{level.name}` before memory, and it {what}")
    if len({level.name for level in levels}) < len(levels):
        raise _wrong(name, "two entries of `levels` have one name")
    return levels


def _level(name: str, entry: Any) -> Level:
    kinds = {f.name: {"str": str, "int": int, "float": float}[str(f.type)] for f in fields(Level)}
    if not isinstance(entry, dict) or entry.keys() != kinds.keys():
        raise _wrong(name, f"an entry of `levels` has exactly {', '.join(kinds)}")
    return Level(**{key: _figure(name, f"levels.{key}", entry[key], kind) for key, kind in kinds.items()})


#: What figures can be; the others are positive.
_LIMITS: Mapping[str, tuple[float, float]] = {
    **dict.fromkeys(("levels.size", "levels.usable", "levels.ways"), (0, 1e18)),
    **dict.fromkeys(("fma_units", "load_units", "store_units", "issue_width"), (1e-3, 1e3)),
    **dict.fromkeys(("cores", "threads", "vector_registers", "levels.shared_by"), (1, 1e6)),
    "fma_latency": (1e-3, 1e6),
    "vector_bits": (8, 1 << 20),
    "levels.line": (16, 1 << 20),
}


def _figure(name: str, key: str, value: Any, kind: type) -> Any:
    """``value`` as a ``kind``, within what such a figure can be."""
    if kind is float and type(value) is int:
        value = float(value)
    if type(value) is not kind:
        raise _wrong(name, f"`{key}` is {value!r}, not a {kind.__name__}")
    least, most = _LIMITS.get(key, (1e-12, 1e18))
    if kind is not bool and isinstance(value, (int, float)) and not least <= value <= most:
        raise _wrong(name, f"`{key}` is {str(value)[:20]}, which is not from {least:g} to {most:g}")
    return value


def _wrong(name: str, why: str) -> TargetError:
    help = "write one with: weft machine --json > machine.json"
    return TargetError(f"the machine description {name} cannot be used", why=why, help=help)
