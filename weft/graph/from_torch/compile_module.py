"""From a module of aten operators to something that runs. Loaded only by processes that find none kept: what compiles
takes megabytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.graph.compile_graph import compile_graph
from weft.graph.compiled import Compiled
from weft.graph.from_torch.translate import translate
from weft.graph.graph import Graph
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.run.arrays import Arrays
from weft.ir.faults import collecting


def compile_module(
    gm: Any, args: Sequence[Any], constants: Mapping[int, Any], arrays: Arrays, sizes: OpenSizes, **facts: Any
) -> tuple[Graph, Compiled]:
    """The graph of ``gm``, as `translate` makes it of these arguments and ``facts``, and what became of it."""
    with collecting():
        graph = translate(gm, args, constants, **facts)
        return graph, compile_graph(graph, arrays, sizes)
