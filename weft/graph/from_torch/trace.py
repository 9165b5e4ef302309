"""From a model to a module of functional operators, its inputs, and what becomes of its outputs.

`torch.export` walks a model four times on its way there. One walk is enough where a model does nothing but compute and
write to its buffers and arguments: what else it does is found out while it is walked, and then `torch.export` decides.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.graph.from_torch.changes import share_memory
from weft.graph.from_torch.edge import (
    Functional,
    export,
    flatten,
    plain_of,
    register_dataclasses,
    torch,
    trace_functional,
    unflatten,
    whole_on_gpu,
    with_tensors_alone,
)
from weft.graph.from_torch.lines import recorded_lines
from weft.graph.from_torch.module_state import PLAIN, ChangesItselfError, ModuleState, twin_of
from weft.graph.from_torch.nest import TENSOR
from weft.graph.from_torch.recurrent import current_weights, whole_layers
from weft.graph.from_torch.symbolic import refuse_sizes_of_values
from weft.graph.from_torch.what_is_called import as_module
from weft.graph.groups.progress import Progress
from weft.ir.errors import ArgumentError, UnsupportedError


@dataclass
class Traced:
    """``gm`` takes tensors of the model (``homes``: where it has them, by place), others that it reads (``held``), and
    the leaves of a call (``user``: places, and which leaf), and gives tensors alone."""

    gm: Any
    homes: dict[int, tuple[dict[str, Any], str]]
    held: dict[int, Any]
    user: list[tuple[int, int]]
    #: which inputs take the values of which outputs; all other outputs are results
    updates: dict[int, int]
    #: of the model: `TENSOR`, or a plain value, nested as the specification says
    results: list[Any]
    specification: Any

    @property
    def count(self) -> int:
        """Of inputs."""
        return len(self.homes) + len(self.held) + len(self.user)


def trace(model: Any, args: tuple[Any, ...], named: dict[str, Any], dims: Sequence[frozenset[int]] = ()) -> Traced:
    """``model`` for such arguments, and for all sizes of ``dims`` of each leaf of these."""
    traced = None
    with whole_layers(), Progress(f"weft: reading {type(model).__name__}"):
        if not any(dims):
            try:
                traced = _walk(model, args, named)
            except ChangesItselfError:
                raise
            except Exception:  # whatever it is, torch.export knows more, and says so where not
                traced = None
        if traced is None:
            module = as_module(model)
            traced = read_program(export(twin_of(module) or module, args, named, dims), module)
    refuse_sizes_of_values(traced.gm)
    return traced


def _walk(model: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Traced:
    """By a twin of ``model``, so that others may call that meanwhile; where its code knows itself by another way than
    ``self``, and reads the tensors of the model, by itself."""
    twin = twin_of(as_module(model))
    if twin is not None:
        traced = _Walk(model, args, named, twin).walk()
        own = {id(table[key]) for table, key in traced.homes.values()}
        if not any(id(tensor) in own for tensor in traced.held.values()):
            return traced
    return _Walk(model, args, named).walk()


@dataclass
class _Walk:
    """One call of a model, or of its ``twin``, with tensors that have no memory."""

    model: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    twin: Any = None
    homes: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    updates: dict[int, int] = field(default_factory=dict)
    results: list[Any] = field(default_factory=list)
    specification: Any = None

    def __post_init__(self) -> None:
        self.module = as_module(self.model)
        self.called = self.module if self.twin is None else self.twin

    def walk(self) -> Traced:
        self._find_state()
        leaves, nested = flatten((self.args, self.named))
        user = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch().Tensor)]
        tensors = [*(table[key] for table, key in self.homes), *(leaves[n] for n in user)]
        kinds = (torch().Tensor, torch().nn.Parameter, torch().nn.Buffer)
        if any(type(t) not in kinds or t.layout != torch().strided for t in tensors):
            raise UnsupportedError("tensors of another kind")
        if not all(isinstance(leaf, (torch().Tensor, *PLAIN)) for leaf in leaves):
            raise UnsupportedError("an argument that the model may keep tensors in")

        def call(given: list[Functional]) -> tuple[Any, ...]:
            called = list(leaves)
            for n, one in zip(user, given[len(self.homes) :]):
                called[n] = one.tensor
            args, named = unflatten(called, nested)
            with self._swapped([g.tensor for g in given]):
                made = self.called(*args, **named)
            return self._outputs(given, made)

        with recorded_lines():
            gm = trace_functional(call, tensors, whole_on_gpu(tensors))
        self._refuse_shared_updates(tensors)
        _check(gm)
        self._rename(gm, user)
        held = _lift_attributes(gm, len(tensors))
        gm.recompile()
        homes = dict(enumerate(self.homes))
        places = [(len(homes) + n, leaf) for n, leaf in enumerate(user)]
        return Traced(with_tensors_alone(gm), homes, held, places, self.updates, self.results, self.specification)

    def _find_state(self) -> None:
        for path, table, key in _tensors_of(self.module):
            self.homes.append((table, key))
            self.names.append(f"{path}.{key}" if path else key)

    @contextlib.contextmanager
    def _swapped(self, tensors: Sequence[Any]) -> Iterator[None]:
        """The module with these parameters and buffers; it is left as it was, whatever it did."""
        places = [(table, key) for _, table, key in _tensors_of(self.called)]
        before = [table[key] for table, key in places]
        for (table, key), tensor in zip(places, tensors):
            table[key] = tensor
        try:
            with current_weights(self.called):
                state = ModuleState(self.called)
                try:
                    yield
                    is_same = all(table.get(key) is tensor for (table, key), tensor in zip(places, tensors))
                    if not is_same or state.has_changed():
                        raise ChangesItselfError
                finally:
                    state.restore()
        finally:
            for (table, key), tensor in zip(places, before):
                table[key] = tensor

    def _outputs(self, given: Sequence[Functional], made: Any) -> tuple[Any, ...]:
        register_dataclasses(made)
        leaves, self.specification = flatten(made)
        if not all(isinstance(leaf, (torch().Tensor, *PLAIN)) for leaf in leaves):
            raise UnsupportedError("a result of another kind")
        self.results = [TENSOR if isinstance(leaf, torch().Tensor) else leaf for leaf in leaves]
        if any(g.has_another_shape for g in given):
            raise UnsupportedError("a tensor that is given another shape")
        written = [n for n, g in enumerate(given) if g.is_written]
        self.updates = {place: number for number, place in enumerate(written)}
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch().Tensor)]
        return tuple(map(plain_of, [*(given[n].tensor for n in written), *tensors]))

    def _refuse_shared_updates(self, tensors: Sequence[Any]) -> None:
        """Two inputs in one memory are two tensors to the walk: a write to one is not seen by the other."""
        if any(share_memory(tensors[a], b) for a in self.updates for n, b in enumerate(tensors) if n != a):
            raise UnsupportedError("a write to memory that two inputs share")

    def _rename(self, gm: Any, user: Sequence[int]) -> None:
        """Inputs by the names that the model has for them."""
        said = _leaf_names(getattr(self.model, "forward", self.model), self.args, self.named)
        holders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        for node, name in zip(holders, [*self.names, *(said[n] for n in user)], strict=True):
            node._rename(re.sub(r"\W", "_", name))


def _tensors_of(module: Any) -> list[tuple[str, dict[str, Any], str]]:
    """Parameters, buffers and attributes: in which module of ``module``, in which dictionary, under which key."""
    tables = [(path, table) for path, m in module.named_modules() for table in (m._parameters, m._buffers, m.__dict__)]
    found = [(path, table, key, value) for path, table in tables for key, value in table.items()]
    return [(path, table, key) for path, table, key, value in found if isinstance(value, torch().Tensor)]


def _check(gm: Any) -> None:
    """That nothing in ``gm`` writes, and that nothing is a program of its own."""
    for node in gm.graph.nodes:
        if node.op == "call_function" and "getitem" not in str(node.target):
            schema = getattr(node.target, "_schema", None)
            if schema is None or schema.is_mutable:
                raise UnsupportedError(f"{node.target}")


def _lift_attributes(gm: Any, place: int) -> dict[int, Any]:
    """Tensors that the model made, or has elsewhere than in its modules, become inputs, from ``place`` on."""
    held: dict[int, Any] = {}
    first = next(node for node in gm.graph.nodes if node.op != "placeholder")
    for node in [node for node in gm.graph.nodes if node.op == "get_attr"]:
        tensor = getattr(gm, node.target)
        if not isinstance(tensor, torch().Tensor):
            raise UnsupportedError(f"an attribute that is a {type(tensor).__name__}")
        with gm.graph.inserting_before(first):
            holder = gm.graph.placeholder(node.name)
        holder.meta = {"val": tensor} | node.meta
        node.replace_all_uses_with(holder)
        first = node.next if node is first else first
        gm.graph.erase_node(node)
        held[place + len(held)] = tensor
    return held


def _leaf_names(function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> list[str]:
    """Of each leaf: the argument of ``function`` that it is in, numbered where that has several."""
    try:
        positional = inspect.signature(function).bind_partial(*args).arguments
    except (TypeError, ValueError):
        positional = {"input": args}
    names: list[str] = []
    for name, value in (*positional.items(), *named.items()):
        inside = len(flatten(value)[0])
        names += [name] if inside == 1 else [f"{name}_{n}" for n in range(inside)]
    return names


def read_program(program: Any, owner: Any) -> Traced:
    """What `torch.export` made of the module ``owner``."""
    signature = program.graph_signature
    homes: dict[int, tuple[dict[str, Any], str]] = {}
    held: dict[int, Any] = {}
    user: list[tuple[int, int]] = []
    for place, spec in enumerate(signature.input_specs):
        if spec.kind.name == "USER_INPUT":
            user.append((place, len(user)))
        elif spec.kind.name in ("PARAMETER", "BUFFER"):
            path, _, name = spec.target.rpartition(".")
            within = owner.get_submodule(path)
            homes[place] = (within._parameters if spec.kind.name == "PARAMETER" else within._buffers), name
        else:
            held[place] = {**program.state_dict, **program.constants}[spec.target]
    updates, results = _read_outputs(signature)
    gm = with_tensors_alone(program.graph_module)
    return Traced(gm, homes, held, user, updates, results, program.call_spec.out_spec)


def _read_outputs(signature: Any) -> tuple[dict[int, int], list[Any]]:
    """Which inputs take which of the tensors given back, and the results: `TENSOR`, or a plain value."""
    places = {spec.target: n for n, spec in enumerate(signature.input_specs) if spec.target is not None}
    names = {spec.arg.name: n for n, spec in enumerate(signature.input_specs) if hasattr(spec.arg, "name")}
    updates: dict[int, int] = {}
    results: list[Any] = []
    count = 0
    for spec in signature.output_specs:
        kind, is_tensor = spec.kind.name, type(spec.arg).__name__ == "TensorArgument"
        if kind == "USER_OUTPUT":
            results.append(TENSOR if is_tensor else _plain_result(spec.arg))
        elif kind == "BUFFER_MUTATION":
            updates[places[spec.target]] = count
        elif kind == "USER_INPUT_MUTATION":
            updates[names[spec.target]] = count
        else:
            raise ArgumentError(f"a model that gives {kind.lower()}")
        count += is_tensor
    return updates, results


def _plain_result(argument: Any) -> Any:
    if not hasattr(argument, "value"):
        raise UnsupportedError("a result that follows from sizes that are left open")
    return argument.value
