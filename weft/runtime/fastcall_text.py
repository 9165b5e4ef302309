"""The machine code of `fastcall`: one generic function, driven by the records of each specialization.

Arguments are looked at once (`view_of`), then compared with one plan after the other
(`fits`); the first that fits runs (`run_plan`). Whatever is unusual returns MISS, and the
caller's ordinary path says what is wrong or does it the slow way.

numpy arrays are read through the layout that numpy's own headers fix (fields are macros
over it); torch tensors, and arrays of other classes on GPUs, through the function table their
class exports for DLPack. CuPy's have none: functions of ours take its place.

The texts are in the runtime's own language (`native_language`).
"""

from __future__ import annotations

import sys

from weft.runtime.cuda_driver import RECENT
from weft.runtime.fastcall_match_text import ALIASING, CUPY, MATCHING, VIEWS
from weft.runtime.fastcall_run_text import ALIGNED_FROM, ARRAYS, ENTRY, LAUNCHING, RUNNING
from weft.runtime.native_module import NativeModule, words
from weft.runtime.numpy_memory import ALLOCATOR, CARRAY, FLAGS, OWNS_DATA

#: 8-byte fields of the structures that Python fills in.
TABLE = ("nargs", "nouts", "count", "plans")
PLAN = ("address", "nslots", "release", "allocates", "on_error", "args", "outs", "fixed", "nfixed", "start")
RECORD = (
    "kind", "slot", "ndim", "type", "other_type", "dlpack", "framework", "place", "mask", "offset", "low", "high",
    "written", "dims", "strides", "elements", "keep", "least", "most", "descr", "maker", "maker_args",
)  # fmt: skip
VIEW = ("framework", "data", "ndim", "dims", "strides", "type", "writable", "place", "export")
#: How a class of arrays is read: the class, two functions of its table for DLPack, and the number of its framework.
EXCHANGE = ("cls", "export", "stream", "framework")
#: How a plan for a GPU is started, in place of its address; see `fastcall_run_text`.
START = (
    "launch", "current", "context", "stream", "device", "records", "owner", "recent",
    "nlaunches", "launches", "scratch", "offsets", "noffsets", "move",
)  # fmt: skip
#: A launch: its last fields are the driver's structure CUlaunchConfig, of seven words.
LAUNCH = ("function", "nparams", "params", "nmaps", "maps", *(f"config{i}" for i in range(7)))
#: Where that structure has the stream, in words.
CONFIG_STREAM = 4
#: Where the records of asserts on a device begin, and how many there are.
RECORDS = ("address", "count")
_STRUCTURES = {
    "Table": words(*TABLE), "Plan": words(*PLAN), "Record": words(*RECORD), "View": words(*VIEW),
    "Exchange": words(*EXCHANGE), "Start": words(*START), "Launch": words(*LAUNCH), "Records": words(*RECORDS),
    "Object": {"type": (8, "i64")},
    "Array": {
        "data": (16, "i64"), "ndim": (24, "i32"), "dims": (32, "i64"), "strides": (40, "i64"), "descr": (56, "i64"),
        "flags": (FLAGS, "i32"), "allocator": (ALLOCATOR, "i64"),
    },
    "Descr": {"order": (26, "i8"), "number": (28, "i32")},
    "Tensor": {
        "data": (0, "i64"), "place": (8, "i64"), "ndim": (16, "i32"), "type": (20, "i32"), "dims": (24, "i64"),
        "strides": (32, "i64"), "offset": (40, "i64"),
    },
}  # fmt: skip

NUMPY, TORCH = 1, 2
#: Devices as DLPack writes them, in the low half of eight bytes; their number is in the high one.
ON_CPU, ON_CUDA = 1, 2
MAX_EXCHANGES = 8
#: The status of a launch that is to be done the slow way.
MISSED = -(1 << 31)

TENSOR, INTEGER, FLOAT32, FLOAT64, BOOL = range(5)
MAX_ARGUMENTS = 24
#: Dimensions of arrays whose class has no table for DLPack.
MAX_RANK = 16
#: Words of a view: its last field is a DLTensor, with room for sizes and strides behind it.
VIEW_WORDS = len(VIEW) - 1 + 6 + 2 * MAX_RANK
#: Numbers that numpy has for its own types.
NUMPY_TYPES = 32
MAX_OUTPUTS = 8
#: Parameters whose values a specialization knows by itself.
MAX_FIXED = 32
#: Loops around a launch whose steps it is given.
MAX_STEPS = 8
#: Arrays that the copy engine fetches from for a launch.
MAX_MAPS = 8
_SLOTS = MAX_ARGUMENTS + MAX_OUTPUTS + MAX_FIXED + 1

#: Functions of CPython that the code calls, and their types.
PYTHON_FUNCTIONS = {
    "PyCapsule_GetPointer": "ptr (ptr, ptr)", "PyDict_New": "ptr ()", "PyDict_SetItem": "i32 (ptr, ptr, ptr)",
    "PyErr_Clear": "void ()", "PyErr_Occurred": "ptr ()", "PyEval_RestoreThread": "void (ptr)",
    "PyEval_SaveThread": "ptr ()", "PyFloat_AsDouble": "double (ptr)",
    "PyLong_AsLongLongAndOverflow": "i64 (ptr, ptr)", "PyLong_FromLongLong": "ptr (i64)",
    "PyObject_Call": "ptr (ptr, ptr, ptr)", "PyObject_CallFunctionObjArgs": "ptr (ptr, ...)",
    "PyObject_GetAttr": "ptr (ptr, ptr)", "PyObject_VectorcallDict": "ptr (ptr, ptr, i64, ptr)",
    "PyTuple_GetItem": "ptr (ptr, i64)", "PyTuple_New": "ptr (i64)", "PyTuple_SetItem": "i32 (ptr, i64, ptr)",
    "PyTuple_Size": "i64 (ptr)", "Py_DecRef": "void (ptr)", "Py_IncRef": "void (ptr)",
}  # fmt: skip
_FUNCTIONS = {
    **PYTHON_FUNCTIONS, "weft_alloc": "ptr (i64)", "weft_free": "void (ptr)", "PyDataMem_GetHandler": "ptr ()",
    "PyArray_NewFromDescr": "ptr (ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
    "llvm.memset.p0.i64": "void (ptr, i8, i64, i1)",
}  # fmt: skip
#: Attribute and argument names the machine code compares and looks up by identity.
NAMES = {
    **{f"name_{name}": sys.intern(name) for name in ("data", "ptr", "device_id", "dtype", "shape", "strides", "out")},
    "name_requires_grad": sys.intern("requires_grad"), "name_table": sys.intern("_fast_table"),
    "name_slow": sys.intern("_call_slowly"),
}  # fmt: skip
_OBJECTS = (
    "PyFloat_Type", "PyLong_Type", "PyTuple_Type", "ndarray_type", "numpy_float32", "numpy_float64", "numpy_int32",
    "numpy_int64", "object_none", "object_true", "object_false", "object_miss", *NAMES,
)  # fmt: skip
#: Words that Python fills in, and how many of each.
_MEMORY = {
    "exchange_count": 1, "exchanges": MAX_EXCHANGES * len(EXCHANGE), "cupy_types": NUMPY_TYPES,
    **dict.fromkeys(("torch_is_grad_enabled", "torch_is_neg", "cupy_stream", "numpy_allocator", "own_allocator"), 1),
    **dict.fromkeys(("torch_structure", "torch_keys", "torch_negative", "torch_autograd"), 1),
}  # fmt: skip
_CONSTANTS = {
    "exchange_size": 8 * len(EXCHANGE), "record_size": 8 * len(RECORD), "view_size": 8 * VIEW_WORDS,
    "view_words": VIEW_WORDS, "view_export": 8 * VIEW.index("export"), "launch_size": 8 * len(LAUNCH),
    "launch_config": 8 * LAUNCH.index("config0"), "config_stream": CONFIG_STREAM, "recent_mask": RECENT - 1,
    "views_length": VIEW_WORDS * MAX_ARGUMENTS, "out_views_length": VIEW_WORDS * MAX_OUTPUTS,
    "slots_length": _SLOTS, "pointers_length": _SLOTS + MAX_STEPS + MAX_MAPS, "max_outputs": MAX_OUTPUTS,
    "max_rank": MAX_RANK,
    "numpy_types": NUMPY_TYPES, "aligned_from": ALIGNED_FROM, "carray": CARRAY, "owns_data": OWNS_DATA,
    "array_aligned": 0x100, "array_writable": 0x400, "native_order": ord("="), "any_order": ord("|"),
    "minus_one": (0xBFF << 52) - (1 << 64),  # the bits of -1.0
    "missed": MISSED, "numpy": NUMPY, "torch": TORCH, "on_cpu": ON_CPU, "on_cuda": ON_CUDA,
    "tensor": TENSOR, "integer": INTEGER, "float32": FLOAT32, "float64": FLOAT64, "bool": BOOL,
}  # fmt: skip

FASTCALL = NativeModule(
    "".join((VIEWS, CUPY, MATCHING, ALIASING, LAUNCHING, ARRAYS, RUNNING, ENTRY)),
    _CONSTANTS, _STRUCTURES, _FUNCTIONS, _OBJECTS, _MEMORY,
)  # fmt: skip
