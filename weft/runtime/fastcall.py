"""The fast call: from Python to the kernel in a fraction of a microsecond.

A `CallTable` holds the specializations of one operator. Its ``call`` is a built-in function
made from our own machine code (`fastcall_text`) that compares the arguments with each
specialization and runs the one that fits. Anything else gives `MISS`: the caller then goes
its ordinary way, which also raises the errors::

    result = table.call(out, *args)          # out: None, an array, or a tuple of arrays
    if result is MISS:
        result = slow(args, out)             # compiles, checks, explains; then table.add(...)

Arrays may be on a GPU: what fits is then launched there (`fastcall_cuda`), without waiting for it.

Where the machine code cannot be used (another interpreter, an unknown object layout),
``call`` always gives MISS.
"""

from __future__ import annotations

import ctypes
import functools
import types
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from weft.ir.errors import InternalError
from weft.locks import new_lock
from weft.runtime import fastcall_text as text
from weft.runtime.fastcall_native import MISS, native_calls
from weft.runtime.fastcall_records import ArgumentRule, ConstantValue, DeviceMemory, Records, ScalarType, TensorLayout
from weft.runtime.kernel import RECORD_LENGTH, LoadedKernel

if TYPE_CHECKING:
    from weft.runtime.fastcall_cuda import DeviceStart
#: How many specializations a call compares itself with; of more, those added last.
_PLANS_AT_MOST = 64
#: Arrays of plans kept, old ones too: a call that asks torch something may lose the GIL amid one.
_ARRAYS_KEPT = 16


class Specialization:
    """A compiled kernel and the arguments it is for.

    ``argument_slots`` and ``output_slots`` say which parameter of the kernel each argument
    and output is (None: none); ``fixed`` are the values of the last ones, the same in every call.
    ``release_gil`` lets other Python threads run meanwhile; it costs some 50 ns.
    ``allocates``: outputs may be made here where a call gives none.
    """

    def __init__(
        self,
        kernel: LoadedKernel | DeviceStart,
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
    GIL never loses its code. Without outputs (``nouts`` is 0), calls write arguments and give None.
    """

    def __init__(self, nargs: int, nouts: int) -> None:
        self.nargs, self.nouts = nargs, nouts
        self._plans: dict[int, tuple[int, bool]] = {}
        self._active: list[int] = []
        self._addresses: deque[Any] = deque(maxlen=_ARRAYS_KEPT)
        self._records, self._lock = Records(), new_lock()
        fits = nargs <= text.MAX_ARGUMENTS and nouts <= text.MAX_OUTPUTS
        self._native = native_calls() if fits else None
        self.call: Callable[..., Any] = lambda *_: MISS
        self.capsule: object = None
        if self._native is not None:
            self._header = _words([nargs, nouts, 0, 0])
            self.capsule = self._native.new_capsule(ctypes.addressof(self._header))
            self.call = self._native.new_function(self.capsule, self)

    def add(self, specialization: Specialization) -> None:
        """Calls that fit ``specialization`` are fast from now on; adding it again costs next to nothing."""
        if self._native is None or len(specialization.fixed) > text.MAX_FIXED:
            return
        with self._lock:
            self._add(specialization, self._native.bind_torch())

    def _add(self, specialization: Specialization, with_torch: bool) -> None:
        kept = self._plans.get(id(specialization))
        if kept is not None and kept[1] == with_torch and id(specialization) in self._active:
            return
        if kept is None or kept[1] != with_torch:
            kept = self._make_plan(specialization, with_torch), with_torch
            self._plans[self._records.address_of(specialization)] = kept
        self._publish([*(i for i in self._active if i != id(specialization)), id(specialization)][-_PLANS_AT_MOST:])

    def remove(self, specialization: Specialization) -> None:
        """Calls that fit it are slow again."""
        with self._lock:
            if id(specialization) in self._active:
                self._publish([i for i in self._active if i != id(specialization)])

    def _publish(self, active: list[int]) -> None:
        self._active = active
        addresses = _words([self._plans[i][0] for i in reversed(self._active)])
        # Another thread may call between any two of these lines: the new array is there before the old one goes,
        # and the count is right for both.
        count = text.TABLE.index("count")
        self._header[count] = min(self._header[count], len(addresses))
        self._header[text.TABLE.index("plans")] = ctypes.addressof(addresses)
        self._header[count] = len(addresses)
        self._addresses.append(addresses)

    def _make_plan(self, spec: Specialization, with_torch: bool) -> int:
        records, kernel = self._records, spec.kernel
        arguments = [
            field
            for rule, slot in zip(spec.arguments, spec.argument_slots)
            for field in records.record(rule, -1 if slot is None else slot)
        ]
        outputs = [
            field
            for layout, slot in zip(spec.outputs, spec.output_slots)
            for field in records.record(layout, slot, allocate=True, with_torch=with_torch)
        ]
        fields = {
            "address": kernel.address if isinstance(kernel, LoadedKernel) else 0,
            "nslots": len(kernel.params),
            "release": spec.release_gil,
            "allocates": spec.allocates and all(o.is_dense for o in spec.outputs),
            "on_error": records.address_of(functools.partial(_raise_status, kernel)),
            "args": records.words(arguments),
            "outs": records.words(outputs),
            "fixed": records.words(spec.fixed),
            "nfixed": len(spec.fixed),
            "start": 0 if isinstance(kernel, LoadedKernel) else records.words(kernel.fields(records)),
        }
        return records.words(fields[name] for name in text.PLAN)


def _words(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


def _raise_status(kernel: LoadedKernel | DeviceStart, status: int, address: int) -> None:
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
    "ArgumentRule", "CallTable", "ConstantValue", "DeviceMemory", "MISS", "ScalarType",
    "Specialization", "TensorLayout", "fast_calls_available", "make_calls_fast",
]  # fmt: skip
