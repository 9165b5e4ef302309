"""The state of one device function under construction: that of any C text, and what only a GPU has.

Calls that CUDA C++ has other code for than C: instructions that fast numerics may take, and its own names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Const, Expr, Var
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import LEVEL as LEVEL
from weft.target.c_text.context import Code as Code
from weft.target.c_text.context import Memory as Memory
from weft.target.c_text.context import TextFunction, TextProgram
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.swizzle import SWIZZLE

if TYPE_CHECKING:
    from weft.target.cuda.emit_roles import Engine

#: Functions that are cheaper to compute together with a 1 that is added.
_PLUS_ONE = {"erf": "one_plus_erf", "tanh": "one_plus_tanh"}


def find_plus_one(e: Binary) -> tuple[str, Expr] | None:
    """The function that ``e``, 1 and the value of a function, is, and its argument."""
    if e.op != "+" or e.dtype != dt.float32:
        return None
    for one, other in ((e.left, e.right), (e.right, e.left)):
        if isinstance(one, Const) and one.value == 1 and isinstance(other, Call) and other.name in _PLUS_ONE:
            return _PLUS_ONE[other.name], other.args[0]
    return None


#: Functions for which fast numerics take the instruction for powers of 2, as if the argument were rounded once more.
_QUICK = ("exp", "exp2", "sigmoid", "tanh")


def cuda_call(program: Program, name: str, t: DType, args: Sequence[Code]) -> Code | None:
    """The text of a call, where it is not that of any C text."""
    if name == "popcount":
        return _popcount(t, args[0])
    if not program.fast:
        return None
    if name == "rsqrt":
        return Code(f"rsqrt{'' if t.bits == 64 else 'f'}({args[0].text})")
    if name in _QUICK and t.bits < 64:
        program.used.add(f"quick_{name}")
        return Code(f"quick_{name}({args[0].text})")
    return None


def _popcount(t: DType, argument: Code) -> Code:
    name = "__popcll" if t.bits == 64 else "__popc"
    # A negative number of fewer bits than int would come with ones in front.
    unsigned = {8: "(unsigned char)", 16: "(unsigned short)", 32: "(unsigned)", 64: "(long long)"}[t.bits]
    call = Code(f"{name}({unsigned}{argument.inside(LEVEL['unary'])})")
    return call if t in (dt.int32, dt.index) else Code(f"({value_type(t)}){call.text}", LEVEL["unary"])


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

    def small_float(self, code: Code) -> Code:
        """By an addition to the fraction of a float and a subtraction, of which a multiprocessor does eight times as
        many a cycle as of conversions."""
        self.used.add("small_float")
        return Code(f"small_float({code.text})")

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
    #: Arrays of a thread that instructions of warp groups take their left matrix from, or those of a warp their right
    #: one; the latter have their elements in halves.
    operands: frozenset[str] = frozenset()
    halved: frozenset[str] = frozenset()
    #: The variable that tells whether copies are started, where that is no branch around them.
    copies_if: str = ""
    #: Buffers that one statement alone stores to.
    stored_once: frozenset[str] = frozenset()
    #: The thread variable of four lanes side by side, variables that differ between them, and whether perhaps not all
    #: of them come to what is being written.
    lane: Var | None = None
    varying: frozenset[str] = frozenset()
    divergent: bool = False
    #: What the copy engine does for the launch.
    engine: Engine | None = None

    @property
    def machine(self) -> GpuMachine:
        return self.program.machine
