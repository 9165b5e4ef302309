"""Statements that C and CUDA C++ write alike."""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.expr import Expr, Load, Var
from weft.ir.interval import EVERYTHING, Interval, bounds
from weft.ir.stmt import Assign, Let, Seq
from weft.ir.visit import walk
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import Code, TextFunction
from weft.target.c_text.emit_expr import emit_expr


def emit_seq(f: TextFunction, s: Seq) -> None:
    for child in s.body:
        f.program.emit_stmt(f, child)


def emit_let(f: TextFunction, s: Let) -> None:
    value = emit_expr(f, s.value)
    name = f.program.names.of(s.var.name)
    changes, is_index = s.var.name in f.mutable, s.var.dtype == dt.index
    wide = is_index and (changes or value.wide or f.program.wide_indices)
    interval = EVERYTHING if changes or s.var.dtype.is_float else bounds(s.value, f.ranges)
    with f.declaring(name):
        type = index_type(wide) if is_index else value_type(s.var.dtype)
        f.line(f"{'' if changes else 'const '}{type} {name} = {value.text};")
        with f.bound(s.var.name, Code(name, wide=wide), _within(interval, s.var)):
            f.program.emit_stmt(f, s.body)


def _within(interval: Interval, var: Var) -> Interval:
    t = var.dtype
    if t.is_float or t == dt.index:
        return interval
    return interval if interval.within(t.min_value, t.max_value) else Interval(t.min_value, t.max_value)


def emit_assign(f: TextFunction, s: Assign) -> None:
    f.line(f"{f.variables[s.var.name].text} = {emit_expr(f, s.value).text};")


def steady(f: TextFunction, e: Expr) -> Code:
    """The value ``e`` has before a loop: kept where something in the loop could change it."""
    code = emit_expr(f, e)
    if not any(isinstance(n, Load) or (isinstance(n, Var) and n.name in f.mutable) for n in walk(e)):
        return code
    name, wide = f.fresh("end"), code.wide or f.program.wide_indices
    f.line(f"const {index_type(wide)} {name} = {code.text};")
    return Code(name, wide=wide)


def index_type(wide: bool) -> str:
    return "long long" if wide else "int"
