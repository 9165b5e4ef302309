"""``store_at``: how long a temporary lives, apart from where it is computed.

Outwards, to the body of an outer loop or to the top: in loops in between that run in order, a window that moves
onward is slid, so that each element is computed once; with `fold_storage` only the window itself is kept.
Inwards, to a loop that holds all its uses and hands nothing on from one iteration to the next: every iteration
has storage of its own, as small as what it touches.

A window slides: of the halo that neighbouring iterations share nothing is computed twice. In ``for y`` a reader needs
rows ``y`` to ``y + 2``; the rows up to ``y + 1`` are there since the iteration before, so from the second iteration on
one row is left to compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from weft.ir.expr import Binary, Compare, Expr, Select, idx
from weft.ir.interval import Interval
from weft.ir.nesting import path_to, sequence, statements
from weft.ir.quick_init import replace
from weft.ir.simplify_expr import ExprSimplifier
from weft.ir.solve import Form
from weft.ir.stmt import Alloc, Break, Continue, For, Kernel, Return, Seq
from weft.ir.visit import free_vars, mentions, substitute
from weft.poly.conflicts import Meeting, Surroundings, after, find_conflict, written_by
from weft.poly.describe import refuse_conflict
from weft.poly.infer_spans import Span, Spans, is_at_most, knowing_loops
from weft.poly.leaves import CONCURRENT, Access, Leaf, leaves, sizes_of
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.compute_at import check_place, is_settled
from weft.schedules.find import all_loops, find_alloc, find_loop, loops_around, size_ranges
from weft.schedules.infer_stage import Stage, stage_of
from weft.schedules.loop_facts import check_valid
from weft.schedules.place_stage import Place, emit_stage, find_place, free_names, needed_spans, put_stage, without_stage
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics

_MOST_PLACES = 4


def check_store_at(kernel: Kernel, buffer: str, loop: str | None = None, *, numerics: Numerics) -> Verdict:
    """Outwards, concurrent iterations must not come to share storage; inwards, iterations must not lose it."""
    verdict = _check_at(kernel, buffer, loop)
    return verdict if verdict.ok else replace(verdict, offers=lambda: _elsewhere(kernel, buffer, loop))


def _elsewhere(kernel: Kernel, buffer: str, loop: str | None) -> tuple[str, ...]:
    """Other places for the storage, nearest first: loops around it, and loops around all its uses."""
    alloc = find_alloc(kernel, buffer)
    around = [f.var.name for f in loops_around(kernel, alloc)]
    touching = [f.loop_names for f in leaves(kernel, alloc) if any(a.buffer.name == buffer for a in f.accesses)]
    inside = [n for n in touching[0] if all(n in names for names in touching)] if touching else []
    places = [*reversed(around[:-1]), *(n for n in inside if n not in around)]
    calls = [f's.store_at("{buffer}", "{name}")' for name in places if name != loop]
    return (*calls, *([] if loop is None else [f's.store_at("{buffer}")']))[:_MOST_PLACES]


def _check_at(kernel: Kernel, buffer: str, loop: str | None) -> Verdict:
    alloc = find_alloc(kernel, buffer)
    around = loops_around(kernel, alloc)
    names = [f.var.name for f in around]
    if loop is not None:
        find_loop(kernel, loop)
        if loop not in names:
            return check_inwards(kernel, alloc, find_loop(kernel, loop))
    crossed = around if loop is None else around[names.index(loop) + 1 :]
    for f in crossed:
        if f.kind in CONCURRENT:
            return _refuse_sharing(kernel, alloc, f, loop)
    moved = store_at(kernel, buffer, loop).kernel
    if moved == kernel:
        return refuse(f"`{buffer}` is stored there already")
    return check_valid(moved)


def _refuse_sharing(kernel: Kernel, alloc: Alloc, crossed: For, loop: str | None) -> Verdict:
    """Two of the concurrent iterations that would write one element."""
    name, between = alloc.buffer.name, crossed.var.name
    reason = f"the iterations of `{between}` run concurrently and would share `{name}`"
    moved = store_at(kernel, name, loop).kernel
    inside = [leaf for leaf in leaves(moved) if between in leaf.loop_names]
    writes = touches(inside, name, reads=False)
    return refuse_meeting(reason, moved, writes, touches(inside, name), [[after(between)]], is_after=True)


def check_inwards(kernel: Kernel, alloc: Alloc, loop: For) -> Verdict:
    """Whether all uses of the buffer are in ``loop`` and no iteration reads what another has written."""
    name, outer = alloc.buffer.name, len(loops_around(kernel, alloc))
    touching = [f for f in leaves(kernel, alloc) if any(a.buffer.name == name for a in f.accesses)]
    if not any(s is loop for s in all_loops(alloc)):
        return refuse(f"loop `{loop.var.name}` is outside the reach of `{name}`")
    outside = [f for f in touching if loop.var.name not in f.loop_names]
    if outside or not touching:
        reason = f"`{name}` is also used outside loop `{loop.var.name}`"
        inside = [f for f in touching if loop.var.name in f.loop_names]
        early, late = sorted((inside, outside), key=lambda found: found[0].order if found else 0)
        return refuse_meeting(reason, kernel, touches(early, name), touches(late, name))
    if name in mentions(replace_stmt(kernel, loop, Seq(())).body).reached:
        return refuse(f"a call outside loop `{loop.var.name}` names the memory of `{name}`")
    depth = touching[0].loop_names.index(loop.var.name) + 1
    loops = touching[0].loop_names[:depth]
    for level in range(outer, depth):
        shared = Surroundings(frozenset(loops[:level]), written_by(touching), sizes_of(kernel))
        conflict = find_conflict(_flows(touching, name), shared, _later(loops[level]))
        if conflict is not None:
            return refuse_conflict(conflict[0], conflict[1].a, conflict[1].b)
    return OK


def _later(loop: str) -> Callable[[Meeting], list[list[Form]]]:
    """Meetings in which the second access is in a later iteration of ``loop``."""
    return lambda meeting: [[after(loop)]]


def _flows(touching: list[Leaf], name: str) -> Iterator[tuple[Leaf, Access, Leaf, Access]]:
    """Each write of the buffer with each read of it."""
    touches = [(f, a) for f in touching for a in f.accesses if a.buffer.name == name]
    return ((f, a, g, b) for f, a in touches if a.writes for g, b in touches if b.reads)


@primitive(check_store_at, "cannot move the storage of `{0}`")
def store_at(kernel: Kernel, buffer: str, loop: str | None = None) -> Rewrite:
    """The storage of ``buffer`` in the body of ``loop``, or around everything."""
    alloc = find_alloc(kernel, buffer)
    if loop is not None and any(f.var.name == loop for f in all_loops(alloc)):
        return Rewrite(with_storage(replace_stmt(kernel, alloc, alloc.body), alloc, loop))
    outer = 0 if loop is None else len(loops_around(kernel, find_loop(kernel, loop))) + 1
    stage = stage_of(kernel, alloc.buffer)
    is_here = outer == len(loops_around(kernel, alloc))
    slid = _slide(kernel, stage, outer) if isinstance(stage, Stage) and not is_here else None
    if slid is None:
        slid = replace_stmt(kernel, alloc, alloc.body)
    return Rewrite(with_storage(slid, alloc, loop))


def _slide(kernel: Kernel, stage: Stage, outer: int) -> Kernel | None:
    """The program with the stage's window slid and its storage taken away, where that is legal."""
    around = loops_around(kernel, stage.roots[0])
    at = around[-1].var.name if around else None
    if not check_place(kernel, stage.members[0].block.name, at, numerics="strict").ok:
        return None
    place = find_place(without_stage(kernel, stage), stage.buffer, at)
    spans, along = slide(stage, needed_spans(place, stage.buffer), place, outer)
    if not along:
        return None
    return put_stage(stage, place, emit_stage(stage, spans, place, free_names(kernel, stage)), alloc=False)


def with_storage(kernel: Kernel, alloc: Alloc, loop: str | None) -> Kernel:
    """``alloc`` around all that touches its buffer in the body of ``loop``, or in the program."""
    place: Place = find_place(kernel, alloc.buffer, loop)
    inner = replace(alloc, body=sequence(place.children[place.first :]))
    return replace_stmt(kernel, place.parent, sequence([*place.children[: place.first], inner]))


def slide(stage: Stage, spans: Spans, place: Place, outer: int) -> tuple[Spans, list[str]]:
    """``spans`` without what previous iterations of the loops behind the first ``outer`` have left behind.

    Also the loops along which the window slides.
    """
    found, along = list(spans), []
    between = place.loops[outer:]
    with knowing_loops(place.loops, size_ranges(place.kernel)) as simple:
        for loop in between:
            dim = _moving_dim(loop, between, spans, place)
            if dim is None or not is_settled(place.kernel, stage, loop):
                continue
            fresh = _fresh_part(loop, spans[dim], simple)
            if fresh is not None:
                found[dim] = (fresh, spans[dim][1])
                along.append(loop.var.name)
    return tuple(found), along


def _moving_dim(loop: For, between: Sequence[For], spans: Spans, place: Place) -> int | None:
    """The one dimension whose window moves with ``loop``, and with no other of the loops."""
    name = loop.var.name
    dims = [d for d, span in enumerate(spans) if any(name in free_vars(e) for e in span)]
    if len(dims) != 1 or loop.kind not in ("serial", "unroll"):
        return None
    if any(isinstance(s, (Break, Continue, Return)) for s in statements(loop)):
        return None
    others = {f.var.name for f in between if f is not loop}
    inner = between[next(i for i, f in enumerate(between) if f is loop) + 1 :]
    if any(others & free_vars(e).keys() for e in spans[dims[0]]):
        return None
    if any(name in free_vars(e) for f in inner for e in (f.lo, f.hi)):
        return None
    path = path_to(loop, place.parent)
    return dims[0] if all(isinstance(s, (For, Seq, Alloc)) for s in path[:-1]) else None


def _fresh_part(loop: For, span: Span, simple: ExprSimplifier) -> Expr | None:
    """Where the part of ``span`` starts that the iteration before did not have; None where it does not move onward."""
    first, end = span
    before = {loop.var: loop.var - idx(1)}
    was_first, was_end = (simple.expr(substitute(e, before)) for e in span)
    ranges: dict[str, Interval] = {**simple.ranges}
    if not is_at_most(was_first, first, ranges) or not is_at_most(was_end, end, ranges):
        return None
    return simple.expr(Select(Compare(">", loop.var, loop.lo), Binary("max", first, was_end), first))
