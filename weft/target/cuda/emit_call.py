"""Calls of the functions of `weft.ir.intrinsics`: CUDA's own, one table, one small function for each exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Call, Const, Expr
from weft.target.cuda.c_types import value_type
from weft.target.cuda.emit_context import LEVEL, Code, Function
from weft.target.cuda.emit_convert import emit_round_text

Emit: TypeAlias = "Callable[[Function, DType, Sequence[Code]], Code]"


def emit_call_text(f: Function, e: Call, args: Sequence[Code]) -> Code:
    """The text of a call; its result is rounded where the type is narrow."""
    emit = _TABLE.get(e.name)
    if emit is None:
        raise InternalError(f"no CUDA code for a call of `{e.name}`", span=e.span)
    argument = e.args[0].dtype
    return emit_round_text(f, emit(f, argument, args), e.dtype)


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


def _function(name: str) -> Emit:
    """A function that CUDA has under ``name`` for double and with an ``f`` for float."""

    def emit(f: Function, t: DType, args: Sequence[Code]) -> Code:
        suffix = "" if t.bits == 64 else "f"
        return Code(f"{name}{suffix}({', '.join(a.text for a in args)})")

    return emit


def _own(name: str) -> Emit:
    """A function of the prelude."""

    def emit(f: Function, t: DType, args: Sequence[Code]) -> Code:
        return Code(f"{f.use(name)}({', '.join(a.text for a in args)})")

    return emit


def _rsqrt(f: Function, t: DType, args: Sequence[Code]) -> Code:
    if f.program.fast:
        return _function("rsqrt")(f, t, args)
    root, one = _function("sqrt")(f, t, args), "1.0" if t.bits == 64 else "1.0f"
    return Code(f"{one} / {root.text}", LEVEL["/"])


def _quick(name: str) -> Emit:
    """A power: fast numerics take the instruction for powers of 2, as if the argument were rounded once more."""

    def emit(f: Function, t: DType, args: Sequence[Code]) -> Code:
        quick = f.program.fast and t.bits < 64
        return (_own(f"quick_{name}") if quick else _function(name))(f, t, args)

    return emit


def _sigmoid(f: Function, t: DType, args: Sequence[Code]) -> Code:
    return _own("quick_sigmoid" if f.program.fast and t.bits < 64 else "sigmoid")(f, t, args)


def _abs(f: Function, t: DType, args: Sequence[Code]) -> Code:
    if t.is_float:
        return _function("fabs")(f, t, args)
    if not t.is_signed:
        return args[0]
    type = "int" if t == dt.index and not args[0].wide else value_type(t)
    return Code(f"{f.use('magnitude')}<{type}>({args[0].text})", wide=args[0].wide)


def _test(text: str) -> Emit:
    def emit(f: Function, t: DType, args: Sequence[Code]) -> Code:
        return Code(f"(bool){text}({args[0].text})", LEVEL["unary"])

    return emit


def _popcount(f: Function, t: DType, args: Sequence[Code]) -> Code:
    name = "__popcll" if t.bits == 64 else "__popc"
    # A negative number of fewer bits than int would come with ones in front.
    unsigned = {8: "(unsigned char)", 16: "(unsigned short)", 32: "(unsigned)", 64: "(long long)"}[t.bits]
    call = Code(f"{name}({unsigned}{args[0].inside(LEVEL['unary'])})")
    return call if t in (dt.int32, dt.index) else Code(f"({value_type(t)}){call.text}", LEVEL["unary"])


_SAME = (
    "expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cbrt erf erfc "
    "tgamma lgamma sqrt floor ceil trunc rint round pow atan2 fmod hypot fmin fmax copysign fdim fma"
)
_TABLE: dict[str, Emit] = {
    **{name: _function(name) for name in _SAME.split()},
    "exp": _quick("exp"),
    "exp2": _quick("exp2"),
    "sigmoid": _sigmoid,
    "rsqrt": _rsqrt,
    "abs": _abs,
    "isnan": _test("isnan"),
    "isinf": _test("isinf"),
    "isfinite": _test("isfinite"),
    "popcount": _popcount,
}
