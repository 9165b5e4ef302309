"""Whether a file is a sound model whose operators we have: all that is wrong at once, before anything runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weft.graph.from_onnx.edge import fault_of, has_body, is_older
from weft.graph.from_onnx.file import OnnxFile, OnnxFunction, OnnxGraph, OnnxNode, needed_nodes
from weft.graph.from_onnx.table import TABLE
from weft.ir.errors import ArgumentError, UnsupportedError

#: How deep functions and graphs may stand in each other.
DEEPEST = 32
#: Operators with graphs in them, which the translation itself walks through.
CONTROL = ("If", "Loop", "Scan")
#: Faults and refusals that are told; further ones are counted.
_MOST_TOLD = 20

_OTHERWISE = "onnxruntime has them all; or export the model without these"
_RUNTIME_OWN = "load the model as it was before onnxruntime optimized it, or quantize it with QuantFormat.QDQ"


def check_file(file: OnnxFile) -> None:
    """Raises what is wrong with a model."""
    _Check(file).run()


def tell(items: list[str]) -> str:
    rest = len(items) - _MOST_TOLD
    return "; ".join(items[:_MOST_TOLD]) + (f"; and {rest} more" if rest > 0 else "")


@dataclass
class _Names:
    """Tensors that are there: in a graph, and in those around it."""

    own: set[str]
    outer: _Names | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.own or (self.outer is not None and name in self.outer)


class _Check:
    def __init__(self, file: OnnxFile) -> None:
        self.file = file
        self.faults: list[str] = []
        self.refused: dict[str, None] = {}
        #: functions looked at, and whether all of each was
        self.seen: dict[tuple[str, str], bool] = {}

    def run(self) -> None:
        graph = self.file.graph
        self._names_in(graph, None)
        self._operators(needed_nodes(graph.nodes, {p.name for p in graph.outputs}), self.file.opsets, 0)
        where = self.file.where
        if self.faults:
            raise ArgumentError(
                f"{where} is not a sound ONNX model",
                why=tell(self.faults),
                help="export the model again, or check it with onnx.checker",
            )
        if self.refused:
            raise UnsupportedError(
                f"{where} has operators that Weft does not have",
                why=tell(list(self.refused)),
                help=_RUNTIME_OWN if _is_optimized(self.refused) else _OTHERWISE,
            )

    def _names_in(self, graph: OnnxGraph, outer: _Names | None) -> None:
        inputs = [p.name for p in graph.inputs]
        self.faults += [f"two inputs are `{name}`" for name, count in Counter(inputs).items() if count > 1]
        self._names(graph.nodes, _Names({*inputs, *graph.constants}, outer), [p.name for p in graph.outputs])

    def _names(self, nodes: Sequence[OnnxNode], made: _Names, outputs: Sequence[str]) -> None:
        """Every tensor is made once, and before it is read."""
        later = {name for node in nodes for name in node.outputs}
        for node in nodes:
            for name in node.inputs:
                if name and name not in made:
                    self.faults.append(f"{node} reads `{name}`, {_why_missing(name, later)}")
            for value in node.attributes.values():
                for inner in value if isinstance(value, tuple) else (value,):
                    if isinstance(inner, OnnxGraph):
                        self._names_in(inner, made)
            for name in node.outputs:
                if name and name in made:
                    self.faults.append(f"{node} makes `{name}`, which is there already")
                made.own.add(name)
        self.faults += [f"output `{name}` is made by no node" for name in outputs if name not in made]

    def _operators(self, nodes: Iterable[OnnxNode], opsets: Mapping[str, int], depth: int) -> None:
        if depth > DEEPEST:
            self.faults.append(f"its functions and graphs stand in each other more than {DEEPEST} deep")
            return
        for node in nodes:
            function = self.file.functions.get((node.domain, node.op))
            if function is not None:
                self._function(node, function, depth)
            elif fault := fault_of(node, opsets):
                (self.refused.setdefault if node.domain else self._fault)(f"{node}: {fault}")
            elif is_older(node, opsets):
                self.refused.setdefault(f"{node}: in version {opsets['']} it means something else than later")
            elif not _is_known(node) and not has_body(node, opsets):
                self.refused.setdefault(str(node))
            for value in node.attributes.values():
                if isinstance(value, OnnxGraph):
                    self._operators(value.nodes, opsets, depth + 1)

    def _function(self, node: OnnxNode, function: OnnxFunction, depth: int) -> None:
        """What a node calls, once for all such nodes: functions that call others twice have no end otherwise."""
        key = node.domain, node.op
        if key in self.seen:
            self.faults += [] if self.seen[key] else [f"{node}: the function calls itself"]
            return
        self.seen[key] = False
        self._names(function.nodes, _Names({*function.inputs}), function.outputs)
        self._operators(needed_nodes(function.nodes, {*function.outputs}), function.opsets, depth + 1)
        self.seen[key] = True

    def _fault(self, text: str) -> None:
        self.faults.append(text)


def _is_optimized(refused: Iterable[str]) -> bool:
    """Whether all that is missing is what onnxruntime puts in place of ONNX's own operators."""
    return all(text.startswith("com.microsoft.") for text in refused)


def _is_known(node: OnnxNode) -> bool:
    return not node.domain and (node.op in TABLE or node.op in CONTROL)


def _why_missing(name: str, later: set[str]) -> str:
    return "which only a later node makes (a cycle, or nodes out of order)" if name in later else "which nothing makes"
