"""Caches of one core, simulated: sets of ways, each level asked for what the one before it lacks.

A line is brought into every level that lacked it, for reads and writes alike. Free ways are filled before a line is
replaced: the one used least recently (``lru``), the one that a tree of bits points to (``plru``), or any (``random``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from weft.analysis.touches import Touches
from weft.analysis.watchers import Watcher
from weft.ir.errors import ArgumentError, did_you_mean

Policy = Literal["lru", "plru", "random"]


@dataclass(frozen=True, slots=True)
class CacheLevel:
    """A cache of ``size`` bytes in lines of ``line``, ``ways`` to a set."""

    name: str
    size: int
    ways: int
    line: int = 64
    policy: Policy = "lru"

    def __post_init__(self) -> None:
        if self.size <= 0 or self.ways <= 0 or self.line <= 0 or self.size % (self.ways * self.line):
            raise ArgumentError(
                f"{self.name} is no cache: {self.size} bytes, {self.ways} ways, lines of {self.line}",
                why="its size is to be a multiple of ways times line",
                help=f"{max(self.ways, 1) * max(self.line, 1)} bytes make one set",
            )
        if self.policy not in get_args(Policy):
            known = get_args(Policy)
            raise ArgumentError(
                f"{self.name} has an unknown policy {self.policy!r}", help=did_you_mean(self.policy, known)
            )
        if self.policy == "plru" and (self.ways & (self.ways - 1) or self.ways > 64):
            raise ArgumentError(
                f"{self.name} has {self.ways} ways", why="a tree of bits points to a power of two, 64 at most",
                help="use policy=\"lru\"",
            )  # fmt: skip

    @property
    def sets(self) -> int:
        return self.size // (self.ways * self.line)


@dataclass(frozen=True, slots=True)
class LevelCount:
    """How often a level was asked, and how often it had to ask the next."""

    level: CacheLevel
    accesses: int
    misses: int

    @property
    def miss_ratio(self) -> float:
        return self.misses / self.accesses if self.accesses else 0.0

    @property
    def bytes(self) -> int:
        """That came into it."""
        return self.misses * self.level.line

    def json(self) -> dict[str, Any]:
        names = ("name", "size", "ways", "line", "policy")
        facts = {name: getattr(self.level, name) for name in names}
        return {**facts, "accesses": self.accesses, "misses": self.misses, "miss_ratio": self.miss_ratio}


def simulate(touches: Touches, levels: Sequence[CacheLevel]) -> list[LevelCount]:
    """What happens in the caches, nearest first, that begin empty."""
    lines = {level.line for level in levels}
    if len(lines) != 1:
        raise ArgumentError("the levels of caches have different lines", why=f"they have {sorted(lines)} bytes")
    asked = np.zeros(len(levels) + 1, np.int64)
    arrays: list[Any] = [asked]
    for level in levels:
        arrays += [np.full((level.sets, level.ways), -1, np.int64), np.zeros(level.sets, np.int64)]
    Watcher(_text(levels)).run(lambda touch: touches.program(levels[0].line, touch), *arrays)
    return [LevelCount(level, int(asked[n]), int(asked[n + 1])) for n, level in enumerate(levels)]


def _text(levels: Sequence[CacheLevel]) -> str:
    inner = ""
    for number in reversed(range(len(levels))):
        asks = f"Asked[{number + 1}] = Asked[{number + 1}] + 1\n{inner}"
        inner = _LOOKUPS[levels[number].policy](levels[number], number, asks)
    states = ", ".join(
        f"out Tags{n}: int64[{x.sets}, {x.ways}], out Bits{n}: int64[{x.sets}]" for n, x in enumerate(levels)
    )
    first = "Asked[0] = Asked[0] + 1"
    return f"kernel caches(sim_line: int64, out Asked: int64[{len(levels) + 1}], {states}) {{\n{first}\n{inner}}}\n"


def _set(level: CacheLevel, n: int) -> str:
    sets = level.sets
    found = f"sim_line & {sets - 1}" if sets & (sets - 1) == 0 else f"sim_line % {sets}"
    return f"let sim_set{n}: int64 = {found}\n"


def _lru(level: CacheLevel, n: int, asks: str) -> str:
    """The ways of a set are kept in the order of their last use."""
    tag = f"Tags{n}[sim_set{n}, "
    return f"""{_set(level, n)}
    if {tag}0] != sim_line {{
      let sim_way{n}: int64 = 0
      while sim_way{n} < {level.ways - 1} && {tag}sim_way{n}] != sim_line {{ sim_way{n} = sim_way{n} + 1 }}
      let sim_lacks{n}: bool = {tag}sim_way{n}] != sim_line
      while sim_way{n} > 0 {{
        {tag}sim_way{n}] = {tag}sim_way{n} - 1]
        sim_way{n} = sim_way{n} - 1 }}
      {tag}0] = sim_line
      if sim_lacks{n} {{ {asks} }}
    }}
    """


def _find(level: CacheLevel, n: int, choose: str, used: str, asks: str) -> str:
    """Ways stay in place: ``choose`` gives the one to replace, ``used`` notes the one that was found or filled."""
    tag, way = f"Tags{n}[sim_set{n}, ", f"sim_way{n}"
    return f"""{_set(level, n)}
    let {way}: int64 = 0
    while {way} < {level.ways - 1} && {tag}{way}] != sim_line {{ {way} = {way} + 1 }}
    let sim_lacks{n}: bool = {tag}{way}] != sim_line
    if sim_lacks{n} {{
      {way} = 0
      while {way} < {level.ways} && {tag}{way}] != 0 - 1 {{ {way} = {way} + 1 }}
      if {way} == {level.ways} {{ {choose} }}
      {tag}{way}] = sim_line
    }}
    {used}
    if sim_lacks{n} {{ {asks} }}
    """


def _plru(level: CacheLevel, n: int, asks: str) -> str:
    """Bit ``k`` of a set says on which side of node ``k`` the way to replace is; the root is node 1."""
    bits, way, node = f"Bits{n}[sim_set{n}]", f"sim_way{n}", f"sim_node{n}"
    choose = f"""
      {way} = 1
      while {way} < {level.ways} {{ {way} = 2 * {way} + (({bits} >> {way}) & 1) }}
      {way} = {way} - {level.ways}"""
    used = f"""let {node}: int64 = {way} + {level.ways}
      while {node} > 1 {{
        let sim_up{n}: int64 = {node} >> 1
        {bits} = {bits} - ({bits} & (1 << sim_up{n})) + ((1 - ({node} & 1)) << sim_up{n})
        {node} = sim_up{n} }}"""
    return _find(level, n, choose, used, asks)


#: Of the generator of random ways, one for each level: x -> x * factor + increment, modulo 2**64; high bits are used.
RANDOM = 6364136223846793005, 1442695040888963407


def _random(level: CacheLevel, n: int, asks: str) -> str:
    choose = f"""
      Bits{n}[0] = Bits{n}[0] * {RANDOM[0]} + {RANDOM[1]}
      sim_way{n} = ((Bits{n}[0] >> 33) & 2147483647) % {level.ways}"""
    return _find(level, n, choose, "", asks)


_LOOKUPS = {"lru": _lru, "plru": _plru, "random": _random}
