"""What libraries do with each sum of a product or convolution in the same kernel, found in formulas.

The formulas of a group that follow its product are composed to one function of the sum and of what else is read with
it. What function that is is asked by computing it at some points, in float64, beside the functions that libraries
have: frameworks write them in many ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from weft.graph.graph import Call, Edge, Fragment, Graph, Opaque, Ref
from weft.graph.groups.mapping import definition_of, view_of
from weft.graph.rewrites.channels_last import CONVOLUTION
from weft.graph.rewrites.choose_layouts import call_reordered
from weft.graph.run.arrays import Arrays
from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Expr, Load, Var, cast, idx
from weft.ir.visit import Node, loads, replace_buffers, rewrite, substitute
from weft.tensor.evaluate import evaluate
from weft.tensor.program import Statement, TensorProgram

Activation = Literal["none", "relu", "gelu_tanh"]
_ATTENTION = "aten.scaled_dot_product_attention.default"
_MM, _ADDMM = "aten.mm.default", "aten.addmm.default"
_POINTS = 61
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Epilogue:
    """``activation(sum + bias + other)``; ``bias`` is a constant with an element for each channel."""

    activation: Activation
    bias: str | None = None
    other: str | None = None


@dataclass(frozen=True)
class LibraryCall:
    """A call for the core of a group, or for the ``whole`` of it."""

    call: Call
    whole: bool


def library_calls(
    graph: Graph, members: Sequence[Fragment], core: Fragment, outputs: Sequence[str]
) -> list[LibraryCall]:
    """What libraries offer for the product or convolution of a group, and for all of the group."""
    if core.library is None:
        return []
    is_single = len(outputs) == 1 and members[-1].outputs == tuple(outputs) and len(members) > 1
    epilogue = _epilogue(graph, members, core) if is_single else None
    whole = [] if epilogue is None else _with_epilogue(core.library, epilogue)
    same = [core.library, *_other_attention(core.library), *_shared_factor(graph, core.library)]
    return [*(LibraryCall(call, False) for call in same), *(LibraryCall(call, True) for call in whole)]


def _shared_factor(graph: Graph, library: Call) -> list[Call]:
    """A batch of products with one matrix, as the one product that it is: frameworks write some linear layers so."""
    if library.target != "aten.bmm.default":
        return []
    name = library.args[1].name
    batch, rows, columns = (Var(f"a{d}") for d in range(3))
    places: tuple[Expr, ...] = (batch, rows, columns)
    while isinstance(node := graph.producers.get(name), Fragment) and (view := view_of(node.program)) is not None:
        places = tuple(substitute(i, dict(zip(view.axes, places))) for i in view.load.indices)
        (name,) = node.inputs
        if places == (rows, columns):
            return [Call("aten.matmul.default", (library.args[0], Ref(name)))]
    return []


def _other_attention(library: Call) -> list[Call]:
    """Attention by the library that torch would not take by itself, which is quicker for short rows."""
    if library.target != _ATTENTION or library.args[3] is not None:
        return []
    named = dict(library.named)
    args = (*library.args[:3], 0.0, named["is_causal"], False)
    return [Call("aten._scaled_dot_product_flash_attention.default", args, (("scale", named["scale"]),))]


def _with_epilogue(library: Call, epilogue: Epilogue) -> list[Call]:
    activation, other = epilogue.activation, epilogue.other
    shift = None if epilogue.bias is None else Ref(epilogue.bias)
    if library.target == CONVOLUTION:
        x, weight, bias, strides, padding, dilations, transposed, _, groups = library.args
        if activation != "relu" or transposed or None not in (bias, shift):
            return []
        last = (shift or bias, strides, padding, dilations, groups)
        if other is None:
            return [Call("aten.cudnn_convolution_relu.default", (x, weight, *last))]
        return [Call("aten.cudnn_convolution_add_relu.default", (x, weight, Ref(other), 1.0, *last))]
    is_product = library.target in (_ADDMM, _MM) and not library.named and other is None
    if not is_product or (library.target == _MM) != (shift is not None):
        return []
    args = library.args if shift is None else (shift, *library.args)
    if activation == "none":
        return [Call(_ADDMM, args)]
    return [Call("aten._addmm_activation.default", args, (("use_gelu", activation == "gelu_tanh"),))]


def with_narrow_bias(graph: Graph, call: Call, arrays: Arrays) -> tuple[Graph, Call]:
    """``graph`` with a copy of the bias of a call in the type of what it multiplies, where it has another."""
    names = list(call.refs())
    first = max(names, key=lambda n: len(graph.edges[n].shape) if n in graph.edges else 0, default="")
    wide = [n for n in names if n in graph.constants and _is_wider(graph.edges[n], graph.edges[first])]
    edges, constants = dict(graph.edges), dict(graph.constants)
    for name in wide:
        edge = Edge(f"{name}_{edges[first].dtype}", edges[first].dtype, edges[name].shape)
        if edge.name not in edges:
            made = arrays.empty(edge, (1,) * len(edge.shape))
            arrays.copy(made, constants[name])
            edges[edge.name], constants[edge.name] = edge, made
        call = call.renamed({name: edge.name})
    return replace(graph, edges=edges, constants=constants), call


def _is_wider(bias: Edge, factor: Edge) -> bool:
    is_float = bias.dtype.is_float and factor.dtype.is_float
    return len(bias.shape) == 1 and is_float and bias.dtype.bits > factor.dtype.bits


def with_call(graph: Graph, members: Sequence[Fragment], call: Call, reason: str) -> Graph:
    """``graph`` with one call in place of all ``members``, where the last of them stood."""
    *first, last = members
    if last.library_order is not None:
        edges, calls = call_reordered(graph, last, reason)
        nodes = tuple(m for n in graph.nodes for m in (calls if n is last else [n]))
        return replace(graph, edges={**graph.edges, **edges}, nodes=nodes)
    gone = {id(m) for m in first}
    read = {*graph.results, *(name for n in graph.nodes for name in n.inputs)}
    outputs = tuple(name if name in read else None for name in last.outputs)
    node = Opaque(last.name, call, outputs, reason, members[0].origin)
    nodes = tuple(node if n is last else n for n in graph.nodes if id(n) not in gone)
    return replace(graph, nodes=nodes)


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
    activation = _recognize(value, tuple((places[r], r) for r in places))
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


def _gelu(x: Array) -> Array:
    inner = (x + 0.044715 * x**3) * math.sqrt(2 / math.pi)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


_FUNCTIONS: dict[Activation, Callable[[Array], Array]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu_tanh": _gelu,
}


@lru_cache(maxsize=1024)
def _recognize(value: Expr, places: tuple[tuple[tuple[str, tuple[Expr, ...]], str], ...]) -> Activation | None:
    """Which function of the sum of what it reads ``value`` is, at many points."""
    roles = dict(places)
    points = idx(_POINTS)
    i = Var("i")

    def put(n: Node) -> Node | None:
        if not isinstance(n, Load):
            return None
        return cast(n.dtype, Load(Buffer(roles[n.buffer.name, n.indices], dt.float64, (points,)), (i,)))

    scalar = rewrite(value, put)
    buffers = tuple(dict.fromkeys(load.buffer for load in loads(scalar)))
    target = Buffer("O", scalar.dtype, (points,))
    statement = Statement(target, (i,), "=", False, scalar, (Axis(i, idx(0), points),))
    program = TensorProgram("epilogue", buffers, (target,), (), (statement,))
    random = np.random.default_rng(0)
    values = [random.permutation(np.linspace(-6, 6, _POINTS)) for _ in buffers]
    try:
        (made,) = evaluate(program, values, wide=True)
    except Exception:  # what the evaluator refuses is none of these functions
        return None
    total = np.sum(values, axis=0)
    return next((name for name, f in _FUNCTIONS.items() if np.allclose(made, f(total), rtol=1e-5, atol=1e-5)), None)
