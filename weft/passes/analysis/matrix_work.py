"""Whether matrix instructions are at work: what is done beside them is then what takes the time."""

from __future__ import annotations

from weft.ir.hardware import ACROSS_THREADS, BULK_COPY
from weft.ir.nesting import inner_statements
from weft.ir.stmt import Evaluate, Stmt, Tensorized
from weft.ir.visit import fact


@fact
def has_products(s: Stmt) -> bool:
    """Whether ``s`` multiplies matrices: nests that stand for instructions, or instructions that run on their own."""
    if isinstance(s, Tensorized) and s.intrinsic not in (*ACROSS_THREADS, BULK_COPY):
        return True
    if isinstance(s, Evaluate) and s.call.name == "products_wait":
        return True
    return any(map(has_products, inner_statements(s)))
