"""The table from aten operators to formulas, and what its entries are written with."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

from weft.graph.builder import Formula, GraphBuilder
from weft.graph.formulas import pointwise
from weft.graph.from_torch.edge import element_type, torch
from weft.graph.graph import Call, Edge
from weft.ir.dtype import DType
from weft.ir.errors import UnsupportedError

#: An entry gets the arguments of the operator, tensors as edges of the graph, and names the edges it made.
Entry: TypeAlias = "Callable[..., str | Sequence[str | None]]"

TABLE: dict[str, Entry] = {}
#: Elements of an axis up to which it is sorted, or looked through, by comparing all with all.
MOST_COMPARED = 64


def lowers(*names: str) -> Callable[[Entry], Entry]:
    """Puts a function into the table under names of aten operators; those of ``prims`` say so."""

    def put(entry: Entry) -> Entry:
        TABLE.update(dict.fromkeys(map(_full_name, names), entry))
        return entry

    return put


def _full_name(name: str) -> str:
    if name.startswith("prims."):
        return f"{name}.default"
    return f"aten.{name}" if "." in name else f"aten.{name}.default"


class Site:
    """One call of an operator while it is being translated."""

    def __init__(self, builder: GraphBuilder, name: str, call: Call, said: tuple[Any, Any], origin: str) -> None:
        self.builder, self.name, self.call, self.origin = builder, name, call, origin
        #: what torch says of the arguments that are tensors
        self.tensors, result = said
        #: what torch says of the result: a fake tensor, or a tuple with some
        self.result = result
        #: tensors that were there before
        self.given = frozenset(str(r) for r in call.refs())

    @property
    def dtype(self) -> DType:
        """Of the (first) result."""
        first = self.result[0] if isinstance(self.result, (tuple, list)) else self.result
        found = element_type(first.dtype)
        if found is None:
            raise UnsupportedError(f"results of {first.dtype}")
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        first = self.result[0] if isinstance(self.result, (tuple, list)) else self.result
        return tuple(int(n) for n in first.shape)

    def memory_order(self, place: int) -> tuple[int, ...]:
        """The axes of an argument by how far apart their elements lie in memory, as torch says, farthest first."""
        said = self.tensors[place]
        order = sorted(range(said.dim()), key=lambda d: (-said.stride(d), -said.shape[d]))
        if not said.permute(order).is_contiguous():
            raise UnsupportedError("places in the memory of a tensor that has gaps there")
        return tuple(order)

    def make(self, inputs: Sequence[Edge], fn: Formula, *args: Hashable, is_library: bool = True) -> str:
        """The edge of a formula with one result."""
        return self.make_all(inputs, fn, *args, is_library=is_library)[0]

    def make_all(
        self, inputs: Sequence[Edge], fn: Formula, *args: Hashable, is_library: bool = True
    ) -> tuple[str, ...]:
        library = self.call if is_library else None
        names = [e.name for e in inputs]
        return self.builder.formulas(self.name, names, fn, *args, library=library, origin=self.origin)

    def edge(self, name: str) -> Edge:
        return self.builder.edges[name]

    def constant(self, array: Any) -> Edge:
        """A table of numbers that the formula reads."""
        return self.edge(self.builder.constant(f"{self.name}_table", torch().from_numpy(array)))

    def copied(self, x: Edge) -> str:
        """``x`` as a result of its own, also where nothing had to be done to it."""
        return self.make([x], pointwise.converted, x.dtype, is_library=False) if x.name in self.given else x.name


def promoted(*values: Any) -> DType:
    """The type in which torch would compare or combine these edges and numbers."""
    package = torch()
    samples = [
        package.empty((1,) * (len(v.shape) > 0), dtype=getattr(package, v.dtype.name)) if isinstance(v, Edge) else v
        for v in values
    ]
    found = element_type(package.result_type(*samples))
    if found is None:
        raise UnsupportedError("operands of a type that Weft does not have")
    return found


def number(value: Any) -> int | float | bool:
    """A plain number."""
    if isinstance(value, (bool, int, float)):
        return value
    raise UnsupportedError(f"{type(value).__name__} where a number is expected")
