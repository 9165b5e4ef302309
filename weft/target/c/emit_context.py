"""The state of a C function under construction: that of any C text, and how failures leave it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.ir.dtype import DType
from weft.target.c.prelude import TYPE_NAMES
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import LEVEL, Code, TextFunction, TextProgram

#: The status of what ended early and is in order.
DONE = "INT32_MAX"


@dataclass(slots=True)
class Program(TextProgram):
    """What all functions of a program share: functions for several types have one copy for each."""

    def generic(self, name: str, type: str, source: str = "") -> str:
        found = "_".join([name, TYPE_NAMES[type], *([TYPE_NAMES[source]] if source else [])])
        self.used.add(found)
        return found

    def overloaded(self, name: str, type: str) -> str:
        return self.generic(name, type)

    def call(self, name: str, dtype: DType, args: Sequence[Code]) -> Code | None:
        if name != "popcount":
            return None
        self.used.add("count_ones")
        # A negative number of fewer bits than 64 would come with ones in front.
        code = f"count_ones((uint{dtype.bits}_t){args[0].inside(LEVEL['unary'])})"
        return Code(f"({value_type(dtype)}){code}", LEVEL["unary"], wide=dtype.bits == 64)


@dataclass(slots=True)
class Function(TextFunction):
    """One function; a failure sets ``status`` and goes to the last of ``exits``."""

    program: Program
    #: Whether this is inside a loop that several threads run.
    is_parallel: bool = field(default=False, kw_only=True)

    def leave(self, status: str) -> None:
        self.line(f"status = {status};")
        self.line(f"goto {self.exits[-1]};")

    def label(self, name: str) -> None:
        """The place ``name``, for whoever leaves; a declaration may follow."""
        self.lines.append("  " * (self.depth - 1) + f"{name}:;")
