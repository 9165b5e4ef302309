"""What rewrites are decided by: the seconds of a processor, and what libraries on it offer."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.graph.graph import Call, Edge
from weft.graph.run.arrays import Arrays
from weft.ir.dtype import DType
from weft.ir.faults import refused
from weft.tensor.program import TensorProgram


@dataclass(frozen=True)
class Costs:
    """Of the processor that has ``arrays`` in its memory."""

    arrays: Arrays

    def seconds(self, program: TensorProgram, constants: frozenset[str]) -> float:
        """Of a program some of whose inputs are constants, by itself; none takes it where it is refused."""
        try:
            return self.arrays.processor.price(program, constants)
        except Exception as error:  # compiling it finds another way
            refused(error)
            return math.inf

    def prepare(self, wanted: Iterable[tuple[TensorProgram, frozenset[str]]]) -> None:
        """Finds the seconds of many programs at once, which are then asked for one by one."""
        self.arrays.processor.price_all(wanted)

    def conversion(self, nbytes: int) -> float:
        """Of a tensor read in one order and written in another."""
        return 2 * nbytes / self.arrays.processor.bytes_per_second

    def takes_no_longer(self, new: Sequence[TensorProgram], old: Sequence[TensorProgram]) -> bool:
        """Whether programs take no longer than others do, where all they read but the first tensor is constant."""

        def total(several: Sequence[TensorProgram]) -> float:
            return sum(self.seconds(p, all_but_first(p)) for p in several)

        return total(new) <= total(old)

    def even(self, dtype: DType) -> int:
        """What columns of a matrix of such elements should be a multiple of."""
        return self.arrays.processor.even(dtype)

    def is_for_last(self, call: Call) -> bool:
        """Whether a library computes with features last in memory, and converts what lies otherwise."""
        return self.arrays.is_for_last(call)

    def call_of(self, formula: Callable[..., Any], args: Sequence[Hashable], edges: Sequence[Edge]) -> Call | None:
        """The library's call for a formula."""
        return self.arrays.call_of(formula, args, edges)


def all_but_first(program: TensorProgram) -> frozenset[str]:
    """What `Costs.takes_no_longer` takes for constant."""
    return frozenset(b.name for b in program.inputs[1:])
