"""Where code runs: what a target needs on the side that loads, allocates and launches (see `weft.target.target`).

There is an executor for each kind of device: this host here, a GPU in `weft.runtime.cuda_executor`. A new one is a
class derived from this one and a line in `find_executor`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from weft.ir.dtype import DType
from weft.runtime.argument import ArgumentInfo, Framework
from weft.runtime.arrays import allocate, zeroed_bytes
from weft.runtime.kernel import LoadedKernel
from weft.runtime.loader import load_object
from weft.runtime.machine_model import local_machine
from weft.runtime.native import RUNTIME_SYMBOLS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from weft.ir.span import Span
    from weft.runtime.fastcall_cuda import DeviceStart
    from weft.runtime.fastcall_records import DeviceMemory
    from weft.target.description import MachineDescription

#: What accesses of several elements at once need on a GPU; arrays that start elsewhere get code of their own.
ALIGNMENT = 16
#: The parameters of a kernel: a name and, for a number, its type.
Params = Sequence["tuple[str, DType | None]"]


class Made(Protocol):
    """An output that a call may have to make."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


class FastStart(NamedTuple):
    """What machine code starts (`weft.runtime.fastcall`), where arrays are that are not on the host, and the values of
    the kernel's slots after those of its parameters."""

    kernel: LoadedKernel | DeviceStart
    memory: Mapping[str, DeviceMemory] = MappingProxyType({})
    last: Sequence[int] = ()


class About(NamedTuple):
    """Whose program it is, what each of its asserts means, and where it stands."""

    owner: str
    messages: Sequence[str]
    spans: Sequence[Span | None]


class Executor:
    """A device: ``name`` is what arrays on it say, ``code_alignment`` what code may depend on of their addresses.

    This one is the host itself; those of other devices replace what is different there.
    """

    name = "cpu"
    code_alignment = 1

    def machine(self, target: str) -> MachineDescription:
        """What ``target`` makes code for here."""
        return replace(local_machine(), target=target)

    def compiling(self) -> AbstractContextManager[object]:
        """What holds while code is compiled and loaded."""
        return contextlib.nullcontext()

    def load(self, facts: Mapping[str, Any], blob: bytes, params: Params, about: About) -> Any:
        """The `weft.target.description.Code` of a program, in memory."""
        if facts["format"] == "library":
            from weft.runtime.library import load_library

            code = load_library(blob)
        else:
            code = load_object(blob, RUNTIME_SYMBOLS)
        return LoadedKernel(code, facts["entry"], [dtype for _, dtype in params], about.messages, about.spans)

    def framework(self, arrays: Sequence[ArgumentInfo]) -> Framework:
        """Whose arrays a call with ``arrays`` gives."""
        return arrays[0].framework if arrays else "numpy"

    def fresh(self, framework: Framework, dtype: DType, shape: tuple[int, ...], fill: Any) -> Any:
        """An array, filled unless ``fill`` is None."""
        array = allocate(framework, dtype, shape)
        if fill is not None:
            array[...] = fill
        return array

    def run(self, loaded: Any, values: Sequence[int | float], arrays: Sequence[ArgumentInfo]) -> None:
        """One call; ``arrays`` are the caller's, among whose work it takes its place."""
        loaded.run(values)

    def prepare(
        self, loaded: Any, values: Sequence[int | float], sizes: Sequence[int], arrays: Sequence[ArgumentInfo]
    ) -> list[tuple[Any, int]]:
        """Memory of these sizes, each with its address, filled by one call after which it never changes."""
        memory = [(array, array.ctypes.data) for array in map(zeroed_bytes, sizes)]
        loaded.run([*values, *(address for _, address in memory)])
        return memory

    def fast_start(
        self,
        loaded: Any,
        values: Sequence[ArgumentInfo | int | float | bool],
        fixed: Sequence[int | float],
        outputs: Sequence[Made],
    ) -> FastStart | None:
        """How machine code runs calls like that with ``values``, ``fixed`` after them; None where it cannot."""
        return FastStart(loaded)

    def kinds(self, values: Sequence[Any]) -> tuple[object, ...]:
        """What tells calls apart, beyond the code they run, that machine code takes each by a rule of its own."""
        return ()


def slot_value(value: ArgumentInfo | int | float | bool) -> int | float:
    """A number, or the address of an array, as a value of a call."""
    return value.pointer if isinstance(value, ArgumentInfo) else value


HOST = Executor()


def find_executor(device: str) -> Executor:
    """The executor of ``device``, named as arrays name where they are."""
    if device == HOST.name:
        return HOST
    from weft.runtime.cuda_executor import GpuExecutor

    return GpuExecutor(device)
