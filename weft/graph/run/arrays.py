"""What an executable asks of the framework whose arrays it is given."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from weft.graph.graph import Call, Edge, Fragment, Graph, Opaque, Ref, Shape, Special, dense_strides
from weft.graph.run.native_call import NativeCall
from weft.graph.run.processor import CPU, Processor
from weft.ir.errors import UnsupportedError
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime.arrays import describe

if TYPE_CHECKING:
    from weft.graph.rewrites.library_epilogues import Epilogue, LibraryCall


class Arrays(Protocol):
    """Arrays of one framework, on one processor of this machine."""

    @property
    def processor(self) -> Processor:
        """What has these arrays in its memory."""

    def pointer(self, array: Any) -> int:
        """Where its first element is."""

    def fits(self, array: Any, edge: Edge, strides: tuple[int, ...]) -> bool:
        """Whether it has the type, shape and strides that code counts on."""

    def arranged(self, array: Any, edge: Edge, strides: tuple[int, ...]) -> Any:
        """``array``, or a copy of it with these strides; raises where it has another type or shape."""

    def empty(self, edge: Edge, strides: tuple[int, ...]) -> Any:
        """A new array without values."""

    def view(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        """Another look at the memory of ``array``; ``offset`` counts elements from its own first one."""

    def over(self, memory: Any, offset: int, edge: Edge, strides: tuple[int, ...]) -> Any:
        """An array in ``memory``, bytes that an executable asked for, from byte ``offset`` on."""

    def own(self, array: Any) -> Any:
        """An array of numpy as one of the framework's."""

    def copy(self, target: Any, source: Any) -> None:
        """The values of ``source`` into the memory of ``target``."""

    def function(self, target: str) -> Callable[..., Any]:
        """The function that calls of the graph name so."""

    def special(self, value: Special) -> Any:
        """What only the framework knows, by kind and name."""

    def call_of(self, formula: Callable[..., Any], args: Sequence[Hashable], edges: Sequence[Edge]) -> Call | None:
        """The framework's call for a formula of these tensors, where it has one."""

    def is_for_last(self, call: Call) -> bool:
        """Whether the library under a call computes with features last, and converts what lies otherwise."""

    def wanted_strides(self, call: Call, edge: Edge) -> Shape | None:
        """How a call wants a constant that it reads to lie, if it does."""

    def other_calls(self, graph: Graph, core: Fragment, epilogue: Epilogue | None) -> list[LibraryCall]:
        """What libraries offer for ``core`` beside its own call, and for all of a group that ends as told."""

    def native_call(self, graph: Graph, node: Opaque, strides: Callable[[str], tuple[int, ...]]) -> NativeCall | None:
        """What machine code runs for a call whose tensors have these strides; None where only Python can."""


class NumpyArrays:
    """numpy's, which has no functions for graphs to call."""

    processor: Processor = CPU

    def pointer(self, array: Any) -> int:
        return int(array.__array_interface__["data"][0]) if array.dtype.kind != "V" else int(array.ctypes.data)

    def fits(self, array: Any, edge: Edge, strides: tuple[int, ...]) -> bool:
        if array.shape != edge.shape or array.dtype != to_numpy(edge.dtype):
            return False
        size = array.itemsize
        return all(n == 1 or have == want * size for n, have, want in zip(array.shape, array.strides, strides))

    def arranged(self, array: Any, edge: Edge, strides: tuple[int, ...]) -> Any:
        describe(array, name=edge.name, dtype=edge.dtype)
        if tuple(array.shape) != edge.shape:
            raise UnsupportedError(f"`{edge.name}` has shape {tuple(array.shape)}, not {edge.shape}")
        result = self.empty(edge, strides)
        result[...] = array
        return result

    def empty(self, edge: Edge, strides: tuple[int, ...]) -> Any:
        order = sorted(range(len(strides)), key=lambda d: -strides[d])
        made = np.empty(tuple(edge.shape[d] for d in order), to_numpy(edge.dtype))
        return made.transpose(tuple(np.argsort(order))) if order else made

    def view(self, array: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
        byte_strides = tuple(s * array.itemsize for s in strides)
        made = np.lib.stride_tricks.as_strided(_moved(array, offset), shape, byte_strides)
        # numpy's own way through an interface has no name for bfloat16
        return made if made.dtype == array.dtype else made.view(array.dtype)

    def over(self, memory: Any, offset: int, edge: Edge, strides: tuple[int, ...]) -> Any:
        dtype = to_numpy(edge.dtype)
        return np.ndarray(edge.shape, dtype, memory.data, offset, tuple(s * dtype.itemsize for s in strides))

    def own(self, array: Any) -> Any:
        return array

    def copy(self, target: Any, source: Any) -> None:
        target[...] = source

    def function(self, target: str) -> Callable[..., Any]:
        raise UnsupportedError(f"`{target}` is a call of another framework", why="numpy has no such function")

    def special(self, value: Special) -> Any:
        raise UnsupportedError(f"numpy has no {value.kind} `{value.name}`")

    def call_of(self, formula: Callable[..., Any], args: Sequence[Hashable], edges: Sequence[Edge]) -> Call | None:
        return None

    def is_for_last(self, call: Call) -> bool:
        return False

    def wanted_strides(self, call: Call, edge: Edge) -> Shape | None:
        return None

    def other_calls(self, graph: Graph, core: Fragment, epilogue: Epilogue | None) -> list[LibraryCall]:
        return []

    def native_call(self, graph: Graph, node: Opaque, strides: Callable[[str], tuple[int, ...]]) -> NativeCall | None:
        return None


def _moved(array: Any, offset: int) -> Any:
    """The element so many behind the first, as an array of none dimensions that keeps ``array`` alive."""
    interface = {**array.__array_interface__, "shape": (), "strides": None}
    interface["data"] = (interface["data"][0] + offset * array.itemsize, False)

    class _At:
        __array_interface__ = interface
        owner = array

    return np.asarray(_At())


def laid_out(array: Any, edge: Edge, strides: tuple[int, ...], arrays: Arrays) -> Any:
    """``array``, or a copy of it where it does not lie so."""
    return array if arrays.fits(array, edge, strides) else arrays.arranged(array, edge, strides)


def results_of(made: Any) -> Sequence[Any]:
    """What a function of the framework gives, one or several."""
    return made if isinstance(made, (tuple, list)) else (made,)


def results_laid_out(graph: Graph, names: Sequence[str | None], made: Any, arrays: Arrays) -> list[Any]:
    """What a function of the framework gave, as the graph has the tensors of these names."""
    edges = [graph.edges.get(name or "") for name in names]
    return [
        array if edge is None else laid_out(array, edge, edge.strides or dense_strides(edge.shape), arrays)
        for array, edge in zip(results_of(made), edges)
    ]


def arguments(call: Call, arrays: Arrays, tensors: Callable[[str], Any]) -> tuple[list[Any], dict[str, Any]]:
    """What the function of a call is given, in order and by name."""
    return [_resolve(a, arrays, tensors) for a in call.args], {k: _resolve(a, arrays, tensors) for k, a in call.named}


def _resolve(value: Any, arrays: Arrays, tensors: Callable[[str], Any]) -> Any:
    """An argument of a call with tensors and framework values in place of their names."""
    if isinstance(value, Ref):
        return tensors(value.name)
    if isinstance(value, Special):
        return arrays.special(value)
    if isinstance(value, tuple):
        return [_resolve(v, arrays, tensors) for v in value]
    return value
