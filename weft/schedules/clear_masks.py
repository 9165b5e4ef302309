"""``clear_masks``: what a mask puts in place of elements, or adds to them, as the extremum of nothing.

::

    M = max(M, t <= s ? x : -1e9)            M = max(M, t <= s ? x : -inf)
    M = max(M, x + (t <= s ? 0 : -1e30))     M = max(M, t <= s ? x : -inf)

and the same in exponents of blocks that use the extremum: ``exp(-1e9 - M)`` is 0 as ``exp(-inf - M)`` is. Iterations of
which such a mask leaves nothing can then be left out (`masks`). Each extremum must be of one element at least that is
not masked; under fast numerics such elements are taken to be nowhere near `LEAST`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Call, Compare, Const, Expr, Select, Var, identity, idx
from weft.ir.inequality import all_of, conjuncts
from weft.ir.interval import ranges_through
from weft.ir.numerics import is_fast
from weft.ir.simplify import simplify
from weft.ir.stmt import Block, Kernel, Store
from weft.ir.visit import Node, children, free_vars, mentions, rewrite, substitute, walk
from weft.poly.leaves import update_of
from weft.poly.verdict import Verdict, refuse
from weft.schedules.exponents import RATES
from weft.schedules.find import blocks_inside, find_block
from weft.schedules.loop_facts import check_valid, is_true
from weft.schedules.make_blocks import declared_anew
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics
from weft.schedules.unscale import places_in

#: Constants of masks are this or beyond; elements are taken to be less, by so much that differences are infinite.
LEAST = 1e9
#: Exponents have such a part of them at least: even of `LEAST` an exponential is then 0 or infinite, in all types.
FLATTEST = 1e-5


def check_clear_masks(kernel: Kernel, block: str, *, numerics: Numerics) -> Verdict:
    """The block must find the extremum of masked elements, one of which is not, for others of the program alone."""
    node = find_block(kernel, block)
    found = _find(node)
    if found is None:
        return refuse(f"block `{block}` finds no extremum of elements that a constant beyond {LEAST:g} masks")
    assert isinstance(node.body, Store)
    name = node.body.buffer.name
    if not is_fast(numerics):
        return replace(
            refuse(f"constants of masks are taken to be beyond what `{name}` is of"), offers=('numerics="fast"',)
        )
    if name in {b.name for b in kernel.buffers} or name in mentions(kernel.body).addressed:
        return refuse(f"`{name}` is also used outside the program")
    if not _keeps_one(node, found[1]):
        return refuse(f"it is not proved that an element of each row of `{name}` is not masked")
    for reader in _readers(kernel, node):
        masked = {substitute(found[0], v) for v in places_in(reader, node)}
        if not _is_in_exponents(reader.body, masked):
            return refuse(f"block `{reader.name}` uses masked elements elsewhere than in exponents")
    return check_valid(clear_masks(kernel, block).kernel)


@primitive(check_clear_masks, "cannot clear masks of block `{0}`")
def clear_masks(kernel: Kernel, block: str) -> Rewrite:
    """``block``, and those that use its results, with masked elements infinite."""
    node = find_block(kernel, block)
    found = _find(node)
    assert found is not None
    assert isinstance(node.body, Store)
    old, tests, kept = found
    update = update_of(node.body)
    assert update is not None
    new = Select(all_of(tests), kept, identity(update[0], kept.dtype))
    for other in _readers(kernel, node):
        pairs = [(substitute(old, v), substitute(new, v)) for v in places_in(other, node)]
        kernel = replace_stmt(kernel, other, _replaced(other, dict(pairs)))
    return Rewrite(replace_stmt(kernel, node, _replaced(node, {old: new})))


def _readers(kernel: Kernel, node: Block) -> list[Block]:
    """The other blocks that use what ``node`` finds."""
    assert isinstance(node.body, Store)
    name = node.body.buffer.name
    return [b for b in blocks_inside(kernel) if b is not node and name in mentions(b).loaded]


def _is_in_exponents(n: Node, masked: set[Expr]) -> bool:
    """Whether ``masked`` elements are only used where their being infinite changes nothing."""
    if n in masked:
        return False
    if isinstance(n, Call) and n.name in RATES and abs(_times(n.args[0], masked) or 0.0) >= FLATTEST:
        return True
    return all(_is_in_exponents(child, masked) for child in children(n))


def _times(e: Expr, masked: set[Expr]) -> float | None:
    """By which factor a masked element is part of a sum; None where it is not known to be, or several are."""
    if e in masked:
        return 1.0
    if isinstance(e, Binary) and e.op in ("+", "-"):
        sides = [_times(side, masked) for side in (e.left, e.right) if any(n in masked for n in walk(side))]
        return sides[0] if len(sides) == 1 else None
    if isinstance(e, Binary) and e.op == "*":
        for value, factor in ((e.left, e.right), (e.right, e.left)):
            if isinstance(factor, Const) and (times := _times(value, masked)) is not None:
                return times * float(factor.value)
    return None


def _replaced(block: Block, values: dict[Expr, Expr]) -> Block:
    def visit(n: Node) -> Node | None:
        return values.get(n) if isinstance(n, Expr) else None

    return declared_anew(replace(block, body=rewrite(block.body, visit)))


def _find(node: Block) -> tuple[Expr, list[Expr], Expr] | None:
    """What the extremum is of, what holds where that is not masked, and what it is there."""
    update = update_of(node.body) if isinstance(node.body, Store) else None
    if update is None or update[0] not in ("max", "min") or not update[1].dtype.is_float:
        return None
    value = update[1]
    tests, kept = _taken_apart(value, -LEAST if update[0] == "max" else LEAST)
    is_clear = isinstance(value, Select) and (value.otherwise, value.then) == (identity(update[0], value.dtype), kept)
    return (value, tests, kept) if tests and not is_clear else None


def _taken_apart(e: Expr, limit: float) -> tuple[list[Expr], Expr]:
    """What holds where no mask is taken, and what is left of ``e`` there. Constants beyond ``limit`` are masks."""
    if isinstance(e, Select):
        if _is_mask(e.otherwise, limit):
            tests, kept = _taken_apart(e.then, limit)
            return [*conjuncts(e.condition), *tests], kept
        if _is_mask(e.then, limit):
            tests, kept = _taken_apart(e.otherwise, limit)
            return [*conjuncts(e.condition, False), *tests], kept
    if isinstance(e, Binary) and e.op == "+":
        parts = [_taken_apart(side, limit) for side in (e.left, e.right)]
        tests = [t for found, _ in parts for t in found]
        left, right = (rest for _, rest in parts)
        return (tests, right if _is_zero(left) else left if _is_zero(right) else left + right) if tests else ([], e)
    if isinstance(e, Binary) and e.op == "*":
        for value, factor in ((e.left, e.right), (e.right, e.left)):
            if isinstance(factor, Const) and 0 < float(factor.value) < math.inf:
                tests, kept = _taken_apart(value, limit / float(factor.value))
                return tests, Binary("*", kept, factor) if tests else e
    return [], e


def _is_zero(e: Expr) -> bool:
    return isinstance(e, Const) and e.value == 0


def _is_mask(e: Expr, limit: float) -> bool:
    if not isinstance(e, Const) or not e.dtype.is_float:
        return False
    return float(e.value) <= limit if limit < 0 else float(e.value) >= limit


def _keeps_one(node: Block, tests: list[Expr]) -> bool:
    """Whether for all results there is a step at which all ``tests`` hold."""
    steps = [i for i in node.iters if i.kind == "reduce"]
    ranges = ranges_through(node.iters, {})
    if len(steps) != 1:
        return False
    (step,) = steps
    inside = [Compare("<=", step.lo, step.var), Compare("<", step.var, step.hi)]
    asked = [*tests, *inside]
    return any(
        all(is_true(simplify(substitute(t, {step.var: place}), ranges)) for t in asked)
        for place in (step.lo, step.hi - 1, *_edges(tests, step.var))
    )


def _edges(tests: list[Expr], step: Var) -> Iterator[Expr]:
    """Steps at which one of ``tests`` just holds."""
    for test in tests:
        if not isinstance(test, Compare) or not test.left.dtype.is_integer or step.name not in free_vars(test):
            continue
        gap = linear_form(simplify(test.right - test.left))
        times = gap.terms.pop(step, 0)
        if abs(times) == 1:
            edge = gap.expr(step.dtype) * -times
            yield from (simplify(edge), simplify(edge - 1), simplify(edge + idx(1)))
