"""Expressions: their values and the places they name, by a table of functions for the kinds of nodes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context
from weft.from_cuda.places import keep_value, read
from weft.from_cuda.unit import Node
from weft.from_cuda.values import (
    ZERO,
    Address,
    Fixed,
    Number,
    Place,
    Target,
    Value,
)
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Const, Expr, Select, Var, const, idx

#: Nodes that stand for what is below them.
_THROUGH = frozenset({
    "ParenExpr", "ExprWithCleanups", "MaterializeTemporaryExpr", "ConstantExpr", "SubstNonTypeTemplateParmExpr",
    "CXXBindTemporaryExpr", "CompoundLiteralExpr", "CXXDefaultArgExpr", "CXXDefaultInitExpr", "FullExpr",
    "CXXStdInitializerListExpr",
})  # fmt: skip
#: What an operand of an asm statement begins with.
_CONSTRAINT = re.compile(r"[=+&]*[rlfdhnq]|memory")
#: What gives the value, and the place, of each kind of expression; the modules beside this one add theirs.
VALUES: dict[str, Callable[[Context, Node], Value]] = {}
PLACES: dict[str, Callable[[Context, Node], Place]] = {}


def expression(c: Context, n: Node) -> Value:
    """The value of an expression; what it does besides is written down first."""
    if n.kind in _THROUGH:
        return _through(c, n, expression)
    found = VALUES.get(n.kind)
    if found is not None:
        return found(c, n)
    if n.kind in PLACES:
        return read(c, n, lvalue(c, n))
    if n.kind == "RecoveryExpr":
        c.refuse(n, "clang could not read this")
    if n.kind == "GCCAsmStmt":
        return c.refuse(n, f"the PTX `{_ptx(c, n)}`, of which not every instruction is known here")
    return c.refuse(n, _REFUSED.get(n.kind, f"expressions of the kind {n.kind}"))


#: What is read by its name, and has no form in the loop program.
_REFUSED = {
    "GotoStmt": "`goto`, which whole grids do not have: an `if`, `break` or `return` does the same",
    "LabelStmt": "a label for `goto`",
}


def _ptx(c: Context, n: Node) -> str:
    """The instructions of an asm statement as they are written, shortened."""
    source = c.unit.span(n).source
    lines = "\n".join(source.line(number) for number in range(n.line, n.end + 1))
    strings = re.findall(r'"((?:[^"\\\n]|\\.)*)"', lines[max(n.column - 1, 0) :])
    written = "".join(itertools.takewhile(lambda s: not _CONSTRAINT.fullmatch(s), strings))
    return " ".join(re.sub(r"\\[nt]", " ", written).split())[:80]


def _through(c: Context, n: Node, go: Callable[[Context, Node], Value]) -> Value:
    inner = [i for i in n.inner if i.kind not in ("NonTypeTemplateParmDecl", "TemplateArgument")]
    if not inner:
        c.refuse(n, "a default value that this clang does not show")
    return go(c, inner[-1])


def lvalue(c: Context, n: Node) -> Place:
    """The place that an expression names."""
    if n.kind in _THROUGH:
        if n.kind in ("MaterializeTemporaryExpr", "CompoundLiteralExpr"):
            return _temporary(c, n)
        return lvalue(c, n.inner[-1])
    found = PLACES.get(n.kind)
    if found is not None:
        return found(c, n)
    return Fixed(expression(c, n))


def _temporary(c: Context, n: Node) -> Place:
    inner = n.inner[-1]
    return Fixed(keep_value(c, "temporary", expression(c, inner)))


def number(c: Context, n: Node) -> Number:
    """An expression that is a number."""
    value = expression(c, n)
    if not isinstance(value, Number):
        c.refuse(n, "a number is needed here")
    return value


def condition(c: Context, n: Node) -> Expr:
    """An expression as a condition."""
    if n.kind == "ImplicitCastExpr" and any(i.kind == "StringLiteral" for i in n.walk()):
        return const(True, dt.bool_)  # `assert(x && "why")`
    value = expression(c, n)
    if isinstance(value, Address):
        return is_not_null(c, n, value)
    if not isinstance(value, Number):
        c.refuse(n, "a condition that is no number")
    return ar.truth(value)


def is_not_null(c: Context, n: Node, value: Address) -> Expr:
    """Whether a pointer is not null: those into an array are not; an argument may be."""
    if value.is_null:
        return Const(False, dt.bool_)
    *others, found = map(_is_there, value.targets)
    for number, one in reversed(list(enumerate(others))):
        if one != found:
            assert value.which is not None
            found = Select(Compare("==", value.which, idx(number)), one, found)
    if value.is_set is None:
        return found
    return value.is_set if isinstance(found, Const) else Binary("&&", value.is_set, found)


def _is_there(target: Target) -> Expr:
    if target.memory.kind == "heap":
        return Compare("!=", target.offset, ZERO)
    if target.memory.kind != "argument":
        return Const(True, dt.bool_)
    return Compare(">", Var(target.memory.size_name, dt.index), ZERO)
