"""Constants of a graph that go once the last kernel that reads them has packed what it needs, and can be made again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from weft.graph.graph import Edge, Graph, Node, Opaque
from weft.graph.groups.storage import Storage
from weft.graph.rewrites.constant_values import ConstantValues
from weft.graph.rewrites.fold_constants import ConstantMaker
from weft.graph.run.arrays import Arrays, arguments, results_of
from weft.runtime.native import trim_heap

#: Bytes that go before the C library is told to give them back: it keeps what is free between what is not.
TRIMMED = 8 << 20


class Constants(Mapping[str, Any]):
    """Constants by name, each made when it is asked for: all at once would be a copy of the model's weights."""

    def __init__(
        self,
        names: Iterable[str],
        held: Mapping[str, Any] | None = None,
        make: Callable[[str], Any] | None = None,
        passing: Iterable[str] | None = None,
    ) -> None:
        """Those that are ``held`` are there already; only those that are ``passing`` are let go; all, unless said."""
        self._names, self._held = dict.fromkeys(names), dict(held or {})
        self._passing = frozenset(self._names if passing is None else passing)
        self._gone = 0
        self.make: Callable[[str], Any] = make or self._held.__getitem__

    def __getitem__(self, name: str) -> Any:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._held:
            self._held[name] = self.make(name)
        return self._held[name]

    def forget(self, names: Iterable[str]) -> None:
        for name in self._passing & set(names):
            self._gone += getattr(self._held.pop(name, None), "nbytes", 0)
        if self._gone >= TRIMMED:
            self._gone = 0
            trim_heap()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def constants_among(names: Iterable[str], storage: Storage, constants: Mapping[str, Any]) -> set[str]:
    """The ``constants`` that are read where tensors ``names`` are."""
    return {root for n in names if (root := storage.constant(n) or n) in constants}


def packing_order(read: Sequence[set[str]], edges: Mapping[str, Edge]) -> list[int]:
    """Steps, of which it is said what constants each reads, in the order to pack these: the largest first. While they
    are computed and packed they are there several times, and what was packed before is there beside them."""
    sizes = [sum(edges[name].nbytes for name in names if name in edges) for names in read]
    return sorted(range(len(read)), key=lambda step: -sizes[step])


def spent_after(read: Sequence[set[str]]) -> list[set[str]]:
    """For each step, of which it is said what it reads, what no later one does."""
    spent: list[set[str]] = []
    needed: set[str] = set()
    for names in reversed(read):
        spent.append(names - needed)
        needed |= names
    return spent[::-1]


def passing_constants(
    graph: Graph, given: Mapping[str, Any], made: Iterable[Node], arrays: Arrays, values: ConstantValues
) -> Constants:
    """The constants of ``graph`` as ones that may go; what is asked for again is ``made`` again of those ``given``."""
    makers = {name: node for node in made for name in node.outputs if name}
    maker = ConstantMaker(given, makers, functools.partial(run_library, arrays), arrays.own, values)
    return Constants(graph.constants, graph.constants, maker.find, {*given, *makers})


def run_library(arrays: Arrays, node: Node, values: dict[str, Any]) -> tuple[Any, ...] | None:
    """The framework's own result for a node of constants."""
    call = node.call if isinstance(node, Opaque) else node.library
    if call is None or any(name not in values for name in call.refs()):
        return None
    args, named = arguments(call, arrays, values.__getitem__)
    return tuple(results_of(arrays.function(call.target)(*args, **named)))
