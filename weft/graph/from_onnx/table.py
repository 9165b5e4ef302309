"""The table of ONNX's operators: what each means as formulas. `Site` is what an entry sees of a node.

A tensor is a `Term`: one whose values are known while the graph is made (weights, sizes, whatever follows from them),
or an edge of the graph. Formulas of small known terms are evaluated at once, so arithmetic on shapes leaves no trace
in the graph. Entries that need values as numbers ask with `Site.known`; where these come from inputs of the model,
the executable is for those very values, and another is made for others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from weft.graph.builder import Formula, GraphBuilder, formula_program
from weft.graph.from_onnx.budget import Budget
from weft.graph.from_onnx.file import Foreign, OnnxNode
from weft.graph.graph import Edge, Shape, shape_of
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError
from weft.ir.expr import Axis, Const
from weft.ir.numpy_dtypes import convert, from_numpy
from weft.tensor.evaluate import evaluate as evaluate_program
from weft.tensor.program import TensorProgram
from weft.tensor.python_api import Tensor, placeholder

#: How many elements a tensor may have whose values an executable is for, and one that is computed while loading.
MOST_KNOWN = 4096
#: And points that its formula may run over.
_MOST_STEPS = 1 << 22


@dataclass(frozen=True, eq=False)
class Term:
    """A tensor; ``sources`` are the inputs of the model that its values depend on."""

    dtype: DType
    shape: Shape
    array: Any = None
    edge: str | None = None
    sources: frozenset[str] = frozenset()

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, eq=False)
class Many:
    """A sequence of tensors."""

    terms: tuple[Term, ...]


class NeedsValues(Exception):
    """Sizes depend on the values of these inputs of the model."""

    def __init__(self, names: frozenset[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


def known_term(array: Any, sources: frozenset[str] = frozenset()) -> Term:
    values = np.asarray(array)
    dtype = from_numpy(values.dtype)
    if dtype is None:
        raise UnsupportedError(f"elements of {values.dtype}")
    return Term(dtype, values.shape, values, None, sources)


class Site:
    """One node: its attributes, the version of its operator, and where formulas go."""

    def __init__(
        self,
        builder: GraphBuilder,
        node: OnnxNode,
        opset: int,
        constants: dict[int, tuple[Any, str]],
        budget: Budget,
    ) -> None:
        self.builder, self.node, self.opset, self.constants, self.budget = builder, node, opset, constants, budget

    @property
    def op(self) -> str:
        return self.node.op

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        value = self.node.attributes.get(name, default)
        if isinstance(value, Foreign):
            raise UnsupportedError(f"{name} is a {value.kind}")
        return value

    def ints(self, term: Term) -> tuple[int, ...]:
        """The values of a tensor of integers."""
        return tuple(int(v) for v in self.known(term).reshape(-1))

    def known(self, term: Term) -> Any:
        """The values of a tensor, which decide about the graph."""
        if term.array is not None:
            return term.array
        if not term.sources:
            raise UnsupportedError("it depends on values that are only known while the model runs")
        raise NeedsValues(term.sources)

    def reserve(self, count: int, of_each: int) -> None:
        """Asks for tables of ``count`` elements, before they are made: ``of_each`` is how many words there are at most
        for one at a time."""
        self.budget.take(8 * count * of_each)

    def number(self, term: Term | None) -> Any:
        """The one value of a tensor that is known anyway, as a Python number; None of any other."""
        is_known = term is not None and term.array is not None and term.array.size == 1
        return term.array.reshape(-1)[0].item() if term is not None and is_known else None

    def make(self, terms: Sequence[Term], fn: Formula, *args: Hashable) -> Term:
        """The one result of a formula of tensors and plain values."""
        return self.make_all(terms, fn, *args)[0]

    def make_all(self, terms: Sequence[Term], fn: Formula, *args: Hashable) -> tuple[Term, ...]:
        edges = [Edge(f"t{n}", t.dtype, t.shape, None) for n, t in enumerate(terms)]
        sources = frozenset[str]().union(*(t.sources for t in terms))
        try:
            program = formula_program(self.node.name, edges, fn, *args)
        except UnsupportedError:
            if (empty := _empty_results(edges, fn, args)) is None:
                raise
            return empty
        for output in program.outputs:
            self.budget.check(shape_of(output.shape), output.dtype)
        self.budget.work(_steps(program))
        if _is_small(terms, program):
            return self._evaluate(program, terms, sources)
        inputs = [self.edge(t) for t in terms]
        library = self.builder.call_of(fn, args, inputs)
        made = self.builder.fragment(self.node.op, program, inputs, library=library, origin=str(self.node))
        return tuple(self._term(name, sources) for name in made)

    def _evaluate(self, program: TensorProgram, terms: Sequence[Term], sources: frozenset[str]) -> tuple[Term, ...]:
        made = evaluate_program(program, [t.array for t in terms])
        return tuple(known_term(convert(np.asarray(a), o.dtype), sources) for a, o in zip(made, program.outputs))

    def _term(self, name: str, sources: frozenset[str]) -> Term:
        edge = self.builder.edges[name]
        return Term(edge.dtype, edge.shape, None, name, sources)

    def edge(self, term: Term) -> str:
        """The tensor as an edge; values that are known become a constant."""
        if term.edge is not None:
            return term.edge
        if id(term.array) not in self.constants:
            # With the array itself, or another one could be made in its place.
            self.constants[id(term.array)] = term.array, self.builder.constant("c", _kept(term.array))
        return self.constants[id(term.array)][1]


def _kept(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(array.shape)


def _is_small(terms: Sequence[Term], program: TensorProgram) -> bool:
    made = sum(prod(shape_of(o.shape)) for o in program.outputs)
    if made > MOST_KNOWN or _steps(program) > _MOST_STEPS:
        return False
    return all(t.array is not None and t.array.size <= MOST_KNOWN for t in terms)


def _steps(program: TensorProgram) -> int:
    """Points that the axes of all statements run over."""
    return sum(prod(_extent(a) for a in statement.axes) for statement in program.statements)


def _extent(axis: Axis) -> int:
    lo, hi = axis.lo, axis.hi
    return max(0, int(hi.value) - int(lo.value)) if isinstance(lo, Const) and isinstance(hi, Const) else 1


def _empty_results(edges: Sequence[Edge], fn: Formula, args: Sequence[Hashable]) -> tuple[Term, ...] | None:
    """Tensors without elements are known whatever they are computed from; None where some result has elements."""
    made = fn(*(placeholder(f"T{n}", e.shape, e.dtype) for n, e in enumerate(edges)), *args)
    tensors = [made] if isinstance(made, Tensor) else list(made)
    shapes = [shape_of(t.buffer.shape) for t in tensors]
    if not all(0 in s for s in shapes):
        return None
    return tuple(Term(t.dtype, s, convert(np.zeros(s, np.float32), t.dtype)) for t, s in zip(tensors, shapes))


Lowering = Callable[..., "Term | Many | Sequence[Term | None]"]
#: By the name of an operator of ONNX's own domain.
TABLE: dict[str, Lowering] = {}


def lowers(*ops: str) -> Callable[[Lowering], Lowering]:
    """Registers an entry: ``fn(site, *inputs)`` with None for inputs left out; it gives the outputs, as terms."""

    def register(fn: Lowering) -> Lowering:
        TABLE.update(dict.fromkeys(ops, fn))
        return fn

    return register


def attributes_or(t: Site, name: str, given: Term | None) -> tuple[int, ...] | None:
    """Integers that older versions have as an attribute and newer ones as an input."""
    if given is not None:
        return t.ints(given)
    value = t.get(name)
    return None if value is None else tuple(value)


def facts_of(table: Mapping[str, Any], t: Site, what: str, default: str) -> Any:
    """A choice that an attribute names."""
    value = t.get(what, default)
    if value not in table:
        raise UnsupportedError(f"{what} is {value!r}")
    return table[value]
