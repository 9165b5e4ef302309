"""Where in memory an access goes, as one sum: what several subscripts take apart is put together again.

Of ``f // 28`` and ``f % 28`` in rows of 28 elements, ``f`` is left: fused loops walk along memory.
"""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.divide import merge_quotients
from weft.ir.expr import Binary, Const, Expr
from weft.ir.interval import Ranges
from weft.ir.simplify import simplify
from weft.ir.visit import walk


def linear_offset(buffer: Buffer, indices: tuple[Expr, ...], ranges: Ranges | None = None) -> Linear | None:
    """Elements from the start of ``buffer`` to scalar subscripts, as one sum; None where a stride is not a number.

    With ``ranges`` of variables, digits that are put together are made simple again, for others to be put to them.
    """
    total = Linear()
    for index, stride in zip(indices, buffer.element_strides()):
        if not isinstance(stride, Const):
            return None
        total.add(linear_form(index), int(stride.value))
    joined = merge_quotients(total)
    while ranges is not None and joined.terms != total.terms:
        total = joined
        joined = Linear({}, total.constant)
        for atom, times in total.terms.items():
            joined.add(linear_form(simplify(atom, ranges)), times)
        joined = merge_quotients(joined)
    return joined


def joined_offset(buffer: Buffer, indices: tuple[Expr, ...]) -> Expr | None:
    """Elements from the start of ``buffer``, where that takes fewer divisions than the subscripts do; else None.

    Subscripts that are vectors are left out: their part is to be added.
    """
    divisions = sum(map(_count_divisions, indices))
    if not divisions:
        return None
    total = Linear()
    for index, stride in zip(indices, buffer.element_strides()):
        if not isinstance(stride, Const):
            return None
        if index.dtype.lanes == 1:
            total.add(linear_form(index), int(stride.value))
    joined = merge_quotients(total).expr(dt.index)
    return joined if _count_divisions(joined) < divisions else None


def _count_divisions(e: Expr) -> int:
    return sum(isinstance(n, Binary) and n.op in ("//", "%") for n in walk(e))
