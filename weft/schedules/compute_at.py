"""``compute_at``: a temporary is computed inside a loop of its readers, as much of it as an iteration needs;
``compute_root``: in full, outside all loops, the place where every stage starts.

::

    for y                                for y
      for x                                for x
        T[y, x] = ...                        for y_1 in y:y + 3
    for y                         =>           T[y_1, x] = ...
      for x                                  B[y, x] = T[y, x] + T[y + 1, x] + T[y + 2, x]
        B[y, x] = T[y, x] + T[y + 1, x] + T[y + 2, x]

The temporary exists anew in every iteration; it keeps the subscripts of its definition, and lowering gives
it no more memory than the iteration touches. Every element is computed by the same block, reductions in the
order of its iterators, so results are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from weft.ir.expr import Compare, idx
from weft.ir.nesting import path_to, statements
from weft.ir.numerics import is_fast
from weft.ir.solve import Form
from weft.ir.stmt import Alloc, Block, For, If, Kernel, Seq, Stmt
from weft.ir.visit import loads, mentions, stores
from weft.poly.conflicts import after, before
from weft.poly.infer_spans import Spans, infer_spans, is_at_most, knowing_loops
from weft.poly.leaves import Access, Leaf, leaves
from weft.poly.refuse_meeting import check_precedes, refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import all_allocs, blocks_inside, find_alloc, find_block, find_loop, loops_around, size_ranges
from weft.schedules.infer_stage import Member, Stage, infer_stage, stage_of
from weft.schedules.instances import check_instances, is_exact, runs_everywhere
from weft.schedules.loop_facts import check_valid, first_no, is_true
from weft.schedules.place_stage import (
    Place,
    emit_stage,
    find_place,
    foreign_loops,
    free_names,
    needed_spans,
    put_stage,
    without_stage,
)
from weft.schedules.rewrite import Rewrite, primitive, remembered
from weft.schedules.trace import Numerics


def check_compute_at(kernel: Kernel, block: str, loop: str, *, numerics: Numerics) -> Verdict:
    """The temporary must be read below ``loop`` only, and what it is computed from must be the same there."""
    find_loop(kernel, loop)
    return check_place(kernel, block, loop, numerics=numerics)


@primitive(check_compute_at, "cannot compute `{0}` at loop `{1}`")
def compute_at(kernel: Kernel, block: str, loop: str) -> Rewrite:
    """The blocks of the temporary that ``block`` computes run at the start of the body of ``loop``."""
    return Rewrite(place_at(kernel, block, loop))


@remembered
def place_at(kernel: Kernel, block: str, loop: str | None) -> Kernel:
    stage = infer_stage(kernel, block, outputs=True)
    assert isinstance(stage, Stage), "the check answers this first"
    place = find_place(without_stage(kernel, stage), stage.buffer, loop)
    nests = emit_stage(stage, needed_spans(place, stage.buffer), place, free_names(kernel, stage))
    return put_stage(stage, place, nests)


def check_place(kernel: Kernel, block: str, loop: str | None, *, numerics: Numerics) -> Verdict:
    """Whether the stage of ``block`` may be computed at the start of ``loop``, or of the program."""
    stage = infer_stage(kernel, block, outputs=True)
    if isinstance(stage, Verdict):
        return stage
    if loop is not None:
        target = find_loop(kernel, loop)
        if any(s is target for root in stage.roots for s in statements(root)):
            return refuse(f"`{loop}` is one of the loops of `{block}` itself")
        if target.kind == "vector":
            return refuse(f"the iterations of `{loop}` are lanes of vectors; no loops fit in there")
    verdict = first_no([check_movable(kernel, stage, numerics), _check_readers(kernel, stage, loop)])
    if not verdict.ok:
        return verdict
    place = find_place(without_stage(kernel, stage), stage.buffer, loop)
    reader = stage.readers(kernel)[0]
    checks = [check_between(kernel, path_to(kernel, root), reader, stage) for root in stage.roots]
    verdict = first_no([*checks, check_lasting(kernel, stage), check_visible(stage, place)])
    if not verdict.ok:
        return verdict
    moved = place_at(kernel, block, loop)
    if stage.is_output:
        verdict = _check_all_once(kernel, moved, stage, numerics)
        if not verdict.ok:
            return verdict
    return first_no([check_valid(moved), _check_kept(kernel, moved, stage), _check_supply(kernel, moved, stage)])


@primitive(partial(check_place, loop=None), "cannot compute `{0}` outside all loops")
def compute_root(kernel: Kernel, block: str) -> Rewrite:
    """All that the program reads of the temporary, computed before its first reader."""
    return Rewrite(place_at(kernel, block, None))


def check_movable(kernel: Kernel, stage: Stage, numerics: Numerics) -> Verdict:
    """Whether running the stage's blocks over all declared instances gives what the loops there now give."""
    verdict = _check_instances(kernel, stage, numerics)
    if not verdict.ok:
        return verdict
    foreign = foreign_loops(kernel, stage.members)
    if foreign:
        return refuse(f"which instances there are depends on loop `{foreign[0]}`")
    around = [[s for s in path_to(kernel, root) if isinstance(s, For)] for root in stage.roots]
    outer = [[loop for loop in loops if loop is not root] for loops, root in zip(around, stage.roots)]
    if any(len(a) != len(outer[0]) or any(x is not y for x, y in zip(a, outer[0])) for a in outer):
        return refuse(f"the blocks that compute `{stage.buffer.name}` are in different loops")
    return OK


def _check_all_once(kernel: Kernel, moved: Kernel, stage: Stage, numerics: Numerics) -> Verdict:
    """Every element of an output must be computed, and by one iteration alone, as it is now."""
    shared = _loops_around_all(kernel, stage)
    for m in stage.members:
        exact = is_fast(numerics) or is_exact(kernel, m.block)
        block = find_block(moved, m.block.name)
        path = path_to(moved, block)
        depth = max(
            (n for n, s in enumerate(path) if isinstance(s, For) and any(s.var == f.var for f in shared)), default=-1
        )
        root = next(s for s in path[depth + 1 :] if isinstance(s, (For, If, Block)))
        for program, top, target in ((kernel, m.root, m.block), (moved, root, block)):
            verdict = check_instances(program, top, target, m.repeated, exact=exact)
            if not verdict.ok:
                reason = f"not every element of output `{stage.buffer.name}` would be computed once: {verdict.reason}"
                return refuse(reason, kind="unproved")
    return OK


def _check_instances(kernel: Kernel, stage: Stage, numerics: Numerics) -> Verdict:
    """Every element must be computed by all its instances; of the elements, all steps must compute the same ones."""
    tested = next((m for m in stage.members if not _may_run_everywhere(kernel, m)), None)
    if tested is not None:
        return refuse(f"a test around block `{tested.block.name}` keeps it from reading out of bounds")
    if len(stage.members) == 1 and not stage.members[0].updates:
        return OK
    everywhere = True
    for m in stage.members:
        exact = is_fast(numerics) or is_exact(kernel, m.block)
        if check_instances(kernel, m.root, m.block, m.repeated, exact=exact).ok:
            continue
        everywhere = False
        verdict = check_instances(kernel, m.root, m.block, m.repeated, exact=exact, partial=True)
        if not verdict.ok:
            return verdict
    if everywhere or len({_written_part(kernel, stage, m) for m in stage.members}) == 1:
        return OK
    return refuse(f"the blocks that compute `{stage.buffer.name}` compute different parts of it")


def _may_run_everywhere(kernel: Kernel, m: Member) -> bool:
    """Whether all declared instances may run: there are no others now, or their reads are in bounds."""
    if runs_everywhere(kernel, m.root, m.block):
        return True
    loops = [For(i.var, i.lo, i.hi, "serial", m.block) for i in m.block.iters]
    with knowing_loops(loops, size_ranges(kernel)) as simple:
        reads = [(e, size) for read in loads(m.block) for e, size in zip(read.indices, read.buffer.shape)]
        tests = [t for e, size in reads for t in (Compare("<=", idx(0), e), Compare("<", e, size))]
        return all(is_true(simple.expr(t)) for t in tests)


def _written_part(kernel: Kernel, stage: Stage, m: Member) -> Spans | None:
    def own(leaf: Leaf, access: Access) -> bool:
        return access.writes and leaf.block == m.block.name

    return infer_spans(kernel, stage.buffer, m.root, len(loops_around(kernel, m.root)), own)


def _check_readers(kernel: Kernel, stage: Stage, loop: str | None) -> Verdict:
    readers = stage.readers(kernel)
    if not readers:
        return refuse(f"nothing reads `{stage.buffer.name}`")
    outside = [r for r in readers if loop is not None and loop not in r.loop_names]
    if not outside:
        return OK
    name = stage.buffer.name
    reason = f"{_reader(outside[0])} reads `{name}` outside loop `{loop}`"
    own = touches(own_leaves(kernel, stage), name, reads=False)
    return refuse_meeting(reason, kernel, own, touches(outside[:1], name, writes=False))


def own_leaves(kernel: Kernel, stage: Stage) -> list[Leaf]:
    return [leaf for leaf in leaves(kernel) if leaf.block in stage.names]


def refuse_change(
    reason: str, kernel: Kernel, stage: Stage, name: str, orders: Sequence[Sequence[Form]] = ((),)
) -> Verdict:
    """``reason``, with iterations of the stage and of another statement that read and write an element of ``name``."""
    mine = own_leaves(kernel, stage)
    others = [leaf for leaf in leaves(kernel) if leaf.block not in stage.names and leaf.order > mine[0].order]
    others += [leaf for leaf in leaves(kernel) if leaf.block not in stage.names and leaf.order < mine[0].order]
    return refuse_meeting(
        reason, kernel, touches(mine, name, writes=False), list(touches(others, name, reads=False)), orders
    )


def _reader(leaf: Leaf) -> str:
    return "a statement" if leaf.block is None else f"block `{leaf.block}`"


def check_between(kernel: Kernel, to_root: list[Stmt], reader: Leaf, stage: Stage) -> Verdict:
    """Inside the last statement around both, the stage comes before its reader."""
    parts = _parts_between(to_root, path_to(kernel, reader.stmt))
    return OK if parts is not None else _refuse_late(kernel, reader, stage)


def check_inputs(kernel: Kernel, to_root: list[Stmt], reader: Leaf, stage: Stage) -> Verdict:
    """Whether nothing writes what the stage is computed from until ``reader`` is done, in the statement around both."""
    parts = _parts_between(to_root, path_to(kernel, reader.stmt)) or ()
    for place, part in enumerate(parts):
        for name in sorted(written_names(part) & stage.inputs):
            reason = f"`{name}`, which it is computed from, is written before `{stage.buffer.name}` is read"
            between = 0 < place < len(parts) - 1
            return refuse_change(reason, kernel, stage, name) if between else refuse(reason, kind="unproved")
    return OK


def _parts_between(to_root: list[Stmt], to_reader: list[Stmt]) -> tuple[Stmt, ...] | None:
    """The statements from the one that holds the stage to the one that holds its reader; None where it comes first."""
    depth = next((d for d, (a, b) in enumerate(zip(to_root, to_reader)) if a is not b), None)
    common = None if depth is None else to_root[depth - 1]
    if depth is None or not isinstance(common, Seq):
        return None
    start, end = (next(i for i, s in enumerate(common.body) if s is path[depth]) for path in (to_root, to_reader))
    return common.body[start : end + 1] if start < end else None


def _check_kept(kernel: Kernel, moved: Kernel, stage: Stage) -> Verdict:
    """What is written after the stage now must not be written before it reads it in its new place, nor the reverse.

    Of loops that it leaves, no iteration may write what it reads at all.
    """
    own = own_leaves(kernel, stage)
    now = {name for leaf in own_leaves(moved, stage) for name in leaf.loop_names}
    left = {f.var.name for f in loops_around(kernel, stage.roots[0])} - now
    fixed = {f.var.name for f in _loops_around_all(kernel, stage)} & now
    later = {(leaf.block, id(leaf.stmt)) for leaf in leaves(kernel) if leaf.order > own[0].order}
    for leaf in (f for f in leaves(moved) if f.block not in stage.names):
        leaves_loop = bool(left & set(leaf.loop_names))
        for writer in ((leaf, a) for a in leaf.accesses if a.writes and a.buffer.name in stage.inputs):
            name = writer[1].buffer.name
            reads = touches(own_leaves(moved, stage), name, writes=False)
            if leaves_loop or (leaf.block, id(leaf.stmt)) in later:
                reason = f"`{name}`, which it is computed from, changes where it would be computed"
                verdict = check_precedes(reason, moved, writer, reads, fixed, in_any_order=leaves_loop)
            else:
                reason = f"`{name}`, which it is computed from, is written only after it would be computed"
                verdict = first_no(check_precedes(reason, moved, read, [writer], fixed) for read in reads)
            if not verdict.ok:
                return verdict
    return OK


def _loops_around_all(kernel: Kernel, stage: Stage) -> list[For]:
    """The loops around the stage and all its readers."""
    paths = [path_to(kernel, root) for root in stage.roots]
    paths += [path_to(kernel, reader.stmt) for reader in stage.readers(kernel)]
    return [s for s in paths[0] if isinstance(s, For) and all(any(s is t for t in path) for path in paths)]


def _refuse_late(kernel: Kernel, reader: Leaf, stage: Stage) -> Verdict:
    name = stage.buffer.name
    own = touches(own_leaves(kernel, stage), name, reads=False)
    reason = f"`{name}` is not computed before it is read"
    return refuse_meeting(reason, kernel, touches([reader], name, writes=False), own)


def check_lasting(kernel: Kernel, stage: Stage) -> Verdict:
    """An element that outlives the iteration that computes it must have the same value in later ones."""
    loops = lasting_loops(kernel, stage)
    if not loops or is_settled(kernel, stage, loops[0]):
        return OK
    reason = f"what it is computed from changes as `{loops[0].var.name}` runs"
    changed = sorted(written_names(loops[0].body) & stage.inputs)
    orders = [[after(loops[0].var.name)], [before(loops[0].var.name)]]
    verdicts = [refuse_change(reason, kernel, stage, name, orders) for name in changed]
    return next((v for v in verdicts if v.witness is not None), refuse(reason, kind="unproved"))


def lasting_loops(kernel: Kernel, stage: Stage) -> list[For]:
    """The loops around the stage that its storage outlives, outermost first."""
    path = path_to(kernel, stage.roots[0])[:-1]
    places = (i for i, s in enumerate(path) if isinstance(s, Alloc) and s.buffer.name == stage.buffer.name)
    start = 0 if stage.is_output else next(places)
    return [s for s in path[start:] if isinstance(s, For)]


def is_settled(kernel: Kernel, stage: Stage, loop: For, numerics: Numerics = "strict") -> bool:
    """Whether an element computed in one iteration of ``loop`` would have the same value in any other."""
    changed = written_names(loop.body) & stage.inputs
    made = {a.buffer.name: a.buffer for a in all_allocs(kernel)}
    for name in changed:
        inner = stage_of(kernel, made[name]) if name in made else None
        if not isinstance(inner, Stage) or not check_movable(kernel, inner, numerics).ok:
            return False
        if not is_settled(kernel, inner, loop, numerics):
            return False
    return True


def _check_supply(kernel: Kernel, moved: Kernel, stage: Stage) -> Verdict:
    """What is computed for the stage in loops around both must be all that it reads in its new place.

    In a loop that the stage was outside of, nothing was computed for it: there `_check_kept` is enough.
    """
    around = {f.var for f in loops_around(kernel, find_block(kernel, stage.members[0].block.name))}
    for name in sorted(stage.inputs & {a.buffer.name for a in all_allocs(kernel)}):
        for loop in (f for f in _common_loops(moved, stage, name) if f.var in around):
            before, now = (_read_spans(k, stage, name, loop.var.name) for k in (kernel, moved))
            if before is None or now is None or not _is_within(moved, now, before, loop):
                return refuse(f"`{name}`, which it is computed from, is there only in part", kind="unproved")
    return OK


def _common_loops(kernel: Kernel, stage: Stage, name: str) -> list[For]:
    """The innermost loop around both the stage and something that computes ``name``, if there is one."""
    own = loops_around(kernel, find_block(kernel, stage.members[0].block.name))
    writers = [b for b in blocks_inside(kernel) if any(s.buffer.name == name for s in stores(b))]
    common = [f for f in own if any(f is g for w in writers for g in loops_around(kernel, w))]
    return common[-1:]


def _read_spans(kernel: Kernel, stage: Stage, name: str, loop: str) -> Spans | None:
    """What the stage reads of ``name`` in an iteration of ``loop``."""

    def own(leaf: Leaf, access: Access) -> bool:
        return access.reads and leaf.block in stage.names and loop in leaf.loop_names

    target = find_loop(kernel, loop)
    return infer_spans(kernel, find_alloc(kernel, name).buffer, target, len(loops_around(kernel, target)) + 1, own)


def _is_within(kernel: Kernel, inner: Spans, outer: Spans, loop: For) -> bool:
    loops = [*loops_around(kernel, loop), loop]
    with knowing_loops(loops, size_ranges(kernel)) as simple:
        ranges = dict(simple.ranges)
    pairs = zip(inner, outer)
    return all(is_at_most(b[0], a[0], ranges) and is_at_most(a[1], b[1], ranges) for a, b in pairs)


def written_names(s: Stmt) -> set[str]:
    """The buffers that ``s`` may write."""
    return {*mentions(s).stored, *mentions(s).reached}


def check_visible(stage: Stage, place: Place) -> Verdict:
    """Whether all that the stage reads exists at ``place``."""
    around = {s.buffer.name for s in path_to(place.kernel, place.parent) if isinstance(s, Alloc)}
    made = {a.buffer.name for a in all_allocs(place.kernel)} - around
    missing = sorted(made & stage.inputs)
    if missing:
        return refuse(f"`{missing[0]}`, which it is computed from, exists only further inside")
    return OK
