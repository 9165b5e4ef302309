"""Compiled modules kept on disk between processes: found by all that a module says, values of its weights apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.from_torch.edge import torch
from weft.graph.graph import Graph
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.plan import load_plan, save_plan
from weft.graph.run.arrays import Arrays
from weft.version import cache_key


class KeptModule:
    """``gm``, whose sizes are numbers, with the tensors that are the same in every call, by place."""

    def __init__(self, gm: Any, constants: Mapping[int, Any], arrays: Arrays, *facts: object) -> None:
        """``facts`` is what else a compiled module depends on."""
        attributes = [node for node in gm.graph.nodes if node.op == "get_attr"]
        found = [*constants.values(), *(_attribute(gm, node.target) for node in attributes)]
        self._tensors = [t.detach() if isinstance(t, torch().Tensor) else t for t in found]
        self._arrays = arrays
        said = "\n".join(map(_line, gm.graph.nodes))
        weights = ";".join(f"{place} {_look(t)}" for place, t in zip((*constants, *attributes), self._tensors))
        shared = _shared([t.data_ptr() if isinstance(t, torch().Tensor) else 0 for t in self._tensors])
        kinds = type(arrays).__name__, arrays.processor.key, torch().__version__
        self._key = cache_key("plan", said, weights, str(shared), *kinds, *map(str, facts))

    def load(self, sizes: OpenSizes) -> Compiled | None:
        return load_plan(self._key, self._tensors, self._arrays, sizes)

    def save(self, graph: Graph, compiled: Compiled) -> None:
        """``graph`` is what the module was before it was ``compiled``."""
        places = {_identity(t): n for n, t in enumerate(self._tensors)}
        given = {name: places[_identity(t)] for name, t in graph.constants.items() if _identity(t) in places}
        looked = {given[name] for name in graph.observed if name in given}
        save_plan(self._key, compiled, given, {n: self._tensors[n] for n in looked})


def _attribute(gm: Any, path: str) -> Any:
    found = gm
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _identity(tensor: Any) -> Any:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _shared(pointers: Sequence[int]) -> list[int]:
    """Which tensors are in the same memory: the first of those that each is with."""
    first: dict[int, int] = {}
    return [first.setdefault(pointer, n) for n, pointer in enumerate(pointers)]


def _line(node: Any) -> str:
    return f"{node.op} {node.name} {node.target} {node.args} {node.kwargs} {_look(node.meta.get('val'))}"


def _look(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return "; ".join(map(_look, value))
    if not isinstance(value, torch().Tensor):
        return str(value)
    strides = value.stride() if value.layout == torch().strided else value.layout
    return f"{value.dtype}{tuple(value.shape)}{strides}{value.device}"
