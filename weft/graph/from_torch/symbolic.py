"""Modules that torch traced for many sizes, at the sizes of one call: numbers in place of its symbols, nothing traced.

torch wrote down what it took for granted about sizes while it traced (guards). A call that these do not hold for is
refused here, and traced by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.graph.from_torch.edge import fake_tensors, has_sizes_of_values, torch
from weft.ir.errors import UnsupportedError

#: Calls that only say what sizes are like, which is checked here.
_CHECKS = (
    "aten._assert_scalar.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
)


def is_symbolic(gm: Any) -> bool:
    """Whether some size is not a number."""
    return any(_is_symbol(n) for node in gm.graph.nodes for n in _sizes(node.meta.get("val")))


def at_sizes(gm: Any, args: Sequence[Any]) -> Any:
    """``gm`` for ``args``, which its guards hold for: Dynamo has checked them, or `check_sizes`.

    Also where its sizes are numbers: operators have the same names in graphs of all sizes.
    """
    said = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
    return _Copy(_Numbers(said, args)).copy(gm)


def refuse_sizes_of_values(gm: Any) -> None:
    """A graph whose sizes are not all known before it runs is none for us; its parts between may be."""
    gm.graph.eliminate_dead_code()
    for node in gm.graph.nodes:
        if has_sizes_of_values(node.meta.get("val")):
            raise UnsupportedError(f"`{node.target}` gives a size that only values tell")


def check_sizes(said: Sequence[Any], given: Sequence[Any]) -> None:
    """That what was traced for tensors as ``said`` is right for those ``given``."""
    numbers = _Numbers(said, given)
    numbers.check_inputs(said, given)
    numbers.check_guards()


class SizeResults:
    """Results of a graph that are sizes of its inputs, or follow from them: numbers in each call."""

    def __init__(self, gm: Any) -> None:
        (output,) = (node for node in gm.graph.nodes if node.op == "output")
        self._said = [node.meta.get("val") for node in gm.graph.nodes if node.op == "placeholder"]
        known = {s.node.expr for said in self._said for s in _sizes(said) if _is_symbol(s)}
        values: list[tuple[int, Any]] = [
            (n, value.meta.get("val")) for n, value in enumerate(output.args[0]) if isinstance(value, torch().fx.Node)
        ]
        self._values = {n: v for n, v in values if _is_symbol(v) and v.node.expr.free_symbols <= known}
        #: where they are among the results
        self.places = frozenset(self._values)

    def find(self, given: Sequence[Any]) -> list[tuple[int, Any]]:
        """These numbers in a call, with their places."""
        if not self._values:
            return []
        numbers = _Numbers(self._said, given)
        return [(n, numbers.find(value)) for n, value in self._values.items()]


class _Numbers:
    """What symbols are in one call, and so what any expression of them is."""

    def __init__(self, said: Sequence[Any], args: Sequence[Any]) -> None:
        self.symbols: dict[Any, int] = {}
        self._known: dict[Any, Any] = {}
        self._environment: Any = None
        for place, number in ((s, n) for v, a in zip(said, args) for s, n in zip(_sizes(v), _sizes(a))):
            if _is_symbol(place):
                self._environment = place.node.shape_env
                if place.node.expr.is_symbol:
                    self.symbols.setdefault(place.node.expr, int(number))

    def find(self, value: Any) -> Any:
        """A size, or a truth about sizes, as a number."""
        if not _is_symbol(value):
            return value
        return value.node.pytype(self._evaluate(value.node.expr))

    def _evaluate(self, e: Any) -> Any:
        if e not in self._known:
            made = e.subs(self.symbols)
            if made.free_symbols:
                raise UnsupportedError(f"a size that only values tell: {made}")
            self._known[e] = made
        return self._known[e]

    def check_inputs(self, said: Sequence[Any], given: Sequence[Any]) -> None:
        """That inputs look as was traced, but for its symbols."""
        for traced, tensor in zip(said, given):
            if isinstance(traced, torch().Tensor):
                shape, strides = (tuple(map(self.find, sizes)) for sizes in (traced.shape, traced.stride()))
                is_alike = shape == tuple(tensor.shape) and tensor.layout == torch().strided
                if not is_alike or any(n > 1 and a != b for n, a, b in zip(shape, strides, tensor.stride())):
                    raise UnsupportedError(f"a tensor {tuple(tensor.shape)} where {tuple(traced.shape)} was traced")

    def check_guards(self) -> None:
        """That all holds which torch took for granted."""
        if self._environment is None:
            return
        for guard in self._environment.guards:
            if not self._evaluate(guard.expr):
                raise UnsupportedError(f"a size for which not {guard.expr}")
        for symbol, number in self.symbols.items():
            within = self._environment.var_to_range.get(symbol)
            if within is not None and number not in within:
                raise UnsupportedError(f"a size of {number}, where {within} was traced")


class _Copy:
    """A graph with numbers in place of sizes."""

    def __init__(self, numbers: _Numbers) -> None:
        self.numbers = numbers
        self.made: dict[Any, Any] = {}
        #: one for all values that look the same: making one takes as long as all else about a node
        self._tensors: dict[Any, Any] = {}

    def copy(self, gm: Any) -> Any:
        graph = torch().fx.Graph()
        gm.graph.eliminate_dead_code()
        with fake_tensors():
            for node in gm.graph.nodes:
                self._node(graph, node)
        return torch().fx.GraphModule(gm, graph)

    def _node(self, graph: Any, node: Any) -> None:
        said = node.meta.get("val")
        if _is_symbol(said) and node.op != "placeholder":
            self.made[node] = self.numbers.find(said)
        elif str(node.target) in _CHECKS:
            if self.made.get(node.args[0]) is False:
                raise UnsupportedError(f"a size for which not {node.args[1:]}")
        else:
            copied = self._copied(graph, node)
            copied.meta = {**node.meta, "val": self._value(said)}
            self.made[node] = self.numbers.find(said) if _is_symbol(said) else copied

    def _copied(self, graph: Any, node: Any) -> Any:
        """Named by what it does, so that operators are called the same however many nodes there were for sizes."""
        name = None if node.op == "call_function" else node.name
        args, named = (torch().fx.node.map_arg(a, self.made.__getitem__) for a in (node.args, node.kwargs))
        return graph.create_node(node.op, node.target, args, named, name, node.type)

    def _value(self, said: Any) -> Any:
        if isinstance(said, (list, tuple)):
            return type(said)(map(self._value, said))
        if not isinstance(said, torch().Tensor) or not any(map(_is_symbol, _sizes(said))):
            return self.numbers.find(said)
        shape, strides = (tuple(map(self.numbers.find, sizes)) for sizes in (said.shape, said.stride()))
        look = shape, strides, said.dtype, said.device
        if look not in self._tensors:
            self._tensors[look] = torch().empty_strided(shape, strides, dtype=said.dtype, device=said.device)
        return self._tensors[look]


def _is_symbol(value: Any) -> bool:
    return isinstance(value, (torch().SymInt, torch().SymBool, torch().SymFloat))


def _sizes(value: Any) -> Sequence[Any]:
    """The numbers that tell how a value looks: sizes, then strides of a tensor; a number is one itself."""
    if isinstance(value, torch().Tensor):
        return (*value.shape, *value.stride()) if value.layout == torch().strided else tuple(value.shape)
    return (value,)
