"""``reverse_compute_at``: a consumer joins a loop of its producer: bias, activation and the like as an epilogue.

::

    for m, n, k                          for m
      T[m, n] += A[m, k] * B[k, n]         for n, k
    for m, n                        =>       T[m, n] += A[m, k] * B[k, n]
      C[m, n] = max(T[m, n], 0)            for n
                                             C[m, n] = max(T[m, n], 0)

Each iteration of the loop computes what the elements it has just finished are needed for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Compare, Expr, idx
from weft.ir.interval import Interval
from weft.ir.nesting import path_to, sequence, statements
from weft.ir.numerics import is_fast
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Assert, Block, Break, Continue, For, Iter, Kernel, Return, Seq, Stmt, While
from weft.ir.visit import free_vars, loads, stores, walk
from weft.poly.conflicts import after, before
from weft.poly.infer_spans import Spans, clip, infer_spans, is_at_most, knowing_loops
from weft.poly.leaves import Access, Leaf, leaves
from weft.poly.refuse_meeting import check_apart, refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.compute_at import written_names
from weft.schedules.find import all_loops, blocks_inside, find_block, find_loop, loops_around, ranges_at, size_ranges
from weft.schedules.infer_stage import Member, block_problem, root_of
from weft.schedules.instances import check_instances, infer_digits, is_exact
from weft.schedules.loop_facts import check_valid, first_no, is_true
from weft.schedules.place_stage import emit_member, foreign_loops
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics


@dataclass(frozen=True, slots=True, eq=False)
class Epilogue:
    """``member`` is to run in ``loop``, which is inside ``top``: the statement beside the one it runs in now."""

    member: Member
    loop: For
    top: Stmt
    #: The statements between the two.
    between: tuple[Stmt, ...]
    #: Blocks among them that prepare what ``member`` writes and go along with it.
    before: tuple[Member, ...] = ()

    @property
    def members(self) -> tuple[Member, ...]:
        return (*self.before, self.member)

    @property
    def joined(self) -> list[Buffer]:
        """The buffers it reads that are written inside ``top``."""
        written = {w.buffer.name for w in stores(self.top)}
        read_buffers = {load.buffer.name: load.buffer for load in loads(self.member.block.body)}
        return [b for name, b in read_buffers.items() if name in written]


def check_reverse_compute_at(kernel: Kernel, block: str, loop: str, *, numerics: Numerics) -> Verdict:
    """What ``block`` reads must be finished in the same iteration of ``loop``, and nothing in between may interfere."""
    epilogue = infer_epilogue(kernel, find_block(kernel, block), find_loop(kernel, loop))
    if isinstance(epilogue, Verdict):
        return epilogue
    checks = [_check_order(kernel, epilogue, numerics), _check_between(kernel, epilogue)]
    checks += [_check_finished(kernel, epilogue, b) for b in epilogue.joined]
    verdict = first_no(checks)
    if not verdict.ok:
        return verdict
    limits = infer_limits(kernel, epilogue)
    if isinstance(limits, Verdict):
        return limits
    moved = move(kernel, epilogue, limits)
    return first_no([check_valid(moved), _check_reads(moved, epilogue)])


@primitive(check_reverse_compute_at, "cannot compute `{0}` at loop `{1}`")
def reverse_compute_at(kernel: Kernel, block: str, loop: str) -> Rewrite:
    """``block`` at the end of the body of ``loop``, for the elements that an iteration finishes."""
    epilogue = infer_epilogue(kernel, find_block(kernel, block), find_loop(kernel, loop))
    assert isinstance(epilogue, Epilogue), "the check answers this first"
    limits = infer_limits(kernel, epilogue)
    assert not isinstance(limits, Verdict), "the check answers this first"
    return Rewrite(move(kernel, epilogue, limits))


def infer_epilogue(kernel: Kernel, block: Block, loop: For) -> Epilogue | Verdict:
    written = {s.buffer.name: s.buffer for s in stores(block)}
    if len(written) != 1:
        return refuse(f"block `{block.name}` must write one buffer")
    (target,) = written.values()
    problem = block_problem(block, target, may_read_steps=True)
    if problem is not None:
        return refuse(problem)
    member = Member(block, root_of(kernel, block, {block.name}), stores(block.body)[0].indices)
    to_loop, to_root = path_to(kernel, loop), path_to(kernel, member.root)
    depth = next((d for d, (a, b) in enumerate(zip(to_loop, to_root)) if a is not b), None)
    parent = None if depth is None else to_loop[depth - 1]
    if depth is None or not isinstance(parent, Seq) or to_root[depth] is not member.root:
        return refuse(f"`{block.name}` does not follow `{loop.var.name}` in the same sequence of statements")
    places = [next(i for i, s in enumerate(parent.body) if s is path[depth]) for path in (to_loop, to_root)]
    if places[0] > places[1]:
        return refuse(f"`{block.name}` runs before `{loop.var.name}`")
    if loop.kind == "vector":
        return refuse(f"the iterations of `{loop.var.name}` are lanes of vectors; no loops fit in there")
    between = parent.body[places[0] + 1 : places[1]]
    problem = _find_obstacle(to_loop, [to_loop[depth], *between])
    if problem is not None:
        return refuse(problem)
    before = [m for s in between for m in _preparing(kernel, s, target)]
    roots = {id(m.root) for m in before}
    return Epilogue(member, loop, to_loop[depth], tuple(s for s in between if id(s) not in roots), tuple(before))


def _find_obstacle(to_loop: list[Stmt], passed: list[Stmt]) -> str | None:
    """What keeps statements from running in turn, so that nothing can join them."""
    if any(isinstance(s, While) for s in to_loop):
        return "a while loop does not say how often it runs"
    inside = [s for p in passed for s in statements(p)]
    if any(isinstance(s, (Break, Continue, Return)) for s in inside):
        return "a break, continue or return may leave the loops early"
    return "where a check happens must not change" if any(isinstance(s, Assert) for s in inside) else None


def _preparing(kernel: Kernel, s: Stmt, target: Buffer) -> list[Member]:
    """The blocks of ``s``, where they do no more than set elements of ``target``."""
    blocks = blocks_inside(s)
    names = {b.name for b in blocks}
    plain = all(block_problem(b, target) is None and not loads(b.body) for b in blocks)
    if not blocks or not plain or root_of(kernel, blocks[0], names) is not s:
        return []
    return [Member(b, s, stores(b.body)[0].indices) for b in blocks]


def _check_order(kernel: Kernel, e: Epilogue, numerics: Numerics) -> Verdict:
    foreign = foreign_loops(kernel, e.members)
    if foreign:
        return refuse(f"which instances there are depends on loop `{foreign[0]}`")
    return first_no(
        check_instances(kernel, m.root, m.block, m.repeated, exact=is_fast(numerics) or is_exact(kernel, m.block))
        for m in e.members
    )


def _check_between(kernel: Kernel, e: Epilogue) -> Verdict:
    """Nothing that now runs before the block, and would run after it, may have to do with it."""
    block, target = e.member.block, e.member.target.name
    inputs = {load.buffer.name for load in loads(block)} - {target}
    if not e.joined:
        return refuse(f"`{block.name}` reads nothing that is computed in `{e.loop.var.name}`")
    reached = sorted({n.buffer.name for n in walk(e.top) if isinstance(n, AddressOf)} & inputs)
    if reached:
        return refuse(f"a call reaches into the memory of `{reached[0]}`")
    own = [leaf for leaf in leaves(kernel) if leaf.block == block.name]
    for s in (e.top, *e.between):
        if target in written_names(s) | {load.buffer.name for load in loads(s)}:
            reason = f"`{target}` is used before `{block.name}` computes it"
            apart = check_apart(reason, kernel, touches(leaves(kernel, s), target), touches(own, target))
            if not apart.ok:
                return apart
    for s in e.between:
        for name in sorted(written_names(s) & inputs):
            reason, writes = (
                f"`{name}` is written after `{e.loop.var.name}`",
                touches(leaves(kernel, s), name, reads=False),
            )
            return refuse_meeting(reason, kernel, writes, touches(own, name, writes=False))
    return OK


def _writers(e: Epilogue, buffer: Buffer) -> list[Member]:
    blocks = [b for b in blocks_inside(e.top) if any(s.buffer.name == buffer.name for s in stores(b))]
    return [Member(b, e.top, next(s for s in stores(b) if s.buffer.name == buffer.name).indices) for b in blocks]


def _check_finished(kernel: Kernel, e: Epilogue, buffer: Buffer) -> Verdict:
    """Every element of ``buffer`` must be written in one iteration of the loop alone, all of it."""
    writers = _writers(e, buffer)
    held = {id(s) for m in writers for s in stores(m.block)}
    if any(s.buffer.name == buffer.name and id(s) not in held for s in stores(e.top)):
        return refuse(f"`{buffer.name}` is written outside blocks")
    for m in writers:
        name = m.block.name
        problem = block_problem(m.block, buffer)
        verdict = refuse(problem) if problem else check_instances(kernel, e.top, m.block, (), exact=True)
        if not verdict.ok:
            return verdict
        digits = infer_digits(kernel, e.top, m.block)
        around = [s for s in path_to(e.top, m.block) if isinstance(s, For)]
        level = next((i for i, f in enumerate(around) if f is e.loop), None)
        if level is None:
            return refuse(f"block `{name}`, which computes `{buffer.name}`, is not inside `{e.loop.var.name}`")
        for it in m.block.iters:
            outside = [d.loop <= level for d in digits[it.var.name]]
            if it.var.name in m.repeated and any(outside):
                reason = f"`{buffer.name}` is not finished inside `{e.loop.var.name}`"
                later = [after(around[d.loop].var.name) for d in digits[it.var.name] if d.loop <= level]
                own = list(touches((f for f in leaves(kernel) if f.block == name), buffer.name, reads=False))
                own.sort(key=lambda touch: touch[1].update is None)
                return refuse_meeting(reason, kernel, own, own, [[order] for order in later])
            if outside != sorted(outside, reverse=True):
                return refuse(f"an iteration of `{e.loop.var.name}` computes elements of `{buffer.name}` far apart")
    return OK


def infer_limits(kernel: Kernel, e: Epilogue) -> dict[str, tuple[Expr, Expr]] | Verdict:
    """The part of the range of each iterator of the block that belongs to an iteration of the loop."""
    limits: dict[str, tuple[Expr, Expr]] = {}
    loops = [*loops_around(kernel, e.loop), e.loop]
    own = {f.var.name for f in loops if any(s is f for s in all_loops(e.top))}
    for buffer in e.joined:
        spans = _written_spans(kernel, e, buffer, loops)
        for load in (n for n in loads(e.member.block.body) if n.buffer.name == buffer.name):
            reader = replace(e.member, indices=load.indices)
            for dim, (lo, end) in enumerate(spans):
                if not any(own & free_vars(x).keys() for x in (lo, end)):
                    continue
                names = [n for n, (d, _) in reader.pinned.items() if d == dim]
                if not names:
                    return refuse(f"dimension {dim} of `{buffer.name}` is not read element by element")
                shift = reader.pinned[names[0]][1]
                if names[0] in e.member.repeated:
                    return refuse(f"`{e.member.block.name}` adds up over several iterations of `{e.loop.var.name}`")
                if not _reaches_all(kernel, e, buffer, dim, names[0], shift):
                    return refuse(f"`{e.loop.var.name}` does not compute all elements of `{buffer.name}` that it reads")
                limits.setdefault(names[0], (lo - idx(shift), end - idx(shift)))
    dims = {e.member.pinned[name][0] for name in limits}
    for m in e.before:
        if not dims <= {dim for dim, _ in m.pinned.values()}:
            return refuse(f"`{m.block.name}` does not set `{e.member.target.name}` element by element")
        if not all(_stays_within(m, e.member, name, size_ranges(kernel)) for name in limits):
            target = e.member.target.name
            return refuse(f"`{m.block.name}` sets elements of `{target}` that `{e.member.block.name}` does not write")
    idle = _may_be_idle(kernel, [f for f in loops if f.var.name in own], limits)
    return limits if idle is None else refuse(f"`{idle}` may run no time, and `{e.member.block.name}` would not either")


def _may_be_idle(kernel: Kernel, loops: Sequence[For], limits: Mapping[str, tuple[Expr, Expr]]) -> str | None:
    """A loop whose iterations are none of the elements that are shared out, so that all of these need one of it."""
    sharing = {name for ends in limits.values() for end in ends for name in free_vars(end)}
    for f in loops:
        if f.var.name not in sharing and not is_true(simplify(Compare("<", f.lo, f.hi), ranges_at(kernel, f))):
            return f.var.name
    return None


def _stays_within(m: Member, main: Member, name: str, ranges: Mapping[str, Interval]) -> bool:
    """Whether ``m`` sets no elements beyond those that iterator ``name`` of ``main`` goes through."""
    dim, shift = main.pinned[name]
    other, own = next((n, offset) for n, (d, offset) in m.pinned.items() if d == dim)
    wide, narrow = _iter_of(main, name), _iter_of(m, other)
    low, high = idx(own - shift), idx(shift - own)
    return is_at_most(wide.lo, narrow.lo + low, ranges) and is_at_most(narrow.hi, wide.hi + high, ranges)


def _iter_of(m: Member, name: str) -> Iter:
    return next(i for i in m.block.iters if i.var.name == name)


def _reaches_all(kernel: Kernel, e: Epilogue, buffer: Buffer, dim: int, name: str, shift: int) -> bool:
    """Whether every value of iterator ``name`` belongs to some iteration: its element is computed in the loop."""
    ranges = size_ranges(kernel)
    wanted = _iter_of(e.member, name)
    for m in _writers(e, buffer):
        own = next(
            ((i, m.pinned[i.var.name]) for i in m.block.iters if m.pinned.get(i.var.name, (-1,))[0] == dim), None
        )
        if own is None:
            return False
        it, (_, offset) = own
        low = is_at_most(it.lo + idx(offset), wanted.lo + idx(shift), ranges)
        if not low or not is_at_most(wanted.hi + idx(shift), it.hi + idx(offset), ranges):
            return False
    return True


def _written_spans(kernel: Kernel, e: Epilogue, buffer: Buffer, loops: list[For]) -> Spans:
    def writes(leaf: Leaf, access: Access) -> bool:
        return access.writes

    spans = infer_spans(kernel, buffer, e.loop, len(loops), writes)
    assert spans is not None, "the loop writes what it is joined for"
    with knowing_loops(loops, size_ranges(kernel)) as simple:
        return clip(spans, buffer, simple)


def move(kernel: Kernel, e: Epilogue, limits: dict[str, tuple[Expr, Expr]]) -> Kernel:
    old = {f.var.name for m in e.members for f in all_loops(m.root)}
    names = taken_names(kernel) - old
    loops = [*loops_around(kernel, e.loop), e.loop]
    with knowing_loops(loops, size_ranges(kernel)) as simple:
        nests = [emit_member(m, _limits_of(m, e.member, limits), [], simple, names) for m in e.members]
    moved = replace_stmt(kernel, e.loop, replace(e.loop, body=_append(e.loop.body, sequence(nests))))
    for root in {id(m.root): m.root for m in e.members}.values():
        moved = replace_stmt(moved, root, Seq(()))
    return moved


def _limits_of(m: Member, main: Member, limits: dict[str, tuple[Expr, Expr]]) -> dict[str, tuple[Expr, Expr]]:
    """``limits`` of ``main`` as those of another block that writes the same elements."""
    if m is main:
        return limits
    found = {}
    by_dim = {dim: (name, shift) for name, (dim, shift) in m.pinned.items()}
    for name, (lo, end) in limits.items():
        dim, shift = main.pinned[name]
        other, own = by_dim[dim]
        found[other] = (lo + idx(shift - own), end + idx(shift - own))
    return found


def _append(body: Stmt, last: Stmt) -> Stmt:
    if isinstance(body, Alloc):
        return replace(body, body=_append(body.body, last))
    return sequence([body, last])


def _check_reads(moved: Kernel, e: Epilogue) -> Verdict:
    """In the new program: what the block reads lies within what the same iteration writes."""
    loop = find_loop(moved, e.loop.var.name)
    loops = [*loops_around(moved, loop), loop]
    name = e.member.block.name
    for buffer in e.joined:
        written = _written_spans(moved, replace(e, loop=loop), buffer, loops)
        raw = infer_spans(moved, buffer, loop, len(loops), lambda leaf, a: a.reads and leaf.block == name)
        if raw is None:
            continue
        with knowing_loops(loops, size_ranges(moved)) as simple:
            read = clip(raw, buffer, simple)
            ranges = dict(simple.ranges)
        for (lo, end), (first, last) in zip(read, written):
            if not is_at_most(first, lo, ranges) or not is_at_most(end, last, ranges):
                reason = f"`{name}` reads elements of `{buffer.name}` that other iterations compute"
                others = (f for f in leaves(moved, loop) if f.block != name)
                own = touches((f for f in leaves(moved, loop) if f.block == name), buffer.name, writes=False)
                orders = [[before(e.loop.var.name)], [after(e.loop.var.name)]]
                writes = touches(others, buffer.name, reads=False)
                return refuse_meeting(reason, moved, writes, own, orders, is_after=True)
    return OK
