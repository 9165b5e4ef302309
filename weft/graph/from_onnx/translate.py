"""From an ONNX model and the sizes of its inputs to a graph of formulas.

Operators without an entry in the table are taken apart by the functions that the model or ONNX itself has for them.
What cannot be said is collected over the whole model and refused at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weft.graph.builder import GraphBuilder, Library
from weft.graph.formulas import views
from weft.graph.formulas.common import axis
from weft.graph.from_onnx import pointwise as onnx_pointwise
from weft.graph.from_onnx import quantize as onnx_quantize
from weft.graph.from_onnx import recurrent as onnx_recurrent
from weft.graph.from_onnx import resize as onnx_resize
from weft.graph.from_onnx import sequences as onnx_sequences
from weft.graph.from_onnx import shapes as onnx_shapes
from weft.graph.from_onnx import sums as onnx_sums
from weft.graph.from_onnx import windows as onnx_windows
from weft.graph.from_onnx.budget import Budget
from weft.graph.from_onnx.check import DEEPEST, tell
from weft.graph.from_onnx.edge import body_of, fault_in_use
from weft.graph.from_onnx.file import Foreign, OnnxFile, OnnxFunction, OnnxGraph, OnnxNode, Parameter, needed_nodes
from weft.graph.from_onnx.sequences import TAKE_SEQUENCES
from weft.graph.from_onnx.table import TABLE, Many, NeedsValues, Site, Term, known_term
from weft.graph.graph import Graph
from weft.ir.dtype import DType
from weft.ir.errors import Error, InternalError, UnsupportedError
from weft.ir.numerics import Numerics

_ENTRIES = (
    onnx_pointwise, onnx_quantize, onnx_recurrent, onnx_resize, onnx_sequences, onnx_shapes, onnx_sums, onnx_windows,
)  # fmt: skip
#: How often a loop may go round, as each time has its own nodes.
_MOST_ROUNDS = 256
#: Nodes that functions and loops may be taken apart into, beside those that a model has.
_MOST_NODES = 20_000


@dataclass(frozen=True, eq=False)
class Translated:
    """A graph, if anything is left to compute, and the outputs: known arrays, or edges of the graph by name."""

    graph: Graph | None
    outputs: tuple[Term, ...]


def translate(
    file: OnnxFile,
    looks: Mapping[str, tuple[DType, tuple[int, ...]]],
    values: Mapping[str, Any],
    numerics: Numerics = "fast",
    call_of: Library | None = None,
) -> Translated:
    """``file`` for inputs of these types and shapes; of some the ``values`` are known.

    ``call_of`` gives a library's calls for formulas.

    Raises `NeedsValues` where shapes depend on the values of further inputs.
    """
    return _Translation(file, GraphBuilder(file.graph.name or "model", numerics, call_of)).run(looks, values)


class _TooMany(Exception):
    """Functions and loops that are taken apart into more nodes than anybody has."""


class _Refused:
    """In place of a tensor that could not be made."""


Scope = dict[str, "Term | Many | _Refused"]


class _Translation:
    def __init__(self, file: OnnxFile, builder: GraphBuilder) -> None:
        self.file, self.builder = file, builder
        self.constants: dict[int, tuple[Any, str]] = {}
        self.budget = Budget()
        self.refusals: dict[str, None] = {}
        self.depth = self.count = 0
        self.most = len(file.graph.nodes) + _MOST_NODES

    def run(self, looks: Mapping[str, tuple[DType, tuple[int, ...]]], values: Mapping[str, Any]) -> Translated:
        scope: Scope = self._stored(self.file.graph)
        for name, (dtype, shape) in looks.items():
            own = frozenset([name])
            if name in values or 0 in shape:
                given = values.get(name)
                scope[name] = known_term(np.zeros(shape, bool) if given is None else given, own)
            else:
                scope[name] = Term(dtype, shape, None, self.builder.input(name, dtype, shape), own)
        graph = self.file.graph
        wanted = [p.name for p in graph.outputs]
        try:
            self._nodes(needed_nodes(graph.nodes, set(wanted)), scope, self.file.opsets)
        except _TooMany:
            raise UnsupportedError(
                f"{self.file.where} has more than {self.most} nodes",
                why="functions and loops are taken apart, each call and each round by itself",
                help="see that it is not built to have no end",
            ) from None
        for name in wanted:
            if isinstance(scope[name], Many):
                self.refusals.setdefault(f"output `{name}` is a sequence")
        self._refuse()
        made = tuple(t for name in wanted if isinstance(t := scope[name], Term))
        edges = [t.edge for t in made if t.edge is not None]
        return Translated(self.builder.finish(edges) if edges else None, made)

    def _refuse(self) -> None:
        if self.refusals:
            raise UnsupportedError(
                f"{self.file.where} has nodes that Weft cannot compile",
                why=tell(list(self.refusals)),
                help="see that the model was exported for such sizes; what Weft does not have, onnxruntime may",
            )

    def _stored(self, graph: OnnxGraph) -> Scope:
        scope: Scope = {}
        for name, array in graph.constants.items():
            scope[name] = _Refused() if isinstance(array, Foreign) else known_term(array)
            if isinstance(array, Foreign) and any(name in n.inputs for n in graph.nodes):
                self.refusals.setdefault(f"`{name}` has elements of {array.kind}")
        return scope

    def _nodes(self, nodes: Iterable[OnnxNode], scope: Scope, opsets: Mapping[str, int]) -> None:
        for node in nodes:
            self.count += 1
            if self.count > self.most:
                raise _TooMany
            given = [scope[name] if name else None for name in node.inputs]
            made: Sequence[Term | Many | None] | None = None
            if not any(isinstance(g, _Refused) for g in given):
                made = self._try(node, given, scope, opsets)
            for n, name in enumerate(node.outputs):
                term = made[n] if made is not None and n < len(made) else None
                scope[name] = term if term is not None else _Refused()

    def _try(self, node: OnnxNode, given: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Any:
        mark = self.builder.mark()
        try:
            return self._node(node, given, scope, opsets)
        except (NeedsValues, InternalError, _TooMany):
            raise
        except Error as refused:
            self.builder.undo(mark)
            self.refusals.setdefault(f"{node}: {refused.what}")
        except MemoryError:
            self.builder.undo(mark)
            self.refusals.setdefault(f"{node}: it takes more memory than there is")
        except Exception as error:  # what no sound model has may surprise an entry; else it is the entry that is wrong
            self.builder.undo(mark)
            fault = None if node.domain else fault_in_use(node, opsets, given)
            if fault is None:
                raise InternalError(
                    f"{node} of {self.file.where} could not be compiled",
                    why=f"{type(error).__name__}: {error}",
                    help="this is a fault of Weft: please report it with the model",
                ) from error
            self.refusals.setdefault(f"{node}: {fault}")
        return None

    def _node(self, node: OnnxNode, given: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Any:
        function = self.file.functions.get((node.domain, node.op))
        control = {"If": self._branch, "Loop": self._loop, "Scan": self._scan}
        if function is None and node.op in control and not node.domain:
            return control[node.op](node, given, scope, opsets)
        if function is None and node.op not in TAKE_SEQUENCES and any(isinstance(g, Many) for g in given):
            raise UnsupportedError("a sequence as input")
        if function is None and node.op in TABLE and not node.domain:
            return self._entry(node, given, opsets)
        if function is None:
            function = body_of(node, opsets, [None if g is None else (g.dtype, g.shape) for g in given])
        if function is None:
            raise UnsupportedError("no such operator here")
        return self._call(node, function, given)

    def _site(self, node: OnnxNode, opsets: Mapping[str, int]) -> Site:
        return Site(self.builder, node, opsets.get("", self.file.opsets.get("", 0)), self.constants, self.budget)

    def _entry(self, node: OnnxNode, given: list[Any], opsets: Mapping[str, int]) -> Any:
        made = TABLE[node.op](self._site(node, opsets), *given)
        return [made] if isinstance(made, (Term, Many)) else made

    def _call(self, node: OnnxNode, function: OnnxFunction, given: list[Any]) -> Any:
        """The nodes of a function in place of the node."""
        if self.depth == DEEPEST:
            raise UnsupportedError(f"functions that call each other more than {DEEPEST} deep")
        attributes = {**function.defaults, **node.attributes}
        inner: Scope = {}
        for n, name in enumerate(function.inputs):
            inner[name] = given[n] if n < len(given) else None  # type: ignore[assignment]
        nodes = [_bound(n, attributes, node.name) for n in needed_nodes(function.nodes, {*function.outputs})]
        nodes = [replace(n, inputs=tuple(i if inner.get(i, 0) is not None else "" for i in n.inputs)) for n in nodes]
        self.depth += 1
        try:
            self._nodes(nodes, inner, {**self.file.opsets, **function.opsets})
        finally:
            self.depth -= 1
        return [_term(inner.get(name)) for name in function.outputs]

    def _branch(self, node: OnnxNode, given: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Any:
        is_then = bool(self._site(node, opsets).known(given[0]).reshape(-1)[0])
        return self._inside(node.attributes["then_branch" if is_then else "else_branch"], [], scope, opsets)

    def _inside(self, graph: OnnxGraph, given: Sequence[Term], scope: Scope, opsets: Mapping[str, int]) -> Any:
        """A graph that stands in a node, whose tensors may be those around it."""
        inner: Scope = {**scope, **self._stored(graph), **dict(zip((p.name for p in graph.inputs), given))}
        self._nodes(needed_nodes(graph.nodes, {p.name for p in graph.outputs}), inner, opsets)
        return [_term(inner[p.name]) for p in graph.outputs]

    def _loop(self, node: OnnxNode, given: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Any:
        """A loop whose number of rounds is known, round after round."""
        site, body = self._site(node, opsets), node.attributes["body"]
        limit, test, *state = given
        most = _MOST_ROUNDS + 1 if limit is None else int(site.known(limit).item())
        test = known_term(np.array(True)) if test is None else test
        rows: list[list[Term]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
        rounds = 0
        while rounds < most and site.known(test).item():
            if rounds == _MOST_ROUNDS:
                raise UnsupportedError(f"a loop of more than {_MOST_ROUNDS} rounds")
            made = self._inside(body, [known_term(np.array(rounds, np.int64)), test, *state], scope, opsets)
            if any(m is None for m in made):
                return None
            test, state = made[0], made[1 : 1 + len(state)]
            for row, value in zip(rows, made[1 + len(state) :]):
                row.append(value)
            rounds += 1
        if rows and not rounds:
            raise UnsupportedError("a loop of no rounds that collects results")
        return [*state, *(_stacked(site, row) for row in rows)]

    def _scan(self, node: OnnxNode, given: list[Any], scope: Scope, opsets: Mapping[str, int]) -> Any:
        """The rows of sequences one after another, with a state that goes along."""
        site, body, get = self._site(node, opsets), node.attributes["body"], node.attributes.get
        count = node.attributes["num_scan_inputs"]
        state, rows = given[: len(given) - count], given[len(given) - count :]
        made_rows = len(body.outputs) - len(state)
        ins, backwards = get("scan_input_axes", (0,) * count), get("scan_input_directions", (0,) * count)
        outs, turned = get("scan_output_axes", (0,) * made_rows), get("scan_output_directions", (0,) * made_rows)
        if site.opset < 9 or len(rounds := {x.shape[axis(d, x.rank)] for x, d in zip(rows, ins)}) != 1:
            raise UnsupportedError("sequences of different lengths, or batches of them")
        if (length := rounds.pop()) > _MOST_ROUNDS:
            raise UnsupportedError(f"a sequence of more than {_MOST_ROUNDS} elements")
        collected: list[list[Term]] = [[] for _ in range(made_rows)]
        for n in range(length):
            now = [_row(site, x, d, length - 1 - n if back else n) for x, d, back in zip(rows, ins, backwards)]
            made = self._inside(body, [*state, *now], scope, opsets)
            if any(m is None for m in made):
                return None
            state = made[: len(state)]
            for row, value in zip(collected, made[len(state) :]):
                row.append(value)
        stacked = [_stacked(site, row[::-1] if b else row, d) for row, b, d in zip(collected, turned, outs)]
        return [*state, *stacked]


def _row(site: Site, x: Term, d: int, place: int) -> Term:
    return site.make([x], views.select, axis(d, x.rank), place)


def _stacked(site: Site, row: list[Term], d: int = 0) -> Term:
    if any(isinstance(x, Many) for x in row):
        raise UnsupportedError("sequences that a loop collects")
    d = axis(d, row[0].rank + 1)
    parts = [onnx_shapes.reshape(site, x, (*x.shape[:d], 1, *x.shape[d:])) for x in row]
    return onnx_shapes.joined(site, parts, d)


def _term(value: Any) -> Term | Many | None:
    return value if isinstance(value, (Term, Many)) else None


def _bound(node: OnnxNode, attributes: Mapping[str, Any], caller: str) -> OnnxNode:
    """A node of a function with the attributes of the call in it, those without a value left out."""
    values: dict[str, Any] = {}
    for name, value in node.attributes.items():
        if isinstance(value, OnnxGraph):
            inside = tuple(_bound(n, attributes, caller) for n in value.nodes)
            values[name] = replace(value, nodes=inside)
        elif not isinstance(value, Parameter):
            values[name] = value
        elif value.name in attributes:
            values[name] = attributes[value.name]
    return replace(node, attributes=values, name=f"{caller}/{node.name}")
