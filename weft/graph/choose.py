"""Our kernel or the library's: for products and convolutions both are candidates, and the time model decides.

What the library takes is estimated too: its arithmetic at the rate that such libraries reach on large sizes, its
traffic once, and the cost of a call. Small sizes are decided by the call, large ones by our own schedule.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.runtime.machine_model import local_machine
from weft.runtime.threads import get_num_threads
from weft.tensor.cost import infer_cost
from weft.tensor.program import TensorProgram

#: The share of the peak that a library's products and convolutions reach, and the seconds of a call through it.
LIBRARY_RATE, LIBRARY_CALL = 0.8, 6e-6


@dataclass(frozen=True)
class Choice:
    """Seconds expected of both candidates for one group."""

    ours: float
    library: float

    @property
    def is_ours(self) -> bool:
        return self.ours <= self.library


def library_seconds(program: TensorProgram, is_alone: bool) -> float:
    """What a library is expected to take for a program of one product or convolution.

    Unless it ``is_alone``, what follows it in its group reads its results again and writes its own.
    """
    cost, model = infer_cost(program), local_machine().model
    threads = min(get_num_threads(), model.cores)
    compute = cost.flops / (model.peak * threads * LIBRARY_RATE)
    moved = cost.bytes_read + cost.bytes_written
    rest = 0.0 if is_alone else cost.bytes_written / model.memory.read_all + cost.bytes_written / model.memory.write_all
    return max(compute, moved / model.memory.read_all) + rest + LIBRARY_CALL
