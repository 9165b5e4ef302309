"""Calls of a whole model without any Python: arguments compared, weights checked, outputs made, kernels run.

The fast call of operators (`weft.runtime.fastcall`) takes a model for one kernel: what it calls in place of one checks
that the weights are what code was made for, takes a frame, puts the addresses of inputs and outputs into its slots and
runs the table. Whatever is unusual gives the call back to Python, which does it, or says what is wrong.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from weft.graph.graph import dense_strides
from weft.graph.run import witness
from weft.graph.run.executable import Executable
from weft.graph.run.run_table import CONSTANTS, FUNCTIONS, RUN_TABLE, STRUCTURES, run_table_symbols
from weft.graph.run.witness import Witness
from weft.runtime.dict_version import dict_version_offset
from weft.runtime.fastcall import Specialization, TensorLayout, fast_calls_available
from weft.runtime.fastcall_text import MISSED, NUMPY, PYTHON_FUNCTIONS, TORCH
from weft.runtime.kernel import LoadedKernel
from weft.runtime.loader import LoadedObject
from weft.runtime.native import load_native
from weft.runtime.native_module import NativeModule, words
from weft.runtime.torch_layout import StateFields, TensorState

#: What machine code knows of a model. ``owner`` is an object that lives while a call runs; 0 where it is gone.
#: ``left`` is how many calls machine code takes before one goes to Python; below zero, all. ``grad_enabled`` and
#: ``autocast_enabled`` are asked in every call, which is Python's where the answer is yes (0: not asked). ``samples``
#: are values of the weights, see `witness`.
MODEL = ("owner", "weights", "nweights", "samples", "nsamples", "grad_enabled", "autocast_enabled", "left")
#: And what of one that is a table of kernels.
TABLE = ("patches", "npatches", "frames", "nrows")
#: A weight: the dictionary that has it under a key (0: none), the object that must be there, the dictionary's version
#: when it was there, and what it looks like (structure 0: no tensor, but all that must be there). Other ``kind``s of
#: facts: how many objects a dictionary has, which is in a list at a place, how many are in that.
WEIGHT = ("table", "key", "object", "as_of", "kind", *TensorState._fields)
_KINDS = {"in_dict": 0, "dict_size": 1, "in_list": 2, "list_size": 3}


class _Size:
    """Stands for a key: how many there are."""


SIZE = _Size()
#: Which slot of the call goes into which slot of a frame, that many bytes further on.
PATCH = ("argument", "place", "offset")

_SOURCE = """
def weft_call_model(slots):
    model: Model = slots[model_slot]
    owner = model.owner
    if owner == 0 or model.left == 0 or needs_python(model) or not weft_is_current(model):
        return missed
    frame: Frame = weft_take_frame(model.frames)
    if frame == 0:
        return missed
    model.left = model.left - 1
    patch_frame(model, frame.slots, slots)
    Py_IncRef(owner)
    thread = PyEval_SaveThread()
    status = weft_run_table(frame.table, 0, model.nrows)
    PyEval_RestoreThread(thread)
    weft_give_frame(model.frames, frame)
    Py_DecRef(owner)
    return 0 if status == 0 else missed  # the slow way fails too, and says why


def patch_frame(model: Model, values, slots):
    for i in range(model.npatches):
        patch: Patch = model.patches + i * patch_size
        values[patch.place] = slots[patch.argument] + patch.offset
"""
_LOOKUPS = {"PyDict_GetItem": "ptr (ptr, ptr)", "PyDict_Size": "i64 (ptr)", "PyList_GetItem": "ptr (ptr, i64)",
            "PyList_Size": "i64 (ptr)"}  # fmt: skip
#: What all calls check first.
CHECKS = '''
def needs_python(model: Model):
    return answers_yes(model.grad_enabled) or answers_yes(model.autocast_enabled)


def answers_yes(ask):
    return ask != 0 and not is_false(PyObject_CallFunctionObjArgs(ask, 0))


def weft_is_current(model: Model):
    """Whether weights are where they were, and unchanged as far as torch counts changes and their samples show any."""
    for i in range(model.nweights):
        weight: Weight = model.weights + i * weight_size
        if weight.table != 0 and not is_there(weight, weight.table):
            return 0
        if weight.structure != 0 and not is_unchanged(weight, weight.structure):
            return 0
    return is_same(model.samples, model.nsamples)


def is_there(weight: Weight, table: Dict):
    """A dictionary of the version that had it has it still: that is sooner asked than it is looked up."""
    if weight.kind >= in_list:
        return is_in_list(weight)
    if has_versions != 0 and table.version == weight.as_of:
        return 1
    if weight.kind == in_dict and PyDict_GetItem(weight.table, weight.key) != weight.object:
        return 0
    if weight.kind == dict_size and PyDict_Size(weight.table) != weight.object:
        return 0
    if has_versions != 0:
        weight.as_of = table.version
    return 1


def is_in_list(weight: Weight):
    """Whether there are enough is asked before."""
    if weight.kind == list_size:
        return PyList_Size(weight.table) == weight.object
    return PyList_GetItem(weight.table, weight.key) == weight.object


def is_unchanged(weight: Weight, tensor: Tensor):
    if tensor.storage != weight.storage or tensor.offset != weight.offset or tensor.counter != weight.counter:
        return 0
    storage: Storage = tensor.storage
    counter: Counter = tensor.counter
    return storage.data == weight.data and counter.version == weight.version


def is_false(obj):
    """Takes the reference; an error counts as not false."""
    if obj == 0:
        PyErr_Clear()
        return 0
    Py_DecRef(obj)
    return obj == object_false
'''
#: Of a torch that is not known, and where there is none: no weight is ever looked at.
_NO_FIELDS = StateFields(0, 0, 0, 0, 0)
_FUNCTIONS = ("PyErr_Clear", "PyEval_RestoreThread", "PyEval_SaveThread", "PyObject_CallFunctionObjArgs", "Py_DecRef",
              "Py_IncRef")  # fmt: skip


@functools.cache
def _native_table(model_slot: int, fields: StateFields) -> LoadedObject:
    own = {"Model": words(*MODEL, *TABLE), "Patch": words(*PATCH), "Frame": words("table", "slots")}
    constants = {**CONSTANTS, "patch_size": 8 * len(PATCH)}
    source = NativeModule(RUN_TABLE + _SOURCE, constants, {**STRUCTURES, **own}, FUNCTIONS)
    return load_calls(source, run_table_symbols(), model_slot, fields)


def load_calls(source: NativeModule, given: Mapping[str, int], model_slot: int, fields: StateFields) -> LoadedObject:
    """``source``, of calls whose slot ``model_slot`` is a model, with `CHECKS` of weights as ``fields`` says.

    ``given`` are the addresses of functions that it declares.
    """
    version = dict_version_offset()
    structures = {
        **witness.STRUCTURES, **source.structures, "Weight": words(*WEIGHT), "Dict": {"version": (version or 0, "i64")},
        "Tensor": {name: (getattr(fields, name), "i64") for name in ("storage", "offset", "counter")},
        "Storage": {"data": (fields.data, "i64")}, "Counter": {"version": (fields.version, "i32")},
    }  # fmt: skip
    constants = {
        **witness.CONSTANTS,
        **source.constants,
        "weight_size": 8 * len(WEIGHT),
        "model_slot": model_slot,
        "missed": MISSED,
        **_KINDS,
    }
    constants["has_versions"] = 0 if version is None else 1
    functions = {name: PYTHON_FUNCTIONS[name] for name in _FUNCTIONS} | _LOOKUPS
    symbols = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0 for name in functions}
    declared = {**functions, **source.functions}
    module = NativeModule(source.source + witness.IS_SAME + CHECKS, constants, structures, declared, ("object_false",))
    return load_native(module, {**symbols, **given, "object_false": id(False)})


class _ModelKernel(LoadedKernel):
    """As fast calls see a model; it has what machine code reads."""

    keeps: FastModel


class Weight(NamedTuple):
    """A tensor that code counts on; ``table[key]`` is where a model has it, if it does. Or any other object there, or
    how many there are (under `SIZE`)."""

    tensor: Any
    state: TensorState = TensorState(0, 0, 0, 0, 0, 0)
    table: dict[Any, Any] | list[Any] | None = None
    key: Any = None


class FastModel:
    """What machine code needs to run an executable; the executable itself may go when `forget` was called."""

    _entry = "weft_call_model"

    def __init__(
        self,
        executable: Any,
        weights: Sequence[Weight] = (),
        fields: StateFields | None = None,
        asked: tuple[Any, Any] = (None, None),
        calls: int = -1,
        seen: Witness | None = None,
    ) -> None:
        """``asked`` are functions that say whether gradients are on, where some weight may have them, and whether
        types are chosen automatically; ``calls`` is how many calls are taken before `is_spent` is true, and is asked
        by Python; below zero, it never is. ``seen`` is what values the weights had."""
        self._weights, self._asked, self._seen = tuple(weights), asked, seen or Witness()
        self._fields = fields or _NO_FIELDS
        self._memory = [_words([field for w in weights for field in _weight_fields(w)])]
        functions = [0 if ask is None else id(ask) for ask in asked]
        checked = ctypes.addressof(self._memory[0]), len(weights), *self._seen.samples
        common = [id(executable), *checked, *functions, calls]
        self._record = _words([*common, *self._own_words(executable)])
        self._count = len(executable.graph.inputs) + len(executable.made)

    def _own_words(self, executable: Any) -> list[int]:
        """What follows `MODEL`."""
        self._memory.append(_words([field for patch in executable.patches for field in patch]))
        patches = ctypes.addressof(self._memory[-1]), len(executable.patches)
        return [*patches, executable.frames_address, executable.row_count]

    @property
    def is_spent(self) -> bool:
        """Whether machine code took as many calls as it was to take."""
        return bool(self._record[MODEL.index("left")] == 0)

    def refill(self) -> None:
        """Machine code takes all calls from now on."""
        self._record[MODEL.index("left")] = -1

    def forget(self) -> None:
        """Calls go to Python from now on."""
        self._record[0] = 0
        self._weights = ()

    @functools.cached_property
    def is_current(self) -> Any:
        """A function that says whether the weights are unchanged."""
        check = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self._code.address("weft_is_current"))
        return functools.partial(check, ctypes.addressof(self._record))

    @property
    def _code(self) -> LoadedObject:
        return _native_table(self._count, self._fields)

    def takes(self, executable: Any) -> bool:
        """Whether whole calls can go through machine code."""
        return is_fast(executable)

    def _layouts(self, executable: Any, framework: int) -> list[TensorLayout]:
        """Of inputs, then of outputs."""
        edges = [executable.graph.edges[n] for n in (*executable.graph.inputs, *executable.made)]
        return [TensorLayout(e.dtype, e.shape, executable.strides(e.name), framework=framework) for e in edges]

    def specialization(self, executable: Any, framework: int) -> Specialization:
        """For `CallTable`: one kernel, as it were, from inputs to outputs."""
        graph, layouts = executable.graph, self._layouts(executable, framework)
        kernel = _ModelKernel(self._code, self._entry, [None] * (self._count + 1))
        kernel.keeps = self
        inputs, outputs = range(len(graph.inputs)), range(len(graph.inputs), self._count)
        given, made = [layouts[n] for n in inputs], [layouts[n] for n in outputs]
        fixed = [ctypes.addressof(self._record)]
        return Specialization(kernel, given, inputs, made, outputs, fixed=fixed, release_gil=False)


def is_fast(executable: Any) -> bool:
    """Whether calls of an executable can go through machine code alone, and kernels make its outputs densely."""
    if not isinstance(executable, Executable) or not executable.is_direct or not fast_calls_available():
        return False
    edges = executable.graph.edges
    return all(executable.strides(n) == dense_strides(edges[n].shape) for n in executable.made)


#: No version of a dictionary.
_NEVER = -1


def _weight_fields(weight: Weight) -> list[int]:
    if weight.table is None:
        return [0, 0, id(weight.tensor), _NEVER, 0, *weight.state]
    is_list, is_size = isinstance(weight.table, list), weight.key is SIZE
    kind = _KINDS[f"{'list' if is_list else 'dict'}_size" if is_size else f"in_{'list' if is_list else 'dict'}"]
    key = 0 if is_size else weight.key if is_list else id(weight.key)
    return [id(weight.table), key, weight.tensor if is_size else id(weight.tensor), _NEVER, kind, *weight.state]


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


__all__ = ["NUMPY", "TORCH", "FastModel", "Weight", "is_fast"]
