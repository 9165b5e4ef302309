"""A GPU as the place where code runs. Nothing here waits for it, except what is done once for bound values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.runtime.argument import ArgumentInfo, Framework
from weft.runtime.arrays import allocate
from weft.runtime.cuda_arrays import address_of, fill_on_device, main_framework, order_streams, stream_getter
from weft.runtime.cuda_device import find_device
from weft.runtime.cuda_driver import ask, capture_relaxed
from weft.runtime.cuda_program import LoadedProgram
from weft.runtime.executor import ALIGNMENT, About, Executor, FastStart, Made, Params, slot_value
from weft.target.cuda.program import program_from_json

if TYPE_CHECKING:
    from weft.target.description import MachineDescription


class GpuExecutor(Executor):
    """The GPU called ``name``, such as ``cuda:0``."""

    code_alignment = ALIGNMENT

    def __init__(self, name: str) -> None:
        self.name, self.device = name, find_device(int(name[5:]))

    def machine(self, target: str) -> MachineDescription:
        return self.device.machine

    @contextlib.contextmanager
    def compiling(self) -> Iterator[None]:
        """Also while a graph is captured."""
        with self.device.current(), capture_relaxed():
            yield

    def load(self, facts: Mapping[str, Any], blob: bytes, params: Params, about: About) -> LoadedProgram:
        program = replace(program_from_json(facts), cubin=blob)
        return LoadedProgram(program, self.device, params, about.owner, about.spans)

    def framework(self, arrays: Sequence[ArgumentInfo]) -> Framework:
        return main_framework(arrays)

    def fresh(self, framework: Framework, dtype: DType, shape: tuple[int, ...], fill: Any) -> Any:
        array = allocate(framework, dtype, shape, self.name)
        if fill is not None:
            fill_on_device(array, fill, stream_getter(framework)(self.device.index))
        return array

    def run(self, loaded: LoadedProgram, values: Sequence[int | float], arrays: Sequence[ArgumentInfo]) -> None:
        self.device.check_records()
        framework = main_framework(arrays)
        stream = stream_getter(framework)(self.device.index)
        order_streams(arrays, stream)
        self._start(loaded, values, framework, stream)

    def prepare(
        self, loaded: LoadedProgram, values: Sequence[int | float], sizes: Sequence[int], arrays: Sequence[ArgumentInfo]
    ) -> list[tuple[Any, int]]:
        framework = main_framework(arrays)
        made = [allocate(framework, dt.uint8, (count,), self.name) for count in sizes]
        memory = [(array, address_of(array)) for array in made]
        stream = stream_getter(framework)(self.device.index)
        self._start(loaded, [*values, *(address for _, address in memory)], framework, stream)
        ask("cuStreamSynchronize", stream)  # later calls may be on other streams
        return memory

    def _start(self, loaded: LoadedProgram, values: Sequence[int | float], framework: Framework, stream: int) -> None:
        """Memory for temporaries is given back at once: it is used again only for work after this."""
        plan = loaded.plan(values)
        scratch = allocate(framework, dt.uint8, (plan.scratch_bytes,), self.name) if plan.scratch_bytes else None
        loaded.start(plan, values, stream, 0 if scratch is None else address_of(scratch))

    def fast_start(
        self,
        loaded: LoadedProgram,
        values: Sequence[ArgumentInfo | int | float | bool],
        fixed: Sequence[int | float],
        outputs: Sequence[Made],
    ) -> FastStart | None:
        from weft.runtime.fastcall_cuda import start_of

        plan = loaded.plan([*map(slot_value, values), *fixed])
        named = {name: v for (name, _), v in zip(loaded.params, values) if isinstance(v, ArgumentInfo)}
        return start_of(loaded, plan, named, outputs)

    def kinds(self, values: Sequence[Any]) -> tuple[object, ...]:
        return tuple((type(v.owner), v.pointer % ALIGNMENT) for v in values if isinstance(v, ArgumentInfo))
