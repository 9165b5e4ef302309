"""From a module of aten operators to a graph: each operator by the table, or as a call in its place."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from weft.graph.builder import GraphBuilder
from weft.graph.from_torch import attention as _attention  # noqa: F401  which fill the table
from weft.graph.from_torch import pointwise as _pointwise  # noqa: F401
from weft.graph.from_torch import resize as _resize  # noqa: F401
from weft.graph.from_torch import shapes as _shapes  # noqa: F401
from weft.graph.from_torch import sums as _sums  # noqa: F401
from weft.graph.from_torch import updates as _updates  # noqa: F401
from weft.graph.from_torch.arrays import special_of
from weft.graph.from_torch.edge import element_type, torch
from weft.graph.from_torch.sees_memory import OF_MEMORY
from weft.graph.from_torch.table import TABLE, Entry, Site
from weft.graph.graph import Call, Edge, Graph, Ref
from weft.ir.errors import UnsupportedError
from weft.ir.faults import refused
from weft.ir.numerics import Numerics

#: Calls that only say what tracing knows anyway.
_NOTHING = frozenset({"aten._assert_tensor_metadata.default"})


def translate(
    gm: Any,
    inputs: Sequence[Any],
    constants: Mapping[int, Any],
    *,
    updates: Mapping[int, int] | None = None,
    name: str = "model",
    numerics: Numerics = "fast",
    device: Any = None,
) -> Graph:
    """``gm``, whose sizes are numbers and whose operators write to nothing, for these ``inputs`` on ``device``, this
    machine's own unless said.

    ``constants`` are the real tensors of inputs that are the same in every call, by place; ``updates`` says which
    inputs take the values of which outputs, and these outputs are not results of the graph.
    """
    place = torch().device("cpu") if device is None else device
    return _Translation(GraphBuilder(name, numerics), gm, place).translate(inputs, constants, updates or {})


class _Translation:
    def __init__(self, builder: GraphBuilder, gm: Any, device: Any) -> None:
        self.builder, self.gm, self.device = builder, gm, device
        #: whether constants were on another device
        self.has_moved = False
        #: what each node of ``gm`` is here: an edge, an object by its name, several of these, or a plain value
        self.values: dict[Any, Any] = {}

    def translate(self, inputs: Sequence[Any], constants: Mapping[int, Any], updates: Mapping[int, int]) -> Graph:
        self.gm.graph.eliminate_dead_code()
        given: list[str | None] = []
        outputs: list[Any] = []
        for node in self.gm.graph.nodes:
            if node.op == "placeholder":
                given.append(self._placeholder(node, inputs[len(given)], constants.get(len(given))))
            elif node.op == "get_attr":
                self.values[node] = self._constant(node.name, _attribute(self.gm, node.target))
            elif node.op == "call_function" and str(node.target) not in _NOTHING:
                self.values[node] = self._call(node)
            elif node.op == "output":
                changed_inputs = {given[place] for place in updates}
                outputs = self._outputs(node, frozenset(updates.values()), changed_inputs)
        changed = []
        for place, number in updates.items():
            name = given[place]
            if name is None:
                raise UnsupportedError("an update of what is not a tensor")
            changed.append((name, outputs[number]))
        kept = [o for n, o in enumerate(outputs) if n not in updates.values()]
        return self.builder.finish(kept, changed)

    def _placeholder(self, node: Any, value: Any, constant: Any) -> str | None:
        if not isinstance(value, torch().Tensor):
            self.values[node] = value
            return None
        if constant is not None:
            self.values[node] = self._constant(node.name, constant)
            return None
        dtype = element_type(value.dtype)
        if dtype is None:
            raise UnsupportedError(f"an input of {value.dtype}")
        name = self.builder.input(node.name, dtype, tuple(value.shape), tuple(value.stride()))
        self.values[node] = self.builder.edges[name]
        return name

    def _constant(self, name: str, value: Any) -> Edge:
        if not isinstance(value, torch().Tensor):
            raise UnsupportedError("a program that values decide about")
        if element_type(value.dtype) is None:
            raise UnsupportedError(f"a constant of {value.dtype}")
        self.has_moved |= value.device != self.device
        return self.builder.edges[self.builder.constant(name, value.detach().to(self.device))]

    def _outputs(self, node: Any, updates: frozenset[int], changed: set[str | None]) -> list[str]:
        """The tensors given back and those that inputs are left with (``updates``); ``changed`` are these inputs."""
        names: list[str] = []
        owners = {v.name: n for n, v in self.values.items() if isinstance(v, Edge) and n.op != "call_function"}
        for value in node.args[0]:  # who made a tensor has it, and who copies it has another
            if not isinstance(value, torch().fx.Node):  # what was a size
                raise UnsupportedError("an output that is not a tensor")
            maker = _memory_of(value)
            if isinstance(made := self.values.get(maker), Edge) and self.builder.shown(made.name) == made.name:
                owners.setdefault(made.name, maker)
        for place, value in enumerate(node.args[0]):
            held = self.values.get(value, value)
            name = held.name if isinstance(held, (Edge, Ref)) else None
            if name is None:
                raise UnsupportedError("an output that is not a tensor")
            if isinstance(held, Edge) and self._needs_copy(value, name, owners, place in updates, changed):
                maker = self.values.get(_memory_of(value))
                if not isinstance(maker, Edge) or not self.builder.own(maker.name):
                    raise UnsupportedError(f"whose memory `{name}` is in")
                owners[maker.name] = _memory_of(value)
            names.append(name)
            said = value.meta.get("val")
            if isinstance(held, Edge) and said is not None and said.device != self.device:
                raise UnsupportedError(f"an output on {said.device}, while the model runs on {self.device}")
            for shown in (_memory_of(value), value):
                self._wish_strides(shown)
        return names

    def _wish_strides(self, value: Any) -> None:
        """Asks for the layout that torch says a tensor has, which the caller sees, or a view of it."""
        held, said = self.values.get(value), value.meta.get("val")
        if not isinstance(held, Edge) or held.name in self.builder.inputs_and_constants:
            return
        if isinstance(said, torch().Tensor):
            self.builder.wish_strides(held.name, tuple(int(s) for s in said.stride()))

    def _needs_copy(
        self, value: Any, name: str, owners: dict[str, Any], is_update: bool, changed: set[str | None]
    ) -> bool:
        """Whether a result would be a view here of what torch gives other memory; ``owners`` are whose memory is whose.

        What an input is left with is read after other inputs were changed, and may be another tensor's otherwise.
        """
        root = self.builder.shown(name)
        if is_update and root in self.builder.inputs_and_constants:
            return root in changed
        owner = _memory_of(value)
        return owners.setdefault(root, owner) is not owner

    def _call(self, node: Any) -> Any:
        target = str(node.target)
        if "getitem" in target:
            return self.values[node.args[0]][node.args[1]]
        if getattr(getattr(node.target, "_schema", None), "is_mutable", False):
            raise UnsupportedError(f"{target} writes to its arguments")
        if any(not isinstance(n, int) for v in _tensors_said(node) for n in v.shape):
            raise UnsupportedError(f"{target} gives a tensor whose sizes depend on values")
        args = [self._argument(a) for a in node.args]
        named = {key: self._argument(a) for key, a in node.kwargs.items()}
        call = Call(target, tuple(map(_written, args)), tuple((k, _written(v)) for k, v in named.items()))
        if self._is_without_elements(node):
            return self._empties(node)
        mark = self.builder.mark()
        try:
            return self._lower(node, call, args, named)
        except Exception as error:
            self.builder.undo(mark)
            if target in OF_MEMORY and node.args[0].op == "call_function":
                raise
            return self._opaque(node, call, refused(error))

    def _is_without_elements(self, node: Any) -> bool:
        """Whether nothing needs to be computed, as no result has an element."""
        said = node.meta.get("val")
        found = _tensors_said(node)
        is_all = bool(found) and len(found) == (len(said) if isinstance(said, (list, tuple)) else 1)
        return is_all and all(v.numel() == 0 and element_type(v.dtype) is not None for v in found)

    def _empties(self, node: Any) -> Any:
        """Constants, whose shape and strides are all there is to them."""
        said = node.meta["val"]
        found = said if isinstance(said, (list, tuple)) else [said]
        made = [
            self._constant(node.name, torch().empty_strided(tuple(v.shape), tuple(v.stride()), dtype=v.dtype))
            for v in found
        ]
        return made if isinstance(said, (list, tuple)) else made[0]

    def _argument(self, value: Any) -> Any:
        if isinstance(value, torch().fx.Node):
            return self.values[value]
        if isinstance(value, (list, tuple)):
            return [self._argument(v) for v in value]
        return value

    def _lower(self, node: Any, call: Call, args: list[Any], named: dict[str, Any]) -> Any:
        """By the table, where what it gives is what torch says."""
        entry, said = TABLE.get(call.target), node.meta.get("val")
        if entry is None:
            raise UnsupportedError("no formula for it")
        if any(isinstance(a, Ref) for a in (*args, *named.values())):
            raise UnsupportedError("it reads an object that only torch can read")
        tensors = [n.meta.get("val") for n in node.all_input_nodes]
        site = Site(self.builder, node.name, call, (tensors, said), _origin(node))
        _check_takes(entry, site, args, named)
        made = entry(site, *args, **named)
        if isinstance(made, str):
            return self._checked(made, said)
        used = {user.args[1] for user in node.users}
        return [self._checked(m, s) if n in used else None for n, (m, s) in enumerate(zip(made, said))]

    def _checked(self, name: str | None, said: Any) -> Edge:
        if name is None:
            raise UnsupportedError("the formula lacks one of its results")
        edge = self.builder.edges[name]
        if edge.dtype != element_type(said.dtype) or edge.shape != tuple(said.shape):
            raise UnsupportedError(f"the formula gives {edge}, torch {said.dtype}{list(said.shape)}")
        return edge

    def _opaque(self, node: Any, call: Call, reason: str) -> Any:
        said = node.meta.get("val")
        several = isinstance(said, (list, tuple))
        used = {user.args[1] for user in node.users} if several else {0}
        # Of results that nobody reads torch may say another shape than they have (embedding_bag).
        results = [self._result(node, v) if n in used else None for n, v in enumerate(said if several else [said])]
        made = self.builder.opaque(node.name, call, results, reason=reason, origin=_origin(node))
        held = [None if n is None else self.builder.edges.get(n, Ref(n)) for n in made]
        return held if several else held[0]

    def _result(self, node: Any, said: Any) -> Edge | str:
        if not isinstance(said, torch().Tensor) or (dtype := element_type(said.dtype)) is None:
            return f"{node.name}_object"
        if said.device != self.device and self.has_moved:  # it may be of constants that are no longer there
            raise UnsupportedError(f"a call on {said.device}, while the model runs on {self.device}")
        if said.device != self.device or said.layout != torch().strided:
            return f"{node.name}_object"
        return Edge(node.name, dtype, tuple(int(n) for n in said.shape), tuple(int(s) for s in said.stride()))


def _memory_of(node: Any) -> Any:
    """The node in whose memory the result of ``node`` is: views are in that of their first argument."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        is_view = schema is None or any(r.alias_info is not None for r in schema.returns)
        if not (is_view or "_unsafe_view" in str(node.target)) or not isinstance(node.args[0], torch().fx.Node):
            return node
        node = node.args[0]
    return node


def _tensors_said(node: Any) -> list[Any]:
    """What torch says of the results that are tensors."""
    said = node.meta.get("val")
    return [v for v in (said if isinstance(said, (list, tuple)) else [said]) if isinstance(v, torch().Tensor)]


def _check_takes(entry: Entry, site: Site, args: list[Any], named: dict[str, Any]) -> None:
    try:
        inspect.signature(entry).bind(site, *args, **named)
    except TypeError as error:
        raise UnsupportedError(f"its formula has {error}") from None


def _attribute(gm: Any, path: str) -> Any:
    found = gm
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _written(value: Any) -> Any:
    """An argument as a call of the graph holds it."""
    if isinstance(value, Edge):
        return Ref(value.name)
    if isinstance(value, (list, tuple)):
        return tuple(map(_written, value))
    if value is None or isinstance(value, (bool, int, float, str, Ref)):
        return value
    special = special_of(value)
    if special is None:
        raise UnsupportedError(f"an argument that is a {type(value).__name__}")
    return special


def _origin(node: Any) -> str:
    """The line of the user's program that an operator comes from, where torch kept it: of the module that calls one
    of torch's, not of that one."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    if not lines:
        return ""
    own = [line for line in lines if "/torch/nn/" not in line]
    parts = (own or lines)[-1].split(",")
    file = parts[0].removeprefix("File ").strip('"').rpartition("/")[2]
    return f"{file}:{parts[1].strip().removeprefix('line ')}" if len(parts) > 1 else file
