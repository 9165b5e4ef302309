"""``specialize``: a second version of a loop nest for calls where a condition on sizes or scalars holds:
loop versioning, or multi-versioning."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import partial, reduce
from typing import Any

from weft.ir import dtype as dt
from weft.ir import expr as ex
from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError, ScheduleError
from weft.ir.inequality import all_of, conjuncts
from weft.ir.simplify import simplify
from weft.ir.span import Source, Span
from weft.ir.stmt import If, Kernel, Stmt
from weft.ir.visit import rebuild
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import all_loops, find_loop, ranges_at, size_ranges, unknown
from weft.schedules.loop_facts import has_barrier
from weft.schedules.rewrite import Rewrite, fresh_copy, primitive, replace_stmt, simplify_bounds, taken_names
from weft.schedules.trace import Numerics


def check_specialize(
    kernel: Kernel, loop: str, condition: str, sizes: Mapping[str, int] | None = None, *, numerics: Numerics
) -> Verdict:
    """Always legal: both versions are the same program until other steps change one of them."""
    old = find_loop(kernel, loop)
    _condition(kernel, condition, sizes)
    return refuse(f"there is a barrier inside `{loop}`") if has_barrier(old) else OK


@primitive(check_specialize, "cannot specialize on `{1}`")
def specialize(kernel: Kernel, loop: str, condition: str, sizes: Mapping[str, int] | None = None) -> Rewrite:
    """Makes the version for ``condition``, its loops called ``m_s``; ``m`` stays as the version for all else.

    ``sizes`` are values of sizes that are numbers already. Both versions are made even where they
    decide the condition: later steps may be about either, and the one that never runs goes in lowering.
    """
    old = find_loop(kernel, loop)
    test = simplify(_condition(kernel, condition, sizes), size_ranges(kernel))
    version = fresh_copy(old, taken_names(kernel), "_s")
    equal_sizes = dict(_equalities(test))
    version = simplify_bounds(_with_values(version, equal_sizes) if equal_sizes else version, ranges_at(kernel, old))
    made = tuple(f.var.name for f in all_loops(version))
    return Rewrite(replace_stmt(kernel, old, If(test, version, old, span=old.span)), made)


def _condition(kernel: Kernel, text: str, sizes: Mapping[str, int] | None) -> ex.Expr:
    values: dict[str, ex.Expr] = {name: ex.idx(value) for name, value in (sizes or {}).items()}
    return parse_condition(text, values | {v.name: v for v in kernel.scalars})


def _equalities(test: ex.Expr) -> Iterator[tuple[ex.Var, ex.Const]]:
    """The variables ``test`` fixes, with their values."""
    for part in conjuncts(test):
        if isinstance(part, ex.Compare) and part.op == "==":
            for a, b in ((part.left, part.right), (part.right, part.left)):
                if isinstance(a, ex.Var) and isinstance(b, ex.Const) and not a.dtype.is_float:
                    yield a, b


def _with_values(root: Stmt, values: Mapping[ex.Var, ex.Const]) -> Any:
    """``root`` with variables replaced everywhere but in the shapes of buffers, which stay as declared."""

    def visit(n: Any) -> Any:
        if isinstance(n, Buffer):
            return n
        return values.get(n, n) if isinstance(n, ex.Var) else rebuild(n, visit)

    return visit(root)


_ARITHMETIC: dict[type[ast.operator], ex.BinaryOp] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], ex.CompareOp] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip


def parse_condition(text: str, scalars: Mapping[str, ex.Expr]) -> ex.Expr:
    """The bool expression that ``text`` writes over ``scalars``."""
    if not isinstance(text, str):
        raise ScheduleError(f"{text!r} is not a condition", why="a condition is a text", help='as in "M % 16 == 0"')
    expr = _parse(text, scalars, "condition", "this is not a condition")
    if not expr.dtype.is_bool:
        raise ScheduleError(f"`{text}` is not a condition", why="it has no comparison", help='as in "M % 16 == 0"')
    return expr


def parse_index(text: str, variables: Mapping[str, ex.Expr]) -> ex.Expr:
    """The whole number that ``text`` writes over ``variables``."""
    expr = _parse(text, variables, "value", "this is not a value for a loop")
    if isinstance(expr, ex.Const) and expr.type.is_integer:
        return ex.idx(int(expr.value))
    if expr.dtype != dt.index:
        raise ScheduleError(f"`{text}` is not a value for a loop", why=f"it is {expr.dtype}, loops run over int64")
    return expr


def _parse(text: str, scalars: Mapping[str, ex.Expr], kind: str, wrong: str) -> ex.Expr:
    try:
        return _expr(ast.parse(text, mode="eval").body, scalars)
    except SyntaxError as error:
        column = error.offset or 1
        span = Span(Source(kind, text), 1, column, column + 1)
        raise ScheduleError(wrong, span=span, why=error.msg) from None


def _expr(node: ast.expr, scalars: Mapping[str, ex.Expr]) -> ex.Expr:
    try:
        return _build(node, scalars)
    except InternalError as error:  # the types do not go together
        raise ScheduleError(f"`{ast.unparse(node)}` cannot stand in a condition", why=error.why) from None


def _build(node: ast.expr, scalars: Mapping[str, ex.Expr]) -> ex.Expr:
    match node:
        case ast.Name(id=name):
            if name not in scalars:
                raise unknown("size or scalar", name, scalars)
            return scalars[name]
        case ast.Constant(value=int() | float() | bool() as value):
            return ex.as_expr(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inside = _expr(operand, scalars)
            return ex.as_expr(-inside.value) if isinstance(inside, ex.Const) else ex.Unary("-", inside)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return ex.Unary("!", _bool(operand, scalars))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return ex.arithmetic(_ARITHMETIC[type(op)], _number(left, scalars), _number(right, scalars))
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(op) in _COMPARISONS for op in ops):
            return _compare([left, *others], ops, scalars)
        case ast.BoolOp(op=op, values=values):
            parts = [_bool(v, scalars) for v in values]
            return reduce(partial(ex.Binary, "&&" if isinstance(op, ast.And) else "||"), parts)
    raise ScheduleError(
        f"`{ast.unparse(node)}` cannot stand in a condition", why="conditions compare sizes, scalars and numbers"
    )


def _number(node: ast.expr, scalars: Mapping[str, ex.Expr]) -> ex.Expr | int | float | bool:
    """A Python number stays one, so that it takes the type of what it meets."""
    expr = _expr(node, scalars)
    return expr.value if isinstance(expr, ex.Const) else expr


def _bool(node: ast.expr, scalars: Mapping[str, ex.Expr]) -> ex.Expr:
    expr = _expr(node, scalars)
    if not expr.dtype.is_bool:
        raise ScheduleError(f"`{ast.unparse(node)}` is not a condition", why="it has no comparison")
    return expr


def _compare(nodes: list[ast.expr], ops: list[ast.cmpop], scalars: Mapping[str, ex.Expr]) -> ex.Expr:
    values = [_number(n, scalars) for n in nodes]
    return all_of([ex.compare(_COMPARISONS[type(op)], a, b) for a, op, b in zip(values, ops, values[1:])])
