"""Graphs as text that reads back: tensors and calls line by line, and each program once, in the whiteboard language.

graph mlp numerics fast
input x float32[4,32]
constant w float32[64,32] strides (32,1)
mm = program matmul(x, w)
sort, places = call aten.sort.default(x, -1) -> float32[4,32], int64[4,32]
return sort, mm
update x mm

def matmul(float32(4,32) A, float32(64,32) B) -> (float32(4,64) O) { … }
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.graph.graph import Call, Edge, Fragment, Graph, Node, Opaque, Ref, Special, check_graph, shape_of
from weft.ir.buffer import Buffer
from weft.ir.dtype import parse_dtype
from weft.ir.errors import ProgramError
from weft.ir.expr import Load, Var
from weft.ir.visit import Node as IrNode
from weft.ir.visit import fresh_name, rewrite
from weft.lang.parse import parse_programs
from weft.tensor.printer import print_program
from weft.tensor.program import Statement, TensorProgram


def print_graph(graph: Graph) -> str:
    """The text of a graph; constants by their looks alone, since values belong to the model."""
    texts: dict[TensorProgram, tuple[str, str]] = {}
    lines = [f"graph {graph.name} numerics {graph.numerics}"]
    lines += [f"input {name} {_look(graph.edges[name])}" for name in graph.inputs]
    lines += [f"constant {name} {_look(graph.edges[name])}" for name in graph.constants]
    for node in graph.nodes:
        if isinstance(node, Fragment):
            lines.append(_fragment_line(node, texts))
            wished = [graph.edges[n] for n in node.outputs if graph.edges[n].strides is not None]
            lines += [f"layout {e.name}{_layout(e)}" for e in wished]
        else:
            lines.append(_call_line(graph, node))
    lines.append(f"return {', '.join(graph.outputs)}")
    lines += [f"update {name} {value}" for name, value in graph.updates]
    return "\n".join([*lines, "", *(text for _, text in texts.values())])


def _numbers(values: tuple[int, ...]) -> str:
    return f"({','.join(map(str, values))})"


def _look(edge: Edge) -> str:
    return f"{edge.dtype}[{','.join(map(str, edge.shape))}]{_layout(edge)}"


def _layout(edge: Edge) -> str:
    if edge.order is not None:
        return f" order {_numbers(edge.order)}"
    return "" if edge.strides is None else f" strides {_numbers(edge.strides)}"


def _fragment_line(node: Fragment, texts: dict[TensorProgram, tuple[str, str]]) -> str:
    if node.program not in texts:
        name = fresh_name(node.program.name, {known for known, _ in texts.values()})
        texts[node.program] = name, print_program(replace(node.program, name=name))
    library = "" if node.library is None else f" library {_call_text(node.library)}"
    inputs = ", ".join(node.inputs)
    kind = "copy" if node.is_copy else "program"
    return f"{', '.join(node.outputs)} = {kind} {texts[node.program][0]}({inputs}){library}"


def _call_line(graph: Graph, node: Opaque) -> str:
    edges = [graph.edges.get(n or "") for n in node.outputs]
    looks = ["object" if e is None else _look(e) for e in edges]
    names = ", ".join(n or "_" for n in node.outputs)
    return f"{names} = call {_call_text(node.call)} -> {'; '.join(looks)}"


def _call_text(call: Call) -> str:
    parts = [_argument_text(a) for a in call.args] + [f"{k}={_argument_text(a)}" for k, a in call.named]
    return f"{call.target}({', '.join(parts)})"


def _argument_text(value: Any) -> str:
    if isinstance(value, Ref):
        return value.name
    if isinstance(value, Special):
        return f"{value.kind}({value.name!r})"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_argument_text, value))}]"
    return repr(value) if not isinstance(value, float) or abs(value) < float("inf") else f"number('{value}')"


_LINE = re.compile(r"^(?P<outputs>[\w, ]+) = (?P<kind>program|copy|call) (?P<rest>.*)$")
_LOOK = re.compile(r"^(?P<type>\w+)\[(?P<shape>[\d,]*)\](?: (?P<kind>strides|order) \((?P<layout>[-\d,]*)\))?$")


def parse_graph(text: str, constants: Mapping[str, Any] | None = None) -> Graph:
    """The graph that `print_graph` wrote; ``constants`` are the values of those it names."""
    return _Reader(text).read(constants or {})


class _Reader:
    def __init__(self, text: str) -> None:
        head, _, programs = text.partition("\n\n")
        self.lines = head.splitlines()
        found = parse_programs(programs, "<graph>") if programs.strip() else {}
        self.programs = {name: _with_tensors(p) for name, p in found.items()}
        self.edges: dict[str, Edge] = {}
        self.nodes: list[Node] = []

    def read(self, constants: Mapping[str, Any]) -> Graph:
        named: dict[str, list[str]] = {"input": [], "constant": [], "return": [], "update": []}
        header = self.lines[0].split()
        for line in self.lines[1:]:
            word, _, rest = line.partition(" ")
            if (match := _LINE.match(line)) is not None:
                self._node(match)
            elif word in ("input", "constant"):
                name, _, look = rest.partition(" ")
                self.edges[name] = _edge(name, look)
                named[word].append(name)
            elif word == "layout":
                name, kind, numbers = rest.split(" ")
                self.edges[name] = _laid_out(self.edges[name], kind, numbers.strip("()"))
            elif word in ("return", "update"):
                named[word].append(rest)
            else:
                raise ProgramError(f"a graph has no line such as `{line}`")
        values = {name: constants.get(name) for name in named["constant"]}
        outputs = tuple(n.strip() for n in named["return"][0].split(",") if n.strip())
        updates = tuple((a, b) for a, b in (u.split() for u in named["update"]))
        inputs, nodes = tuple(named["input"]), tuple(self.nodes)
        return check_graph(Graph(header[1], self.edges, inputs, values, nodes, outputs, header[3], updates))  # type: ignore[arg-type]

    def _node(self, match: re.Match[str]) -> None:
        outputs = [n.strip() for n in match["outputs"].split(",")]
        if match["kind"] != "call":
            self._fragment(outputs, match["rest"], match["kind"] == "copy")
            return
        call, _, looks = match["rest"].rpartition(" -> ")
        for name, look in zip(outputs, looks.split("; ")):
            if look != "object":
                self.edges[name] = _edge(name, look)
        made = tuple(None if n == "_" else n for n in outputs)
        self.nodes.append(Opaque(f"{outputs[0]}_call", _parse_call(call), made))

    def _fragment(self, outputs: list[str], rest: str, is_copy: bool) -> None:
        use, _, library = rest.partition(" library ")
        name, _, inputs = use.rstrip(")").partition("(")
        program = self.programs[name]
        for output, buffer in zip(outputs, program.outputs):
            self.edges[output] = Edge(output, buffer.dtype, shape_of(buffer.shape))
        read = tuple(n.strip() for n in inputs.split(",") if n.strip())
        call = _parse_call(library) if library else None
        self.nodes.append(Fragment(f"{outputs[0]}_node", program, read, tuple(outputs), call, is_copy=is_copy))


def _ints(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in text.split(",") if n)


def _edge(name: str, look: str) -> Edge:
    match = _LOOK.match(look)
    dtype = parse_dtype(match["type"]) if match is not None else None
    if match is None or dtype is None:
        raise ProgramError(f"`{look}` is not how a tensor looks", help="write float32[2,3]")
    plain = Edge(name, dtype, _ints(match["shape"]))
    return plain if match["kind"] is None else _laid_out(plain, match["kind"], match["layout"])


def _laid_out(edge: Edge, kind: str, numbers: str) -> Edge:
    return edge.ordered(_ints(numbers)) if kind == "order" else replace(edge, strides=_ints(numbers))


def _parse_call(text: str) -> Call:
    target, _, arguments = text.partition("(")
    parsed = ast.parse(f"f({arguments}", mode="eval").body
    assert isinstance(parsed, ast.Call)
    named = tuple((k.arg or "", _argument(k.value)) for k in parsed.keywords)
    return Call(target, tuple(map(_argument, parsed.args)), named)


def _argument(node: ast.expr) -> Any:
    match node:
        case ast.Name(id=name):
            return Ref(name)
        case ast.List(elts=parts):
            return tuple(map(_argument, parts))
        case ast.Call(func=ast.Name(id="number"), args=[ast.Constant(value=value)]):
            return float(str(value))
        case ast.Call(func=ast.Name(id=kind), args=[ast.Constant(value=value)]):
            return Special(kind, str(value))
    return ast.literal_eval(node)


def _with_tensors(program: TensorProgram) -> TensorProgram:
    """``program`` with tensors of no dimension where its text, which cannot tell them apart, has numbers."""
    scalars = {v.name: Buffer(v.name, v.dtype, ()) for v in program.scalars}
    if not scalars:
        return program

    def put(n: IrNode) -> IrNode | None:
        return Load(scalars[n.name], ()) if isinstance(n, Var) and n.name in scalars else None

    def changed(s: Statement) -> Statement:
        return replace(s, indices=tuple(rewrite(i, put) for i in s.indices), value=rewrite(s.value, put))

    params = tuple(scalars[p.name] if isinstance(p, Var) else p for p in program.params)
    return replace(program, params=params, statements=tuple(map(changed, program.statements)), constants=())
