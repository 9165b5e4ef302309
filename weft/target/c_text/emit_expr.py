"""Expressions to C text: one small function per node kind, found by the node's type.

Index arithmetic is 64 bits wide in a program. Here a sum or product is written in 32 bits where the ranges of
its variables prove that it fits, and widened at the first operation that might not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import AddressOf, Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var, const, idx
from weft.ir.interval import Interval, bounds
from weft.ir.numpy_dtypes import round_to
from weft.ir.offsets import linear_offset
from weft.ir.simplify import simplify
from weft.ir.visit import walk
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import ATOM, LEVEL, Code, TextFunction
from weft.target.c_text.emit_call import emit_call_text
from weft.target.c_text.emit_convert import emit_cast_text, emit_round_text

_INT32 = (dt.int32.min_value, dt.int32.max_value)
#: Integers up to here are exact as float32.
EXACT = 1 << 24
#: Integers that lie in the fraction of a float, sign and all.
SMALL = (1 << 22) - 1


def emit_expr(f: TextFunction, e: Expr) -> Code:
    """The text of ``e``; vectors have been taken apart before."""
    if e in f.replaced:
        return f.replaced[e]
    emit = _EMIT.get(type(e))
    if emit is None or e.dtype.lanes > 1:
        raise InternalError(f"no code for a {type(e).__name__} of {e.dtype}", span=e.span)
    return emit(f, e)


def fits_int(f: TextFunction, e: Expr) -> bool:
    """Whether every value of the integer ``e`` is one of int32."""
    return bounds(e, f.ranges).within(*_INT32)


def offset_expr(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr:
    """Elements from the start of ``buffer``, as one expression."""
    linear = linear_offset(buffer, indices)
    if linear is not None:
        return linear.expr(dt.index)
    total: Expr = idx(0)
    for index, stride in zip(indices, map(simplify, buffer.element_strides())):
        part = index if stride == idx(1) else Binary("*", index, stride)
        total = part if total == idx(0) else Binary("+", total, part)
    return total


def emit_element(f: TextFunction, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    """``pointer[offset]``."""
    if f.memory(buffer).is_swizzled:
        return f"{emit_pointer(f, buffer, indices)}[0]"
    return f"{f.memory(buffer).pointer}[{emit_expr(f, offset_expr(buffer, indices)).text}]"


def emit_pointer(f: TextFunction, buffer: Buffer, indices: tuple[Expr, ...]) -> str:
    """``pointer + offset``."""
    offset = offset_expr(buffer, indices)
    pointer = f.memory(buffer).pointer
    if f.memory(buffer).is_swizzled:
        return f.program.swizzled(pointer, emit_expr(f, offset).text)
    if isinstance(offset, Const) and offset.value == 0:
        return pointer
    return f"{pointer} + {emit_expr(f, offset).inside(LEVEL['+'] + 1)}"


def _const(f: TextFunction, e: Const) -> Code:
    t = e.dtype
    if t.is_bool:
        return Code("true" if e.value else "false")
    if t.is_integer:
        return _integer(int(e.value), t)
    return _float(f, float(round_to(t, np.asarray(e.value, np.float64))), t)


def _integer(value: int, t: DType) -> Code:
    level = ATOM if value >= 0 else LEVEL["unary"]
    if t == dt.index and _INT32[0] < value <= _INT32[1]:
        return Code(str(value), level)
    if value == t.min_value and t.bits >= 32 and t.is_signed:
        # The literal without its sign would not fit.
        suffix = "ll" if t.bits == 64 else ""
        return Code(f"({value + 1}{suffix} - 1)", wide=t.bits == 64)
    suffix = {"int64": "ll", "uint64": "ull", "uint32": "u"}.get(t.name, "")
    return Code(f"{value}{suffix}", level, wide=t == dt.index)


def _float(f: TextFunction, value: float, t: DType) -> Code:
    double = t.bits == 64
    if math.isnan(value) or math.isinf(value):
        name = f.use("not_a_number" if math.isnan(value) else "infinity")
        sign = "-" if value < 0 else ""
        text = f"{sign}(double){name}()" if double else f"{sign}{name}()"
        return Code(text, LEVEL["unary"])
    text = repr(value) if double else f"{np.float32(value)!s}f"
    if "." not in text and "e" not in text:
        text = text.replace("f", ".0f") if not double else f"{text}.0"
    return Code(text, ATOM if not text.startswith("-") else LEVEL["unary"])


def _var(f: TextFunction, e: Var) -> Code:
    kept = f.variables.get(e.name)
    if kept is None:
        raise InternalError(f"variable `{e.name}` is not in scope", span=e.span)
    return kept


def _load(f: TextFunction, e: Load) -> Code:
    element = emit_element(f, e.buffer, e.indices)
    t = e.buffer.dtype
    if t.is_narrow_float and not f.memory(e.buffer).is_private:
        return Code(f"{f.program.overloaded('widen', t.name)}({element})")
    if t.is_bool:
        return Code(f"{element} != 0", LEVEL["!="])
    return Code(element, wide=t == dt.index)


def _unary(f: TextFunction, e: Unary) -> Code:
    operand = emit_expr(f, e.operand)
    if e.op == "-" and e.dtype.is_integer and not _is_exact(f, e):
        name = f.program.generic("wrap_neg", _c_type(e.dtype, operand))
        return _typed(Code(f"{name}({operand.text})", wide=operand.wide), e)
    text = operand.inside(LEVEL["unary"])
    space = " " if e.op == "-" and text.startswith("-") else ""
    return _typed(Code(f"{e.op}{space}{text}", LEVEL["unary"], operand.wide), e)


def _is_exact(f: TextFunction, e: Expr) -> bool:
    """Whether the value is surely in the range of the type, so that C's rules for overflow do not matter.

    Arithmetic of nothing but variables and numbers is that of indices, which are taken not to overflow.
    """
    t = e.dtype
    if t == dt.index:
        plain = all(isinstance(n, (Var, Const, Binary, Unary)) for n in walk(e))
        return plain or bounds(e, f.ranges).within(t.min_value, t.max_value)
    parts = (e.operand,) if isinstance(e, Unary) else (e.left, e.right) if isinstance(e, Binary) else ()
    exact = _raw_bounds(f, e, parts)
    return exact.within(t.min_value, t.max_value)


def _raw_bounds(f: TextFunction, e: Expr, parts: tuple[Expr, ...]) -> Interval:
    """The range of an operation before its result is brought to the type."""
    intervals = [bounds(p, f.ranges) for p in parts]
    if isinstance(e, Unary):
        return intervals[0].scale(-1)
    assert isinstance(e, Binary)
    rule = {"+": Interval.plus, "-": Interval.minus, "*": Interval.times}[e.op]
    return rule(*intervals)


def _typed(code: Code, e: Expr) -> Code:
    """``code`` cast back to a type that C computes in a wider one."""
    t = e.dtype
    if t.is_integer and t.bits < 32:
        return Code(f"({value_type(t)}){code.inside(LEVEL['unary'])}", LEVEL["unary"])
    return code


def _c_type(t: DType, *codes: Code) -> str:
    if t == dt.index:
        return "long long" if any(c.wide for c in codes) else "int"
    return value_type(t)


def _binary(f: TextFunction, e: Binary) -> Code:
    if (fused := f.program.fused(e)) is not None:
        name, argument = fused
        return Code(f"{f.use(name)}({emit_expr(f, argument).text})")
    left, right = emit_expr(f, e.left), emit_expr(f, e.right)
    if e.dtype.is_float:
        return _float_binary(f, e, left, right)
    if e.op in ("&&", "||"):
        return _infix(e.op, left, right)
    if e.dtype.is_bool:
        op = {"min": "&", "max": "|"}.get(e.op, e.op)
        return Code(f"(bool)({_infix(op, left, right).text})", LEVEL["unary"])
    return _INTEGER[e.op](f, e, left, right)


def _infix(op: str, left: Code, right: Code) -> Code:
    level = LEVEL[op]
    # C compilers warn of && inside ||; nobody remembers how bits bind either.
    inner = LEVEL["unary"] if op in ("|", "^", "&", "<<", ">>") else max(level, LEVEL["<"]) if op == "||" else level
    text = f"{left.inside(inner)} {op} {right.inside(max(level + 1, inner))}"
    return Code(text, level, left.wide or right.wide)


def _float_binary(f: TextFunction, e: Binary, left: Code, right: Code) -> Code:
    if e.op in ("min", "max"):
        name = f"{e.op}_nan" if f.program.fast else f"{e.op}_strict"
        return Code(f"{f.program.overloaded(name, value_type(e.dtype))}({left.text}, {right.text})")
    return emit_round_text(f, _infix(e.op, left, right), e.dtype)


def _arithmetic(f: TextFunction, e: Binary, left: Code, right: Code) -> Code:
    if not _is_exact(f, e) and e.dtype.is_signed | (e.dtype.bits < 32):
        name = f.program.generic({"+": "wrap_add", "-": "wrap_sub", "*": "wrap_mul"}[e.op], value_type(e.dtype))
        return Code(f"{name}({left.text}, {right.text})", wide=e.dtype == dt.index)
    if e.dtype == dt.index and not (left.wide or right.wide or fits_int(f, e)):
        left = Code(f"(long long){left.inside(LEVEL['unary'])}", LEVEL["unary"], wide=True)
    return _typed(_infix(e.op, left, right), e)


def _division(f: TextFunction, e: Binary, left: Code, right: Code) -> Code:
    turned = _quotient_first(e)
    if turned is not None:
        return emit_expr(f, turned)
    dividend, divisor = bounds(e.left, f.ranges), bounds(e.right, f.ranges)
    is_positive = divisor.lo is not None and divisor.lo > 0
    is_plain = is_positive and ((dividend.lo is not None and dividend.lo >= 0) or e.op in ("tdiv", "tmod"))
    quotient = e.op in ("//", "tdiv")
    if is_positive and e.op in ("//", "%") and isinstance(e.right, Const):
        power = int(e.right.value).bit_length() - 1
        if int(e.right.value) == 1 << power:
            bits = Code(str(power)) if quotient else _integer((1 << power) - 1, e.dtype)
            return _typed(_infix(">>" if quotient else "&", left, bits), e)
    if is_plain:
        return _typed(_infix("/" if quotient else "%", left, right), e)
    kind = ("floor_" if e.op in ("//", "%") else "trunc_") + ("div" if quotient else "mod")
    name = f.program.generic(kind, _c_type(e.dtype, left, right))
    return Code(f"{name}({left.text}, {right.text})", wide=left.wide or right.wide)


def _quotient_first(e: Binary) -> Expr | None:
    """``x % 64 // 8`` as ``x // 8 % 8``, the same number.

    Of ``((x & 63) >> 3) * 9 + 1`` the compilers up to 13.4 make ``(x & 63) * 9 + 1`` where x is ``t * 32 + 1``, say.
    """
    inner = e.left
    if not (e.op == "//" and isinstance(inner, Binary) and inner.op == "%"):
        return None
    if not (isinstance(e.right, Const) and isinstance(inner.right, Const)):
        return None
    part, whole = int(e.right.value), int(inner.right.value)
    if not 0 < part < whole or part & (part - 1) or whole & (whole - 1):
        return None
    return Binary("%", Binary("//", inner.left, e.right), const(whole // part, e.dtype))


def _extreme(f: TextFunction, e: Binary, left: Code, right: Code) -> Code:
    if e.dtype == dt.index:
        left, right = (
            f.program.apart(code) if isinstance(part, Binary) and part.op == e.op else code
            for part, code in ((e.left, left), (e.right, right))
        )
    name = f.program.generic("least" if e.op == "min" else "greatest", _c_type(e.dtype, left, right))
    code = Code(f"{name}({left.text}, {right.text})", wide=left.wide or right.wide)
    return f.program.apart(code) if _is_short(e) else code


def _is_short(e: Expr) -> bool:
    """Whether minima of values like ``e`` become one instruction, even those of a loop that is written out."""
    return e.dtype.kind == "int" and e.dtype.bits <= 32


def _shift(f: TextFunction, e: Binary, left: Code, right: Code) -> Code:
    by = bounds(e.right, f.ranges)
    if e.op == ">>" and by.within(0, (32 if e.dtype == dt.index and not left.wide else e.dtype.bits) - 1):
        code = _infix(">>", left, right)
        return _typed(Code(code.text, code.level, left.wide), e)
    name = f.program.generic("shift_left" if e.op == "<<" else "shift_right", value_type(e.dtype))
    return Code(f"{name}({left.text}, {right.text})", wide=e.dtype == dt.index)


def _compare(f: TextFunction, e: Compare) -> Code:
    left, right = emit_expr(f, e.left), emit_expr(f, e.right)
    level = LEVEL[e.op]
    return Code(f"{left.inside(level + 1)} {e.op} {right.inside(level + 1)}", level)


def _select(f: TextFunction, e: Select) -> Code:
    condition, then, otherwise = (emit_expr(f, operand) for operand in (e.condition, e.then, e.otherwise))
    level = LEVEL["?"]
    text = f"{condition.inside(level + 1)} ? {then.inside(level + 1)} : {otherwise.inside(level)}"
    code = Code(text, level, then.wide or otherwise.wide)
    return _typed(f.program.apart(code) if _is_extreme(e) else code, e)


def _is_extreme(e: Select) -> bool:
    """Whether this is a minimum or a maximum."""
    c = e.condition
    return _is_short(e) and isinstance(c, Compare) and {c.left, c.right} == {e.then, e.otherwise}


def _cast(f: TextFunction, e: Cast) -> Code:
    operand = emit_expr(f, e.operand)
    if e.type.is_integer and e.operand.dtype.is_integer and fits_int(f, e.operand):
        # A value that int holds is written as it is where int will do.
        if e.type == dt.index:
            narrow = operand.wide or e.operand.dtype == dt.uint32
            return (
                Code(f"(int){operand.inside(LEVEL['unary'])}", LEVEL["unary"])
                if narrow
                else Code(operand.text, operand.level)
            )
        if e.type == dt.int32 and e.operand.dtype == dt.index and not operand.wide:
            return operand
    source = e.operand.dtype
    if source.is_integer and (e.type.is_narrow_float or e.type == dt.float32):
        values = bounds(e.operand, f.ranges)
        if values.within(-SMALL, SMALL):
            return emit_round_text(f, f.program.small_float(operand), e.type)  # which rounds once
        if e.type.is_narrow_float and values.within(-EXACT, EXACT):
            exact = Code(f"(float){operand.inside(LEVEL['unary'])}", LEVEL["unary"])
            return emit_round_text(f, exact, e.type)
    text = emit_cast_text(f, operand, source, e.type)
    return Code(text.text, text.level, wide=e.type == dt.index)


_INTEGER: dict[str, Callable[[TextFunction, Binary, Code, Code], Code]] = {
    **dict.fromkeys("+-*", _arithmetic),
    **dict.fromkeys(("//", "%", "tdiv", "tmod"), _division),
    **dict.fromkeys(("min", "max"), _extreme),
    **dict.fromkeys("&|^", lambda f, e, left, right: _typed(_infix(e.op, left, right), e)),
    **dict.fromkeys(("<<", ">>"), _shift),
}
_EMIT: dict[type, Callable[[TextFunction, Any], Code]] = {
    Const: _const,
    Var: _var,
    Load: _load,
    AddressOf: lambda f, e: Code(emit_pointer(f, e.buffer, e.indices), LEVEL["+"], wide=True),
    Unary: _unary,
    Binary: _binary,
    Compare: _compare,
    Select: _select,
    Cast: _cast,
    Call: lambda f, e: emit_call_text(f, e, [emit_expr(f, a) for a in e.args]),
}
