"""What libraries do with each sum of a product or convolution in the same kernel, found in formulas.

The formulas of a group that follow its product are composed to one function of the sum and of what else is read with
it. It is one that a library has where both have the same normal form.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from weft.graph.formulas import pointwise
from weft.graph.graph import Call, Edge, Fragment, Graph, Opaque, dense_strides
from weft.graph.groups.mapping import definition_of
from weft.graph.rewrites.normal_form import Form, NoForm, normal_form
from weft.graph.run.arrays import Arrays, arguments
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Load, Var
from weft.ir.visit import Node, loads, replace_buffers, rewrite, substitute
from weft.tensor.value import Value

Activation = Literal["none", "relu", "relu6", "sigmoid", "silu", "hardswish", "tanh", "gelu", "gelu_tanh"]


@dataclass(frozen=True)
class Epilogue:
    """``activation(sum + bias + other)``; ``bias`` is a constant with an element for each channel."""

    activation: Activation
    bias: str | None = None
    other: str | None = None


@dataclass(frozen=True)
class LibraryCall:
    """A call for the core of a group, or for the ``whole`` of it.

    ``packed`` are objects that it reads, by name, each made once of constants by a call of its own.
    """

    call: Call
    whole: bool
    packed: tuple[tuple[str, Call], ...] = ()


def epilogue_of(graph: Graph, members: Sequence[Fragment], core: Fragment, outputs: Sequence[str]) -> Epilogue | None:
    """What follows the product or convolution of a group, where libraries may have it too."""
    is_single = len(outputs) == 1 and members[-1].outputs == tuple(outputs) and len(members) > 1
    return _epilogue(graph, members, core) if is_single else None


def with_constants(graph: Graph, taken: LibraryCall, arrays: Arrays) -> tuple[Graph, Call]:
    """``graph`` with copies of the constants of a call as the library wants them: a bias in the type of what is
    multiplied, weights with features last, masks with even rows, or packed."""
    graph, call = with_packed(graph, taken, arrays), taken.call
    names = [n for n in call.refs() if n in graph.edges]
    first = max(names, key=lambda n: len(graph.edges[n].shape) if n in graph.edges else 0, default="")
    edges, constants = dict(graph.edges), dict(graph.constants)
    for name in dict.fromkeys(n for n in names if n in graph.constants):
        edge = edges[name]
        if _is_wider(edge, edges[first]):
            made = Edge(f"{name}_{edges[first].dtype}", edges[first].dtype, edge.shape)
        elif (wanted := arrays.wanted_strides(call, edge)) not in (None, edge.strides or dense_strides(edge.shape)):
            made = replace(edge, name=f"{name}_arranged", strides=wanted)
        else:
            continue
        if made.name not in edges:
            constants[made.name] = arrays.empty(made, made.strides or dense_strides(made.shape))
            arrays.copy(constants[made.name], constants[name])
            edges[made.name] = made
        call = call.renamed({name: made.name})
    return replace(graph, edges=edges, constants=constants), call


def with_packed(graph: Graph, taken: LibraryCall, arrays: Arrays) -> Graph:
    """``graph`` with the objects that a call reads among its constants; they have no edge, for no kernel reads them."""
    missing = [(name, pack) for name, pack in taken.packed if name not in graph.constants]
    made = {}
    for name, pack in missing:
        args, named = arguments(pack, arrays, graph.constants.__getitem__)
        made[name] = arrays.function(pack.target)(*args, **named)
    return replace(graph, constants={**graph.constants, **made}) if made else graph


def _is_wider(bias: Edge, factor: Edge) -> bool:
    is_float = bias.dtype.is_float and factor.dtype.is_float
    return len(bias.shape) == 1 and is_float and bias.dtype.bits > factor.dtype.bits


def with_call(graph: Graph, members: Sequence[Fragment], call: Call, reason: str) -> Graph:
    """``graph`` with one call in place of all ``members``, where the last of them stood."""
    *first, final = members
    gone = {id(m) for m in first}
    read = {*graph.results, *(name for n in graph.nodes for name in n.inputs)}
    outputs = tuple(name if name in read else None for name in final.outputs)
    node = Opaque(final.name, call, outputs, reason, members[0].origin)
    nodes = tuple(node if n is final else n for n in graph.nodes if id(n) not in gone)
    return replace(graph, nodes=nodes)


def without_unread(graph: Graph) -> Graph:
    """``graph`` without constants that nothing reads any more, since their place is taken by packed ones."""
    read = {*graph.results, *(name for n in graph.nodes for name in n.inputs)}
    return replace(graph, constants={name: a for name, a in graph.constants.items() if name in read})


def _epilogue(graph: Graph, members: Sequence[Fragment], core: Fragment) -> Epilogue | None:
    composed = _composed(graph, members, core)
    if composed is None:
        return None
    axes, value = composed
    read = {(load.buffer.name, load.indices): load for load in loads(value)}
    places: dict[str, tuple[str, tuple[Expr, ...]]] = {}
    for name, indices in read:
        edge = graph.edges[name]
        if name == core.outputs[0] and indices == axes:
            role = "sum"
        elif name in graph.constants and len(axes) > 1 and indices == axes[1:2] and len(edge.shape) == 1:
            role = "bias"
        elif indices == axes and edge.dtype == graph.edges[core.outputs[0]].dtype:
            role = "other"
        else:
            return None
        if role in places:
            return None
        places[role] = name, indices
    if "sum" not in places:
        return None
    activation = _recognize(value, {place: role for role, place in places.items()})
    if activation is None:
        return None
    bias, other = (places[r][0] if r in places else None for r in ("bias", "other"))
    return Epilogue(activation, bias, other)


def _composed(graph: Graph, members: Sequence[Fragment], core: Fragment) -> tuple[tuple[Var, ...], Expr] | None:
    """The last of ``members`` as a formula of the core's result and of tensors from outside, by the graph's names."""
    formulas: dict[str, tuple[tuple[Var, ...], Expr]] = {}
    for member in members:
        if member is core:
            continue
        definition = definition_of(member.program)
        if definition is None or len(member.outputs) != 1:
            return None
        axes, value = definition
        names = {b: replace(b, name=n) for b, n in zip(member.program.inputs, member.inputs)}
        formulas[member.outputs[0]] = axes, _inlined(replace_buffers(value, names), formulas)
    return formulas.get(members[-1].outputs[0])


def _inlined(e: Expr, formulas: dict[str, tuple[tuple[Var, ...], Expr]]) -> Expr:
    def put(n: Node) -> Node | None:
        if not isinstance(n, Load) or n.buffer.name not in formulas:
            return None
        axes, value = formulas[n.buffer.name]
        return substitute(value, dict(zip(axes, n.indices)))

    return rewrite(e, put)


_FUNCTIONS: dict[Activation, Callable[[Value], Value]] = {
    "none": lambda x: x,
    "relu": pointwise.relu,
    "relu6": lambda x: pointwise.clamp(x, 0.0, 6.0),
    "sigmoid": pointwise.FLOAT_UNARY["sigmoid"],
    "silu": pointwise.silu,
    "hardswish": pointwise.hard_swish,
    "tanh": pointwise.FLOAT_UNARY["tanh"],
    "gelu": pointwise.gelu,
    "gelu_tanh": pointwise.gelu_tanh,
}


def _recognize(value: Expr, roles: Mapping[tuple[str, tuple[Expr, ...]], str]) -> Activation | None:
    """Which function of the sum of what it reads ``value`` is, for certain."""
    try:
        form = normal_form(value, lambda load: roles[load.buffer.name, load.indices])
    except NoForm:
        return None
    return _known_forms(frozenset(roles.values())).get(form)


@functools.cache
def _known_forms(roles: frozenset[str]) -> dict[Form, Activation]:
    """Each function of the sum of tensors in these ``roles``."""
    read = [Value(Load(Buffer(role, dt.float64, ()), ())) for role in sorted(roles)]
    total = functools.reduce(operator.add, read)
    return {normal_form(f(total).expr, lambda load: load.buffer.name): name for name, f in _FUNCTIONS.items()}
