"""Images with their channels last in memory: what libraries for convolutions compute with on a GPU.

Shapes stay as the model has them; only strides change, of everything that convolutions read and write and of what
formulas and pools on images make in between, so that nothing is converted from one layout to the other and back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from weft.graph.graph import Edge, Fragment, Graph, Node, Shape
from weft.graph.groups.mapping import kind_of
from weft.graph.groups.partition import is_free
from weft.graph.run.arrays import Arrays

CONVOLUTION = "aten.convolution.default"


def channels_last(graph: Graph, arrays: Arrays) -> Graph:
    """``graph`` with these strides, where it has convolutions of images that the library has too."""
    convolutions = [n for n in graph.nodes if isinstance(n, Fragment) and _is_convolution(graph, n)]
    if not convolutions:
        return graph
    images = _images(graph, convolutions)
    edges, constants = dict(graph.edges), dict(graph.constants)
    for name in images - {*graph.inputs, *graph.results, *constants}:
        edges[name] = replace(edges[name], strides=strides_of(edges[name].shape))
    for name in {n.inputs[1] for n in convolutions} & {*constants}:
        constants[name], edges[name] = _rearranged(constants[name], edges[name], arrays)
    return replace(graph, edges=edges, constants=constants)


def strides_of(shape: Shape) -> Shape:
    """Of a tensor (batch, channels, ...) whose channels are last in memory."""
    _, channels, *image = shape
    strides = [1, channels]
    for size in reversed(image):
        strides.append(strides[-1] * size)
    # From the inside: channels, then the image from its last axis on, then the batch.
    return (strides[-1], 1, *reversed(strides[1:-1]))


def _is_convolution(graph: Graph, node: Fragment) -> bool:
    is_image = len(graph.edges[node.outputs[0]].shape) in (4, 5)
    return is_image and node.library is not None and node.library.target == CONVOLUTION


def _images(graph: Graph, convolutions: list[Fragment]) -> set[str]:
    """What convolutions read and write, and what goes along with it through formulas and pools."""
    found = {name for n in convolutions for name in (n.inputs[0], *n.outputs)}
    pending: list[Node] = [n for name in found for n in _neighbours(graph, name)]
    seen: set[str] = set()
    while pending:
        node = pending.pop()
        if node.name in seen or not isinstance(node, Fragment) or not _keeps_channels(node):
            continue
        seen.add(node.name)
        names = [n for n in (*node.inputs, *node.outputs) if _is_like(graph.edges[n], found, graph)]
        found |= {*names}
        pending += [other for name in names for other in _neighbours(graph, name)]
    return found


def _neighbours(graph: Graph, name: str) -> list[Node]:
    producer = graph.producers.get(name)
    return [*graph.readers.get(name, []), *([] if producer is None else [producer])]


def _keeps_channels(node: Fragment) -> bool:
    return not is_free(node) and kind_of(node.program) in ("pointwise", "reduction")


def _is_like(edge: Edge, images: set[str], graph: Graph) -> bool:
    """Whether a tensor is an image with as many channels as one among ``images``."""
    return any(
        edge.shape[:2] == graph.edges[n].shape[:2] and len(edge.shape) == len(graph.edges[n].shape) for n in images
    )


def _rearranged(array: Any, edge: Edge, arrays: Arrays) -> tuple[Any, Edge]:
    made = replace(edge, strides=strides_of(edge.shape))
    return arrays.arranged(array, made, made.strides or ()), made
