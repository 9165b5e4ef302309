"""What an ONNX file says, as plain data: `edge` reads it, `translate` makes graphs of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.ir.dtype import DType
from weft.ir.errors import printable

#: A size that is a number, has a name, or is left open.
Size = int | str | None


@dataclass(frozen=True)
class Port:
    """An input or output of a model; ``kind`` is its type in ONNX's words, ``dtype`` None where Weft has none."""

    name: str
    kind: str
    dtype: DType | None
    shape: tuple[Size, ...] | None

    @property
    def type(self) -> str:
        """As onnxruntime writes it."""
        return f"tensor({self.kind})"

    def __str__(self) -> str:
        sizes = "…" if self.shape is None else ", ".join("?" if n is None else printable(str(n)) for n in self.shape)
        return f"{printable(self.name)}: {self.kind if self.dtype is None else self.dtype}[{sizes}]"


@dataclass(frozen=True)
class Parameter:
    """In the body of a function: an attribute of the node that calls it."""

    name: str


@dataclass(frozen=True)
class Foreign:
    """An attribute or a constant of a kind that no operator of ours takes."""

    kind: str


@dataclass(frozen=True, eq=False)
class OnnxNode:
    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]

    def __str__(self) -> str:
        return printable(f"{self.full_op} `{self.name}`")

    @property
    def full_op(self) -> str:
        return f"{self.domain}.{self.op}" if self.domain else self.op


@dataclass(frozen=True, eq=False)
class OnnxGraph:
    """A graph or a subgraph; ``proto`` is what it was read from, for the schemas of functions."""

    name: str
    nodes: tuple[OnnxNode, ...]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    constants: Mapping[str, Any]
    proto: Any = field(repr=False)


@dataclass(frozen=True, eq=False)
class OnnxFunction:
    """An operator by what it is made of; ``defaults`` are those of its attributes that have one."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[OnnxNode, ...]
    opsets: Mapping[str, int]
    defaults: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class OnnxFile:
    graph: OnnxGraph
    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], OnnxFunction]
    #: where it was read from, in words
    where: str


def names_read(node: OnnxNode) -> set[str]:
    """Tensors that a node reads, in its subgraphs too."""
    read = {name for name in node.inputs if name}
    for value in node.attributes.values():
        for graph in value if isinstance(value, tuple) else (value,):
            if isinstance(graph, OnnxGraph):
                read |= {name for inner in graph.nodes for name in names_read(inner)}
                read |= {port.name for port in graph.outputs}
    return read


def needed_nodes(nodes: tuple[OnnxNode, ...], wanted: set[str]) -> list[OnnxNode]:
    """The nodes that ``wanted`` tensors depend on, in order."""
    wanted, kept = set(wanted), []
    for node in reversed(nodes):
        if wanted & {*node.outputs}:
            kept.append(node)
            wanted |= names_read(node)
    return kept[::-1]
