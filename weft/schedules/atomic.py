"""``atomic``: each update of a reduction in one step, so that iterations may run at once and still meet.

::

    for e: O[I[e]] = O[I[e]] + X[e]     =>     for e: atomic O[I[e]] += X[e]

Nothing changes by itself; `bind` and `parallel` then take loops whose iterations update the same elements, where the
order of updates does not matter: for integers, minima and maxima, or under fast numerics.
"""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from weft.ir.stmt import Atomic, AtomicOp, Kernel, Store
from weft.ir.visit import loads, stores
from weft.poly.leaves import update_of
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_block
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_atomic(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    """The block must be one update, of a kind that can be done in one step, and start its results elsewhere."""
    block_node = find_block(kernel, block)
    store = block_node.body
    update = update_of(store) if isinstance(store, Store) else None
    if update is None or any(x.buffer.name in {w.buffer.name for w in stores(store)} for x in loads(update[1])):
        return refuse(f"block `{block}` is not of the form `X = X + value`, where the value does not use X")
    if update[0] not in get_args(AtomicOp):
        return refuse(f"`{update[0]}` cannot be done to memory in one step")
    if block_node.init is not None:
        return refuse(f"block `{block}` also starts its results: the updates of others could come before")
    return OK


@primitive(check_atomic, "cannot do each update of block `{0}` in one step")
def atomic(kernel: Kernel, block: str) -> Rewrite:
    block_node = find_block(kernel, block)
    store = block_node.body
    assert isinstance(store, Store)
    op, value = update_of(store) or ("+", store.value)
    step = Atomic(op, store.buffer, store.indices, value, span=store.span)  # type: ignore[arg-type]
    return Rewrite(replace_stmt(kernel, block_node, replace(block_node, body=step)))
