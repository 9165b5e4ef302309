"""``part_sum``: a reduction over several iterators as one of results for each step of one of them, and a reduction of
those.

::

    for i, r, k: C[i] += x            for i, r, k: C_part[i, r] += x
                              =>      for i, r: C[i] += C_part[i, r]

`rfactor` makes partial results of a loop, and what it makes of a whole iterator starts in a nest of its own; here the
block of the partial results is a reduction like the one it was, so that schedules of such take it. Gradients of what
several heads share are summed over heads and rows: each head's sums are then products like any other. Dimensions along
which all partial results would be the same (of one group alone) are left out of them.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Expr, Load, Var, identity, idx
from weft.ir.nesting import path_to, replace_in, sequence
from weft.ir.numerics import is_fast
from weft.ir.stmt import Alloc, Block, For, Iter, Kernel, Stmt, Store
from weft.ir.visit import Node, free_vars, fresh_name, mentions, rewrite, substitute
from weft.poly.leaves import update_of
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_block
from weft.schedules.infer_stage import Stage, stage_of
from weft.schedules.instances import runs_everywhere
from weft.schedules.loop_facts import check_number
from weft.schedules.make_blocks import declared_anew
from weft.schedules.rewrite import Rewrite, primitive, taken_names
from weft.schedules.trace import Numerics


def check_part_sum(kernel: Kernel, block: str, iterator: str, axis: int = 0, *, numerics: Numerics) -> Verdict:
    """The block must reduce over the iterator and others, alone and outside all loops, in any order."""
    wrong = check_number("axis", axis, 0)
    if not wrong.ok:
        return wrong
    stage = whole_stage(kernel, block)
    if isinstance(stage, Verdict):
        return stage
    reduced = [i.var.name for i in find_block(kernel, block).iters if i.kind == "reduce"]
    if iterator not in reduced or len(reduced) < 2:
        listed = ", ".join(f"`{n}`" for n in reduced) or "none"
        return refuse(f"`{iterator}` is not one of several iterators that `{block}` reduces over; they are {listed}")
    found = find_block(kernel, block)
    update = update_of(found.body) if isinstance(found.body, Store) else None
    if update is None or update[0] not in ("+", "*", "min", "max") or not isinstance(found.init, Store):
        return refuse(f"block `{block}` is not of the form `X = X + value`, started by itself")
    rank = len(_kept(found, stage.members[0].indices)) + 1
    if axis >= rank:
        return refuse(f"partial results have {rank} dimensions, counted from 0; {axis} is none")
    if not is_fast(numerics) and stage.buffer.dtype.is_float and update[0] not in ("min", "max"):
        reason = f"adding up partial results changes the order in which {stage.buffer.dtype} is rounded"
        return replace(refuse(reason), offers=('numerics="fast"',))
    return OK


@primitive(check_part_sum, "cannot make partial results of `{0}`")
def part_sum(kernel: Kernel, block: str, iterator: str, axis: int = 0) -> Rewrite:
    """Makes the block of the partial results, and their storage."""
    stage, taken = whole_stage(kernel, block), taken_names(kernel)
    assert isinstance(stage, Stage), "the check answers this first"
    (root,), (member,), total = stage.roots, stage.members, stage.buffer
    old = member.block
    steps = next(i for i in old.iters if i.var.name == iterator)
    kept = _kept(old, member.indices)
    order = [*kept[:axis], total.rank, *kept[axis:]]  # the last is that of the steps
    shape, named = (*total.shape, steps.hi), (*member.indices, steps.var)
    part = Buffer(fresh_name(f"{total.name}_part", taken), total.dtype, tuple(shape[d] for d in order))
    name = fresh_name(part.name, taken)
    first = replace_in(root, old, _partial(old, name, steps, part, tuple(named[d] for d in order)))
    same = [e for d, e in enumerate(member.indices) if d not in kept]
    first = _without_loops(first, [i.binding for i in old.iters if i.var in same])
    last = _total(old, steps, total, part, order, member.indices, taken)
    body = replace_in(kernel.body, root, sequence([first, last]))
    return Rewrite(replace(kernel, body=Alloc(part, body)), (name, part.name))


def _kept(block: Block, indices: tuple[Expr, ...]) -> list[int]:
    """The dimensions along which what is summed differs."""
    update = update_of(block.body) if isinstance(block.body, Store) else None
    used = {} if update is None else free_vars(update[1])
    return [d for d, e in enumerate(indices) if isinstance(e, Var) and e.name in used]


def _without_loops(root: Stmt, variables: list[Expr]) -> Stmt:
    """``root`` without the loops of these: all of their iterations would do the same."""

    def visit(n: Node) -> Node | None:
        return substitute(n.body, {n.var: idx(0)}) if isinstance(n, For) and n.var in variables else None

    return rewrite(root, visit)


def whole_stage(kernel: Kernel, block: str) -> Stage | Verdict:
    """The stage of ``block`` where it computes all of a buffer alone, outside all loops, each dimension by an iterator
    of its own; else why not."""
    stage = stage_of(kernel, find_block(kernel, block).writes[0].buffer)
    if isinstance(stage, Verdict):
        return stage
    name = stage.buffer.name
    if len(stage.members) != 1 or any(isinstance(s, For) for s in path_to(kernel, stage.roots[0])[:-1]):
        return refuse(f"`{name}` is not computed by one block outside all loops")
    if name in mentions(kernel.body).addressed:
        return refuse(f"an intrinsic takes the address of `{name}`")
    (member,) = stage.members
    iters = {i.var: (i.lo, i.hi) for i in member.block.iters if i.kind == "spatial"}
    spans = [iters.get(e) if isinstance(e, Var) else None for e in member.indices]
    if len(set(member.indices)) < len(spans) or spans != [(idx(0), size) for size in stage.buffer.shape]:
        return refuse(f"block `{block}` does not compute all of `{name}`, one iterator for each dimension")
    others = [i for i in member.block.iters if i.lo != idx(0) or not isinstance(i.hi, Const)]
    if others or not runs_everywhere(kernel, member.root, member.block):
        return refuse(f"block `{block}` does not run through all of its iterators, from 0 to sizes that are known")
    return stage


def _partial(old: Block, name: str, steps: Iter, part: Buffer, own: tuple[Expr, ...]) -> Block:
    """``old`` with ``steps`` as an iterator of what it computes."""
    update = update_of(old.body) if isinstance(old.body, Store) else None
    assert update is not None
    op, value = update
    used = {*own, *free_vars(value).values()}
    iters = tuple(replace(i, kind="spatial") if i is steps else i for i in old.iters if i.var in used)
    init = Store(part, own, identity(op, part.dtype))
    body = Store(part, own, Binary(op, Load(part, own), value))
    return declared_anew(replace(old, name=name, iters=iters, init=init, body=body))


def _total(
    old: Block, steps: Iter, total: Buffer, part: Buffer, order: list[int], indices: tuple[Expr, ...], taken: set[str]
) -> Stmt:
    """The partial results brought together, in the block that had the reduction."""
    update = update_of(old.body) if isinstance(old.body, Store) else None
    assert update is not None
    assert isinstance(old.init, Store)
    op, named = update[0], [*(e for e in indices if isinstance(e, Var)), steps.var]
    sizes = [*total.shape, steps.hi]
    loops = [Var(fresh_name(f"{e.name}_all", taken)) for e in named]
    kinds = [*["spatial"] * total.rank, "reduce"]
    iters = tuple(
        Iter(Var(fresh_name(f"v{x.name}", taken)), idx(0), n, kind, x)  # type: ignore[arg-type]
        for x, n, kind in zip(loops, sizes, kinds)
    )
    own = [i.var for i in iters]
    where = tuple(own[:-1])
    start = substitute(old.init.value, dict(zip(named, own)))
    value = Load(part, tuple(own[d] for d in order))
    body = Store(total, where, Binary(op, Load(total, where), value), span=old.span)
    stmt: Stmt = declared_anew(replace(old, iters=iters, init=Store(total, where, start), body=body))
    for loop, size in reversed([*zip(loops, sizes)]):
        stmt = For(loop, idx(0), size, "serial", stmt)
    return stmt
