"""torch's tensors, as executables use them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from weft.graph.from_torch import library, native_calls, packed
from weft.graph.from_torch.edge import torch
from weft.graph.graph import Call, Edge, Fragment, Graph, Opaque, Shape, Special
from weft.graph.groups.layout import canonical
from weft.graph.rewrites.library_epilogues import Epilogue, LibraryCall
from weft.graph.run.native_call import NativeCall
from weft.graph.run.processor import CPU, Processor
from weft.ir.dtype import DType
from weft.ir.errors import ArgumentError, InternalError
from weft.ir.numpy_dtypes import from_numpy
from weft.runtime.executor import HOST


class TorchArrays:
    """Tensors in this machine's memory, or in that of the GPU that ``processor`` is."""

    def __init__(self, processor: Processor = CPU) -> None:
        self._torch = torch()
        self.processor = processor
        self.device = self._torch.device(processor.executor.name)
        self.pointer: Callable[[Any], int] = self._torch.Tensor.data_ptr

    def fits(self, array: Any, edge: Edge, strides: tuple[int, ...]) -> bool:
        if not self._is_like(array, edge):
            return False
        have = array.stride()
        return have == strides or canonical(edge.shape, have) == canonical(edge.shape, strides)

    def _is_like(self, array: Any, edge: Edge) -> bool:
        is_alike = array.shape == edge.shape and array.dtype is torch_type(edge.dtype)
        return is_alike and array.device == self.device

    def arranged(self, array: Any, edge: Edge, strides: tuple[int, ...]) -> Any:
        if not self._is_like(array, edge):
            raise ArgumentError(
                f"`{edge.name}` is {array.dtype}{list(array.shape)} on {array.device}",
                why=f"the model was compiled for {edge}",
                help="compile it for such inputs too",
            )
        return self.empty(edge, strides).copy_(array)

    def empty(self, edge: Edge, strides: tuple[int, ...]) -> Any:
        return self._torch.empty_strided(edge.shape, strides, dtype=torch_type(edge.dtype), device=self.device)

    def view(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        return array.as_strided(shape, strides, array.storage_offset() + offset)

    def over(self, memory: Any, offset: int, edge: Edge, strides: tuple[int, ...]) -> Any:
        assert edge.dtype is not None
        size = edge.dtype.itemsize
        reach = (1 + sum((n - 1) * s for n, s in zip(edge.shape, strides))) * size
        part = memory[offset : offset + reach]
        flat = part if isinstance(part, self._torch.Tensor) else self._torch.from_numpy(part)
        return flat.view(torch_type(edge.dtype)).as_strided(edge.shape, strides)

    def own(self, array: Any) -> Any:
        dtype, array = from_numpy(array.dtype), array if array.flags.writeable else array.copy()
        is_narrow = dtype is not None and dtype.kind == "bfloat"  # which numpy and torch have each their own of
        made = self._torch.from_numpy(array.view("i2") if is_narrow else array).view(torch_type(dtype))
        return made.to(self.device)

    def copy(self, target: Any, source: Any) -> None:
        target.copy_(source)

    def function(self, target: str) -> Callable[..., Any]:
        return packed.FUNCTIONS.get(target) or operator(target)

    def special(self, value: Special) -> Any:
        return special_value(value)

    def call_of(self, formula: Callable[..., Any], args: Sequence[Hashable], edges: Sequence[Edge]) -> Call | None:
        return library.call_of(formula, args, edges)

    def is_for_last(self, call: Call) -> bool:
        return library.is_for_last(call)

    def wanted_strides(self, call: Call, edge: Edge) -> Shape | None:
        return library.wanted_strides(call, edge)

    def other_calls(self, graph: Graph, core: Fragment, epilogue: Epilogue | None) -> list[LibraryCall]:
        offered = library.other_calls if self._is_on_gpu else packed.packed_calls
        return offered(graph, core, epilogue)

    def native_call(self, graph: Graph, node: Opaque, strides: Callable[[str], tuple[int, ...]]) -> NativeCall | None:
        return None if self._is_on_gpu else native_calls.native_call(graph, node, strides)

    @property
    def _is_on_gpu(self) -> bool:
        return self.processor.executor is not HOST


@functools.cache
def torch_type(dtype: DType | None) -> Any:
    if dtype is None:
        raise InternalError("a tensor of a type that only torch has")
    return getattr(torch(), dtype.name)


@functools.cache
def operator(target: str) -> Callable[..., Any]:
    """The operator called so, such as ``aten.add.Tensor``; views are copied, since the memory under them changes."""
    found: Any = torch().ops
    for part in target.split("."):
        found = getattr(found, part)
    schema = getattr(found, "_schema", None)
    if schema is None or not any(r.alias_info is not None for r in schema.returns):
        return found  # type: ignore[no-any-return]

    def copied(*args: Any, **named: Any) -> Any:
        made = found(*args, **named)
        return [m.clone() for m in made] if isinstance(made, (tuple, list)) else made.clone()

    return copied


#: Values that calls name: how each kind is told apart, and found again.
_KINDS = ("dtype", "device", "layout", "memory_format")


def special_of(value: Any) -> Special | None:
    package = torch()
    for kind in _KINDS:
        if isinstance(value, getattr(package, kind)):
            return Special(kind, str(value).removeprefix("torch."))
    return None


@functools.cache
def special_value(value: Special) -> Any:
    package = torch()
    return package.device(value.name) if value.kind == "device" else getattr(package, value.name)
