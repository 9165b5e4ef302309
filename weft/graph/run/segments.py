"""The steps of an executable as a call runs them: rows of its table, and calls of the framework between."""

from __future__ import annotations

from collections.abc import Sequence

from weft.graph.graph import Graph, Opaque
from weft.graph.groups.compile_group import Kernel

Step = Kernel | Opaque
#: Rows of the table, from the first to the one after the last, or a call.
Segment = tuple[int, int] | Opaque


def tensors_of(graph: Graph, step: Step) -> list[str]:
    """The tensors that a step uses, what a kernel makes among them."""
    names = step.inputs if isinstance(step, Opaque) else step.tensors
    return [name for name in names if name in graph.edges]


def segments_of(steps: Sequence[Step]) -> list[Segment]:
    """Runs of kernels, as rows of the table, and the calls between them."""
    segments: list[Segment] = []
    row = start = 0
    for step in steps:
        if isinstance(step, Kernel):
            row += 1
            continue
        if row > start:
            segments.append((start, row))
        segments.append(step)
        start = row
    return [*segments, (start, row)] if row > start else segments
