"""``unscale``: an extremum of multiples as a multiple of the extremum.

::

    for t: M = max(M, x(t) * 0.125)          for t: M = max(M, x(t))
    for t: S = S + exp(x(t) * 0.125 - M)     for t: S = S + exp(x(t) * 0.125 - M * 0.125)

Rounding keeps order, so the results are the same to the bit; a product for each element is saved, and what is left of
the formula may be what was stored in the first place.
"""

from __future__ import annotations

import math
from dataclasses import replace

from weft.ir.expr import Binary, Const, Expr, Load, Select, const
from weft.ir.stmt import Block, Kernel, Region, Store
from weft.ir.visit import Node, loads, mentions, rewrite, substitute
from weft.poly.leaves import update_of
from weft.poly.verdict import Verdict, refuse
from weft.schedules.copy_reads import region
from weft.schedules.find import blocks_inside, find_block
from weft.schedules.loop_facts import check_valid
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def _split(e: Expr) -> tuple[Expr, Const] | None:
    """``e`` as something times a positive constant."""
    if isinstance(e, Binary) and e.op == "*":
        for value, factor in ((e.left, e.right), (e.right, e.left)):
            if isinstance(factor, Const) and factor.dtype.is_float and 0 < float(factor.value) < math.inf:
                return value, factor
    if isinstance(e, Select) and isinstance(e.otherwise, Const) and math.isinf(e.otherwise.value):
        inner = _split(e.then)
        return None if inner is None else (Select(e.condition, inner[0], e.otherwise), inner[1])
    return None


def check_unscale(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    """The block must find the extremum of multiples, for other blocks of the program alone."""
    node = find_block(kernel, block)
    update = update_of(node.body) if isinstance(node.body, Store) else None
    if update is None or update[0] not in ("max", "min") or _split(update[1]) is None:
        return refuse(f"block `{block}` does not find the greatest or least of multiples by a positive constant")
    assert isinstance(node.body, Store)
    name = node.body.buffer.name
    if name in {b.name for b in kernel.buffers} or name in mentions(kernel.body).addressed:
        return refuse(f"`{name}` is also used outside the program")
    starts = [s for b in blocks_inside(kernel) for s in (b.init, b.body) if isinstance(s, Store) and s is not node.body]
    written = [s for s in starts if s.buffer.name == name]
    if not all(isinstance(s.value, Const) and math.isinf(s.value.value) for s in written):
        return refuse(f"`{name}` starts at something else than infinity")
    return check_valid(unscale(kernel, block).kernel)


@primitive(check_unscale, "cannot take a factor out of block `{0}`")
def unscale(kernel: Kernel, block: str) -> Rewrite:
    """``block`` finds the extremum of what was multiplied; who reads it multiplies."""
    node = find_block(kernel, block)
    assert isinstance(node.body, Store)
    update = update_of(node.body)
    found = None if update is None else _split(update[1])
    assert update is not None
    assert found is not None
    value, factor = found
    store = node.body
    for other in blocks_inside(kernel):
        if other is not node and store.buffer.name in mentions(other).loaded:
            kernel = replace_stmt(kernel, other, _scaled(other, node, update[1], value, factor))
    old = Load(store.buffer, store.indices)
    body = replace(store, value=Binary(update[0], old, value))
    return Rewrite(replace_stmt(kernel, node, _declared(replace(node, body=body))))


def _scaled(reader: Block, node: Block, whole: Expr, value: Expr, factor: Const) -> Block:
    """``reader`` with the extremum times ``factor``, and what it was found of as such a product too."""
    assert isinstance(node.body, Store)
    target, spatial = node.body, [i for i in node.iters if i.kind == "spatial"]
    steps = [i for i in node.iters if i.kind == "reduce"]
    pairs: list[tuple[Expr, Expr]] = []
    for read in dict.fromkeys(n for n in loads(reader.body) if n.buffer == target.buffer):
        known = dict(zip(target.indices, read.indices))
        if len(steps) != 1 or not all(i.var in known for i in spatial):
            continue
        for i in reader.iters:
            if (i.lo, i.hi) == (steps[0].lo, steps[0].hi):
                values = {**{x.var: known[x.var] for x in spatial}, steps[0].var: i.var}
                pairs.append((substitute(whole, values), substitute(value, values)))

    def visit(n: Node) -> Node | None:
        for one, other in pairs:
            if n == one:
                return Binary("*", other, const(float(factor.value), factor.dtype))
        return Binary("*", n, factor) if isinstance(n, Load) and n.buffer == target.buffer else None

    assert isinstance(reader.body, Store)
    return _declared(replace(reader, body=replace(reader.body, value=rewrite(reader.body.value, visit))))


def _declared(block: Block) -> Block:
    """``block`` with what it reads declared as it now is."""
    reads: dict[Region, None] = dict.fromkeys(region(n.buffer, n.indices, is_certain=False) for n in loads(block.body))
    return replace(block, reads=tuple(reads))
