"""Computing a stage somewhere else: its blocks in new loops over what is needed there, its storage around.

What `compute_at`, `compute_root` and `store_at` have in common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Compare, Const, Expr, Var, idx
from weft.ir.nesting import sequence
from weft.ir.quick_init import replace
from weft.ir.simplify_expr import ExprSimplifier
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Seq, Stmt
from weft.ir.visit import free_vars, fresh_name, mentions, rewrite, substitute
from weft.poly.infer_spans import Span, Spans, clip, greatest, infer_spans, knowing_loops, least
from weft.schedules.find import all_loops, find_alloc, find_loop, loops_around, size_ranges
from weft.schedules.infer_stage import Member, Stage
from weft.schedules.instances import plain_name, stands_still
from weft.schedules.rewrite import replace_stmt, taken_names


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a stage is computed: before the children ``first`` to ``last`` of ``parent``, which read it.

    ``kernel`` is the program without the stage; a ``parent`` that is no sequence counts as its only child.
    """

    kernel: Kernel
    parent: Stmt
    first: int
    last: int
    #: The loops around it, outermost first.
    loops: tuple[For, ...]

    @property
    def children(self) -> tuple[Stmt, ...]:
        return self.parent.body if isinstance(self.parent, Seq) else (self.parent,)

    @property
    def readers(self) -> tuple[Stmt, ...]:
        return self.children[self.first : self.last + 1]


def without_stage(kernel: Kernel, stage: Stage) -> Kernel:
    """The program with neither the stage's blocks nor its storage; that of an output stays."""
    for root in stage.roots:
        kernel = replace_stmt(kernel, root, Seq(()))
    if stage.is_output:
        return kernel
    alloc = find_alloc(kernel, stage.buffer.name)
    return replace_stmt(kernel, alloc, alloc.body)


def find_place(bare: Kernel, buffer: Buffer, loop: str | None) -> Place:
    """The start of the body of ``loop`` (or of the program): right before what reads ``buffer``."""
    body, loops = bare.body, list[For]()
    if loop is not None:
        target = find_loop(bare, loop)
        body, loops = target.body, [*loops_around(bare, target), target]
    while True:
        if isinstance(body, Alloc):
            body = body.body
            continue
        if not isinstance(body, Seq):
            return Place(bare, body, 0, 0, tuple(loops))
        reading = [i for i, s in enumerate(body.body) if touches(s, buffer)]
        if len(reading) == 1 and isinstance(body.body[reading[0]], Alloc):
            body = body.body[reading[0]]
            continue
        if not reading:
            return Place(bare, body, 0, max(len(body.body) - 1, 0), tuple(loops))
        return Place(bare, body, reading[0], reading[-1], tuple(loops))


def touches(s: Stmt, buffer: Buffer) -> bool:
    """Whether ``s`` names the buffer: reads it, writes it, or hands its address to a call, a hint among them."""
    mentioned = mentions(s)
    return any(buffer.name in names for names in (mentioned.loaded, mentioned.stored, mentioned.reached))


def needed_spans(place: Place, buffer: Buffer) -> Spans:
    """What the readers at ``place`` need, within the buffer: first subscript and one past the last."""
    with knowing_loops(place.loops, size_ranges(place.kernel)) as simple:
        below = place.loops[-1] if place.loops else None
        spans = infer_spans(place.kernel, buffer, below, len(place.loops), lambda leaf, access: access.reads)
        whole = tuple((idx(0), size - idx(1)) for size in buffer.shape)
        return clip(whole if spans is None else spans, buffer, simple)


def emit_stage(stage: Stage, spans: Spans, place: Place, names: set[str]) -> list[Stmt]:
    """The nests that compute ``spans``."""
    with knowing_loops(place.loops, size_ranges(place.kernel)) as simple:
        return [_emit_part(m, spans, simple, names) for m in stage.members]


def _emit_part(member: Member, spans: Spans, simple: ExprSimplifier, names: set[str]) -> Stmt:
    """The block over ``spans``; subscripts that are more than an iterator are tested."""
    limits: dict[str, Span] = {}
    for name, (dim, shift) in member.pinned.items():
        lo, end = spans[dim]
        limits[name] = (lo - idx(shift), end - idx(shift))
    dims = {dim for dim, _ in member.pinned.values()}
    tested = [(e, spans[dim]) for dim, e in enumerate(member.indices) if dim not in dims]
    return emit_member(member, limits, tested, simple, names)


def emit_member(
    member: Member,
    limits: Mapping[str, Span],
    tested: Sequence[tuple[Expr, Span]],
    simple: ExprSimplifier,
    names: set[str],
) -> Stmt:
    """The block in new loops: iterators within ``limits`` of their ranges, ``tested`` expressions within theirs."""
    block = member.block
    moving = [i for i in block.iters if not stands_still(i)]
    loop_vars = {i.var: Var(fresh_name(plain_name(i, names), names), span=i.var.span) for i in moving}
    every = tuple(in_new_loops(i, block, loop_vars) for i in block.iters)
    iters = [it for it in every if it.var in loop_vars]
    spans = [_narrowed(it, limits.get(it.var.name), simple) for it in iters]
    # A loop of one trip is none: the iterator is bound to its only value.
    fixed: dict[Var, Expr] = {}
    for it, (lo, hi) in zip(iters, spans):
        if simple.expr(hi - lo) == idx(1):
            fixed[loop_vars[it.var]] = simple.expr(substitute(lo, fixed))
    body: Stmt = replace(block, iters=every)
    values = {**loop_vars, **{i.var: i.binding for i in block.iters if i.var not in loop_vars}}
    tests = [t for e, span in tested for t in _inside(substitute(e, values), span, simple)]
    for test in reversed(tests):
        body = If(test, body)
    for it, (lo, hi) in reversed(list(zip(iters, spans))):
        if loop_vars[it.var] not in fixed:
            body = For(loop_vars[it.var], lo, hi, "serial", body, span=block.span)
    return substitute(body, fixed)


def _narrowed(it: Iter, limit: Span | None, simple: ExprSimplifier) -> Span:
    if limit is None:
        return it.lo, it.hi
    first, end = map(simple.expr, limit)
    return greatest(first, it.lo, simple.ranges), least(end, it.hi, simple.ranges)


def _inside(e: Expr, span: Span, simple: ExprSimplifier) -> list[Expr]:
    tests = [simple.expr(Compare("<=", span[0], e)), simple.expr(Compare("<", e, span[1]))]
    return [t for t in tests if t != Const(True, dt.bool_)]


def in_new_loops(it: Iter, block: Block, loop_vars: Mapping[Var, Var]) -> Iter:
    """``it`` bound to its new loop, if it gets one; ranges that spoke of the old loops speak of the new ones."""
    if it.var not in loop_vars:
        return it
    values = {i.binding: loop_vars[i.var] for i in block.iters if i.var in loop_vars}

    def new(e: Expr) -> Expr:
        return rewrite(e, lambda n: values.get(n) if isinstance(n, Expr) and not isinstance(n, Const) else None)

    return Iter(it.var, new(it.lo), new(it.hi), it.kind, loop_vars[it.var])


def foreign_loops(kernel: Kernel, members: Sequence[Member]) -> list[str]:
    """Loops that the ranges of the blocks' iterators still speak of once their loops are made anew."""
    loops = {loop.var.name for loop in all_loops(kernel)}
    names = []
    for m in members:
        marks = {i.var: Var(f"{i.var.name}'") for i in m.block.iters if not stands_still(i)}
        for i in (i for i in m.block.iters if i.var in marks):
            it = in_new_loops(i, m.block, marks)
            names += [v for e in (it.lo, it.hi) for v in free_vars(e) if v in loops]
    return names


def put_stage(stage: Stage, place: Place, nests: list[Stmt], *, alloc: bool = True) -> Kernel:
    """``nests`` at ``place``, with the storage around them and what follows unless it is elsewhere."""
    # Storage reaches to the end of the sequence, so that readers in it can still be moved along it.
    before, rest = place.children[: place.first], sequence([*nests, *place.children[place.first :]])
    inner = Alloc(stage.buffer, rest, span=stage.buffer.span) if alloc and not stage.is_output else rest
    return replace_stmt(place.kernel, place.parent, sequence([*before, inner]))


def free_names(kernel: Kernel, stage: Stage) -> set[str]:
    """The names in use; those of the loops that will be made anew may be used again."""
    old = {s.var.name for root in stage.roots for s in all_loops(root)}
    return taken_names(kernel) - old
