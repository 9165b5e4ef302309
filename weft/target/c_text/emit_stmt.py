"""Statements that C and CUDA C++ write alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir import dtype as dt
from weft.ir.errors import InternalError
from weft.ir.expr import Expr, Load, Var
from weft.ir.interval import EVERYTHING, Interval, bounds
from weft.ir.stmt import Assign, Break, Continue, If, Let, Seq, Stmt, Store, Tensorized, While
from weft.ir.visit import walk
from weft.target.c_text.c_types import value_type
from weft.target.c_text.context import Code, TextFunction
from weft.target.c_text.emit_convert import emit_to_memory
from weft.target.c_text.emit_expr import emit_element, emit_expr


def emit_stmt(f: TextFunction, s: Stmt) -> None:
    emit = f.program.emitters.get(type(s))
    if emit is None:
        raise InternalError(f"no {f.program.language} code for a {type(s).__name__} statement", span=s.span)
    emit(f, s)


def _seq(f: TextFunction, s: Seq) -> None:
    for child in s.body:
        emit_stmt(f, child)


def emit_while(f: TextFunction, s: While) -> None:
    with f.braces(f"while ({emit_expr(f, s.condition).text})"):
        emit_stmt(f, s.body)


def emit_if(f: TextFunction, s: If) -> None:
    with f.braces(f"if ({emit_expr(f, s.condition).text})"):
        emit_stmt(f, s.then)
    if s.otherwise is not None:
        f.lines.pop()
        with f.braces("} else"):
            emit_stmt(f, s.otherwise)


def emit_store(f: TextFunction, s: Store) -> None:
    """One element; where it is a copy, as it is in memory."""
    value, private, element = s.value, f.memory(s.buffer).is_private, emit_element(f, s.buffer, s.indices)
    is_copy = isinstance(value, Load) and value not in f.replaced and value.buffer.dtype == s.buffer.dtype
    if isinstance(value, Load) and is_copy and f.memory(value.buffer).is_private == private:
        f.line(f"{element} = {emit_element(f, value.buffer, value.indices)};")
    else:
        code = emit_expr(f, value)
        f.line(f"{element} = {code.text if private else emit_to_memory(f, code, s.buffer.dtype)};")


def _let(f: TextFunction, s: Let) -> None:
    value = emit_expr(f, s.value)
    name = f.program.names.of(s.var.name)
    changes, is_index = s.var.name in f.mutable, s.var.dtype == dt.index
    wide = is_index and (changes or value.wide or f.program.wide_indices)
    interval = EVERYTHING if changes or s.var.dtype.is_float else bounds(s.value, f.ranges)
    with f.declaring(name):
        type = index_type(wide) if is_index else value_type(s.var.dtype)
        f.line(f"{'' if changes else 'const '}{type} {name} = {value.text};")
        with f.bound(s.var.name, Code(name, wide=wide), _within(interval, s.var)):
            emit_stmt(f, s.body)


def _within(interval: Interval, var: Var) -> Interval:
    t = var.dtype
    if t.is_float or t == dt.index:
        return interval
    return interval if interval.within(t.min_value, t.max_value) else Interval(t.min_value, t.max_value)


def _assign(f: TextFunction, s: Assign) -> None:
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


#: What C and CUDA C++ write alike.
EMIT: dict[type, Callable[[Any, Any], None]] = {
    Seq: _seq,
    While: emit_while,
    If: emit_if,
    Let: _let,
    Assign: _assign,
    Break: lambda f, s: f.line("break;"),
    Continue: lambda f, s: f.line("continue;"),
    Tensorized: lambda f, s: emit_stmt(f, s.body),
}
