"""The fast call: from Python to the kernel in a fraction of a microsecond.

A `CallTable` holds the specializations of one operator. Its ``call`` is a built-in function
made from our own machine code (`fastcall_text`) that compares the arguments with each
specialization and runs the one that fits. Anything else gives `MISS`: the caller then goes
its ordinary way, which also raises the errors::

    result = table.call(out, *args)          # out: None, an array, or a tuple of arrays
    if result is MISS:
        result = slow(args, out)             # compiles, checks, explains; then table.add(...)

Where the machine code cannot be used (another interpreter, an unknown object layout),
``call`` always gives MISS.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime import fastcall_text as text
from weft.runtime.fastcall_native import MISS, native_calls
from weft.runtime.kernel import RECORD_LENGTH, LoadedKernel

_DLPACK_KINDS = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}
#: How many specializations a call compares itself with; of more, those added last.
_PLANS_AT_MOST = 64
#: Arrays of plans kept, old ones too: a call that asks torch something may lose the GIL amid one.
_ARRAYS_KEPT = 16


class TensorLayout(NamedTuple):
    """An array argument: exactly this type, shape and strides (in elements)."""

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_dense(self) -> bool:
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != step and 0 not in self.shape:
                return False
            step *= size
        return True


class ScalarType(NamedTuple):
    """A number passed to the kernel."""

    dtype: DType


class ConstantValue(NamedTuple):
    """An integer the code was specialized for: exactly this value."""

    value: int


ArgumentRule: TypeAlias = "TensorLayout | ScalarType | ConstantValue"


class Specialization:
    """A compiled kernel and the arguments it is for.

    ``argument_slots`` and ``output_slots`` say which parameter of the kernel each argument
    and output is (None: none); ``fixed`` are the values of the last ones, the same in every call.
    ``release_gil`` lets other Python threads run meanwhile; it costs some 50 ns.
    ``allocates``: outputs may be made here where a call gives none.
    """

    def __init__(
        self,
        kernel: LoadedKernel,
        arguments: Sequence[ArgumentRule],
        argument_slots: Sequence[int | None],
        outputs: Sequence[TensorLayout],
        output_slots: Sequence[int],
        *,
        fixed: Sequence[int] = (),
        release_gil: bool = True,
        allocates: bool = True,
    ) -> None:
        self.kernel = kernel
        self.arguments, self.argument_slots = tuple(arguments), tuple(argument_slots)
        self.outputs, self.output_slots = tuple(outputs), tuple(output_slots)
        self.fixed = tuple(fixed)
        self.release_gil, self.allocates = release_gil, allocates
        used = sorted(s for s in (*self.argument_slots, *self.output_slots) if s is not None)
        if used != list(range(len(kernel.params) - len(self.fixed))):
            raise InternalError("a specialization must fill every kernel parameter once", why=f"it fills {used}")


class CallTable:
    """The specializations of one operator, most recently used first.

    Everything added stays in memory as long as the table, so a call that runs without the
    GIL never loses its code.
    """

    def __init__(self, nargs: int, nouts: int) -> None:
        self.nargs, self.nouts = nargs, nouts
        self._plans: dict[int, tuple[Any, bool]] = {}
        self._active: list[int] = []
        self._addresses: deque[Any] = deque(maxlen=_ARRAYS_KEPT)
        self._keep: list[object] = []
        fits = nargs <= text.MAX_ARGUMENTS and 1 <= nouts <= text.MAX_OUTPUTS
        self._native = native_calls() if fits else None
        self.call: Callable[..., Any] = _always_miss
        self.capsule: object = None
        if self._native is not None:
            self._header = _words([nargs, nouts, 0, 0])
            self.capsule = self._native.new_capsule(ctypes.addressof(self._header))
            self.call = self._native.new_function(self.capsule, self)

    def add(self, specialization: Specialization) -> None:
        """Calls that fit ``specialization`` are fast from now on; adding it again costs next to nothing."""
        if self._native is None or len(specialization.fixed) > text.MAX_FIXED:
            return
        with_torch = self._native.bind_torch()
        known = self._plans.get(id(specialization))
        if known is not None and known[1] == with_torch and id(specialization) in self._active:
            return
        if known is None or known[1] != with_torch:
            plan = self._make_plan(specialization, with_torch)
            self._keep += [specialization, plan]
            self._plans[id(specialization)] = plan, with_torch
        self._active = [*(i for i in self._active if i != id(specialization)), id(specialization)][-_PLANS_AT_MOST:]
        addresses = _words([ctypes.addressof(self._plans[i][0]) for i in reversed(self._active)])
        # Another thread may call between any two of these lines: the new array is there before the old one goes.
        # It is never shorter, so the old count is right for both.
        self._header[text.TABLE.index("plans")] = ctypes.addressof(addresses)
        self._header[text.TABLE.index("count")] = len(addresses)
        self._addresses.append(addresses)

    def _make_plan(self, spec: Specialization, with_torch: bool) -> Any:
        handler = functools.partial(_raise_status, spec.kernel)
        arguments = [
            field
            for rule, slot in zip(spec.arguments, spec.argument_slots)
            for field in self._record(rule, -1 if slot is None else slot)
        ]
        outputs = [
            field
            for layout, slot in zip(spec.outputs, spec.output_slots)
            for field in self._record(layout, slot, allocate=True, with_torch=with_torch)
        ]
        blocks = _words(arguments), _words(outputs), _words(spec.fixed)
        self._keep += [handler, *blocks]
        can_allocate = spec.allocates and all(o.is_dense for o in spec.outputs)
        args, outs, fixed = map(ctypes.addressof, blocks)
        nslots, nfixed = len(spec.kernel.params), len(spec.fixed)
        return _words(
            [spec.kernel.address, nslots, spec.release_gil, can_allocate, id(handler), args, outs, fixed, nfixed]
        )

    def _record(self, rule: ArgumentRule, slot: int, *, allocate: bool = False, with_torch: bool = False) -> list[int]:
        fields = dict.fromkeys(text.RECORD, 0) | {"slot": slot}
        if isinstance(rule, ConstantValue):
            fields |= {"kind": text.INTEGER, "least": rule.value, "most": rule.value}
        elif isinstance(rule, ScalarType):
            fields |= _scalar_fields(rule.dtype)
        else:
            fields |= self._tensor_fields(rule)
            if allocate:
                fields |= self._allocation_fields(rule, with_torch)
        return list(fields.values())

    def _tensor_fields(self, layout: TensorLayout) -> dict[str, int]:
        numpy_type, size = to_numpy(layout.dtype), layout.dtype.itemsize
        twins = {"l": "q", "q": "l", "L": "Q", "Q": "L"}  # two names of the 64-bit integers
        other = np.dtype(twins.get(numpy_type.char, numpy_type.char)) if layout.dtype.is_integer else numpy_type
        reach = [(n - 1) * s * size for n, s in zip(layout.shape, layout.strides)]
        is_empty = 0 in layout.shape
        counts = [-(n > 1 and not is_empty) for n in layout.shape]
        arrays = {
            "dims": _words(layout.shape),
            "strides": _words([s * size for s in layout.strides]),
            "elements": _words(layout.strides),
            "keep": _words(counts),
        }
        self._keep += [numpy_type, *arrays.values()]
        return {
            "kind": text.TENSOR,
            "ndim": len(layout.shape),
            "type": numpy_type.num,
            "other_type": other.num if other.itemsize == size else numpy_type.num,
            "dlpack": _DLPACK_KINDS[layout.dtype.kind] | size * 8 << 8 | 1 << 16,
            "mask": size - 1,
            "low": 0 if is_empty else sum(r for r in reach if r < 0),
            "high": 0 if is_empty else sum(r for r in reach if r > 0) + size,
        } | {name: ctypes.addressof(a) for name, a in arrays.items()}

    def _allocation_fields(self, layout: TensorLayout, with_torch: bool) -> dict[str, int]:
        fields = {"descr": id(to_numpy(layout.dtype))}
        if with_torch:
            torch = sys.modules["torch"]
            one = () if 0 not in layout.shape else layout.shape
            prototype = torch.empty(one, dtype=getattr(torch, layout.dtype.name), device="cpu").expand(layout.shape)
            self._keep.append(prototype)
            fields["prototype"] = id(prototype)
        return fields


def _scalar_fields(dtype: DType) -> dict[str, int]:
    if dtype.is_bool:
        return {"kind": text.BOOL}
    if dtype.is_float:
        return {"kind": text.FLOAT64 if dtype.bits == 64 else text.FLOAT32}
    # What int64 cannot hold goes the slow way.
    return {"kind": text.INTEGER, "least": dtype.min_value, "most": min(dtype.max_value, (1 << 63) - 1)}


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def _always_miss(*_: Any) -> Any:
    return MISS


def _raise_status(kernel: LoadedKernel, status: int, address: int) -> None:
    record = (ctypes.c_int64 * RECORD_LENGTH).from_address(address)
    raise kernel.error(status, list(record))


def make_calls_fast(cls: type) -> bool:
    """Gives ``cls`` a ``__call__`` of machine code: no Python runs between the caller and the kernel.

    Instances have ``_fast_table``, the ``capsule`` of a `CallTable` they keep (or None), and
    ``_call_slowly(*args, **named)``, which takes every call that does not fit. Does nothing and
    gives False where fast calls are not available.
    """
    native = native_calls()
    if native is None:
        return False
    if not isinstance(vars(cls).get("__call__"), types.MethodDescriptorType):
        cls.__call__ = native.new_method(cls)  # type: ignore[method-assign]
    return True


def fast_calls_available() -> bool:
    """Whether calls can take the fast path in this interpreter."""
    return native_calls() is not None


__all__ = [
    "ArgumentRule", "CallTable", "ConstantValue", "MISS", "ScalarType", "Specialization", "TensorLayout",
    "fast_calls_available", "make_calls_fast",
]  # fmt: skip
