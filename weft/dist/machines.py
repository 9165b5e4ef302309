"""Clusters as data: what a device computes and moves in a second, and α and β of each collective on each kind of link."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal, TypeAlias

from weft.ir.errors import ArgumentError

Collective: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "send"]

#: How many times its bytes, over the ranks but one, a collective sends by the ring algorithm.
_TIMES: dict[Collective, float] = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}


@dataclass(frozen=True, slots=True)
class Link:
    """``bandwidth`` in bytes a second for one device, and the seconds that a collective takes to begin."""

    bandwidth: float
    latency: Mapping[str, float]

    def seconds(self, kind: Collective, size: float, ranks: int = 2, share: float = 1.0) -> float:
        """A collective over ``ranks`` of a tensor of ``size`` bytes, where ``share`` of the bandwidth is reached."""
        if ranks < 2:
            return 0.0
        sent = size * (1.0 if kind == "send" else _TIMES[kind] * (ranks - 1) / ranks)
        return sent / (self.bandwidth * share) + self.latency[kind]


@dataclass(frozen=True, slots=True)
class Machine:
    """A cluster: ``peak`` in FLOP a second and ``memory_bandwidth`` of one device, links in a node and between nodes."""

    name: str
    about: str
    peak: float
    memory_bandwidth: float
    memory: float
    devices_per_node: int
    inside: Link
    between: Link

    def link(self, devices: int) -> Link:
        """What a group of so many devices that lie side by side talks over."""
        return self.inside if devices <= self.devices_per_node else self.between


@cache
def _described() -> dict[str, Machine]:
    table: dict[str, Any] = json.loads(resources.files("weft.dist").joinpath("machines.json").read_text())
    return {name: _machine(name, values) for name, values in table.items()}


def _machine(name: str, values: dict[str, Any]) -> Machine:
    links = {where: Link(**values[where]) for where in ("inside", "between")}
    return Machine(name, **(values | links))


def machine(name: str) -> Machine:
    """The cluster of that name."""
    known = _described()
    if name not in known:
        raise ArgumentError(f"unknown machine {name}", why="the machines are " + ", ".join(known))
    return known[name]
