"""``fold_storage``: a dimension of a temporary kept in a ring of ``factor`` elements.

This is storage folding, or modulo addressing of a ring buffer.

``T[y, x]`` becomes ``T[y % 4, x]``: right where never more than ``factor`` neighbouring subscripts are alive.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Binary, Load, idx
from weft.ir.interval import Interval
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Atomic, For, Kernel, Store
from weft.ir.visit import replace_buffers, rewrite, substitute
from weft.poly.conflicts import Meeting, Surroundings, written_by
from weft.poly.describe import iteration
from weft.poly.infer_spans import Span, clip, infer_spans, is_at_most, knowing_loops, upper_bound
from weft.poly.leaves import leaves, sizes_of
from weft.poly.refuse_meeting import precedes, touches
from weft.poly.verdict import OK, Verdict, Witness, refuse
from weft.schedules.find import find_alloc, loops_around, size_ranges
from weft.schedules.loop_facts import check_number, check_valid
from weft.schedules.make_blocks import declare_accesses
from weft.schedules.redirect import only_plain_accesses
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt
from weft.schedules.trace import Numerics


def check_fold_storage(kernel: Kernel, buffer: str, dim: int, factor: int, *, numerics: Numerics) -> Verdict:
    """All that is alive in dimension ``dim`` at any time must fit in ``factor`` neighbouring elements."""
    alloc = find_alloc(kernel, buffer)
    number = check_number("factor", factor, 1)
    if not number.ok:
        return number
    if isinstance(dim, bool) or not isinstance(dim, int) or not 0 <= dim < alloc.buffer.rank:
        return refuse(f"`{buffer}` has {alloc.buffer.rank} dimensions, counted from 0; there is no dimension {dim}")
    if not only_plain_accesses(kernel.body, buffer):
        return refuse(f"a call reaches into the memory of `{buffer}`")
    window = _check_window(kernel, alloc, dim, factor)
    return check_valid(fold_storage(kernel, buffer, dim, factor).kernel) if window.ok else window


def _check_window(kernel: Kernel, alloc: Alloc, dim: int, factor: int) -> Verdict:
    buffer, name = alloc.buffer, alloc.buffer.name
    loop = _common_loop(kernel, alloc)
    outer = loops_around(kernel, alloc)
    loops = [*outer, loop] if loop is not None else outer
    raw = infer_spans(kernel, buffer, alloc, len(loops))
    if raw is None:
        return refuse(f"nothing touches `{name}`")
    with knowing_loops(loops, size_ranges(kernel)) as simple:
        ranges: dict[str, Interval] = {**simple.ranges}
        clipped = clip(raw, buffer, simple)[dim]
        spans: list[Span] = [(raw[dim][0], simple.expr(raw[dim][1] + idx(1))), clipped]
        widths = [w for span in spans if (w := upper_bound(span[1] - span[0], ranges)) is not None]
        if not widths:
            return refuse(f"how much of dimension {dim} of `{name}` is alive at once is not known")
        if min(widths) > factor:
            reason = f"{min(widths)} neighbouring elements of dimension {dim} of `{name}` are alive at once"
            offers = (f's.fold_storage("{name}", {dim}, {min(widths)})',)
            return replace(_refuse_clash(reason, kernel, alloc, dim, factor), offers=offers)
        if loop is None or any(_moves_one_way(loop, span, ranges) for span in spans):
            return OK
    reason = f"what is alive in dimension {dim} of `{name}` does not move one way as `{loop.var.name}` runs"
    return _refuse_clash(reason, kernel, alloc, dim, factor)


def _refuse_clash(reason: str, kernel: Kernel, alloc: Alloc, dim: int, factor: int) -> Verdict:
    """``reason``, with an iteration that writes the place of an element which a later one still reads."""
    name = alloc.buffer.name
    inside = leaves(kernel, alloc)
    fixed = {f.var.name for f in loops_around(kernel, alloc)}
    around = Surroundings(frozenset(fixed), written_by(inside), sizes_of(kernel))
    for leaf, write in touches(inside, name, reads=False):
        for later, read in touches(inside, name, writes=False):
            for distance in (factor, -factor):
                moved = (*read.indices[:dim], read.indices[dim] + idx(distance), *read.indices[dim + 1 :])
                meeting = Meeting(leaf, write, later, replace(read, indices=moved), around)
                for order, equal in precedes(leaf, later, fixed):
                    conflict = meeting.find(order, equal)
                    if isinstance(conflict, Witness) and conflict.certain:
                        return _describe_clash(reason, conflict, dim, factor, distance)
    return refuse(reason, kind="unproved")


def _describe_clash(reason: str, conflict: Witness, dim: int, factor: int, distance: int) -> Verdict:
    name, _, rest = conflict.element.partition("[")
    at = [int(part) for part in rest.rstrip("]").split(",")]

    def element(n: int) -> str:
        return f"{name}[{', '.join(str(n if d == dim else part) for d, part in enumerate(at))}]"

    text = (
        f"iteration {iteration(conflict.first)} writes {conflict.element} in the place of {element(at[dim] - distance)}"
    )
    witness = replace(conflict, element=element(at[dim] % factor), after=True)
    return refuse(f"{reason}: {text}, which iteration {iteration(conflict.second)} reads", witness)


def _common_loop(kernel: Kernel, alloc: Alloc) -> For | None:
    """The outermost loop inside ``alloc`` that holds every access, if it runs in order."""
    depth = len(loops_around(kernel, alloc))
    touching = [f for f in leaves(kernel, alloc) if any(a.buffer.name == alloc.buffer.name for a in f.accesses)]
    loop_ids = {id(f.loops[depth].node) if len(f.loops) > depth else 0 for f in touching}
    node = touching[0].loops[depth].node if touching and len(loop_ids) == 1 and 0 not in loop_ids else None
    return node if isinstance(node, For) and node.kind in ("serial", "unroll") else None


def _moves_one_way(loop: For, span: Span, ranges: dict[str, Interval]) -> bool:
    after = [simplify(substitute(e, {loop.var: loop.var + idx(1)}), ranges) for e in span]
    onward = all(is_at_most(e, next_e, ranges) for e, next_e in zip(span, after))
    return onward or all(is_at_most(next_e, e, ranges) for e, next_e in zip(span, after))


@primitive(check_fold_storage, "cannot fold dimension {1} of `{0}` by {2}")
def fold_storage(kernel: Kernel, buffer: str, dim: int, factor: int) -> Rewrite:
    """Subscripts of dimension ``dim`` taken modulo ``factor``."""
    alloc = find_alloc(kernel, buffer)
    old = alloc.buffer
    shape = (*old.shape[:dim], idx(factor), *old.shape[dim + 1 :])
    ring = replace(old, shape=shape, strides=None)

    def fold(n: object) -> Load | Store | Atomic | None:
        if isinstance(n, (Load, Store, Atomic)) and n.buffer.name == buffer:
            turn = Binary("%", n.indices[dim], idx(factor))
            return replace(n, buffer=ring, indices=(*n.indices[:dim], turn, *n.indices[dim + 1 :]))
        return None

    body = replace_buffers(rewrite(alloc.body, fold), {old: ring})
    return Rewrite(replace_stmt(kernel, alloc, Alloc(ring, declare_accesses(body, [buffer]), span=alloc.span)))
