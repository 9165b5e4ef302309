"""How front ends make graphs.

>>> g = GraphBuilder("mlp")
>>> x, w = g.input("x", "float32", (8, 4)), g.constant("w", weights)
>>> h = g.formula("mm", [x, w], contraction.matmul)            # weft/graph/formulas has the common operators
>>> y = g.formula("relu", [h], lambda X: compute(X.shape, lambda *i: maximum(X[i], 0)))
>>> graph = g.finish([y])

A formula is a function from placeholders to tensors made with `weft.compute`. Whatever else it depends on, such as a
stride or an axis, follows the placeholders as plain values; what it says for the same is built once, so a formula
should be a function that lives as long as its module.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, TypeAlias

from weft.graph.graph import Call, Edge, Fragment, Graph, Node, Opaque, Shape, check_graph, shape_of
from weft.graph.groups.partition import is_free
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError
from weft.ir.numerics import Numerics
from weft.runtime.arrays import describe
from weft.tensor.program import TensorProgram
from weft.tensor.python_api import Tensor, build_program, placeholder
from weft.tensor.value import parse_type

#: From placeholders for the inputs to the tensors that are the outputs.
Formula: TypeAlias = "Callable[..., Tensor | Sequence[Tensor]]"

#: The library's call for a formula, its plain arguments, and tensors; None where it has none.
Library: TypeAlias = "Callable[[Formula, Sequence[Hashable], Sequence[Edge]], Call | None]"

#: Programs of formulas, kept over graphs: models repeat their layers, and processes their models. The last that were
#: asked for, since each size has its own.
_programs: OrderedDict[Hashable, TensorProgram] = OrderedDict()
MOST_PROGRAMS = 1024


class GraphBuilder:
    """Collects tensors and nodes; `finish` gives the graph."""

    def __init__(self, name: str, numerics: Numerics = "fast", library: Library | None = None) -> None:
        self.name, self.numerics, self._library = _identifier(name), numerics, library
        self.edges: dict[str, Edge] = {}
        self._inputs: list[str] = []
        self._constants: dict[str, Any] = {}
        self._observed: set[str] = set()
        self._nodes: list[Node] = []
        self._taken: set[str] = set()
        #: the last number behind each name that was asked for again
        self._counts: dict[str, int] = {}
        #: values of tensors that somebody chose formulas by, None for those that an input takes part in
        self.known: dict[str, Any] = {}
        #: what these values say, by who asked
        self.told: dict[str, str | None] = {}

    def input(self, name: str, dtype: str | DType, shape: Sequence[int], strides: Shape | None = None) -> str:
        """A tensor that calls give; ``strides`` where they are known and not row-major."""
        edge = self._edge(name, parse_type(dtype), tuple(shape), strides)
        self._inputs.append(edge)
        return edge

    def constant(self, name: str, array: Any) -> str:
        """A tensor with the same values in every call: a numpy array, a torch tensor, or what speaks DLPack."""
        info = describe(array, name=name)
        edge = self._edge(name, info.dtype, info.shape, info.strides)
        self._constants[edge] = array
        return edge

    def formula(
        self,
        name: str,
        inputs: Sequence[str],
        fn: Formula,
        *args: Hashable,
        library: Call | None = None,
        origin: str = "",
    ) -> str:
        """The one output of a formula; see `formulas`."""
        return self.formulas(name, inputs, fn, *args, library=library, origin=origin)[0]

    def formulas(
        self,
        name: str,
        inputs: Sequence[str],
        fn: Formula,
        *args: Hashable,
        library: Call | None = None,
        origin: str = "",
    ) -> tuple[str, ...]:
        """The outputs of ``fn`` of ``inputs`` and ``args``; a tensor that is given twice is read twice."""
        program = formula_program(name, tuple(self.edges[i] for i in inputs), fn, *args)
        return self.fragment(name, program, inputs, library=library, origin=origin)

    def fragment(
        self, name: str, program: TensorProgram, inputs: Sequence[str], *, library: Call | None = None, origin: str = ""
    ) -> tuple[str, ...]:
        """The outputs of ``program``, whose sizes are numbers, applied to ``inputs``."""
        several = len(program.outputs) > 1
        outputs = tuple(
            self._edge(f"{name}_{n}" if several else name, o.dtype, shape_of(o.shape), None)
            for n, o in enumerate(program.outputs)
        )
        self._nodes.append(Fragment(self._fresh(name), program, tuple(inputs), outputs, library, origin))
        return outputs

    def call_of(self, fn: Formula, args: Sequence[Hashable], inputs: Sequence[str]) -> Call | None:
        """The library's call for a formula, where the graph is made for one."""
        return None if self._library is None else self._library(fn, args, [self.edges[n] for n in inputs])

    def own(self, name: str) -> bool:
        """Gives a tensor that is a view here memory of its own, as somebody outside counts on; False if it is none."""
        for place, node in enumerate(self._nodes):
            if isinstance(node, Fragment) and node.outputs == (name,) and is_free(node):
                self._nodes[place] = replace(node, is_copy=True)
                return True
        return False

    def shown(self, name: str) -> str:
        """The tensor in whose memory ``name`` may be: what it is a view of, in the end."""
        producers = {o: n for n in self._nodes for o in n.outputs}
        while (node := producers.get(name)) is not None and is_free(node) and node.inputs:
            name = node.inputs[0]
        return name

    def opaque(
        self,
        name: str,
        call: Call,
        outputs: Sequence[Edge | str | None],
        *,
        reason: str = "",
        origin: str = "",
    ) -> tuple[str | None, ...]:
        """A call of the framework; results are tensors, objects that go by a name, or nothing that anybody asks for."""
        made = tuple(self._output(e) for e in outputs)
        node = Opaque(self._fresh(name), call, made, reason, origin)
        self._nodes.append(node)
        return made

    def _output(self, given: Edge | str | None) -> str | None:
        if isinstance(given, Edge):
            return self._edge(given.name, given.dtype, given.shape, given.strides)
        return None if given is None else self._fresh(_identifier(given))

    @property
    def inputs_and_constants(self) -> set[str]:
        return {*self._inputs, *self._constants}

    def producer(self, name: str) -> Node | None:
        """The node so far that makes a tensor."""
        return next((node for node in reversed(self._nodes) if name in node.outputs), None)

    def constant_values(self, name: str) -> Any:
        """The array of a constant, for who chooses formulas by it; None for any other tensor."""
        if name not in self._constants:
            return None
        self._observed.add(name)
        return self._constants[name]

    def mark(self) -> int:
        """How far the graph has come, for `undo`."""
        return len(self._nodes)

    def undo(self, mark: int) -> None:
        """Takes back the nodes since ``mark``, which somebody could not finish."""
        for node in self._nodes[mark:]:
            for name in node.outputs:
                self.edges.pop(name or "", None)
        del self._nodes[mark:]

    def wish_strides(self, name: str, strides: Shape) -> None:
        """A layout that somebody outside the graph counts on."""
        self.edges[name] = replace(self.edges[name], strides=strides)

    def finish(self, outputs: Sequence[str], updates: Sequence[tuple[str, str]] = ()) -> Graph:
        """The graph that gives ``outputs`` and leaves each input in ``updates`` with the values of another tensor."""
        tensors = dict(self.edges)
        inputs, constants = tuple(self._inputs), dict(self._constants)
        nodes, given = tuple(self._nodes), (tuple(outputs), self.numerics, tuple(updates))
        return check_graph(Graph(self.name, tensors, inputs, constants, nodes, *given, frozenset(self._observed)))

    def _fresh(self, base: str) -> str:
        """``base``, or ``base_1``, ``base_2`` ...: one that is not taken."""
        name = base
        while name in self._taken:
            self._counts[base] = self._counts.get(base, 0) + 1
            name = f"{base}_{self._counts[base]}"
        self._taken.add(name)
        return name

    def _edge(self, name: str, dtype: DType, shape: Shape, strides: Shape | None) -> str:
        own = self._fresh(_identifier(name))
        self.edges[own] = Edge(own, dtype, shape, strides)
        return own


def formula_program(name: str, inputs: Sequence[Edge], fn: Formula, *args: Hashable) -> TensorProgram:
    """What ``fn`` says for tensors like ``inputs``; from before, where it was asked the same."""
    known = (fn, _exactly(args), tuple((e.dtype, e.shape) for e in inputs))
    program = _programs.get(known)
    if program is None:
        params = [placeholder(letter, e.shape, e.dtype) for letter, e in zip(_letters(), inputs)]
        made = fn(*params, *args)
        tensors = [made] if isinstance(made, Tensor) else list(made)
        if any(0 in shape_of(t.buffer.shape) for t in (*params, *tensors)):
            raise UnsupportedError(f"`{name}` has a tensor without elements", why="there is nothing to loop over")
        program = build_program(params, tensors, name=_program_name(fn, args))
    _programs[known] = program
    with contextlib.suppress(KeyError):  # another thread was quicker
        _programs.move_to_end(known)
        if len(_programs) > MOST_PROGRAMS:
            _programs.popitem(last=False)
    return program


def _exactly(value: Hashable) -> Hashable:
    """What tells values apart that are equal and yet not the same: 1 and 1.0 and true, 0.0 and -0.0."""
    if isinstance(value, tuple):
        return tuple(map(_exactly, value))
    return (type(value), value.hex()) if isinstance(value, float) else (type(value), value)


def _program_name(fn: Formula, args: Sequence[Hashable]) -> str:
    """What a program is called, wherever in a graph it stands: by its formula, or by which of a family it is."""
    named = next((a for a in args if isinstance(a, str) and a.isidentifier()), None)
    return _identifier(named or getattr(fn, "__name__", "formula"))


def _letters() -> itertools.chain[str]:
    return itertools.chain("ABCDEFGHIJKLMNPQRSTUVWXYZ", (f"A{n}" for n in itertools.count()))


@lru_cache(maxsize=4096)
def _identifier(name: str) -> str:
    plain = "".join(c if (c.isascii() and c.isalnum()) or c == "_" else "_" for c in name)
    return plain if plain[:1].isalpha() or plain[:1] == "_" else f"t_{plain}"
