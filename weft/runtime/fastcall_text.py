"""The machine code of `fastcall`: one generic function, driven by the records of each specialization.

Arguments are looked at once (`view_of`), then compared with one plan after the other
(`matches`); the first that fits runs (`run_plan`). Whatever is unusual returns MISS, and the
caller's ordinary path says what is wrong or does it the slow way.

numpy arrays are read through the layout that numpy's own headers fix (fields are macros
over it); torch tensors, and arrays of other classes on GPUs, through the function table their
class exports for DLPack. CuPy's have none: functions of ours take its place (`fastcall_cupy_text`).

The texts are LLVM's in short (`short_llvm`).
"""

from __future__ import annotations

from weft.runtime.cuda_driver import RECENT
from weft.runtime.fastcall_array_text import ALIGNED_FROM, ARRAYS
from weft.runtime.fastcall_cupy_text import CUPY
from weft.runtime.fastcall_entry_text import ENTRY
from weft.runtime.fastcall_launch_text import LAUNCHING
from weft.runtime.fastcall_match_text import ALIASING, MATCHING
from weft.runtime.fastcall_run_text import RUNNING
from weft.runtime.fastcall_view_text import VIEWS
from weft.runtime.numpy_memory import ALLOCATOR, CARRAY, FLAGS, OWNS_DATA
from weft.runtime.short_llvm import expand

#: 8-byte fields of the structures that Python fills in.
TABLE = ("nargs", "nouts", "count", "plans")
PLAN = ("address", "nslots", "release", "allocates", "on_error", "args", "outs", "fixed", "nfixed", "start")
RECORD = (
    "kind", "slot", "ndim", "type", "other_type", "dlpack", "framework", "place", "mask", "offset", "low", "high",
    "written", "dims", "strides", "elements", "keep", "least", "most", "descr", "maker", "maker_args",
)  # fmt: skip
VIEW = ("framework", "data", "ndim", "dims", "strides", "type", "writable", "place", "export")
#: How a class of arrays is read: the class, two functions of its table for DLPack, and the number of its framework.
EXCHANGE = ("class", "export", "stream", "framework")
#: How a plan for a GPU is started, in place of its address; see `fastcall_launch_text`.
START = (
    "launch", "current", "context", "stream", "device", "records", "owner", "recent",
    "nlaunches", "launches", "scratch", "offsets", "noffsets",
)  # fmt: skip
#: A launch: its last fields are the driver's structure CUlaunchConfig.
LAUNCH = ("function", "nparams", "params", *(f"config{i}" for i in range(7)))
#: Where that structure has the stream.
CONFIG_STREAM = 32
#: Where the records of asserts on a device begin, and how many there are.
RECORDS = ("address", "count")

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

#: Functions and objects of CPython the code refers to.
PYTHON_NAMES = (
    "PyCapsule_GetPointer", "PyErr_Clear", "PyEval_RestoreThread", "PyEval_SaveThread", "PyFloat_AsDouble",
    "PyFloat_Type", "PyLong_AsLongLongAndOverflow", "PyLong_FromLongLong", "PyLong_Type",
    "PyObject_CallFunctionObjArgs", "PyObject_GetAttr", "PyObject_VectorcallDict", "PyTuple_GetItem", "PyTuple_New",
    "PyDict_New", "PyDict_SetItem", "PyObject_Call",
    "PyTuple_SetItem", "PyTuple_Size", "PyTuple_Type", "Py_DecRef", "Py_IncRef", "PyErr_Occurred",
)  # fmt: skip

_DECLARATIONS = """
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @PyErr_Clear()
declare ptr @PyErr_Occurred()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_Call(ptr, ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare ptr @PyObject_VectorcallDict(ptr, ptr, i64, ptr)
declare ptr @PyDict_New()
declare i32 @PyDict_SetItem(ptr, ptr, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare i64 @PyTuple_Size(ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)
declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

@PyFloat_Type = external global i8
@PyLong_Type = external global i8
@PyTuple_Type = external global i8
@ndarray_type = external global i8
@numpy_float32 = external global i8
@numpy_float64 = external global i8
@numpy_int32 = external global i8
@numpy_int64 = external global i8
@object_none = external global i8
@object_true = external global i8
@object_false = external global i8
@object_miss = external global i8
@name_requires_grad = external global i8
@name_out = external global i8
@name_table = external global i8
@name_slow = external global i8
@name_data = external global i8
@name_ptr = external global i8
@name_device_id = external global i8
@name_dtype = external global i8
@name_shape = external global i8
@name_strides = external global i8

@exchange_count = global i64 0
@exchanges = global [$exchanges_length x i64] zeroinitializer
@torch_is_grad_enabled = global ptr null
@torch_is_neg = global ptr null
@cupy_stream = global ptr null
@cupy_types = global [$numpy_types x i64] zeroinitializer
@torch_structure = global i64 0
@torch_keys = global i64 0
@torch_negative = global i64 0
@torch_autograd = global i64 0
"""


def _offsets(prefix: str, fields: tuple[str, ...]) -> dict[str, int]:
    return {f"{prefix}_{name}": 8 * i for i, name in enumerate(fields)}


def fastcall_text() -> str:
    """The whole module as LLVM text."""
    values = {
        **_offsets("table", TABLE),
        **_offsets("plan", PLAN),
        **_offsets("rec", RECORD),
        **_offsets("view", VIEW),
        **_offsets("exchange", EXCHANGE),
        **_offsets("start", START),
        **_offsets("launch", LAUNCH),
        **_offsets("records", RECORDS),
        "exchange_size": 8 * len(EXCHANGE),
        "exchanges_length": MAX_EXCHANGES * len(EXCHANGE),
        "record_size": 8 * len(RECORD),
        "view_size": 8 * VIEW_WORDS,
        "view_words": VIEW_WORDS,
        "max_rank": MAX_RANK,
        "numpy_types": NUMPY_TYPES,
        "views_length": VIEW_WORDS * MAX_ARGUMENTS,
        "out_views_length": VIEW_WORDS * MAX_OUTPUTS,
        "max_outputs": MAX_OUTPUTS,
        "slots_length": MAX_ARGUMENTS + MAX_OUTPUTS + MAX_FIXED + 1,
        "launch_size": 8 * len(LAUNCH),
        "launch_config": 8 * LAUNCH.index("config0"),
        "config_stream": CONFIG_STREAM,
        "recent_mask": RECENT - 1,
        "aligned_from": ALIGNED_FROM,
        "array_flags": FLAGS, "array_allocator": ALLOCATOR, "carray": CARRAY, "owns_data": OWNS_DATA,
        "on_cpu": ON_CPU, "on_cuda": ON_CUDA, "numpy": NUMPY, "torch": TORCH, "missed": MISSED,
        "tensor": TENSOR, "integer": INTEGER, "float32": FLOAT32, "float64": FLOAT64, "bool": BOOL,
    }  # fmt: skip
    sections = (_DECLARATIONS, VIEWS, CUPY, MATCHING, ALIASING, LAUNCHING, ARRAYS, RUNNING, ENTRY)
    return expand("".join(sections), values)
