"""Reductions inside expressions to loops over an accumulator, before the statement that uses them.

A reduction behind a `Select`, ``&&`` or ``||`` runs under the condition that leads to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.dtype import DType, bool_, float32
from weft.ir.expr import Binary, BinaryOp, Const, Expr, Reduce, Select, Unary, Var, cast, identity
from weft.ir.stmt import Assign, Break, For, If, Kernel, Let, Seq, Stmt, While
from weft.ir.visit import fresh_name, rebuild, used_names, walk


def lower_reduce(kernel: Kernel) -> Kernel:
    """Every `Reduce` replaced by a variable that loops before its statement compute."""
    taken = used_names(kernel)
    return replace(kernel, body=_lower(kernel.body, lambda: fresh_name("reduced", taken)))


@dataclass(frozen=True, slots=True)
class _Found:
    """A reduction taken out of an expression, the variable in its place, and the conditions it runs under."""

    var: Var
    reduce: Reduce
    conditions: tuple[Expr, ...]


Naming = Callable[[], str]


def _lower(s: Stmt, name: Naming) -> Stmt:
    if isinstance(s, While) and any(isinstance(n, Reduce) for n in walk(s.condition)):
        stop = If(Unary("!", s.condition), Break(), span=s.span)
        return _lower(While(Const(True, bool_), Seq((stop, s.body)), span=s.span), name)
    found: list[_Found] = []

    def visit(child: Any) -> Any:
        if isinstance(child, Stmt):
            return _lower(child, name)
        return _take_out(child, (), found, name) if isinstance(child, Expr) else child

    lowered: Stmt = rebuild(s, visit)
    for item in reversed(found):
        lowered = _emit(item, lowered, name)
    return lowered


def _take_out(e: Expr, conditions: tuple[Expr, ...], conflict: list[_Found], name: Naming) -> Expr:
    """``e`` with its reductions (outermost ones) replaced by variables."""
    match e:
        case Reduce():
            var = Var(name(), accumulator_type(e.dtype))
            conflict.append(_Found(var, e, conditions))
            return cast(e.dtype, var)
        case Select(condition=condition, then=then, otherwise=otherwise):
            test = _take_out(condition, conditions, conflict, name)
            left = _take_out(then, (*conditions, test), conflict, name)
            right = _take_out(otherwise, (*conditions, Unary("!", test)), conflict, name)
            return replace(e, condition=test, then=left, otherwise=right)
        case Binary(op="&&" | "||", left=left, right=right):
            test = _take_out(left, conditions, conflict, name)
            reached = test if e.op == "&&" else Unary("!", test)
            return replace(e, left=test, right=_take_out(right, (*conditions, reached), conflict, name))
    return rebuild(e, lambda c: _take_out(c, conditions, conflict, name) if isinstance(c, Expr) else c)


def accumulator_type(dtype: DType) -> DType:
    """Narrow floats accumulate in float32 and are rounded once."""
    return float32.with_lanes(dtype.lanes) if dtype.is_narrow_float else dtype


def _emit(item: _Found, user: Stmt, name: Naming) -> Stmt:
    """``user`` inside a `Let` of the accumulator, after the loops that fill it."""
    reduce, var = item.reduce, item.var
    op: BinaryOp = reduce.op
    if reduce.dtype.is_bool:
        op = "||" if op in ("+", "max") else "&&"
    step = Binary(op, var, cast(var.dtype, reduce.value))
    loops: Stmt = _lower(Assign(var, step, span=reduce.span), name)
    for axis in reversed(reduce.axes):
        loops = For(axis.var, axis.lo, axis.hi, "serial", loops, span=reduce.span)
    for condition in reversed(item.conditions):
        loops = If(condition, loops)
    start = cast(var.dtype, identity(reduce.op, reduce.dtype.scalar))
    return Let(var, start, Seq((loops, user)), span=reduce.span)
