"""What torch's libraries compute: the calls for formulas, those with bias, residual and activation, and how each wants
its tensors to lie. All names of operators that are known behind the tables are here."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from weft.graph.formulas import attention, contraction, joints, windows
from weft.graph.graph import Call, Edge, Fragment, Graph, Ref, Shape, dense_strides, ordered_strides
from weft.graph.groups.mapping import view_of
from weft.graph.rewrites.library_epilogues import Epilogue, LibraryCall
from weft.graph.rewrites.reorder import last
from weft.ir.expr import Expr, Var
from weft.ir.visit import substitute

_MM, _ADDMM, _BMM = "aten.mm.default", "aten.addmm.default", "aten.bmm.default"
_CONVOLUTION, _CUDNN = "aten.convolution.default", "aten.cudnn_convolution"
_ATTENTION = "aten.scaled_dot_product_attention.default"
#: Bytes that rows of masks must begin at multiples of, one element after another, for all but the slowest attention.
_MASK_ROWS = 16


def call_of(formula: Callable[..., Any], args: Sequence[Hashable], edges: Sequence[Edge]) -> Call | None:
    """The call that computes a formula of these tensors, where torch has one that is worth it."""
    make = _CALLS.get(formula)
    return None if make is None else make(edges, *args)


def _product(edges: Sequence[Edge]) -> Call:
    ranks = tuple(len(e.shape) for e in edges)
    if ranks == (2, 2):
        return Call(_MM, _refs(edges))
    is_batch = ranks == (3, 3) and edges[0].shape[0] == edges[1].shape[0]
    return Call(_BMM if is_batch else "aten.matmul.default", _refs(edges))


def _sum_and_product(edges: Sequence[Edge], beta: Any, alpha: Any) -> Call | None:
    is_plain = [len(e.shape) for e in edges][1:] == [2, 2] and (beta, alpha) == (1, 1)
    return Call(_ADDMM, _refs(edges)) if is_plain else None


def _convolution(edges: Sequence[Edge], *facts: Any) -> Call | None:
    strides, before, after, dilations, groups = facts
    if before != after:
        return None
    x, weight, *bias = _refs(edges)
    last = (strides, before, dilations, False, (0,) * len(strides), groups)
    return Call(_CONVOLUTION, (x, weight, bias[0] if bias else None, *last))


def _whole_attention(edges: Sequence[Edge], biased: bool, causal: bool, scale: float, repeated: int) -> Call:
    q, k, v, *mask = _refs(edges)
    named = (("is_causal", causal), ("scale", scale), ("enable_gqa", repeated > 1))
    return Call(_ATTENTION, (q, k, v, mask[0] if mask else None), named)


def _join(edges: Sequence[Edge], axis: int, dtype: Any) -> Call | None:
    return Call("aten.cat.default", (_refs(edges), axis)) if {e.dtype for e in edges} == {dtype} else None


def _pad(edges: Sequence[Edge], before: Any, after: Any, value: Any) -> Call | None:
    sizes = tuple(n for pair in reversed(list(zip(before, after))) for n in pair)
    return Call("aten.constant_pad_nd.default", (*_refs(edges), sizes)) if value == "zero" else None


def _refs(edges: Sequence[Edge]) -> tuple[Ref, ...]:
    return tuple(Ref(e.name) for e in edges)


_CALLS: dict[Callable[..., Any], Callable[..., Call | None]] = {
    contraction.matmul: _product,
    contraction.add_product: _sum_and_product,
    windows.convolution: _convolution,
    windows.convolution_without_bias: _convolution,
    attention.attention: _whole_attention,
    joints.join: _join,
    joints.pad: _pad,
}


def is_for_last(call: Call) -> bool:
    """Whether it computes with features last, and converts what lies otherwise: cuDNN and oneDNN, of images."""
    return call.target.startswith(_CUDNN) or (call.target == _CONVOLUTION and len(call.args[3]) > 1)


def wanted_strides(call: Call, edge: Edge) -> Shape | None:
    """How a call wants a constant to lie, where it would convert it each time or take a slower way otherwise."""
    if is_for_last(call) and len(edge.shape) > 2:
        return ordered_strides(edge.shape, last(len(edge.shape), 1))
    if call.target == _ATTENTION and call.args[3] == Ref(edge.name):
        even = _MASK_ROWS // edge.dtype.itemsize
        return dense_strides((*edge.shape[:-1], -(-edge.shape[-1] // even) * even))
    return None


def other_calls(graph: Graph, core: Fragment, epilogue: Epilogue | None) -> list[LibraryCall]:
    """What a GPU's libraries offer for ``core`` beside its own call; and for all of a group that ends as told."""
    assert core.library is not None
    same = [*_other_attention(core.library), *_shared_factor(graph, core.library)]
    whole = [] if epilogue is None else _with_epilogue(core.library, epilogue)
    return [*(LibraryCall(call, False) for call in same), *(LibraryCall(call, True) for call in whole)]


def _shared_factor(graph: Graph, library: Call) -> list[Call]:
    """A batch of products with one matrix, as the one product that it is: frameworks write some linear layers so."""
    if library.target != _BMM:
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
    if library.target == _CONVOLUTION:
        x, weight, bias, strides, padding, dilations, transposed, _, groups = library.args
        if activation != "relu" or transposed or None not in (bias, shift):
            return []
        last = (shift or bias, strides, padding, dilations, groups)
        if other is None:
            return [Call(f"{_CUDNN}_relu.default", (x, weight, *last))]
        return [Call(f"{_CUDNN}_add_relu.default", (x, weight, Ref(other), 1.0, *last))]
    is_product = library.target in (_ADDMM, _MM) and not library.named
    added = [Ref(other)] if other is not None else [] if shift is None else [shift]
    if not is_product or (library.target == _MM) != bool(added) or None not in (other, shift):
        return []
    args = (*added, *library.args)
    if activation == "none":
        return [Call(_ADDMM, args)]
    if activation not in ("relu", "gelu_tanh"):
        return []
    return [Call("aten._addmm_activation.default", args, (("use_gelu", activation == "gelu_tanh"),))]
