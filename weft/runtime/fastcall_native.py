"""The machine code of `fastcall_text` in this interpreter: loaded, linked to CPython, numpy and torch.

It reads numpy's objects directly, so before it is used a few arrays are read the same way
from here; where anything looks different, fast calls are not available.
"""

from __future__ import annotations

import ctypes
import functools
import math
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.ir import dtype as dt
from weft.ir.errors import Error
from weft.ir.numpy_dtypes import to_numpy
from weft.locks import new_lock
from weft.runtime import fastcall_text as text
from weft.runtime.dlpack import dlpack_type
from weft.runtime.loader import LoadedObject
from weft.runtime.native import load_native, memory_function
from weft.runtime.numpy_memory import (
    CHOSEN_ALLOCATOR,
    NEW_ARRAY,
    capsule_pointer,
    exported,
    own_allocator,
    usual_allocator,
)  # fmt: skip
from weft.runtime.torch_layout import find_tensor_fields


class _Miss:
    def __repr__(self) -> str:
        return "MISS"

    def __bool__(self) -> bool:
        return False


#: What `CallTable.call` gives where no specialization fits.
MISS = _Miss()


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class NativeCalls:
    """The machine code, loaded once a process and never released."""

    _METH_KEYWORDS, _METH_FASTCALL = 0x02, 0x80

    def __init__(self, code: LoadedObject) -> None:
        self._code = code
        self._has_torch = False
        self._objects: dict[str, object] = {}
        self._exchanges: dict[type, Exchange] = {}
        self._lock = new_lock()
        doc = b"call(out, *arguments): runs the specialization that fits, or gives MISS"
        self._function = _MethodDef(b"call", code.address("weft_call"), self._METH_FASTCALL, doc)
        flags = self._METH_FASTCALL | self._METH_KEYWORDS
        doc = b"__call__($self, /, *arguments, out=None)\n--\n\nRuns the operator."
        self._method = _MethodDef(b"__call__", code.address("weft_method"), flags, doc)
        self._set("numpy_allocator", usual_allocator())
        self._set("own_allocator", id(own_allocator()))
        prototype = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.py_object, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64
        )
        self._new_array = prototype(code.address("weft_new_array"))

    def new_array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """An uninitialized numpy array; a large one begins at a cache line or a page."""
        dims = (ctypes.c_int64 * len(shape))(*shape)
        made: npt.NDArray[Any] = self._new_array(dtype, len(shape), dims, math.prod(shape) * dtype.itemsize)
        return made

    def new_capsule(self, table: int) -> object:
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        capsule: object = prototype(("PyCapsule_New", ctypes.pythonapi))(table, None, None)
        return capsule

    def new_function(self, capsule: object, owner: object) -> Callable[..., Any]:
        """A built-in function over the table in ``capsule``; it keeps ``owner`` alive."""
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        new = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
        function: Callable[..., Any] = new(ctypes.addressof(self._function), capsule, owner)
        return function

    def new_method(self, cls: type) -> Any:
        prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
        return prototype(("PyDescr_NewMethod", ctypes.pythonapi))(cls, ctypes.addressof(self._method))

    def bind_torch(self) -> bool:
        """Whether torch tensors are understood: torch is imported and exports its function table."""
        torch = sys.modules.get("torch")
        if self._has_torch or torch is None:
            return self._has_torch
        try:
            functions = {"torch_is_grad_enabled": torch.is_grad_enabled, "torch_is_neg": torch.Tensor.is_neg}
            classes = torch.Tensor, torch.nn.Parameter
        except AttributeError:  # another thread is still importing it
            return False
        if exchange_functions(torch.Tensor) is None:
            return False
        self._objects |= functions
        fields = find_tensor_fields(torch)
        for name, value in () if fields is None else fields._asdict().items():
            self._set(f"torch_{name}", value)
        for name, function in functions.items():
            self._set(name, id(function))
        self._has_torch = all(self._bind(cls, torch.Tensor, text.TORCH) is not None for cls in classes)
        return self._has_torch

    def _set(self, name: str, value: int) -> None:
        """Fills in a variable of the machine code."""
        ctypes.c_int64.from_address(self._code.address(name)).value = value

    def bind_class(self, cls: type) -> Exchange | None:
        """How arrays of ``cls`` are read; None where the class does not say, or too many others do."""
        self.bind_torch()
        kept = self._exchanges.get(cls)
        if kept is not None or issubclass(cls, getattr(sys.modules.get("torch"), "Tensor", ())):
            return kept  # of torch's classes, only those that `bind_torch` knows
        return self._bind(cls, cls)

    def _bind(self, cls: type, exporter: type, framework: int | None = None) -> Exchange | None:
        """``cls`` read by the table of ``exporter``; without a ``framework``, it is one of its own."""
        functions = exchange_functions(exporter) or self._functions_for_cupy(cls)
        with self._lock:
            place = len(self._exchanges)
            if cls in self._exchanges:
                return self._exchanges[cls]
            if functions is None or place >= text.MAX_EXCHANGES:
                return None
            own = 1 + max((e.framework for e in self._exchanges.values()), default=text.TORCH)
            exchange = self._exchanges[cls] = Exchange(id(cls), *functions, framework or own)
            at = self._code.address("exchanges") + 8 * len(text.EXCHANGE) * place
            (ctypes.c_int64 * len(exchange)).from_address(at)[:] = list(exchange)
            self._set("exchange_count", place + 1)
            return exchange

    def _functions_for_cupy(self, cls: type) -> tuple[int, int] | None:
        """As `exchange_functions`, for CuPy's arrays."""
        cupy = sys.modules.get("cupy")
        if cupy is None or getattr(cupy, "ndarray", None) is not cls:
            return None
        stream = self._objects["cupy_stream"] = cupy.cuda.get_current_stream
        self._set("cupy_stream", id(stream))
        types = self._code.address("cupy_types")
        for dtype in dt.SCALAR_TYPES.values():
            number = to_numpy(dtype).num
            if number < text.NUMPY_TYPES:
                ctypes.c_int64.from_address(types + 8 * number).value = dlpack_type(dtype)
        return self._code.address("weft_export_cupy"), self._code.address("weft_stream_cupy")


class Exchange(NamedTuple):
    """The fields of `text.EXCHANGE`."""

    cls: int
    export: int
    stream: int
    framework: int


def exchange_functions(cls: type) -> tuple[int, int] | None:
    """Two functions of a class's table for DLPack, where its version is one we know: they describe an array
    (``dltensor_from_py_object_no_sync``) and tell the stream that work goes to (``current_work_stream``)."""
    capsule = vars(cls).get("__dlpack_c_exchange_api__")  # a class that inherits it may be something else
    if capsule is None:
        return None
    try:
        table = capsule_pointer(capsule, b"dlpack_exchange_api")
    except (ValueError, TypeError, ctypes.ArgumentError):
        return None
    major = ctypes.c_uint32.from_address(table).value
    export, stream = (ctypes.c_int64.from_address(table + 8 * i).value for i in (5, 6))
    return (export, stream) if major == 1 and export and stream else None


@functools.cache
def native_calls() -> NativeCalls | None:
    """The machine code, or None where this interpreter or numpy is not laid out as it expects."""
    try:
        if not _is_known_interpreter() or not _is_known_numpy():
            return None
        return NativeCalls(load_native(text.FASTCALL, _symbols()))
    except (Error, AttributeError, OSError, ValueError, TypeError):
        return None


def _is_known_interpreter() -> bool:
    return sys.implementation.name == "cpython" and "t" not in sys.abiflags and struct.calcsize("P") == 8


def _is_known_numpy() -> bool:
    """Reads a few arrays the way the machine code will and compares with what numpy says."""
    samples = (np.zeros((3, 4), np.float32)[::-1, ::2], np.zeros(5, np.int64), np.zeros((), np.bool_))
    samples[1].flags.writeable = False
    for array in samples:
        base = id(array)
        kind, data, _, dims, strides, _, descr = struct.unpack("<7Q", ctypes.string_at(base + 8, 56))
        (rank,) = struct.unpack("<i", ctypes.string_at(base + 24, 4))
        (flags,) = struct.unpack("<i", ctypes.string_at(base + 64, 4))
        if (kind, data, rank, descr) != (id(np.ndarray), array.ctypes.data, array.ndim, id(array.dtype)):
            return False
        order, number = struct.unpack("<cxi", ctypes.string_at(descr + 26, 6))
        read = [tuple((ctypes.c_int64 * rank).from_address(at)) if rank else () for at in (dims, strides)]
        known = (order.decode(), number, array.shape, array.strides, array.flags.writeable)
        if (array.dtype.byteorder, array.dtype.num, *read, bool(flags & 1024)) != known or not flags & 256:
            return False
    return True


def _symbols() -> dict[str, int]:
    functions = {name: getattr(ctypes.pythonapi, name) for name in text.PYTHON_FUNCTIONS}
    symbols = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in functions.items()}
    objects = {
        "PyFloat_Type": float, "PyLong_Type": int, "PyTuple_Type": tuple, "ndarray_type": np.ndarray,
        "numpy_float32": np.float32, "numpy_float64": np.float64, "numpy_int32": np.int32, "numpy_int64": np.int64,
        "object_none": None, "object_true": True, "object_false": False, "object_miss": MISS,
        **text.NAMES,
    }  # fmt: skip
    symbols |= {"PyArray_NewFromDescr": exported(NEW_ARRAY), "PyDataMem_GetHandler": exported(CHOSEN_ALLOCATOR)}
    symbols |= {name: memory_function(name) for name in ("weft_alloc", "weft_free")}
    return symbols | {name: id(value) for name, value in objects.items()}
