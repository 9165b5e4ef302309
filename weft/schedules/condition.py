"""Conditions on sizes and scalars, as the text one writes them in: ``"M % 16 == 0 and N >= 64"``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import partial, reduce

from weft.ir import dtype as dt
from weft.ir.errors import InternalError, ScheduleError
from weft.ir.expr import Binary, BinaryOp, CompareOp, Const, Expr, Unary, arithmetic, as_expr, compare, idx
from weft.ir.inequality import all_of
from weft.ir.span import Source, Span
from weft.schedules.find import unknown

_ARITHMETIC: dict[type[ast.operator], BinaryOp] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], CompareOp] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def parse_condition(text: str, scalars: Mapping[str, Expr]) -> Expr:
    """The bool expression that ``text`` writes over ``scalars``."""
    if not isinstance(text, str):
        raise ScheduleError(f"{text!r} is not a condition", why="a condition is a text", help='as in "M % 16 == 0"')
    expr = _parse(text, scalars, "condition", "this is not a condition")
    if not expr.dtype.is_bool:
        raise ScheduleError(f"`{text}` is not a condition", why="it has no comparison", help='as in "M % 16 == 0"')
    return expr


def parse_index(text: str, variables: Mapping[str, Expr]) -> Expr:
    """The whole number that ``text`` writes over ``variables``."""
    expr = _parse(text, variables, "value", "this is not a value for a loop")
    if isinstance(expr, Const) and expr.type.is_integer:
        return idx(int(expr.value))
    if expr.dtype != dt.index:
        raise ScheduleError(f"`{text}` is not a value for a loop", why=f"it is {expr.dtype}, loops run over int64")
    return expr


def _parse(text: str, scalars: Mapping[str, Expr], kind: str, wrong: str) -> Expr:
    try:
        return _expr(ast.parse(text, mode="eval").body, scalars)
    except SyntaxError as error:
        column = error.offset or 1
        span = Span(Source(kind, text), 1, column, column + 1)
        raise ScheduleError(wrong, span=span, why=error.msg) from None


def _expr(node: ast.expr, scalars: Mapping[str, Expr]) -> Expr:
    try:
        return _build(node, scalars)
    except InternalError as error:  # the types do not go together
        raise ScheduleError(f"`{ast.unparse(node)}` cannot stand in a condition", why=error.why) from None


def _build(node: ast.expr, scalars: Mapping[str, Expr]) -> Expr:
    match node:
        case ast.Name(id=name):
            if name not in scalars:
                raise unknown("size or scalar", name, scalars)
            return scalars[name]
        case ast.Constant(value=int() | float() | bool() as value):
            return as_expr(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inside = _expr(operand, scalars)
            return as_expr(-inside.value) if isinstance(inside, Const) else Unary("-", inside)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Unary("!", _bool(operand, scalars))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return arithmetic(_ARITHMETIC[type(op)], _number(left, scalars), _number(right, scalars))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            return _compare([left, *others], ops, scalars)
        case ast.BoolOp(op=op, values=values):
            parts = [_bool(v, scalars) for v in values]
            return reduce(partial(Binary, "&&" if isinstance(op, ast.And) else "||"), parts)
    raise ScheduleError(
        f"`{ast.unparse(node)}` cannot stand in a condition", why="conditions compare sizes, scalars and numbers"
    )


def _number(node: ast.expr, scalars: Mapping[str, Expr]) -> Expr | int | float | bool:
    """A Python number stays one, so that it takes the type of what it meets."""
    expr = _expr(node, scalars)
    return expr.value if isinstance(expr, Const) else expr


def _bool(node: ast.expr, scalars: Mapping[str, Expr]) -> Expr:
    expr = _expr(node, scalars)
    if not expr.dtype.is_bool:
        raise ScheduleError(f"`{ast.unparse(node)}` is not a condition", why="it has no comparison")
    return expr


def _compare(nodes: list[ast.expr], ops: list[ast.cmpop], scalars: Mapping[str, Expr]) -> Expr:
    values = [_number(n, scalars) for n in nodes]
    return all_of([compare(_COMPARISONS[type(op)], a, b) for a, op, b in zip(values, ops, values[1:])])
