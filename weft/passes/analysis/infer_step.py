"""How far apart in memory the iterations of a loop access a buffer."""

from __future__ import annotations

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Var, idx
from weft.ir.offsets import joined_offset
from weft.passes.analysis.check_vector import is_varying


def infer_step(buffer: Buffer, indices: tuple[Expr, ...], var: str, varying: frozenset[str]) -> int | None:
    """Elements between the accesses of neighbouring iterations, or None where that is not one number."""
    if buffer.name in varying:
        return 1 if not any(is_varying(i, varying) for i in indices) else None
    joined = joined_offset(buffer, indices) if all(i.dtype.lanes == 1 for i in indices) else None
    parts = zip(indices, buffer.element_strides()) if joined is None else [(joined, idx(1))]
    total = 0
    for index, stride in parts:
        if not is_varying(index, varying):
            continue
        terms = linear_form(index).terms
        others = [e for e in terms if not (isinstance(e, Var) and e.name == var) and is_varying(e, varying)]
        if others or not isinstance(stride, Const):
            return None
        total += int(stride.value) * sum(c for e, c in terms.items() if isinstance(e, Var) and e.name == var)
    return total
