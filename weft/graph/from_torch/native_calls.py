"""Calls of oneDNN by machine code, as rows of an executable's table: no Python between kernels.

torch has C functions for code that is compiled ahead of time (``aoti_torch_…``). They take tensors by handle: those of
constants are made once, those of a call over the memory that its slots say. A result lies in memory of torch's own, as
readers count on: one that oneDNN laid out otherwise is copied. Its address goes to the slots of its readers, and after
the last of them it is given back.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from weft.graph.from_torch.edge import c_function, torch
from weft.graph.graph import Graph, Opaque, Ref
from weft.graph.run.native_call import READER, ROW, NativeCall
from weft.ir import dtype as dt
from weft.runtime.loader import LoadedObject
from weft.runtime.native import load_native
from weft.runtime.native_module import NativeModule, words
from weft.runtime.threads import thread_function

#: The C function of an operator, and what its arguments are: those with a question mark may be None.
_CONVOLUTION = "tensor tensor tensor? whole whole whole count text"
_SIGNATURES = {
    "mkldnn._convolution_pointwise.default": (
        "aoti_torch_cpu_mkldnn__convolution_pointwise", f"{_CONVOLUTION} numbers text?"),
    "mkldnn._convolution_pointwise.binary": (
        "aoti_torch_cpu_mkldnn__convolution_pointwise_binary", f"tensor {_CONVOLUTION} number? text? numbers text?"),
    "mkldnn._linear_pointwise.default": (
        "aoti_torch_cpu__linear_pointwise", "tensor tensor tensor? text numbers text?"),
    "mkldnn._linear_pointwise.binary": (
        "aoti_torch_cpu__linear_pointwise_binary", "tensor tensor tensor tensor? text"),
}  # fmt: skip
#: Arguments of the longest; a C function that takes fewer does not see the others.
_MOST = 18
#: A call: what is called with which words, which of them is where the handle of the result goes, how that is to look.
_CALL = ("function", "args", "result", "rank", "sizes", "strides", "ntensors", "tensors")
#: A tensor among the arguments: which word, and how it looks.
_TENSOR = ("argument", "rank", "sizes", "strides")

_SOURCE = f"""
def weft_call_library(slots):
    row: Row = slots
    call: Call = row.call
    weft_end_team()
    if row.made != 0:
        weft_delete(row)
    args = room({_MOST})
    for i in range({_MOST}):
        args[i] = call.args[i]
    args[call.result] = slots + 8
    made = make_handles(call, slots + {8 * len(ROW)}, args)
    failed = made != call.ntensors
    if not failed:
        function = call.function
        failed = function({", ".join(f"args[{n}]" for n in range(_MOST))})
    for i in range(made):
        given: Tensor = call.tensors + i * {8 * len(_TENSOR)}
        aoti_torch_delete_tensor_object(args[given.argument])
    if failed or (lies_otherwise(row, call) and arrange(row, call)):
        return 1
    hand_over(row, slots)
    return 0


def make_handles(call: Call, addresses, args):
    for i in range(call.ntensors):
        given: Tensor = call.tensors + i * {8 * len(_TENSOR)}
        place = args + 8 * given.argument
        if aoti_torch_create_tensor_from_blob(
            addresses[i], given.rank, given.sizes, given.strides, 0, float32, cpu, 0, place
        ):
            return i
    return call.ntensors


def lies_otherwise(row: Row, call: Call):
    found = room(1)
    aoti_torch_get_strides(row.made, found)
    strides = found[0]
    for i in range(call.rank):
        if call.sizes[i] != 1 and call.strides[i] != strides[i]:
            return 1
    return 0


def arrange(row: Row, call: Call):
    made = room(1)
    if aoti_torch_empty_strided(call.rank, call.sizes, call.strides, float32, cpu, 0, made):
        return 1
    failed = aoti_torch_copy_(made[0], row.made, 0)
    aoti_torch_delete_tensor_object(row.made)
    row.made = made[0]
    return failed


def hand_over(row: Row, slots):
    found = room(1)
    aoti_torch_get_data_ptr(row.made, found)
    for i in range(row.nreaders):
        reader: Reader = row.readers + i * {8 * len(READER)}
        slots[reader.place] = found[0] + reader.offset


def weft_delete(row: Row):
    aoti_torch_delete_tensor_object(row.made)
    row.made = 0
    return 0


def weft_release(slots):
    weft_delete(slots[0] * 8 + slots)
    return 0
"""
_IMPORTS = {
    "aoti_torch_create_tensor_from_blob": "i32 (ptr, i64, ptr, ptr, i64, i32, i32, i32, ptr)",
    "aoti_torch_empty_strided": "i32 (i64, ptr, ptr, i32, i32, i32, ptr)",
    "aoti_torch_copy_": "i32 (ptr, ptr, i32)",
    "aoti_torch_delete_tensor_object": "i32 (ptr)",
    "aoti_torch_get_strides": "i32 (ptr, ptr)",
    "aoti_torch_get_data_ptr": "i32 (ptr, ptr)",
}


@functools.cache
def _native() -> LoadedObject | None:
    """None where this torch has no such functions."""
    addresses = {name: c_function(name) for name in _IMPORTS}
    codes = {name: c_function(f"aoti_torch_{name}") for name in ("dtype_float32", "device_type_cpu")}
    if 0 in (*addresses.values(), *codes.values()):
        return None
    float32, cpu = (ctypes.CFUNCTYPE(ctypes.c_int32)(code)() for code in codes.values())
    structures = {"Row": words(*ROW), "Call": words(*_CALL), "Tensor": words(*_TENSOR), "Reader": words(*READER)}
    # What is called here has threads of its own: those of our loops let go of the cores first.
    functions = {**_IMPORTS, "weft_end_team": "void ()"}
    module = NativeModule(_SOURCE, {"float32": float32, "cpu": cpu}, structures, functions)
    return load_native(module, {**addresses, "weft_end_team": thread_function("weft_end_team")})


def native_call(graph: Graph, node: Opaque, strides: Callable[[str], tuple[int, ...]]) -> NativeCall | None:
    """What machine code runs for ``node``, whose tensors have these ``strides``; None where only Python can."""
    name, kinds = _SIGNATURES.get(node.call.target, ("", ""))
    code, function, args = _native() if name else None, c_function(name) if name else 0, node.call.args
    (made, *others) = node.outputs
    is_plain = not node.call.named and len(args) == len(kinds.split()) and made in graph.edges and not others
    if code is None or not function or not is_plain or made is None:
        return None
    words = _Words(graph, strides)
    for kind, value in zip(kinds.split(), args):
        if not words.add(kind, value):
            return None
    result = len(words.args)
    shape = graph.edges[made].shape
    layout = len(shape), words.array(shape), words.array(strides(made))
    given = words.array([word for tensor in words.tensors for word in tensor])
    called = function, words.array([*words.args, *[0] * (_MOST - result)]), result
    record = words.array([*called, *layout, len(words.tensors), given])
    addresses = code.address("weft_call_library"), code.address("weft_release")
    return NativeCall(*addresses, record, tuple(words.names), words.memory)


class _Memory(list[Any]):
    """What words point to; tensors that these name live as long."""


class _Words:
    """The arguments of a C function as words, and the memory that they point to, which alone is kept: the graph has
    the values of all constants."""

    def __init__(self, graph: Graph, strides: Callable[[str], tuple[int, ...]]) -> None:
        self._graph, self._strides = graph, strides
        self.memory = _Memory()
        self.args: list[int] = []
        #: tensors that calls give, by name, and the words of their records
        self.names: list[str] = []
        self.tensors: list[list[int]] = []

    def array(self, values: Sequence[int]) -> int:
        return self._keep((ctypes.c_int64 * max(len(values), 1))(*values))

    def _keep(self, memory: Any) -> int:
        self.memory.append(memory)
        return ctypes.addressof(memory)

    def add(self, kind: str, value: Any) -> bool:
        """Adds the words of one argument; false where there is none such."""
        is_optional, kind = kind.endswith("?"), kind.removesuffix("?")
        if kind == "tensor" and isinstance(value, Ref):
            return self._add_tensor(value.name, is_optional)
        if value is None:
            self.args.append(0)
            return is_optional
        match kind:
            case "whole":
                self.args += [self.array(value), len(value)]
            case "count":
                self.args.append(value)
            case "number":
                self.args.append(self._number(value))
            case "numbers":
                self.args += [self.array(list(map(self._number, value))), len(value)]
            case "text":
                text = self._keep(ctypes.create_string_buffer(value.encode()))
                self.args.append(self.array([text]) if is_optional else text)
        return True

    def _add_tensor(self, name: str, is_optional: bool) -> bool:
        if name in self._graph.constants:
            handle = self._handle(self._graph.constants[name])
            self.args.append(self.array([handle]) if is_optional else handle)
            return True
        edge = self._graph.edges[name]
        if is_optional or edge.dtype != dt.float32:
            return False
        sizes, strides = self.array(edge.shape), self.array(self._strides(name))
        self.tensors.append([len(self.args), len(edge.shape), sizes, strides])
        self.names.append(name)
        self.args.append(0)
        return True

    def _handle(self, tensor: Any) -> int:
        """Of a tensor that stays as long as the memory of these words does."""
        bridge = torch()._C._aoti
        capsule = bridge.unsafe_alloc_void_ptr_from_tensor(tensor)
        weakref.finalize(self.memory, bridge.alloc_tensor_by_stealing_from_void_ptr, capsule)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        return int(pointer(capsule, None))

    def _number(self, value: float) -> int:
        return self._keep(ctypes.c_double(value))
