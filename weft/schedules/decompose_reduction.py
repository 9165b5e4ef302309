"""``decompose_reduction``: the initialization of a reduction block as a nest of its own before a loop.

Inside the block it runs where every reduce iterator is at its start, which costs a test in each iteration unless the
reduction loops are innermost; before loop ``at`` it runs once through the elements below.
"""

from __future__ import annotations

from weft.ir.expr import Expr, Var
from weft.ir.nesting import replace_in, sequence
from weft.ir.quick_init import replace
from weft.ir.solve import Form, Unknown
from weft.ir.stmt import Block, Kernel, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, substitute
from weft.poly.conflicts import Meeting, after
from weft.poly.describe import describe
from weft.poly.leaves import Access, Leaf
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.copy_reads import emit_set, surroundings
from weft.schedules.find import all_allocs, find_block, find_loop, loops_around
from weft.schedules.project import NotProjectable, Projection
from weft.schedules.redirect import Placement
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.segment import Segment
from weft.schedules.trace import Numerics


def check_decompose_reduction(kernel: Kernel, block: str, at: str, *, numerics: Numerics) -> Verdict:
    """Each element must be initialized below one iteration around ``at``, before anything else is done to it."""
    target = find_block(kernel, block)
    find_loop(kernel, at)
    if not isinstance(target.init, Store):
        return refuse(f"block `{block}` initializes nothing" if target.init is None else "its start is not one store")
    verdict = _check_at(kernel, target, at)
    return verdict if verdict.ok else replace(verdict, offers=lambda: alternatives(kernel, target))


def alternatives(kernel: Kernel, block: Block) -> tuple[str, ...]:
    """The call that decomposes before the outermost loop of the reduction, where that is legal."""
    outer = outermost_reduction_loop(kernel, block)
    if outer is None or not isinstance(block.init, Store) or not _check_at(kernel, block, outer).ok:
        return ()
    return (f's.decompose_reduction("{block.name}", at="{outer}")',)


def _check_at(kernel: Kernel, block: Block, at: str) -> Verdict:
    loop = find_loop(kernel, at)
    if loop not in loops_around(kernel, block):
        return refuse(f"`{at}` is not a loop around block `{block.name}`")
    assert isinstance(block.init, Store)
    if block.init.buffer.name in {a.buffer.name for a in all_allocs(loop)}:
        return refuse(f"the storage of `{block.init.buffer.name}` is inside loop `{at}`, made anew by each iteration")
    return check_initialization(Segment(kernel, loop, (), (loop,), ()), block)


@primitive(check_decompose_reduction, "cannot initialize block `{0}` on its own")
def decompose_reduction(kernel: Kernel, block: str, at: str) -> Rewrite:
    """Makes the block that initializes."""
    target, loop = find_block(kernel, block), find_loop(kernel, at)
    segment = Segment(kernel, loop, (), (loop,), ())
    taken = taken_names(kernel)
    init, name = emit_initialization(segment, target, taken)
    rest = replace_in(loop, target, without_init(target))
    return Rewrite(replace_stmt(kernel, loop, sequence([init, rest])), (name,))


def outermost_reduction_loop(kernel: Kernel, block: Block, at: str | None = None) -> str | None:
    """Of the loops around ``block``; of those inside ``at``, where that is one of them."""
    names = {n for i in block.iters if i.kind == "reduce" for n in free_vars(i.binding)}
    around = [x.var.name for x in loops_around(kernel, block)]
    inside = around[around.index(at) + 1 :] if at in around else around if at is None else []
    return next((name for name in inside if name in names), None)


def check_initialization(segment: Segment, block: Block) -> Verdict:
    """Whether initializing ``block`` before ``segment`` starts does the same as doing it inside."""
    leaf, access = find_init(segment, block)
    around, name = surroundings(segment), access.buffer.name
    for other, a in segment.accesses(name):
        if other is leaf:
            continue
        meeting = Meeting(other, a, leaf, access, around)
        for order, equal in earlier(segment, other, leaf):
            conflict = meeting.find(order, equal)
            if isinstance(conflict, Unknown):
                return refuse(f"it could not be proved that `{name}` is initialized before it is used")
            if conflict is not None:
                return refuse(f"{describe(conflict, a, access)}, and the later one initializes it", conflict)
    try:
        project_init(segment, block)
    except NotProjectable as why:
        return refuse(f"which elements block `{block.name}` initializes cannot be told beforehand: {why}")
    return OK


def earlier(segment: Segment, first: Leaf, second: Leaf) -> list[tuple[list[Form], tuple[str, ...]]]:
    """The ways in which an iteration of ``first`` comes before one of ``second``: orders, and loops that are equal."""
    common = []
    for a, b in zip(first.loops, second.loops):
        if a.node is not b.node:
            break
        if a.name not in segment.fixed:
            common.append(a.name)
    ways: list[tuple[list[Form], tuple[str, ...]]] = []
    for depth, name in enumerate(common):
        ways.append(([after(name)], tuple(common[:depth])))
    places = [id(leaf) for leaf in segment.leaves]
    if places.index(id(first)) < places.index(id(second)):
        ways.append(([], tuple(common)))
    return ways


def find_init(segment: Segment, block: Block) -> tuple[Leaf, Access]:
    """The leaf of the initializing store and its write; blocks made from one share the statement."""
    leaf = next(leaf for leaf in segment.leaves if leaf.stmt is block.init and leaf.block == block.name)
    return leaf, next(a for a in leaf.accesses if a.writes)


def project_init(segment: Segment, block: Block) -> Projection:
    """The elements that ``block`` initializes inside ``segment``."""
    leaf, access = find_init(segment, block)
    assert isinstance(block.init, Store)
    written = {a.buffer.name for other in segment.leaves for a in other.accesses if a.writes}
    if any(load.buffer.name in written for load in loads(block.init.value)):
        raise NotProjectable("its start depends on what is computed there")
    projection = segment.project(leaf, access.indices)
    used = free_vars(leaf.resolve(block.init.value)).keys() & set(leaf.loop_names)
    if used - segment.fixed - {loop.var.name for loop in projection.loops}:
        raise NotProjectable("its start depends on the reduction loops")
    return projection


def emit_initialization(
    segment: Segment, block: Block, taken: set[str], place: Placement | None = None
) -> tuple[Stmt, str]:
    """The nest that initializes, and the name of its block; ``place`` is where the elements are kept instead."""
    init = block.init
    assert isinstance(init, Store)
    projection = project_init(segment, block)
    elements = projection.renamed(taken, "_init")
    names: dict[Var, Expr] = {a.var: b.var for a, b in zip(projection.loops, elements.loops)}
    value = substitute(find_init(segment, block)[0].resolve(init.value), names)
    name = fresh_name(f"{block.name}_init", taken)
    target = (init.buffer, elements.indices)
    if place is not None:
        target = place.storage, place.element(elements.indices, elements.ranges(segment.ranges))
    return elements.around(emit_set(name, target, value, scope_of(segment, elements), taken)), name


def scope_of(segment: Segment, elements: Projection) -> dict[str, tuple[Expr, Expr]]:
    """The loops around a statement that runs once for each of ``elements``, with their bounds."""
    return {x.var.name: (x.lo, x.hi) for x in (*segment.loops, *elements.loops)}


def without_init(block: Block) -> Block:
    return replace(block, init=None)
