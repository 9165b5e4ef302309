"""What a graph runs on: how its groups are timed, and what becomes of the steps. This machine's CPU here; a GPU in
`cuda_processor`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from weft.ir.numerics import is_fast
from weft.runtime.executor import HOST, Executor
from weft.runtime.threads import get_num_threads

if TYPE_CHECKING:
    from weft.graph.arrays import Arrays
    from weft.graph.choose import Choice
    from weft.graph.compile_group import Kernel, Prepared
    from weft.graph.executable import Step
    from weft.graph.graph import Call, Graph
    from weft.graph.storage import Storage
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

    def simplify(self, graph: Graph) -> Graph:
        """Rewrites that pay on this processor, after those that pay on all."""

    def expected_seconds(self, group: Prepared) -> float:
        """Of our kernel, by the time model."""

    def library_seconds(self, program: TensorProgram) -> float:
        """Of a library's product or convolution, expected."""

    def epilogue_seconds(self, program: TensorProgram) -> float:
        """Of reading the results of a library again and writing them changed, as a kernel of its own does."""

    def is_clear(self, expected: Choice) -> bool:
        """Whether expected times decide, so that nothing is measured."""

    def measure_kernel(self, graph: Graph, storage: Storage, kernel: Kernel) -> float: ...

    def measure_call(self, graph: Graph, call: Call, arrays: Arrays) -> float: ...

    def executable(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> Any:
        """What runs the steps."""


class Cpu:
    """This machine's CPU."""

    executor = HOST

    @property
    def machine(self) -> MachineDescription:
        return HOST.machine("cpu")

    @property
    def key(self) -> str:
        return f"{self.machine.key} {get_num_threads()}"

    def simplify(self, graph: Graph) -> Graph:
        return graph

    def expected_seconds(self, group: Prepared) -> float:
        from weft.auto.estimate import estimate
        from weft.runtime.machine_model import local_machine

        kernel = group.scheduled(self.machine)
        fast = is_fast(group.definition.how.numerics)
        return estimate(kernel, local_machine().model, get_num_threads(), fast=fast).seconds

    def library_seconds(self, program: TensorProgram) -> float:
        from weft.graph.choose import library_seconds

        return library_seconds(program)

    def epilogue_seconds(self, program: TensorProgram) -> float:
        from weft.graph.choose import epilogue_seconds

        return epilogue_seconds(program)

    def is_clear(self, expected: Choice) -> bool:
        return expected.is_ours

    def measure_kernel(self, graph: Graph, storage: Storage, kernel: Kernel) -> float:
        from weft.graph.measure import measure_kernel

        return measure_kernel(graph, storage, kernel)

    def measure_call(self, graph: Graph, call: Call, arrays: Arrays) -> float:
        from weft.graph.measure import measure_call

        return measure_call(graph, call, arrays)

    def executable(self, graph: Graph, storage: Storage, steps: Sequence[Step], arrays: Arrays) -> Any:
        from weft.graph.executable import Executable

        return Executable(graph, storage, steps, arrays)


CPU = Cpu()
