"""Calls that CUDA C++ has other code for than C: instructions that fast numerics may take, and its own names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Const, Expr
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import LEVEL, Code

if TYPE_CHECKING:
    from weft.target.cuda.emit_context import Program

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
_QUICK = ("exp", "exp2", "sigmoid")


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
