"""Memory under watch: values, which elements were written, and who touched them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.interpret_memory import dense
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.span import Span
from weft.sanitizer.lanes import Array, Lanes, Level
from weft.sanitizer.races import Shadow


@dataclass(slots=True)
class Site:
    """A load, store or atomic in the program, and the loops around it when it last ran."""

    number: int
    buffer: Buffer
    action: str
    span: Span | None
    levels: tuple[Level, ...] = ()


class Memory:
    """A buffer, once for each lane of ``home``."""

    def __init__(
        self,
        buffer: Buffer,
        home: Lanes,
        shape: tuple[int, ...],
        *,
        strides: tuple[int, ...] | None = None,
        data: Array | None = None,
    ) -> None:
        self.buffer = buffer
        self.home = home
        self.shape = shape
        self.is_dense = strides is None
        self.steps = dense(shape) if strides is None else strides
        reach = [(n - 1) * s for n, s in zip(shape, self.steps)]
        self.start = -sum(min(0, r) for r in reach)  # where element [0, ..., 0] is
        self.size = 0 if any(n <= 0 for n in shape) else self.start + sum(max(0, r) for r in reach) + 1
        total = self.size * home.count
        self.data = np.zeros(total, to_numpy(buffer.dtype)) if data is None else data
        self.written = np.zeros(total, np.bool_) if data is None else None
        self.shadow: Shadow | None = None

    def watch(self, depth: int) -> None:
        """Looks for races from now on; ``depth`` is how deep concurrent loops nest in the program."""
        self.shadow = Shadow(len(self.data), depth - len(self.home.levels))

    def element(self, flat: int) -> str:
        """How a position is written."""
        if not self.is_dense:
            return f"{self.buffer.name}[...]"
        place = np.unravel_index(flat % max(1, self.size), self.shape) if self.shape else ()
        return f"{self.buffer.name}[{', '.join(str(int(i)) for i in place)}]"
