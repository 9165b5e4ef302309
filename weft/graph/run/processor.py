"""What a graph runs on: how its groups are timed, and what becomes of the steps. This machine's CPU here; a GPU in
`cuda_processor`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from weft.runtime.executor import HOST, Executor
from weft.runtime.threads import get_num_threads

if TYPE_CHECKING:
    from weft.graph.graph import Call, Fragment, Graph
    from weft.graph.groups.choose import Choice
    from weft.graph.groups.compile_group import Kernel, Prepared
    from weft.graph.groups.storage import Storage
    from weft.graph.groups.take_turns import Sampler
    from weft.graph.run.arrays import Arrays
    from weft.graph.run.segments import Step
    from weft.ir.dtype import DType
    from weft.ir.stmt import Kernel as LoopKernel
    from weft.target.cpu.machine_model import MachineModel
    from weft.target.description import MachineDescription
    from weft.tensor.program import TensorProgram


class Processor(Protocol):
    """Seconds are of one run of a candidate for a group, expected or measured."""

    @property
    def executor(self) -> Executor:
        """What loads and runs kernels."""

    @property
    def machine(self) -> MachineDescription:
        """What code is made for."""

    @property
    def key(self) -> str:
        """What choices between candidates depend on."""

    @property
    def measures_most(self) -> bool:
        """Whether most groups with a library's candidate beside them are compiled and measured."""

    def candidates(self, group: Prepared, core: Fragment) -> list[Prepared]:
        """The ways to schedule a group around ``core`` that may be as fast as the library: all are compiled at once."""

    @property
    def tasks_for_workers(self) -> int:
        """Groups to compile from which on processes beside this one pay."""

    def folds_narrow(self, graph: Graph) -> bool:
        """Whether scales go into weights of 16 bits too, which are rounded once more then."""

    def wants_whole_attention(self, dtype: DType, width: int, features: int) -> bool:
        """Whether attention of this type that is written out is better one formula, for one kernel or a library; rows
        of queries and keys have ``width`` elements, those of values ``features``."""

    @property
    def has_winograd(self) -> bool:
        """Whether convolutions of 3x3 windows may be products of sums of pixels (`rewrites/winograd.py`)."""

    @property
    def takes_pieces(self) -> bool:
        """Whether what puts a tensor together also computes its pieces: a launch costs more than an unlike thread."""

    @property
    def merges_axes(self) -> bool:
        """Whether axes of a sum that are walked together become one."""

    @property
    def joins_windows(self) -> bool:
        """Whether a product and the windows that are read of its result may be one kernel."""

    @property
    def writes_in_joins(self) -> bool:
        """Whether parts are written into what they are joined to (`groups/joined.py`)."""

    @property
    def near_bytes(self) -> float:
        """Of tensors that a core still has near when its next kernel reads them."""

    @property
    def bytes_per_second(self) -> float:
        """Read from memory, or written."""

    @property
    def cached_bytes(self) -> float:
        """Of tensors that may still be in a cache when the next call reads them."""

    def even(self, dtype: DType) -> int:
        """What columns of a matrix of such elements should be a multiple of."""

    def price(self, program: TensorProgram, constants: frozenset[str]) -> float:
        """Of a program by itself, expected, where the inputs named ``constants`` are packed before: what rewrites are
        decided by."""

    def price_all(self, wanted: Iterable[tuple[TensorProgram, frozenset[str]]]) -> None:
        """Finds many prices at once, where that is quicker."""

    def estimate(self) -> Callable[[LoopKernel, bool], tuple[float, str]]:
        """What gives, by the time model, the seconds of a scheduled kernel (with fast numerics or not), and what of the
        machine takes most of them.

        It goes to other processes: a function of a module, with values that do too.
        """

    def library_seconds(self, program: TensorProgram) -> float:
        """Of a library's product or convolution, expected."""

    def epilogue_seconds(self, program: TensorProgram) -> float:
        """Of reading the results of a library again and writing them changed, as a kernel of its own does."""

    def is_clear(self, expected: Choice, core: TensorProgram) -> bool:
        """Whether expected times decide, so that nothing is measured."""

    def too_slow(self, core: TensorProgram) -> float:
        """The expected seconds of a group around ``core`` beyond which its code is not asked for."""

    @property
    def turns(self) -> int:
        """How many samples of a candidate are taken."""

    def measure_kernel(self, graph: Graph, storage: Storage, kernel: Kernel) -> Sampler: ...

    def measure_call(self, graph: Graph, call: Call, names: Sequence[str | None], arrays: Arrays) -> Sampler: ...

    def call_once(self, calls: Sequence[tuple[Graph, Call]], arrays: Arrays) -> None:
        """For what libraries set up at first calls, where that takes long; such that fail are passed over."""

    def executable(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> Any:
        """What runs the steps."""


class Cpu:
    """This machine's CPU."""

    executor = HOST
    measures_most = True
    turns = 8
    merges_axes = takes_pieces = False
    has_winograd = joins_windows = writes_in_joins = True
    tasks_for_workers = 8

    def wants_whole_attention(self, dtype: DType, width: int, features: int) -> bool:
        return True  # scores then stay in the caches near a core

    @property
    def machine(self) -> MachineDescription:
        return HOST.machine("cpu")

    @property
    def key(self) -> str:
        return f"{self.machine.key} {get_num_threads()}"

    @property
    def bytes_per_second(self) -> float:
        from weft.runtime.machine_model import local_machine

        return local_machine().model.memory.read_all

    @property
    def near_bytes(self) -> float:
        caches = HOST.machine("cpu").caches
        return caches.get("L2") or max(caches.values(), default=0)

    @property
    def cached_bytes(self) -> float:
        return max(HOST.machine("cpu").caches.values(), default=0)

    def folds_narrow(self, graph: Graph) -> bool:
        return any(graph.edges[name].dtype.is_narrow_float for name in graph.constants)

    def even(self, dtype: DType) -> int:
        return 1

    def price(self, program: TensorProgram, constants: frozenset[str]) -> float:
        from weft.graph.groups.price_program import price_program

        return price_program(self, program, constants)

    def price_all(self, wanted: Iterable[tuple[TensorProgram, frozenset[str]]]) -> None:
        from weft.graph.groups.price_program import price_all

        price_all(self, wanted)

    def estimate(self) -> Callable[[LoopKernel, bool], tuple[float, str]]:
        from weft.runtime.machine_model import local_machine

        return functools.partial(_cpu_seconds, local_machine().model, get_num_threads())

    def library_seconds(self, program: TensorProgram) -> float:
        from weft.graph.groups.choose import library_seconds

        return library_seconds(program)

    def epilogue_seconds(self, program: TensorProgram) -> float:
        from weft.graph.groups.choose import epilogue_seconds

        return epilogue_seconds(program)

    def is_clear(self, expected: Choice, core: TensorProgram) -> bool:
        return expected.is_ours

    def too_slow(self, core: TensorProgram) -> float:
        return math.inf

    def candidates(self, group: Prepared, core: Fragment) -> list[Prepared]:
        return [group]

    def measure_kernel(self, graph: Graph, storage: Storage, kernel: Kernel) -> Sampler:
        from weft.graph.groups.measure import measure_kernel

        return measure_kernel(graph, storage, kernel)

    def measure_call(self, graph: Graph, call: Call, names: Sequence[str | None], arrays: Arrays) -> Sampler:
        from weft.graph.groups.measure import measure_call

        return measure_call(graph, call, names, arrays)

    def call_once(self, calls: Sequence[tuple[Graph, Call]], arrays: Arrays) -> None:
        """Nothing to speak of."""

    def executable(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> Any:
        from weft.graph.run.executable import Executable

        return Executable(graph, storage, steps, arrays)


def _cpu_seconds(model: MachineModel, threads: int, kernel: LoopKernel, fast: bool) -> tuple[float, str]:
    from weft.auto.estimate import estimate

    found = estimate(kernel, model, threads, fast=fast)
    return found.seconds, found.bound


CPU = Cpu()
