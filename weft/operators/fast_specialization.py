"""What the fast call (`weft.runtime.fastcall`) has to know of a specialization, for the CPU or a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir import dtype as dt
from weft.ir.dtype import SCALAR_TYPES
from weft.operators.interface import Interface, Parameter
from weft.operators.signature import Layout, Signature, dense_strides
from weft.runtime import fastcall
from weft.runtime.argument import Framework
from weft.runtime.executor import ALIGNMENT
from weft.runtime.fastcall import ArgumentRule, ConstantValue, DeviceMemory, ScalarType, TensorLayout
from weft.runtime.kernel import LoadedKernel, scalar_bits

if TYPE_CHECKING:
    from weft.operators.specialization import OutputLayout, Specialization
    from weft.runtime.cuda_program import LoadedProgram, Plan
    from weft.runtime.fastcall_cuda import DeviceStart
    from weft.runtime.fastcall_native import Exchange


def fast_specialization(
    kernel: LoadedKernel | DeviceStart,
    interface: Interface,
    signature: Signature,
    outputs: Sequence[OutputLayout],
    fixed: Sequence[int],
    *,
    release_gil: bool = False,
    memory: Mapping[str, DeviceMemory] | None = None,
    exact: Mapping[str, int] | None = None,
    written: frozenset[str] = frozenset(),
) -> fastcall.Specialization:
    """For calls of ``signature``; ``fixed`` are the bits of the last parameters, ``memory`` is where arrays are.

    Numbers in ``exact`` must have these values; arguments that are ``written`` must overlap no other.
    """
    places = memory or {}
    layouts, constants, given = dict(signature.tensors), dict(signature.constants), dict(signature.outputs)
    fresh = {o.name: Layout(o.dtype.name, o.shape, dense_strides(o.shape)) for o in outputs}

    def rule(p: Parameter) -> ArgumentRule:
        if p.name in layouts:
            return _rule(layouts[p.name], places.get(p.name))._replace(written=p.name in written)
        value = (constants | dict(exact or {})).get(p.name)
        return ScalarType(SCALAR_TYPES[p.dtype]) if value is None else ConstantValue(value)

    passed = [p.name for p in interface.params if p.name not in constants]
    slots = [passed.index(p.name) if p.name not in constants else None for p in interface.params]
    return fastcall.Specialization(
        kernel,
        [rule(p) for p in interface.params],
        slots,
        [_rule((fresh | given)[o.name], places.get(o.name)) for o in outputs],
        range(len(passed), len(passed) + len(outputs)),
        fixed=fixed,
        release_gil=release_gil,
        allocates=not given and all(o.fill is None for o in outputs) and not any(o.needed for o in interface.outputs),
    )


def _rule(layout: Layout, memory: DeviceMemory | None) -> TensorLayout:
    return TensorLayout(SCALAR_TYPES[layout.dtype], layout.shape, layout.strides, memory)


def fixed_bits(types: Sequence[dt.DType | None], fixed: Sequence[int | float]) -> list[int]:
    """The values of the last parameters of a kernel, which has parameters of these ``types``, as their slots."""
    last = types[len(types) - len(fixed) :]
    return [int(v) if dtype is None else scalar_bits(dtype, v) for dtype, v in zip(last, fixed)]


class ArrayKind(NamedTuple):
    """What an array on a GPU was like: its class and where it began."""

    cls: type
    pointer: int


class _Placer:
    """Where arrays of calls are that ``exchange`` reads."""

    def __init__(self, exchange: Exchange, framework: Framework, index: int) -> None:
        self._exchange, self._framework, self._index = exchange, framework, index

    def given(self, kind: ArrayKind) -> DeviceMemory:
        return DeviceMemory(self._index, self._exchange.framework, ALIGNMENT, kind.pointer % ALIGNMENT)

    def made(self, dtype: dt.DType, shape: tuple[int, ...]) -> Callable[[], Any]:
        from weft.runtime.cuda_arrays import allocator

        return allocator(self._framework, dtype, shape, self._index)

    def start(self, program: LoadedProgram, plan: Plan) -> DeviceStart:
        from weft.runtime.fastcall_cuda import DeviceStart

        scratch, room = None, (plan.scratch_bytes,)
        if plan.scratch_bytes:
            memory = DeviceMemory(self._index, self._exchange.framework, ALIGNMENT, 0, self.made(dt.uint8, room))
            scratch = TensorLayout(dt.uint8, room, (1,), memory)
        return DeviceStart(program, plan, self._exchange.stream, scratch)


def _find_placer(program: LoadedProgram, framework: Framework, kinds: Iterable[ArrayKind]) -> _Placer | None:
    """None where machine code cannot read such arrays, all of one framework, or not find their stream."""
    exchange, index = _common_exchange([kind.cls for kind in kinds]), program.device.index
    if exchange is None or not _tells_stream(exchange, framework, index):
        return None
    return _Placer(exchange, framework, index)


def fast_device_specialization(
    interface: Interface,
    special: Specialization,
    plan: Plan,
    framework: Framework,
    kinds: Mapping[str, ArrayKind],
    exact: Mapping[str, int],
    written: frozenset[str],
) -> fastcall.Specialization | None:
    """For calls with arrays of these ``kinds``; None where machine code cannot read them."""
    program: LoadedProgram = special.loaded
    placer = _find_placer(program, framework, kinds.values())
    if placer is None:
        return None
    places = {name: placer.given(kind) for name, kind in kinds.items()}
    places |= {o.name: places[o.name]._replace(make=placer.made(o.dtype, o.shape)) for o in special.outputs}
    start = placer.start(program, plan)
    last = start.last_slots(fixed_bits([dtype for _, dtype in special.params], special.fixed))
    return fast_specialization(
        start, interface, special.signature, special.outputs, last, memory=places, exact=exact, written=written
    )


def _common_exchange(classes: Sequence[type]) -> Exchange | None:
    """How arrays of all these ``classes`` are read; None where they are of several frameworks, or one is unknown."""
    from weft.runtime.fastcall_native import native_calls

    native = native_calls()
    exchanges = [None if native is None else native.bind_class(cls) for cls in classes]
    numbers = {None if exchange is None else exchange.framework for exchange in exchanges}
    return exchanges[0] if len(numbers) == 1 else None


def _tells_stream(exchange: Exchange, framework: Framework, index: int) -> bool:
    """Whether the function that machine code asks names the stream that the framework itself does."""
    from weft.runtime.cuda_arrays import stream_getter
    from weft.runtime.fastcall_text import ON_CUDA

    stream = ctypes.c_void_p()
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
    try:
        status = prototype(exchange.stream)(ON_CUDA, index, ctypes.addressof(stream))
    except Exception:  # the function is foreign code, and says in its own words that it has no such device
        return False
    return status == 0 and (framework == "dlpack" or (stream.value or 0) == stream_getter(framework)(index))
