"""``narrow``: a temporary of floats kept in a shorter type, where it is multiplied with elements of that type anyway.

The other factors were rounded to that type before, so that products are about as exact as they were. Matrix
instructions want both factors of one type.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.dtype import SCALAR_TYPES, DType
from weft.ir.expr import Binary, Cast, Const, Expr, Load, Select, cast
from weft.ir.numerics import is_fast
from weft.ir.stmt import Alloc, Kernel, Region, Store
from weft.ir.visit import Node, mentions, rewrite, walk
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_alloc, find_buffer
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_narrow(kernel: Kernel, buffer: str, dtype: str, *, numerics: Numerics) -> Verdict:
    """Only temporaries, and only factors of products with elements of that type."""
    node = find_buffer(kernel, buffer)
    if buffer in {b.name for b in kernel.buffers}:
        return refuse(f"`{buffer}` is a parameter: its type is the caller's")
    wanted = SCALAR_TYPES.get(dtype) if isinstance(dtype, str) else None
    if wanted is None or not wanted.is_narrow_float or not node.dtype.is_float or node.dtype.is_narrow_float:
        return refuse(f"`{buffer}` of {node.dtype} does not become {dtype}: wide floats become bfloat16 or float16")
    if not is_fast(numerics):
        return replace(refuse(f"`{buffer}` is rounded to {dtype}"), offers=('numerics="fast"',))
    alloc = find_alloc(kernel, buffer)
    if buffer in mentions(alloc.body).addressed:
        return refuse(f"an intrinsic takes the address of `{buffer}`")
    factors = [n for n in walk(alloc.body) if isinstance(n, Binary) and n.op == "*" and _is_factor(n, buffer, wanted)]
    reads = [n for n in walk(alloc.body) if isinstance(n, Load) and n.buffer.name == buffer]
    if len(factors) < len(reads):
        return refuse(f"`{buffer}` is read elsewhere than in products with elements of {dtype}")
    return OK


def _is_factor(product: Binary, buffer: str, dtype: DType) -> bool:
    sides = (product.left, product.right)
    return any(
        isinstance(a, Load) and a.buffer.name == buffer and isinstance(b, Cast) and b.operand.dtype == dtype
        for a, b in (sides, reversed(sides))
    )


def _rounded(e: Expr, dtype: DType) -> Expr:
    """``e`` as ``dtype``; what fills up storage stays the constant it is."""
    if isinstance(e, Select) and isinstance(e.otherwise, Const):
        return Select(e.condition, Cast(dtype, e.then), cast(dtype, e.otherwise))
    return Cast(dtype, e)


@primitive(check_narrow, "cannot keep `{0}` as {1}")
def narrow(kernel: Kernel, buffer: str, dtype: str) -> Rewrite:
    """``buffer`` is of type ``dtype`` from here on."""
    alloc = find_alloc(kernel, buffer)
    old, new = alloc.buffer, replace(alloc.buffer, dtype=SCALAR_TYPES[dtype])

    def visit(n: Node) -> Node | None:
        if isinstance(n, Load) and n.buffer == old:
            return Cast(old.dtype, replace(n, buffer=new))
        if isinstance(n, Store) and n.buffer == old:
            return replace(n, buffer=new, value=_rounded(n.value, new.dtype))
        return replace(n, buffer=new) if isinstance(n, Region) and n.buffer == old else None

    return Rewrite(replace_stmt(kernel, alloc, Alloc(new, rewrite(alloc.body, visit), span=alloc.span)))
