"""What `verify` checks of expressions: names and declarations, intrinsics, lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from weft.ir.dtype import DType
from weft.ir.expr import NODES, AddressOf, Call, Const, Expr, Load, Reduce, Select, Var
from weft.ir.hardware import HARDWARE
from weft.ir.intrinsics import HINTS, INTRINSICS, REINTERPRET, Intrinsic
from weft.ir.span import Span
from weft.ir.stmt import Assert, Atomic, Stmt, Store
from weft.ir.visit import children

if TYPE_CHECKING:
    from weft.ir.verify import Verifier

Report: TypeAlias = "Callable[[str, Span | None], None]"


@dataclass(frozen=True)
class Problem:
    """One violation: what, in which statement, and where that came from."""

    text: str
    statement: str
    span: Span | None

    def render(self) -> str:
        place = "" if self.span is None else f" ({self.span})"
        return f"{self.text}, in: {self.statement}{place}"


def check_expr(checker: Verifier, e: Expr) -> None:
    """Every problem in ``e`` and below."""
    rule = _RULES.get(type(e))
    if rule is not None:
        rule(checker, e)
    elif not isinstance(e, NODES):
        checker.problem(f"{type(e).__name__} is not an expression of loop programs", e.span)
    if rule is not _check_reduce:
        for child in children(e):
            if type(child) is not Const:
                check_expr(checker, cast(Expr, child))


def _check_load(checker: Verifier, e: Load) -> None:
    checker.check_declared(e.buffer, e.span)
    if e.dtype.lanes > 1:
        check_lanes(checker.report, e)


def _check_select(checker: Verifier, e: Select) -> None:
    lanes = e.condition.dtype.lanes
    if lanes not in (1, e.dtype.lanes):
        checker.problem(f"a select has {lanes} conditions for {e.dtype.lanes} values", e.span)


def _check_reduce(checker: Verifier, e: Reduce) -> None:
    if e.dtype.is_bool and e.op in ("+", "*"):
        checker.problem(f"a reduction by `{e.op}` of bools; min and max take them", e.span)
    _check_axes(checker, e, 0)


def _check_axes(checker: Verifier, e: Reduce, at: int) -> None:
    """Axis ``at`` and those inside it, whose ranges may use the variables of the ones before."""
    if at == len(e.axes):
        check_expr(checker, e.value)
        return
    axis = e.axes[at]
    check_expr(checker, axis.lo)
    check_expr(checker, axis.hi)
    outer = checker.scope
    checker.scope = checker.bind((axis.var,), "axis")
    _check_axes(checker, e, at + 1)
    checker.scope = outer


def _check_call(report: Report, e: Call) -> None:
    intrinsic = INTRINSICS.get(e.name)
    if e.name == REINTERPRET:
        _check_reinterpret(report, e)
    elif e.name in HARDWARE:
        report(f"`{e.name}` is a hardware intrinsic, called for its effect: it has no value", e.span)
    elif e.name in HINTS:
        report(f"`{e.name}` is called for its effect: it has no value", e.span)
    elif intrinsic is None:
        report(f"`{e.name}` is not an intrinsic", e.span)
    elif len(e.args) != intrinsic.arity:
        report(f"`{e.name}` takes {intrinsic.arity} arguments, got {len(e.args)}", e.span)
    elif any(a.dtype != e.args[0].dtype for a in e.args):
        report(f"the arguments of `{e.name}` differ in type: {', '.join(str(a.dtype) for a in e.args)}", e.span)
    elif not _takes(intrinsic, e.args[0].dtype):
        report(f"`{e.name}` does not take {e.args[0].dtype}", e.span)
    elif intrinsic.result(e.args[0].dtype) != e.type:
        report(f"`{e.name}` gives {intrinsic.result(e.args[0].dtype)}, declared as {e.type}", e.span)


def _check_reinterpret(report: Report, e: Call) -> None:
    if len(e.args) != 1:
        report(f"`{e.name}` takes 1 argument, got {len(e.args)}", e.span)
    elif e.args[0].dtype.itemsize != e.type.itemsize or e.type.is_bool or e.args[0].dtype.is_bool:
        report(f"`{e.name}` cannot make {e.type} of {e.args[0].dtype}: numbers of one size are needed", e.span)


def _takes(intrinsic: Intrinsic, t: DType) -> bool:
    if intrinsic.rule == "integer":
        return t.is_integer
    return t.is_float or (intrinsic.rule == "same" and t.is_integer)


def check_lanes(report: Report, access: Load | Store | Atomic) -> None:
    """Vector indices of one length, and as many values as places."""
    found = {i.dtype.lanes for i in access.indices} - {1}
    name = access.buffer.name
    if len(found) > 1:
        report(f"the indices of `{name}` have different numbers of lanes: {sorted(found)}", access.span)
        return
    lanes = max(found, default=1)
    if isinstance(access, Atomic) and lanes > 1:
        report(f"an atomic on a vector of elements of `{name}`", access.span)
    if isinstance(access, Store) and access.value.dtype.lanes != lanes:
        report(f"{access.value.dtype.lanes} values are stored to {lanes} elements of `{name}`", access.span)


def check_atomic(report: Report, s: Atomic) -> None:
    t = s.buffer.dtype
    if s.op in ("&", "|", "^") and not (t.is_integer or t.is_bool):
        report(f"atomic `{s.op}` on {t}; it takes integers", s.span)
    if s.op == "+" and t.is_bool:
        report("atomic `+` on bool", s.span)


def check_assert(report: Report, s: Stmt) -> None:
    """Every ``{0}`` in a message has a value to stand for."""
    if isinstance(s, Assert):
        missing = sorted({int(n) for n in re.findall(r"\{(\d+)\}", s.message)} - set(range(len(s.values))))
        if missing:
            report(f"the message of an assert mentions {{{missing[0]}}} but has {len(s.values)} values", s.span)


_RULES: dict[type, Callable[[Any, Any], None]] = {
    Var: lambda checker, e: checker.check_var(e),
    Reduce: _check_reduce,
    Load: _check_load,
    AddressOf: lambda checker, e: checker.check_declared(e.buffer, e.span),
    Call: lambda checker, e: _check_call(checker.report, e),
    Select: _check_select,
}
