"""Whether matrix instructions are at work: what is done beside them is then what takes the time."""

from __future__ import annotations

from weft.ir.expr import const
from weft.ir.hardware import ACROSS_THREADS, BULK_COPY
from weft.ir.nesting import inner_statements
from weft.ir.stmt import Evaluate, Stmt, Store, Tensorized
from weft.ir.visit import fact, stores


@fact
def has_products(s: Stmt) -> bool:
    """Whether ``s`` multiplies matrices: nests that stand for instructions, or instructions that run on their own."""
    if isinstance(s, Tensorized) and s.intrinsic not in (*ACROSS_THREADS, BULK_COPY):
        return True
    if isinstance(s, Evaluate) and s.call.name == "products_wait":
        return True
    return any(map(has_products, inner_statements(s)))


def is_zeros(s: Stmt) -> bool:
    """Whether ``s`` does nothing but store zeros, as sums start with."""
    found = stores(s)
    return bool(found) and all(isinstance(n, Store) and n.value in (const(0, n.value.dtype),) for n in found)
