"""Calls of the functions of `weft.ir.intrinsics`: C's own, one table, one small function for each exception."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from weft.ir import dtype as dt
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import Call
from weft.ir.intrinsics import REINTERPRET
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import LEVEL, Code, TextFunction
from weft.target.c_text.emit_convert import emit_round_text

Emit: TypeAlias = "Callable[[TextFunction, DType, Sequence[Code]], Code]"


def emit_call_text(f: TextFunction, e: Call, args: Sequence[Code]) -> Code:
    """The text of a call; its result is rounded where the type is narrow."""
    argument = e.args[0].dtype
    if e.name == REINTERPRET:
        return _reinterpret(f, argument, e.type, args[0])
    code = f.program.call(e.name, argument, args)
    if code is None:
        emit = _TABLE.get(e.name)
        if emit is None:
            raise InternalError(f"no code for a call of `{e.name}`", span=e.span)
        code = emit(f, argument, args)
    return emit_round_text(f, code, e.dtype)


def _reinterpret(f: TextFunction, source: DType, target: DType, value: Code) -> Code:
    """Bits as another type: through the unsigned number of 32 bits that has them."""
    if source.bits != 32:
        raise InternalError(f"no code for the bits of a {source} as a {target}")
    f.program.used.update({"float_bits", "bits_float"})
    bits = f"float_bits({value.text})" if source.is_float else f"(unsigned)({value.text})"
    made = f"bits_float({bits})" if target.is_float else f"({value_type(target)})({bits})"
    return Code(made, LEVEL["unary"])


def _function(name: str) -> Emit:
    """A function that C has under ``name`` for double and with an ``f`` for float."""

    def emit(f: TextFunction, t: DType, args: Sequence[Code]) -> Code:
        suffix = "" if t.bits == 64 else "f"
        return Code(f"{name}{suffix}({', '.join(a.text for a in args)})")

    return emit


def _rsqrt(f: TextFunction, t: DType, args: Sequence[Code]) -> Code:
    root, one = _function("sqrt")(f, t, args), "1.0" if t.bits == 64 else "1.0f"
    return Code(f"{one} / {root.text}", LEVEL["/"])


def _sigmoid(f: TextFunction, t: DType, args: Sequence[Code]) -> Code:
    return Code(f"{f.program.overloaded('sigmoid', value_type(t))}({args[0].text})")


def _abs(f: TextFunction, t: DType, args: Sequence[Code]) -> Code:
    if t.is_float:
        return _function("fabs")(f, t, args)
    if not t.is_signed:
        return args[0]
    type = "int" if t == dt.index and not args[0].wide else value_type(t)
    return Code(f"{f.program.generic('magnitude', type)}({args[0].text})", wide=args[0].wide)


def _test(text: str) -> Emit:
    def emit(f: TextFunction, t: DType, args: Sequence[Code]) -> Code:
        return Code(f"(bool){text}({args[0].text})", LEVEL["unary"])

    return emit


_SAME = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cbrt erf erfc "
    "tgamma lgamma sqrt floor ceil trunc rint round pow atan2 fmod hypot fmin fmax copysign fdim fma"
)
_TABLE: dict[str, Emit] = {
    **{name: _function(name) for name in _SAME.split()},
    "sigmoid": _sigmoid,
    "rsqrt": _rsqrt,
    "abs": _abs,
    "isnan": _test("isnan"),
    "isinf": _test("isinf"),
    "isfinite": _test("isfinite"),
}
