"""A GPU that graphs run on: our kernels by Weft's GPU schedules, libraries through torch, timed on the device."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from weft.auto.plan_names import PLAN_NAMES
from weft.graph.graph import Graph, shape_of
from weft.graph.groups.mapping import is_contraction, is_grouped
from weft.ir.expr import Const, Var
from weft.ir.visit import free_vars, loads
from weft.runtime.executor import Executor, find_executor
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.rates import rates_of
from weft.tensor.cost import infer_cost

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
    from weft.tensor.program import TensorProgram

#: The share of matrix instructions and of fused multiplications that a library reaches on large sizes.
LIBRARY_RATE = 0.7
#: How many times as long one candidate must be expected to take so that neither is measured.
CLEAR = 2.5
#: Elements added up for one result up to which a convolution is no matter of matrix instructions: each channel alone.
SHALLOW = 64
#: The share of fused multiplications that a library reaches there.
SHALLOW_RATE = 0.05
#: Seconds of a library's kernel that does next to nothing, in a CUDA graph; and for each element that it adds up, one
#: after another, for a result.
LIBRARY_CALL, LIBRARY_STEP = 3e-6, 1.2e-9
#: Columns of 16-bit elements that matrix units and accesses of 16 bytes take at a time.
EVEN = 8
#: The most elements of a row of queries that libraries' attention takes.
_MOST_WIDTH = 128


class Cuda:
    """GPU ``executor``."""

    measures_most = False
    turns = 1  # each of which is many runs
    merges_axes = takes_pieces = True
    has_winograd = joins_windows = writes_in_joins = False
    near_bytes = math.inf
    #: NVRTC takes about as long for a product as a process takes to start
    tasks_for_workers = 3

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    def wants_whole_attention(self, dtype: DType, width: int, features: int) -> bool:
        """As libraries have it."""
        fits = width == features and width % EVEN == 0 and width <= _MOST_WIDTH
        return dtype.is_narrow_float and fits

    @property
    def machine(self) -> GpuMachine:
        found = self.executor.machine("cuda")
        assert isinstance(found, GpuMachine)
        return found

    @property
    def key(self) -> str:
        return self.machine.key

    #: constants are read as they were packed, whatever their size
    cached_bytes = math.inf

    @property
    def bytes_per_second(self) -> float:
        return self.machine.bandwidth * rates_of(self.machine.capability).copy_share

    def folds_narrow(self, graph: Graph) -> bool:
        return True

    def even(self, dtype: DType) -> int:
        return EVEN if dtype.is_narrow_float else 1

    def price(self, program: TensorProgram, constants: frozenset[str]) -> float:
        """What a library takes, or any kernel: scheduling all that models are made of would take too long."""
        return self.library_seconds(program)

    def price_all(self, wanted: Iterable[tuple[TensorProgram, frozenset[str]]]) -> None:
        """Each takes no time."""

    def estimate(self) -> Callable[[LoopKernel, bool], tuple[float, str]]:
        return functools.partial(_gpu_seconds, self.machine)

    def library_seconds(self, program: TensorProgram) -> float:
        cost, machine = infer_cost(program), self.machine
        rates = rates_of(machine.capability)
        is_narrow = all(b.dtype.itemsize <= 2 for b in program.inputs if b.dtype.is_float)
        is_alone = sum(map(is_contraction, program.statements)) == 1 and is_shallow(program)
        lanes = (rates.wgmma or rates.mma) if is_narrow and not is_alone else rates.fma
        rate = SHALLOW_RATE if is_alone else LIBRARY_RATE
        compute = cost.flops / (2 * lanes * machine.sms * machine.clock * rate)
        traffic = (cost.bytes_read + cost.bytes_written) / self.bytes_per_second
        return max(compute, traffic) + LIBRARY_CALL + _depth(program) * LIBRARY_STEP

    def epilogue_seconds(self, program: TensorProgram) -> float:
        rates, written = rates_of(self.machine.capability), infer_cost(program).bytes_written
        return rates.launch + 2 * written / self.bytes_per_second

    def is_clear(self, expected: Choice, core: TensorProgram) -> bool:
        """Never for convolutions in groups: what a library takes for these nobody can tell."""
        is_far = not 1 / CLEAR < expected.ours / expected.library < CLEAR
        return is_far and not (is_shallow(core) or is_in_groups(core))

    def too_slow(self, core: TensorProgram) -> float:
        return math.inf if is_shallow(core) or is_in_groups(core) else CLEAR * self.library_seconds(core)

    def candidates(self, group: Prepared, core: Fragment) -> list[Prepared]:
        """Products of matrices by several plans; convolutions of single channels, in groups, or of elements that the
        copy engine fetches. Others by windows, and attention, are far behind the library."""
        if is_product(core.program):  # one row or column is no matter of tiles
            return [group] if _is_vector(core.program) else [group, *map(group.by_plan, PLAN_NAMES)]
        fetched = self.machine.has("tma") and is_narrow_convolution(core.program)
        return [group] if fetched or is_shallow(core.program) or is_in_groups(core.program) else []

    def measure_kernel(self, graph: Graph, storage: Storage, kernel: Kernel) -> Sampler:
        from weft.graph.groups.cuda_measure import measure_kernel

        return functools.partial(measure_kernel, graph, storage, kernel, self.executor)

    def measure_call(self, graph: Graph, call: Call, names: Sequence[str | None], arrays: Arrays) -> Sampler:
        from weft.graph.groups.cuda_measure import measure_call

        return functools.partial(measure_call, graph, call, names, arrays)

    def call_once(self, calls: Sequence[tuple[Graph, Call]], arrays: Arrays) -> None:
        from weft.graph.groups.cuda_measure import call_once

        call_once(calls, arrays)

    def executable(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> Any:
        from weft.graph.run.cuda_executable import CudaExecutable

        return CudaExecutable(graph, storage, steps, arrays)


def _depth(program: TensorProgram) -> int:
    """Elements that are added up for one result."""
    return max(prod(shape_of([a.hi for a in s.reduce_axes])) for s in program.statements)


def _is_vector(program: TensorProgram) -> bool:
    """Whether what is multiplied has one row, or one column."""
    (s,) = (s for s in program.statements if is_contraction(s))
    sizes = dict(zip((a.var.name for a in s.axes), shape_of([a.hi for a in s.axes])))
    used = [{n for i in load.indices for n in free_vars(i)} for load in loads(s.value)]
    alone = [own.difference(*used[:n], *used[n + 1 :]) for n, own in enumerate(used)]
    return min(prod(sizes[n] for n in own) for own in alone) == 1


def is_shallow(program: TensorProgram) -> bool:
    """Whether it is no matter of matrix instructions."""
    return _depth(program) <= SHALLOW and not is_product(program)


def is_in_groups(program: TensorProgram) -> bool:
    """Whether it is a convolution in groups."""
    sums = [s for s in program.statements if is_contraction(s)]
    return len(sums) == 1 and is_grouped(sums[0])


def is_narrow_convolution(program: TensorProgram) -> bool:
    """Whether it is one sum of products of 16-bit elements, in windows of which there are several channels."""
    sums = [s for s in program.statements if is_contraction(s)]
    read = [load.buffer for s in sums for load in loads(s.value)]
    return len(sums) == 1 and len(read) == 2 and all(b.dtype.is_float and b.dtype.itemsize == 2 for b in read)


def is_product(program: TensorProgram) -> bool:
    """Whether all that is multiplied is read under single subscripts: matrices, or batches of them."""
    sums = [s for s in program.statements if is_contraction(s)]
    indices = [i for s in sums for load in loads(s.value) for i in load.indices]
    return len(sums) == 1 and all(isinstance(i, (Var, Const)) for i in indices)


def _gpu_seconds(machine: GpuMachine, kernel: LoopKernel, fast: bool) -> tuple[float, str]:
    from weft.auto.gpu.estimate import estimate_gpu

    found = estimate_gpu(kernel, machine)
    return found.seconds, found.bound


@functools.cache
def cuda_processor(index: int) -> Cuda:
    """GPU number ``index``."""
    return Cuda(find_executor(f"cuda:{index}"))
