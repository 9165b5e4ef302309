"""``regroup``: factors regrouped: those of a sum that depend on some iterators alone, multiplied with each other first.

::

    for m, n, k: C = C + x(m,k) * w(n,k) * p(m,k / 128) * q(n,k / 128)
    # regroup("C", "vm", "vk")
    for m, n, k: C = C + w(n,k) * q(n,k / 128) * (x(m,k) * p(m,k / 128))

Then they can be a stage of their own (`precompute`), and the sum is a product of two matrices. Products are rounded
otherwise, which is for fast numerics.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from weft.ir.expr import Binary, Expr, Load
from weft.ir.numerics import is_fast
from weft.ir.stmt import Block, Kernel, Store
from weft.ir.visit import free_vars
from weft.poly.leaves import update_of
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_block
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_regroup(kernel: Kernel, block: str, *iters: str, numerics: Numerics) -> Verdict:
    """The block must add up products of floats, of which at least two and not all depend on these iterators alone."""
    node = find_block(kernel, block)
    known = [i.var.name for i in node.iters]
    if unknown := [i for i in iters if i not in known]:
        return refuse(f"block `{block}` has no iterator `{unknown[0]}`; it has {', '.join(sorted(known))}")
    if not is_fast(numerics):
        why = f"factors multiplied in another order change how `{block}` is rounded"
        return replace(refuse(why), offers=('numerics="fast"',))
    own, others = _groups(node, iters)
    if len(own) < 2 or not others:
        return refuse(f"block `{block}` adds up no products with two factors and more of these iterators, and others")
    return OK


@primitive(check_regroup, "cannot multiply factors of block `{0}` first")
def regroup(kernel: Kernel, block: str, *iters: str) -> Rewrite:
    """The product that ``block`` adds up, as that of both groups."""
    node = find_block(kernel, block)
    assert isinstance(node.body, Store)
    own, others = _groups(node, iters)
    store = node.body
    value = Binary("*", _product(others), _product(own))
    body = replace(store, value=Binary("+", Load(store.buffer, store.indices), value))
    return Rewrite(replace_stmt(kernel, node, replace(node, body=body)))


def _product(factors: list[Expr]) -> Expr:
    return reduce(lambda a, b: Binary("*", a, b), factors)


def factors_of(e: Expr) -> list[Expr]:
    """What is multiplied in ``e``, a float."""
    if isinstance(e, Binary) and e.op == "*" and e.dtype.is_float:
        return [*factors_of(e.left), *factors_of(e.right)]
    return [e]


def _groups(node: Block, iters: tuple[str, ...]) -> tuple[list[Expr], list[Expr]]:
    """The factors of a sum that depend on ``iters`` alone, and the others."""
    update = update_of(node.body) if isinstance(node.body, Store) else None
    if update is None or update[0] != "+" or not update[1].dtype.is_float:
        return [], []
    factors = factors_of(update[1])
    own = [f for f in factors if free_vars(f) and {*free_vars(f)} <= {*iters}]
    return own, [f for f in factors if f not in own]
