"""``pad``: a block run beyond the edge of its tile, where all it does there is fill up storage of its own.

Tiles that do not come out even are guarded: ``if m < M`` around each element. Once a tile is in storage of its own
(`cache_write`) and what it reads is padded (`pack` with ``pad=True``), computing the elements beyond the edge costs
less than not computing them; they are never stored. A reduction may run beyond its end where that adds zeros. Guards
of which neither is true stay.

Tiles of a reduction that do not come out even are guarded: ``if k < K`` around each update. Where what is multiplied
is read from storage filled up with zeros (`pack` with ``pad=True``) exactly where that guard fails, the products are
+0, and a sum that started at +0 is never -0: adding them changes no bit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from weft.ir.evaluated import Test
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Select, Var, idx
from weft.ir.inequality import conjuncts
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import path_to
from weft.ir.quick_init import replace
from weft.ir.simplify import simplify
from weft.ir.solve import Unknown
from weft.ir.stmt import Alloc, Block, If, Kernel, Store
from weft.ir.visit import free_vars, substitute
from weft.poly.conflicts import Meeting, Surroundings, written_by
from weft.poly.leaves import Access, Leaf, leaves, sizes_of, update_of
from weft.poly.verdict import OK, Verdict, Witness, refuse
from weft.schedules.boxes import Box
from weft.schedules.copy_reads import written_before
from weft.schedules.find import all_allocs, blocks_inside, find_alloc, find_block, find_loop, loops_around, ranges_at
from weft.schedules.loop_facts import is_true
from weft.schedules.project import NotProjectable, gap_of, project
from weft.schedules.rewrite import Rewrite, primitive, remembered, replace_stmt
from weft.schedules.segment import Segment
from weft.schedules.trace import Numerics

#: A guard, and a block that would see that it is gone, and when.
_Guard = tuple[If, tuple[str, Witness | Unknown] | None]


def check_pad(kernel: Kernel, block: str, along: str | None = None, *, numerics: Numerics) -> Verdict:
    """Without its guards the block must stay inside its buffers, read only values, and write what nobody else reads."""
    target = find_block(kernel, block)
    if along is not None:
        find_loop(kernel, along)
    written = {w.buffer.name for w in target.writes}
    temporaries = {a.buffer.name for a in all_allocs(kernel)}
    if target.init is not None:
        return refuse(f"block `{block}` also initializes", None, ("s.decompose_reduction, or s.cache_write, first",))
    if len(written) != 1 or not written <= temporaries:
        reason = f"block `{block}` writes `{min(written - temporaries, default='nothing')}`, which is no temporary"
        return refuse(reason, None, (f's.cache_write("{min(written)}", at=...) first',) if written else ())
    guards = _guards_along(kernel, target, along)
    if not guards:
        asked = "" if along is None else f" and asks about loop `{along}`"
        return refuse(f"no guard is around block `{block}` alone{asked}")
    readers = [harm for _, harm in guards]
    if readers[0] is not None and all(r is not None for r in readers):
        reader, found = readers[0]
        reason = f"block `{reader}` may read what block `{block}` writes beyond the edge"
        # The iteration beyond the edge is not one of the program as it is.
        witness = None if isinstance(found, Unknown) else replace(found, certain=False)
        return refuse(reason, witness, kind="unproved" if witness is None else "dependence")
    done = pad(kernel, block, along).kernel
    return _check_accesses(done, find_block(done, block))


@primitive(check_pad, "cannot run block `{0}` beyond the edge")
def pad(kernel: Kernel, block: str, along: str | None = None) -> Rewrite:
    """The block without the guards that do not matter, of those that ask about loop ``along``, if given."""
    target = find_block(kernel, block)
    for guard, harm in reversed(_guards_along(kernel, target, along)):
        if harm is None:
            # The innermost of that condition: one further out guards other blocks too.
            path = reversed(path_to(kernel, find_block(kernel, block)))
            own = next(s for s in path if isinstance(s, If) and s.condition == guard.condition)
            kernel = replace_stmt(kernel, own, own.then)
    old = find_block(kernel, block)
    return Rewrite(replace_stmt(kernel, old, _widened(old, ranges_at(kernel, old))))


def _widened(block: Block, ranges: Mapping[str, Interval]) -> Block:
    """The block with the ranges of its iterators as wide as their bindings now are."""
    iters = []
    for i in block.iters:
        if not is_true(simplify(Compare("<", i.binding, i.hi), ranges)):
            most = bounds(i.binding, ranges).hi
            i = replace(i, hi=simplify(i.binding + 1, ranges) if most is None else idx(most + 1))
        if not is_true(simplify(Compare(">=", i.binding, i.lo), ranges)):
            least = bounds(i.binding, ranges).lo
            i = replace(i, lo=i.binding if least is None else idx(least))
        iters.append(i)
    return replace(block, iters=tuple(iters))


def find_guards(kernel: Kernel, block: Block) -> list[If]:
    """The conditions around ``block`` and nothing else, inside the storage it writes; outermost first."""
    target = block.writes[0].buffer.name
    path = path_to(kernel, block)
    made = max((n for n, s in enumerate(path) if isinstance(s, Alloc) and s.buffer.name == target), default=0)
    alone = [s for s in path[made:] if isinstance(s, If) and s.otherwise is None and len(blocks_inside(s)) == 1]
    return [s for s in alone if all(leaf.block == block.name or leaf.stmt is s for leaf in leaves(kernel, s))]


def _check_accesses(kernel: Kernel, block: Block) -> Verdict:
    """Whether the block without guards reads values, and all it touches exists."""
    ranges = ranges_at(kernel, block)
    for leaf in leaves(kernel, block):
        kept = {gap_of(c, ranges) for t in leaf.tests for c in conjuncts(leaf.resolve(t.condition), t.holds)}
        for access in leaf.accesses:
            name = access.buffer.name
            for i, size in zip(access.indices, access.buffer.shape):
                index = simplify(leaf.resolve(i), ranges)
                inside = (Compare("<=", idx(0), index), Compare("<", index, size))
                if not all(is_true(simplify(c, ranges)) or gap_of(c, ranges) in kept for c in inside):
                    return refuse(f"beyond the edge there is no element of `{name}`", None, _packing(kernel, name))
            if access.reads and not _has_values(kernel, block, access):
                return refuse(f"beyond the edge `{name}` may not have a value", None, _packing(kernel, name))
    return OK


def _packing(kernel: Kernel, buffer: str) -> tuple[str, ...]:
    if any(a.buffer.name == buffer for a in all_allocs(kernel)):
        return ()
    return (f's.pack("{buffer}", ..., pad=True) first',)


def _has_values(kernel: Kernel, block: Block, access: Access) -> bool:
    """Whether every element of the buffer has been written: arguments have."""
    buffer = access.buffer
    if any(b.name == buffer.name for b in kernel.buffers):
        return buffer.name not in kernel.outputs
    fixed = {loop.var.name for loop in loops_around(kernel, find_alloc(kernel, buffer.name))}
    whole = Box(tuple(idx(0) for _ in buffer.shape), buffer.shape)
    ranges = ranges_at(kernel, block)
    for leaf, a in written_before(Segment(kernel, block, (), (block,), ()), buffer.name):
        try:
            projection = project(leaf, a.indices, fixed, ranges)
        except NotProjectable:
            continue
        if projection.fills(whole, buffer.shape, ranges):
            return True
    return False


@remembered
def _guards(kernel: Kernel, block: Block) -> list[_Guard]:
    """Those of `find_guards`, and of each who would see that it is gone, and when."""
    guards = find_guards(kernel, block)
    readers = [_find_reader(kernel, block, guard, guards) for guard in guards]
    harmless = [reader is None or adds_zeros(kernel, block, guard) for guard, reader in zip(guards, readers)]
    return [(guard, None if fine else reader) for guard, reader, fine in zip(guards, readers, harmless)]


def _guards_along(kernel: Kernel, block: Block, along: str | None) -> list[_Guard]:
    found = _guards(kernel, block)
    return [(g, harm) for g, harm in found if along is None or along in free_vars(g.condition)]


def find_reader(kernel: Kernel, block: Block, guard: If) -> tuple[str, Witness | Unknown] | None:
    """A block that may read what ``block`` would write where ``guard`` keeps it from running, and when."""
    return _find_reader(kernel, block, guard, find_guards(kernel, block))


def _find_reader(kernel: Kernel, block: Block, guard: If, guards: Sequence[If]) -> tuple[str, Witness | Unknown] | None:
    target = block.writes[0].buffer.name
    made = find_alloc(kernel, target)
    everything = leaves(kernel, made)
    shared = frozenset(loop.var.name for loop in loops_around(kernel, made))
    around = Surroundings(shared, written_by(everything), sizes_of(kernel))
    aside = [g.condition for g in guards]
    reads = [(f, a) for f in everything for a in f.accesses if a.reads and a.buffer.name == target]
    for leaf in (f for f in everything if f.block == block.name):
        tests = tuple(t for t in leaf.tests if t.condition not in aside)
        beyond = replace(leaf, tests=(*tests, Test(guard.condition, False)), domain_cache=None)
        for access in (a for a in leaf.accesses if a.writes and a.buffer.name == target):
            for other, read in reads:
                found = Meeting(beyond, access, other, read, around).find([])
                if found is not None:
                    return other.block or block.name, found
    return None


def adds_zeros(kernel: Kernel, block: Block, guard: If) -> bool:
    """Whether ``block``, a sum, adds +0 wherever ``guard`` keeps it from running."""
    (leaf,) = [f for f in leaves(kernel, block) if isinstance(f.stmt, Store)] or (None,)
    if leaf is None or leaf.update_op != "+" or not isinstance(leaf.stmt, Store):
        return False
    update = update_of(leaf.stmt)
    added = update[1] if update is not None and update[0] == "+" else None
    ranges = ranges_at(kernel, block)
    gaps = {gap_of(c, ranges) for c in conjuncts(leaf.resolve(guard.condition))}
    if added is None or len(gaps) != 1 or not _starts_at_zero(kernel, leaf.stmt):
        return False
    (gap,) = gaps
    return gap is not None and _is_zero(kernel, leaf, added, gap, ranges)


def _starts_at_zero(kernel: Kernel, update: Store) -> bool:
    """Whether nothing else is stored to the sums than a first +0.

    Sums that `online` rescales are for fast numerics alone, where the sign of a zero does not matter.
    """
    others = [f.stmt for f in leaves(kernel, find_alloc(kernel, update.buffer.name))]
    stored = [s for s in others if isinstance(s, Store) and s.buffer.name == update.buffer.name and s != update]
    return all(_is_rescaled(s) or (isinstance(s.value, Const) and str(s.value.value) in ("0", "0.0")) for s in stored)


def _is_rescaled(s: Store) -> bool:
    """Whether ``s`` stores a multiple of what was there, or makes it no number."""
    if isinstance(s.value, Select) and isinstance(s.value.then, Const) and math.isnan(s.value.then.value):
        return s.value.otherwise == Load(s.buffer, s.indices)
    update = update_of(s)
    return update is not None and update[0] == "*"


def _is_zero(kernel: Kernel, leaf: Leaf, e: Expr, gap: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Whether ``e`` is +0 where ``gap`` is negative: a product of such values, so that none is NaN."""
    if isinstance(e, Cast):
        return _is_zero(kernel, leaf, e.operand, gap, ranges)
    if isinstance(e, Binary) and e.op == "*":
        return all(_is_zero(kernel, leaf, side, gap, ranges) for side in (e.left, e.right))
    return isinstance(e, Load) and _is_filled_up(kernel, leaf, e, gap, ranges)


def _is_filled_up(kernel: Kernel, leaf: Leaf, load: Load, gap: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Whether the storage that is read was filled with +0 where ``gap`` is negative."""
    alloc = next((a for a in all_allocs(kernel) if a.buffer.name == load.buffer.name), None)
    fill = None if alloc is None else _find_fill(kernel, alloc)
    if alloc is None or fill is None:
        return False
    subscripts, condition = fill
    around = {loop.var.name for loop in loops_around(kernel, alloc)}
    here = {var: leaf.resolve(i) for var, i in zip(subscripts, load.indices)}
    tests = [substitute(c, here) for c in conjuncts(condition)]
    fixed = all(n in around or Var(n) in here for c in conjuncts(condition) for n in free_vars(c))
    return fixed and any(gap_of(simplify(t, ranges), ranges) == gap for t in tests)


def _find_fill(kernel: Kernel, alloc: Alloc) -> tuple[Sequence[Var], Expr] | None:
    """The subscripts, loops of their own, and the condition of ``storage[i] = condition ? value : +0``."""
    name = alloc.buffer.name
    statements = [f for f in leaves(kernel, alloc) if any(a.writes and a.buffer.name == name for a in f.accesses)]
    if len(statements) != 1 or statements[0].tests or not isinstance(statements[0].stmt, Store):
        return None
    (leaf,), s = statements, statements[0].stmt
    value = s.value
    subscripts = [leaf.resolve(i) for i in s.indices]
    plain = [v for v in subscripts if isinstance(v, Var)]
    distinct = len(plain) == len(set(plain)) == len(subscripts)
    if not distinct or not isinstance(value, Select) or not isinstance(value.otherwise, Const):
        return None
    return (plain, leaf.resolve(value.condition)) if str(value.otherwise.value) in ("0", "0.0") else None
