"""The graph: nodes that say what an operator means, and tensors between them.

A `Fragment` is a tensor program, the form that the whiteboard has; an `Opaque` node calls the framework that the
model came from. Nodes stand in the order of the program they were read from, so calls with effects keep theirs.
Everything is frozen; a rewrite makes a new graph. A model that learns is two graphs, one for each direction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import Const
from weft.ir.numerics import Numerics
from weft.tensor.program import TensorProgram

#: A size that is known when the graph is made. Graphs of other sizes are made again, and share their kernels' texts.
Shape: TypeAlias = "tuple[int, ...]"


@dataclass(frozen=True, slots=True)
class Edge:
    """A tensor between nodes; ``strides`` (in elements) where somebody asks for such ones.

    ``order`` tells which axis is the first, the second … in memory, where kernels of ours shall see the tensor so.
    """

    name: str
    dtype: DType
    shape: Shape
    strides: Shape | None = None
    order: Shape | None = None

    @property
    def count(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * self.dtype.itemsize

    def __str__(self) -> str:
        layout = "" if self.strides is None else f" strides {self.strides}"
        return f"{self.dtype}{list(self.shape)}{layout}"

    def ordered(self, order: Shape) -> Edge:
        """The same tensor with its axes in this order in memory."""
        return replace(self, strides=ordered_strides(self.shape, order), order=order)


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor of the graph among the arguments of a call."""

    name: str


@dataclass(frozen=True, slots=True)
class Special:
    """A value that only the framework knows, such as an element type or a device: what kind it is, and its name."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the framework and its arguments: `Ref`, `Special`, numbers, texts, None, and tuples of these."""

    target: str
    args: tuple[Any, ...] = ()
    named: tuple[tuple[str, Any], ...] = ()

    def refs(self) -> Iterator[str]:
        """The tensors it is given, in order."""
        yield from _refs((self.args, tuple(v for _, v in self.named)))

    def renamed(self, names: Mapping[str, str]) -> Call:
        """The call with other tensors in place of those named."""
        named = tuple((key, _renamed(value, names)) for key, value in self.named)
        return Call(self.target, _renamed(self.args, names), named)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    if isinstance(value, Ref):
        return Ref(names.get(value.name, value.name))
    return tuple(_renamed(v, names) for v in value) if isinstance(value, tuple) else value


def _refs(value: Any) -> Iterator[str]:
    if isinstance(value, Ref):
        yield value.name
    elif isinstance(value, tuple):
        for part in value:
            yield from _refs(part)


@dataclass(frozen=True, slots=True)
class Fragment:
    """What an operator means: ``program`` from the tensors ``inputs``, one a parameter, to ``outputs``.

    ``library`` is the call of the framework that computes the same, where there is one. ``origin`` is where it stands
    in the user's program. A copy has memory of its own, though its elements are those of another tensor.
    """

    name: str
    program: TensorProgram
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    library: Call | None = None
    origin: str = field(default="", compare=False)
    is_copy: bool = False


@dataclass(frozen=True, slots=True)
class Opaque:
    """A call of the framework. It writes to none of its tensors, but may have other effects: calls keep their order.

    An output that is None nobody asks for; one that is not among the edges is an object that only the framework can
    read. ``reason`` says why it is not a fragment.
    """

    name: str
    call: Call
    outputs: tuple[str | None, ...]
    reason: str = field(default="", compare=False)
    origin: str = field(default="", compare=False)

    @property
    def inputs(self) -> tuple[str, ...]:
        return tuple(self.call.refs())


Node: TypeAlias = "Fragment | Opaque"


@dataclass(frozen=True)
class Graph:
    """Tensors by name, and nodes in an order in which each reads only what is there.

    ``constants`` are arrays with the same values in every call; ``outputs`` may name a tensor twice, or an input.
    ``updates`` are inputs whose memory a call leaves with the values of other tensors: mutation, and its only form.
    ``observed`` are constants whose values the formulas were chosen by.
    """

    name: str
    edges: Mapping[str, Edge]
    inputs: tuple[str, ...]
    constants: Mapping[str, Any]
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    numerics: Numerics = "fast"
    updates: tuple[tuple[str, str], ...] = ()
    observed: frozenset[str] = field(default=frozenset(), compare=False)

    @property
    def results(self) -> tuple[str, ...]:
        """All tensors that somebody outside sees."""
        return (*self.outputs, *(value for _, value in self.updates))

    @cached_property
    def producers(self) -> dict[str, Node]:
        return {name: node for node in self.nodes for name in node.outputs if name is not None}

    @cached_property
    def readers(self) -> dict[str, list[Node]]:
        readers: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                readers.setdefault(name, []).append(node)
        return readers

    @property
    def fragments(self) -> list[Fragment]:
        return [n for n in self.nodes if isinstance(n, Fragment)]


def check_graph(graph: Graph) -> Graph:
    """``graph``, where every tensor is there before it is read and has the type and shape that programs say."""
    known = {*graph.inputs, *graph.constants}
    for node in graph.nodes:
        for name in node.inputs:
            if name not in known:
                raise InternalError(f"`{node.name}` reads `{name}`, which is not there yet")
        if isinstance(node, Fragment):
            _check_fragment(graph, node)
        for made in node.outputs:
            if made is not None and made in known:
                raise InternalError(f"`{made}` is made twice, the second time by `{node.name}`")
            known.add(made or "")
    missing = [name for name in graph.results if name not in known]
    if missing:
        raise InternalError(f"nothing makes the output `{missing[0]}` of {graph.name}")
    return graph


def _check_fragment(graph: Graph, node: Fragment) -> None:
    buffers = (*node.program.inputs, *node.program.outputs)
    names = (*node.inputs, *node.outputs)
    if len(buffers) != len(names) or len(node.program.params) != len(node.inputs):
        raise InternalError(f"`{node.name}` has other tensors than its program")
    for buffer, name in zip(buffers, names):
        edge = graph.edges[name]
        if (buffer.dtype, shape_of(buffer.shape)) != (edge.dtype, edge.shape):
            raise InternalError(f"`{node.name}`: `{name}` is {edge}, its program has {buffer.dtype} {buffer.shape}")


def shape_of(sizes: Sequence[Any]) -> Shape:
    """The sizes of a buffer, all of which are numbers."""
    return tuple(int(s.value) for s in sizes if isinstance(s, Const))


def dense_strides(shape: Shape) -> Shape:
    """The strides of a row-major tensor."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def ordered_strides(shape: Shape, order: Shape) -> Shape:
    """The strides of a tensor without gaps whose axes are in this order in memory."""
    strides = dict(zip(order, dense_strides(tuple(shape[d] for d in order))))
    return tuple(strides[d] for d in range(len(shape)))
