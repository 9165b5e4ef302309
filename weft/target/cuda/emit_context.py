"""The state of one device function under construction: that of any C text, and what only a GPU has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Expr
from weft.ir.stmt import For
from weft.target.c_text.context import LEVEL as LEVEL
from weft.target.c_text.context import Code as Code
from weft.target.c_text.context import Memory as Memory
from weft.target.c_text.context import TextFunction, TextProgram
from weft.target.cuda.cuda_calls import cuda_call, find_plus_one
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.swizzle import SWIZZLE


@dataclass(slots=True)
class Program(TextProgram):
    """What all functions of a program share."""

    machine: GpuMachine = field(kw_only=True)
    aligned: Mapping[str, int] = field(kw_only=True)

    def generic(self, name: str, type: str, source: str = "") -> str:
        self.used.add(name)
        return f"{name}<{type}>"

    def overloaded(self, name: str, type: str) -> str:
        self.used.add(f"widen_{type}" if name == "widen" else name)
        return name

    def swizzled(self, pointer: str, offset: str) -> str:
        self.definitions.setdefault("swizzle", SWIZZLE)
        return f"swizzle({pointer}, {offset})"

    def call(self, name: str, dtype: DType, args: Sequence[Code]) -> Code | None:
        return cuda_call(self, name, dtype, args)

    def fused(self, e: Binary) -> tuple[str, Expr] | None:
        return find_plus_one(e) if self.fast else None

    def apart(self, code: Code) -> Code:
        """NVRTC before 13.4 makes wrong code of minima of minima."""
        if code.wide:
            return code
        self.used.add("apart")
        return Code(f"apart({code.text})")


@dataclass(slots=True)
class Function(TextFunction):
    """One device function."""

    program: Program
    threads: tuple[int, int, int] = (1, 1, 1)
    #: Serial loops around what is being written.
    serial_depth: int = 0
    #: Elements of shared memory that reductions across threads have used so far, by buffer.
    places: dict[str, int] = field(default_factory=dict)
    reductions_shuffle: bool = True
    #: Shared buffers that are filled by asynchronous copies.
    rings: frozenset[str] = frozenset()
    #: Buffers that matrix instructions keep spread over the lanes of a warp, with the registers of each lane.
    fragments: dict[str, int] = field(default_factory=dict)
    #: The variable that tells whether copies are started, where that is no branch around them.
    copies_if: str = ""
    #: The loops over the threads of a block, outermost first.
    thread_loops: tuple[For, ...] = ()
    #: Buffers that one statement alone stores to.
    stored_once: frozenset[str] = frozenset()

    @property
    def machine(self) -> GpuMachine:
        return self.program.machine
