"""``unscale``: an extremum, or a sum, of multiples as a multiple of the extremum, or of the sum: factoring out.

::

    for t: M = max(M, x(t) * 0.125)          for t: M = max(M, x(t))
    for t: S = S + exp(x(t) * 0.125 - M)     for t: S = S + exp(x(t) * 0.125 - M * 0.125)

    for t: U = U + x(t) / L * v(t)           for t: U = U + x(t) * v(t)
    O = U                                    O = U / L

Rounding keeps order, so that extrema are the same to the bit; a product for each element is saved, and what is left of
the formula may be what was stored in the first place. Sums are rounded otherwise, which is for fast numerics. What a
sum has in common need not be a constant: it is whatever does not depend on its steps, as ``p(k / 128)`` does not where
the steps are those of one block of 128.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Cast, Const, Expr, Load, Select, Var, const
from weft.ir.interval import ranges_through
from weft.ir.nesting import replace_in, sequence
from weft.ir.numerics import is_fast
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, Kernel, Region, Stmt, Store
from weft.ir.visit import Node, free_vars, fresh_name, loads, mentions, replace_buffers, rewrite, substitute
from weft.poly.leaves import update_of
from weft.poly.verdict import Verdict, refuse
from weft.schedules.copy_reads import region
from weft.schedules.find import blocks_inside, find_block, loops_around
from weft.schedules.loop_facts import check_valid
from weft.schedules.merge_axes import is_used_in_blocks
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
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
    """The block must find the extremum, or the sum, of multiples, for other blocks of the program alone."""
    node = find_block(kernel, block)
    update = update_of(node.body) if isinstance(node.body, Store) else None
    is_sum = update is not None and update[0] == "+" and bool(_common(node, update[1])[1])
    if update is None or not (is_sum or (update[0] in ("max", "min") and _split(update[1]) is not None)):
        return refuse(f"block `{block}` does not find the greatest, the least or the sum of multiples by a factor")
    assert isinstance(node.body, Store)
    name = node.body.buffer.name
    outside = not is_sum and name in {b.name for b in kernel.buffers}
    if outside or name in mentions(kernel.body).addressed:
        return refuse(f"`{name}` is also used outside the program")
    if not _is_in_formulas(kernel, name) or name in {n.buffer.name for n in loads(update[1])}:
        return refuse(f"`{name}` is also used in other ways than by blocks that each compute one element")
    stored = [(s, b is node and s is b.body) for b in blocks_inside(kernel) for s in (b.init, b.body)]
    written = [s for s, is_own in stored if isinstance(s, Store) and s.buffer.name == name and not is_own]
    if is_sum:
        return _check_sum(kernel, node, written, numerics)
    if not all(isinstance(s.value, Const) and math.isinf(s.value.value) for s in written):
        return refuse(f"`{name}` starts at something else than infinity")
    return check_valid(unscale(kernel, block).kernel)


def _is_in_formulas(kernel: Kernel, name: str) -> bool:
    """Whether all reads of a buffer are in what blocks store, which can multiply, and blocks write all of it."""
    blocks = blocks_inside(kernel)
    formulas = all(isinstance(b.body, Store) for b in blocks if name in mentions(b).loaded | mentions(b).stored)
    in_starts = any(b.init is not None and name in mentions(b.init).loaded for b in blocks)
    return formulas and not in_starts and is_used_in_blocks(kernel, name, blocks)


def _check_sum(kernel: Kernel, node: Block, written: list[Store], numerics: Numerics) -> Verdict:
    """What is taken out must be the same for who reads the sum."""
    assert isinstance(node.body, Store)
    name = node.body.buffer.name
    if not is_fast(numerics):
        return replace(refuse(f"factors outside a sum change how `{name}` is rounded"), offers=('numerics="fast"',))
    if not all(isinstance(s.value, Const) and s.value.value == 0 for s in written):
        return refuse(f"`{name}` starts at something else than zero")
    update = update_of(node.body)
    assert update is not None
    factors = {n.buffer.name for _, e in _common(node, update[1])[1] for n in loads(e)}
    blocks = blocks_inside(kernel)
    here = next(n for n, b in enumerate(blocks) if b is node)
    readers = [n for n, b in enumerate(blocks) if name in mentions(b).loaded and b is not node]
    writers = [n for n, b in enumerate(blocks) if mentions(b).stored & factors]
    if not all(n > here for n in readers) or not all(n < here for n in writers):
        return refuse(f"what `{name}` is multiplied by is not settled before block `{node.name}`")
    mine = {id(x) for x in loops_around(kernel, node)}
    if any(id(x) in mine for n in (*readers, *writers) for x in loops_around(kernel, blocks[n])):
        return refuse(f"block `{node.name}` shares loops with those that read `{name}` or compute its factors")
    plain = all(isinstance(i, Var) for i in node.body.indices)
    own = {v for _, e in _common(node, update[1])[1] for v in free_vars(e)}
    if not plain or own - {v for i in node.body.indices for v in free_vars(i)}:
        return refuse(f"which factor goes with an element of `{name}` cannot be told from its subscripts")
    if name in {b.name for b in kernel.buffers} and (len(written) > 1 or readers or not runs_in_full(kernel, node)):
        return refuse(f"block `{node.name}` does not compute all of `{name}` in loops of its own")
    return check_valid(unscale(kernel, node.name).kernel)


def runs_in_full(kernel: Kernel, node: Block) -> bool:
    """Whether each iterator is a loop of a nest of its own, through all of its values."""
    loops = {x.var: (x.lo, x.hi) for x in loops_around(kernel, node)}
    whole = all(isinstance(i.binding, Var) and loops.get(i.binding) == (i.lo, i.hi) for i in node.iters)
    return whole and node.init is not None and blocks_inside(loops_around(kernel, node)[0]) == [node]


#: What is done in the end with a sum: times or over something.
_Factor = tuple[BinaryOp, Expr]


def _common(node: Block, value: Expr) -> tuple[Expr, list[_Factor]]:
    """``value`` without what does not depend on the steps of ``node``, and that."""
    steps = {i.var.name for i in node.iters if i.kind == "reduce"}
    ranges = ranges_through(node.iters, {})

    def split(e: Expr) -> tuple[Expr, list[_Factor]]:
        if isinstance(e, Cast) and e.dtype.is_float and e.operand.dtype.is_float:
            inner = e.operand
            if isinstance(inner, Cast) and inner.operand.dtype == e.dtype:
                inner = inner.operand  # rounded on the way: a factor first, or not at all
            rest, found = split(inner)
            return (rest if rest.dtype == e.dtype else Cast(e.dtype, rest), found) if found else (e, [])
        if not isinstance(e, Binary) or e.op not in ("*", "/") or not e.dtype.is_float:
            return e, []
        for factor, other in ((e.right, e.left), (e.left, e.right))[: 2 if e.op == "*" else 1]:
            factor = simplify(factor, ranges) if steps & free_vars(factor).keys() else factor
            if not steps & free_vars(factor).keys():
                rest, found = split(other)
                return rest, [*found, (e.op, factor)]
        left, found = split(e.left)
        right, more = split(e.right) if e.op == "*" else (e.right, [])
        return (Binary(e.op, left, right), [*found, *more]) if found or more else (e, [])

    return split(value)


@primitive(check_unscale, "cannot take a factor out of block `{0}`")
def unscale(kernel: Kernel, block: str) -> Rewrite:
    """``block`` finds the extremum, or the sum, of what was multiplied; who reads it multiplies."""
    node = find_block(kernel, block)
    assert isinstance(node.body, Store)
    update, store = update_of(node.body), node.body
    assert update is not None
    found = _split(update[1]) if update[0] in ("max", "min") else None
    value, factors = _common(node, update[1]) if found is None else (found[0], [])
    for other in blocks_inside(kernel):
        if other is not node and store.buffer.name in mentions(other).loaded:
            made = _multiplied(other, store, factors) if found is None else _scaled(other, node, update[1], *found)
            kernel = replace_stmt(kernel, other, made)
    old = Load(store.buffer, store.indices)
    body = replace(store, value=Binary(update[0], old, value))
    made = _declared(replace(node, body=body))
    if found is None and store.buffer.name in {b.name for b in kernel.buffers}:
        root = loops_around(kernel, node)[0]
        finished, end = finish_apart(root, node, made, taken_names(kernel), lambda sums: _times(sums, factors, {}))
        return Rewrite(replace_stmt(kernel, root, finished), (end,))
    return Rewrite(replace_stmt(kernel, node, made))


def finish_apart(
    root: Stmt, node: Block, made: Block, taken: set[str], finish: Callable[[Load], Expr]
) -> tuple[Stmt, str]:
    """``root`` with the sums of ``made`` in storage of their own, then a block that computes results of these as
    ``finish`` says; and the name of that block."""
    assert isinstance(node.body, Store)
    store = node.body
    sums = Buffer(fresh_name(f"{store.buffer.name}_sum", taken), store.buffer.dtype, store.buffer.shape)
    spatial = [i for i in node.iters if i.kind == "spatial"]
    names = {i.var: Var(fresh_name(f"{i.var.name}_end", taken)) for i in spatial}
    iters = tuple(replace(i, binding=names[i.var]) for i in spatial)
    name = fresh_name(f"{node.name}_end", taken)
    result = replace(store, value=finish(Load(sums, store.indices)))
    end: Stmt = _declared(Block(name, iters, (), (region(store.buffer, store.indices),), None, result))
    for i in reversed(iters):
        end = For(names[i.var], i.lo, i.hi, "serial", end)
    summed = replace_buffers(replace_in(root, node, made), {store.buffer: sums})
    return Alloc(sums, sequence([summed, end])), name


def _multiplied(reader: Block, target: Store, factors: list[_Factor]) -> Block:
    """``reader`` with each element of the sum times, or over, what was taken out of it."""

    def visit(n: Node) -> Node | None:
        if not isinstance(n, Load) or n.buffer != target.buffer:
            return None
        return _times(n, factors, {i: e for i, e in zip(target.indices, n.indices) if isinstance(i, Var)})

    assert isinstance(reader.body, Store)
    return _declared(replace(reader, body=replace(reader.body, value=rewrite(reader.body.value, visit))))


def _times(value: Expr, factors: list[_Factor], places: Mapping[Var, Expr]) -> Expr:
    """``value`` times, or over, ``factors`` at ``places``."""
    for op, factor in factors:
        value = Binary(op, value, substitute(factor, places))
    return value


def places_in(reader: Block, node: Block) -> list[dict[Var, Expr]]:
    """What iterators of ``node``, which finds an extremum along one of them, are in ``reader``, at a step of that."""
    assert isinstance(node.body, Store)
    target, spatial = node.body, [i for i in node.iters if i.kind == "spatial"]
    steps = [i for i in node.iters if i.kind == "reduce"]
    found: list[dict[Var, Expr]] = []
    for read in dict.fromkeys(n for n in loads(reader.body) if n.buffer == target.buffer):
        known = dict(zip(target.indices, read.indices))
        if len(steps) == 1 and all(i.var in known for i in spatial):
            along = [i for i in reader.iters if (i.lo, i.hi) == (steps[0].lo, steps[0].hi)]
            found += [{**{x.var: known[x.var] for x in spatial}, steps[0].var: i.var} for i in along]
    return found


def _scaled(reader: Block, node: Block, whole: Expr, value: Expr, factor: Const) -> Block:
    """``reader`` with the extremum times ``factor``, and what it was found of as such a product too."""
    assert isinstance(node.body, Store)
    target = node.body
    pairs = [(substitute(whole, v), substitute(value, v)) for v in places_in(reader, node)]

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
