"""Conversions as text: saturating from floats, wrapping between integers, rounding once to narrow floats."""

from __future__ import annotations

from weft.ir.dtype import OTHER_FLOATS, DType
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import LEVEL, Code, TextFunction


def emit_cast_text(f: TextFunction, operand: Code, source: DType, target: DType) -> Code:
    """``operand``, a value of ``source``, as one of ``target``."""
    if source == target:
        return operand
    if target.is_bool:
        return Code(f"{operand.inside(LEVEL['!='] + 1)} != 0", LEVEL["!="])
    if source.is_float and target.is_integer:
        return Code(f"{f.program.generic('saturate', value_type(target), value_type(source))}({operand.text})")
    if target.is_narrow_float:
        return _to_narrow(f, operand, source, target)
    if source.is_narrow_float and target.bits == 32:
        return operand
    return Code(f"({value_type(target)}){operand.inside(LEVEL['unary'])}", LEVEL["unary"])


def _to_narrow(f: TextFunction, operand: Code, source: DType, target: DType) -> Code:
    """Once rounded, also from types wider than float."""
    if source.is_float and source.bits == 64:
        operand = Code(f"{f.program.overloaded('odd_float', 'double')}({operand.text})")
    elif source.is_integer and source.bits >= 32 and target.kind in OTHER_FLOATS:
        wide = "unsigned long long" if source.kind == "uint" else "long long"
        name = f.program.overloaded("odd_float", wide)
        operand = Code(f"{name}(({wide}){operand.inside(LEVEL['unary'])})")
    elif not source.is_float:
        operand = Code(f"(float){operand.inside(LEVEL['unary'])}", LEVEL["unary"])
    return emit_round_text(f, operand, target)


def emit_round_text(f: TextFunction, value: Code, dtype: DType) -> Code:
    """``value``, a float, rounded to what ``dtype`` can hold, still as a float."""
    if not dtype.is_narrow_float:
        return value
    return Code(f"{f.program.overloaded('widen', dtype.name)}({f.use(f'to_{dtype.name}')}({value.text}))")


def emit_to_memory(f: TextFunction, value: Code, dtype: DType) -> str:
    """``value`` as an element in memory."""
    if dtype.is_narrow_float:
        return f"{f.use(f'to_{dtype.name}')}({unrounded(value, dtype).text})"
    return value.text


def unrounded(value: Code, dtype: DType) -> Code:
    """``value`` before it was rounded to ``dtype``, for what rounds it anyway."""
    for widen in ("widen", f"widen_{dtype.name}"):
        prefix = f"{widen}(to_{dtype.name}("
        if value.text.startswith(prefix) and _is_one_call(value.text, len(widen)):
            return Code(value.text[len(prefix) : -2], level=0)
    return value


def _is_one_call(text: str, start: int) -> bool:
    """Whether the parenthesis at ``start`` closes at the very end."""
    depth = 0
    for n in range(start, len(text)):
        depth += (text[n] == "(") - (text[n] == ")")
        if depth == 0:
            return n == len(text) - 1
    return False
