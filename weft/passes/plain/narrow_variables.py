"""Variables of 64 bits of which only 32 are ever looked at, in 32 bits.

``let best: int64 = -1; ... best = i; ... B[t] = int32(best)`` becomes ``let best: int32 = -1; ... best = int32(i); ...
B[t] = best``: twice as many of them are lanes of a vector.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.expr import Cast, Expr, Var, cast
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Assign, Let, Stmt
from weft.ir.visit import Node, children, map_statements, rewrite


def narrow_variables(s: Stmt) -> Stmt:
    """``s`` with variables that are assigned as narrow as what is read of them."""
    if not assigned_names(s):
        return s
    s = map_statements(s, narrow_variables)
    if not isinstance(s, Let) or s.var.dtype != dt.int64 or s.var.name not in assigned_names(s.body):
        return s
    if not _is_read_as(s.body, s.var, dt.int32):
        return s
    new = replace(s.var, type=dt.int32)

    def narrowed(n: object) -> Node | None:
        match n:
            case Cast(operand=Var() as var) if var == s.var:
                return new
            case Assign() if n.var == s.var:
                return replace(n, var=new, value=cast(dt.int32, n.value))
        return None

    return replace(s, var=new, value=cast(dt.int32, s.value), body=rewrite(s.body, narrowed))


def _is_read_as(n: Node, var: Var, dtype: dt.DType) -> bool:
    """Whether ``var`` is only read to be converted to ``dtype``, and set by assignments."""
    if isinstance(n, Cast) and n.operand == var:
        return n.dtype == dtype
    if isinstance(n, Assign) and n.var == var:
        return _is_read_as(n.value, var, dtype)
    if isinstance(n, Expr) and n == var:
        return False
    return all(_is_read_as(c, var, dtype) for c in children(n))
