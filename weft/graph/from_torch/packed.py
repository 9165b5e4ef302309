"""What libraries for CPUs compute from weights that are packed once, with what follows each sum: oneDNN and MKL.

Candidates beside our own kernels; which is quicker is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from weft.graph.from_torch.edge import torch
from weft.graph.graph import Call, Fragment, Graph, Ref
from weft.graph.groups.layout import constant_of
from weft.graph.rewrites.library_epilogues import Activation, Epilogue, LibraryCall
from weft.ir import dtype as dt

#: How oneDNN is told of a function: its name, numbers, and which of several forms.
_NAMES: dict[Activation, tuple[str, tuple[float, ...], str]] = {
    "none": ("none", (), ""),
    "relu": ("relu", (), ""),
    "relu6": ("hardtanh", (0.0, 6.0), ""),
    "sigmoid": ("sigmoid", (), ""),
    "silu": ("swish", (), ""),
    "hardswish": ("hardswish", (), ""),
    "tanh": ("tanh", (), ""),
    "gelu": ("gelu", (), "none"),
    "gelu_tanh": ("gelu", (), "tanh"),
}
_NOTHING = Epilogue("none")


def packed_calls(graph: Graph, core: Fragment, epilogue: Epilogue | None) -> list[LibraryCall]:
    """Calls for ``core`` alone, and for all of a group that ends as told."""
    library = core.library
    offer = None if library is None else _OFFERS.get(library.target)
    if offer is None or library is None or not _is_packable(graph, library):
        return []
    ends = [e for e in (_NOTHING, epilogue) if e is not None]
    return [LibraryCall(call, e is epilogue, packed) for e in ends for call, packed in offer(graph, core, library, e)]


_Offers = Iterator[tuple[Call, tuple[tuple[str, Call], ...]]]


def _is_packable(graph: Graph, library: Call) -> bool:
    is_there = torch().backends.mkldnn.is_available()
    return is_there and all(graph.edges[n].dtype == dt.float32 for n in library.refs() if n in graph.edges)


def _convolution(graph: Graph, core: Fragment, library: Call, epilogue: Epilogue) -> _Offers:
    x, weight, own_bias, strides, padding, dilations, transposed, _, groups = library.args
    shift = None if epilogue.bias is None else Ref(epilogue.bias)
    is_known = weight.name in graph.constants and len(strides) == 2 and not transposed
    if not is_known or None not in (own_bias, shift):
        return
    edge = graph.edges[x.name]
    packed = Ref(f"{weight.name}_packed_for_{core.name}")
    last = edge.order is not None
    pack = Call(PACK_CONVOLUTION, (weight, padding, strides, dilations, groups, edge.shape, last))
    place = (packed, shift or own_bias, padding, strides, dilations, groups)
    name, numbers, form = _NAMES[epilogue.activation]
    if epilogue.other is None:
        yield Call("mkldnn._convolution_pointwise.default", (x, *place, name, numbers, form)), ((packed.name, pack),)
    elif epilogue.activation in ("none", "relu"):  # all that torch knows to do after adding
        after = ("add", 1.0, None if name == "none" else name, (), None)
        call = Call("mkldnn._convolution_pointwise.binary", (x, Ref(epilogue.other), *place, *after))
        yield call, ((packed.name, pack),)


def _product(graph: Graph, core: Fragment, library: Call, epilogue: Epilogue) -> _Offers:
    """``x w``, or ``b + x w``, of matrices."""
    *own_bias, x, w = library.args
    shift = None if epilogue.bias is None else Ref(epilogue.bias)
    found = constant_of(graph, w.name)
    biases = [b for b in (*own_bias, shift) if b is not None]
    is_plain = not library.named and all(len(graph.edges[b.name].shape) == 1 for b in biases)
    name, layout = found or ("", None)
    if layout is None or not is_plain or len(biases) > 1:
        return
    bias = biases[0] if biases else None
    packed = Ref(f"{name}_packed_for_{core.name}")
    pack = Call(PACK_PRODUCT, (Ref(name), graph.edges[w.name].shape, *layout, graph.edges[x.name].shape[0]))
    attribute, numbers, form = _NAMES[epilogue.activation]
    if epilogue.other is None:
        call = Call("mkldnn._linear_pointwise.default", (x, packed, bias, attribute, numbers, form))
        yield call, ((packed.name, pack),)
    elif epilogue.activation == "none":
        call = Call("mkldnn._linear_pointwise.binary", (x, Ref(epilogue.other), packed, bias, "add"))
        yield call, ((packed.name, pack),)


_OFFERS: dict[str, Callable[[Graph, Fragment, Call, Epilogue], _Offers]] = {
    "aten.convolution.default": _convolution,
    "aten.mm.default": _product,
    "aten.addmm.default": _product,
}

PACK_CONVOLUTION, PACK_PRODUCT = "weft.packed_convolution", "weft.packed_product"


def _pack_convolution(
    weight: Any, padding: Any, strides: Any, dilations: Any, groups: int, sizes: Any, last: bool
) -> Any:
    """Blocks of filters as oneDNN wants them for images of these sizes, features last or not."""
    kind = torch().channels_last if last else torch().contiguous_format
    ordered = weight.detach().to(memory_format=kind)
    return torch().ops.mkldnn._reorder_convolution_weight(ordered, padding, strides, dilations, groups, sizes)


def _pack_product(weight: Any, shape: Any, strides: Any, offset: int, rows: int) -> Any:
    matrix = weight.detach().contiguous().as_strided(shape, strides, offset)
    return torch().ops.mkldnn._reorder_linear_weight(matrix.t().contiguous(), rows)


#: Functions of ours that calls name as they name torch's.
FUNCTIONS: dict[str, Callable[..., Any]] = {PACK_CONVOLUTION: _pack_convolution, PACK_PRODUCT: _pack_product}
