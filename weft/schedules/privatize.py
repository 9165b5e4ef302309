"""``privatize``: updates of a block in a copy of the whole buffer, one for each iteration of a loop, added in the end.

::

    for p:                          for p:
      for i: H[B[i]] += x             alloc H_own: int32[256] in shared
                                      for b: H_own[b] = 0
                                      for i: H_own[B[i]] += x
                                      for b: H[b] += H_own[b]

This is privatization of an array. Unlike `rfactor` it need not know which elements are updated, so data may choose
them; unlike `cache_write` it reads nothing first, so iterations of the loop may meet in an element, where each update
is done in one step (`atomic`).
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer, Scope
from weft.ir.expr import Binary, BinaryOp, Expr, Load, Var, identity, idx
from weft.ir.nesting import around, replace_in, sequence
from weft.ir.stmt import Alloc, Block, For, Iter, Kernel, Stmt, Store
from weft.ir.visit import fresh_name, loads, mentions, replace_buffers, stores
from weft.poly.leaves import update_of
from weft.poly.updates import is_used_besides
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.copy_reads import are_set, check_result, emit_set, region
from weft.schedules.find import blocks_inside, find_block, find_loop
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.segment import Segment
from weft.schedules.trace import Numerics


def check_privatize(kernel: Kernel, block: str, at: str, scope: Scope = "global", *, numerics: Numerics) -> Verdict:
    """The block must be all that touches the buffer in the loop, by updates whose order does not matter."""
    node, loop = find_block(kernel, block), find_loop(kernel, at)
    update = update_of(node.body) if isinstance(node.body, Store) else None
    if update is None or _uses_results(node.body, update[1]):
        return refuse(f"block `{block}` is not of the form `X = X + value`, where the value does not use X")
    if not any(b is node for b in blocks_inside(loop)):
        return refuse(f"block `{block}` is not inside loop `{at}`")
    verdict = _check_order(node, update[0], numerics)
    if not verdict.ok:
        return verdict
    name = _updated(node).name
    if is_used_besides(loop.body, name, [node]):
        others = [(b.name, mentions(b)) for b in blocks_inside(loop) if b is not node]
        users = [f"block `{other}`" for other, used in others if name in used.loaded | used.stored]
        return refuse(f"{[*users, 'another statement'][0]} uses `{name}` inside loop `{at}` too")
    segment = Segment(kernel, loop.body, (), (loop.body,), ())
    if not are_set(segment, _updated(node)):
        reason = f"elements of `{name}` may have no value yet, and each gets what its copy holds"
        return refuse(reason, kind="unproved")
    return check_result(segment, privatize(kernel, block, at, scope).kernel, name, numerics)


def _check_order(node: Block, op: str, numerics: Numerics) -> Verdict:
    buffer = _updated(node)
    if node.init is not None:
        offers = (f's.decompose_reduction("{node.name}", at=...) first',)
        return refuse(f"block `{node.name}` also starts its results: it would do so again for each copy", None, offers)
    if numerics == "strict" and buffer.dtype.is_float and op not in ("min", "max"):
        reason = f"adding up copies changes the order in which {buffer.dtype} `{buffer.name}` is rounded"
        return replace(refuse(reason), offers=('numerics="fast"',))
    return OK


def _uses_results(body: Stmt, value: Expr) -> bool:
    """Whether results decide what is added, or where."""
    (store,) = stores(body)
    return any(n.buffer == store.buffer for e in (value, *store.indices) for n in loads(e))


def _updated(node: Block) -> Buffer:
    return stores(node.body)[0].buffer


@primitive(check_privatize, "cannot update copies in block `{0}`")
def privatize(kernel: Kernel, block: str, at: str, scope: Scope = "global") -> Rewrite:
    """Makes the blocks that start a copy and add it up, and the copy."""
    node, loop = find_block(kernel, block), find_loop(kernel, at)
    buffer, taken = _updated(node), taken_names(kernel)
    op: BinaryOp = (update_of(node.body) or ("+", None))[0]  # type: ignore[arg-type]
    own = Buffer(fresh_name(f"{buffer.name}_own", taken), buffer.dtype, buffer.shape, scope=scope)
    start, total = (fresh_name(f"{own.name}_{what}", taken) for what in ("init", "total"))
    first = _through(buffer, "_init", taken)
    begin = emit_set(start, (own, [x.var for x in first]), identity(op, buffer.dtype), _scope(first), taken)
    body = replace_in(loop.body, node, replace_buffers(node, {buffer: own}))
    parts = [around(first, begin), body, _total(total, (buffer, own), op, loop, taken)]
    made = replace(loop, body=Alloc(own, sequence(parts)))
    return Rewrite(replace_stmt(kernel, loop, made), (start, total, own.name))


def _through(buffer: Buffer, suffix: str, taken: set[str]) -> list[For]:
    names = [fresh_name(f"{buffer.name}_{d}{suffix}", taken) for d in range(buffer.rank)]
    return [For(Var(name), idx(0), size, "serial", sequence([])) for name, size in zip(names, buffer.shape)]


def _scope(loops: list[For]) -> dict[str, tuple[Expr, Expr]]:
    return {x.var.name: (x.lo, x.hi) for x in loops}


def _total(name: str, buffers: tuple[Buffer, Buffer], op: BinaryOp, loop: For, taken: set[str]) -> Stmt:
    """The copy added to the buffer: a step of a reduction over the loop."""
    buffer, own = buffers
    loops = _through(buffer, "_total", taken)
    iters = [Iter(Var(fresh_name(f"v{x.var.name}", taken)), x.lo, x.hi, "spatial", x.var) for x in loops]
    summed = Iter(Var(fresh_name(f"v{loop.var.name}", taken)), loop.lo, loop.hi, "reduce", loop.var)
    place = tuple(i.var for i in iters)
    store = Store(buffer, place, Binary(op, Load(buffer, place), Load(own, place)))
    reads = (region(buffer, place), region(own, place))
    return around(loops, Block(name, (*iters, summed), reads, (region(buffer, place),), None, store))
