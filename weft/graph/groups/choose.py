"""Our kernel or the library's: for products and convolutions both are candidates.

What the library takes is estimated: its arithmetic at the rate that such libraries reach on large sizes, its traffic
once, and the cost of a call. Where the time model expects our kernel to be as fast, it is taken; else both are
measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.graph.graph import shape_of
from weft.runtime.machine_model import local_machine
from weft.runtime.threads import get_num_threads
from weft.tensor.cost import infer_cost
from weft.tensor.program import TensorProgram

#: The most of the peak that a library's products and convolutions reach on packed weights; the seconds of a call.
LIBRARY_RATE, LIBRARY_CALL = 0.95, 6e-6
#: The share of our time that a library must stay below: a call makes new memory for its result and takes the model
#: out of its table of kernels, and times that are nearer to each other are noise.
WORTH_A_CALL = 0.95


@dataclass(frozen=True)
class Choice:
    """Seconds of both candidates for one group; ``how`` they were found; which call of the library's is quickest."""

    ours: float
    library: float
    how: str = "expected"
    call: int = 0
    #: of our kernel, where another than the time model's first choice was quicker
    plan: str = ""

    @property
    def is_ours(self) -> bool:
        return self.ours * WORTH_A_CALL <= self.library

    def __str__(self) -> str:
        return f"{self.library * 1e6:.0f} us {self.how} against {self.ours * 1e6:.0f}"


def library_seconds(program: TensorProgram) -> float:
    """What a library is expected to take for a program of one product or convolution."""
    cost, model = infer_cost(program), local_machine().model
    threads = min(get_num_threads(), model.cores)
    compute = 2 * multiplications(program) / (model.peak * threads * LIBRARY_RATE)
    return max(compute, (cost.bytes_read + cost.bytes_written) / model.memory.read_all) + LIBRARY_CALL


def multiplications(program: TensorProgram) -> int:
    """Points of all sums: what is multiplied and added, without what formulas spend on zeros around an image."""
    return sum(prod(shape_of([a.hi for a in s.axes])) for s in program.statements if s.reduce_axes)


def epilogue_seconds(program: TensorProgram) -> float:
    """What it takes to read the results of a library again and write them changed, as a kernel of its own does."""
    memory, written = local_machine().model.memory, infer_cost(program).bytes_written
    return written / memory.read_all + written / memory.write_all
