"""Operations that C++ leaves open, or this processor does otherwise, as GPUs do them, in LLVM text.

Programs rely on them without knowing: a shift by the width or more gives zero (or the sign), a float too large for an
integer gives the largest one, and nan gives zero.
"""

from __future__ import annotations

import re

_SHIFT = re.compile(r"= (shl|lshr|ashr)(?: nuw| nsw| exact)* (i8|i16|i32|i64) ([^,\n]+), (%[\w.]+)")
_TO_INTEGER = re.compile(r"= fpto(si|ui) (half|float|double) ([^,\n]+) to (i8|i16|i32|i64)")
_FLOATS = {"half": "f16", "float": "f32", "double": "f64"}


def with_gpu_arithmetic(text: str) -> str:
    """``text`` in which these operations are calls of small functions, which the optimizer inlines."""
    needed: dict[str, str] = {}

    def shift(found: re.Match[str]) -> str:
        operation, kind, value, by = found.groups()
        name = f"@weft_{operation}.{kind}"
        needed[name] = _shift_function(name, operation, kind)
        return f"= call {kind} {name}({kind} {value}, {kind} {by})"

    def to_integer(found: re.Match[str]) -> str:
        sign, kind, value, to = found.groups()
        name = f"@llvm.fpto{sign}.sat.{to}.{_FLOATS[kind]}"
        needed[name] = f"declare {to} {name}({kind})\n"
        return f"= call {to} {name}({kind} {value})"

    text = _TO_INTEGER.sub(to_integer, _SHIFT.sub(shift, text))
    return text + "\n" + "".join(needed.values())


def _shift_function(name: str, operation: str, kind: str) -> str:
    last = int(kind[1:]) - 1
    lines = [f"define internal {kind} {name}({kind} %value, {kind} %by) alwaysinline {{"]
    lines.append(f"  %large = icmp ugt {kind} %by, {last}")
    if operation == "ashr":
        lines += [f"  %most = select i1 %large, {kind} {last}, {kind} %by", f"  %result = ashr {kind} %value, %most"]
    else:
        lines += [
            f"  %small = select i1 %large, {kind} 0, {kind} %by",
            f"  %shifted = {operation} {kind} %value, %small",
            f"  %result = select i1 %large, {kind} 0, {kind} %shifted",
        ]
    return "\n".join([*lines, f"  ret {kind} %result", "}"]) + "\n"
