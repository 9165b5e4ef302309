"""``atomic``: each update of a reduction in one step, so that iterations may run at once and still meet.

::

    for e: O[I[e]] = O[I[e]] + X[e]     =>     for e: atomic O[I[e]] += X[e]

Nothing changes by itself; `bind` and `parallel` then take loops whose iterations update the same elements, where the
order of updates does not matter: for integers, minima and maxima, or under fast numerics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from weft.ir.expr import Binary, Expr, Load
from weft.ir.stmt import Atomic, AtomicOp, Kernel, Store
from weft.ir.visit import loads
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_block
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_atomic(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    """The block must be one update, of a kind that can be done in one step, and start its results elsewhere."""
    block_node = find_block(kernel, block)
    if not isinstance(block_node.body, Store) or _update(block_node.body) is None:
        return refuse(f"block `{block}` is not of the form `X = X + value`, where the value does not use X")
    op, _ = _update(block_node.body) or ("", None)
    if op not in get_args(AtomicOp):
        return refuse(f"`{op}` cannot be done to memory in one step")
    if block_node.init is not None:
        return refuse(f"block `{block}` also starts its results: the updates of others could come before")
    return OK


@primitive(check_atomic, "cannot do each update of block `{0}` in one step")
def atomic(kernel: Kernel, block: str) -> Rewrite:
    block_node = find_block(kernel, block)
    store = block_node.body
    assert isinstance(store, Store)
    op, value = _update(store) or ("+", store.value)
    step = Atomic(op, store.buffer, store.indices, value, span=store.span)  # type: ignore[arg-type]
    return Rewrite(replace_stmt(kernel, block_node, replace(block_node, body=step)))


def _update(store: Store) -> tuple[str, Expr] | None:
    """The operator and the value of ``X = X op value``."""
    value = store.value
    if not isinstance(value, Binary):
        return None
    for old, new in ((value.left, value.right), (value.right, value.left)):
        is_old = isinstance(old, Load) and old.buffer == store.buffer and old.indices == store.indices
        if is_old and not any(x.buffer == store.buffer for x in loads(new)):
            return value.op, new
    return None
