"""``persist``: the launches of each iteration of a loop become one launch, whose blocks stay for all of them.

::

    for t                                  block a in 0:8
      block a in 0:8 { A }            =>     for t { A;  barrier(grid);  if a < 4 { B };  barrier(grid) }
      block b in 0:4 { B }

Others call this a persistent kernel. With ``blocks`` there are at most so many, which take turns where a launch had
more. What a block fills with the same in every iteration (a tile of weights in its
shared memory) is filled once, before the loop: from then on it stays there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from weft.ir.expr import Compare, Expr, Var, idx
from weft.ir.nesting import around, exits, has_loop, perfect_nest, sequence, statements
from weft.ir.stmt import Alloc, Assert, Barrier, For, If, Kernel, Seq, Stmt
from weft.ir.visit import Mentions, free_vars, fresh_name, loads, mentions, substitute
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import find_loop, loops_around
from weft.schedules.loop_facts import check_number, has_barrier, trip_count
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics


def check_persist(kernel: Kernel, loop: str, blocks: int | None = None, *, numerics: Numerics) -> Verdict:
    """Legal wherever there are such launches: the barriers keep them in order, as starting and ending did."""
    node = find_loop(kernel, loop)
    if blocks is not None and not (wrong := check_number("number of blocks", blocks, 1)).ok:
        return wrong
    outside = next((f for f in loops_around(kernel, node) if f.kind not in ("serial", "unroll")), None)
    if outside is not None:
        return refuse(f"`{loop}` is inside the {outside.kind} loop `{outside.var.name}`, not around launches")
    if node.kind != "serial" or not has_loop(node, "block"):
        return refuse(f"`{loop}` is no serial loop around launches")
    if has_barrier(node) or exits(node.body) or loads(node.lo) or loads(node.hi):
        return refuse(f"`{loop}` waits, ends early, or runs as often as data say")
    if any(isinstance(s, Assert) for s in statements(node)):
        return refuse("a thread that finds a check to fail ends, and all others would wait for it")
    for phase in _phases(node.body)[1]:
        if phase.counts is None or has_loop(phase.body, "block"):
            return refuse("blocks that stay are counted from 0 to a constant, in loops right inside one another")
    return OK


@primitive(check_persist, "cannot make one launch of those in loop `{0}`")
def persist(kernel: Kernel, loop: str, blocks: int | None = None) -> Rewrite:
    """Returns the loops over the blocks, outermost first."""
    node = find_loop(kernel, loop)
    storage, phases = _phases(node.body)
    shared, bodies = _share_blocks(loop, phases, taken_names(kernel), blocks)
    kept: list[Stmt] = []
    made = [_Hoisting(node, mentions(node.body)).hoist(body, kept) for body in bodies]
    body: Stmt = replace(node, body=sequence([s for phase in made for s in (phase, Barrier("grid"))]))
    for s in reversed(kept):
        body = replace(s, body=body) if isinstance(s, Alloc) else sequence([s, body])
    body = around(shared, body)
    for alloc in reversed(storage):
        body = replace(alloc, body=body)
    names = tuple(b.var.name for b in shared)
    gone = {f.var.name for phase in phases for f in phase.blocks} - set(names)
    return Rewrite(replace_stmt(kernel, node, body), names, dict.fromkeys(gone, f"runs on blocks that {loop} stays on"))


@dataclass(frozen=True, slots=True)
class _Phase:
    """A launch of the body: ``blocks`` around ``body``, none where one block does it; their numbers, if constant."""

    blocks: tuple[For, ...]
    body: Stmt

    @property
    def counts(self) -> tuple[int, ...] | None:
        sizes = [trip_count(f, {}) for f in self.blocks if f.lo == idx(0)]
        found = tuple(n for n in sizes if n is not None)
        return found if len(found) == len(self.blocks) else None


def _phases(s: Stmt) -> tuple[list[Alloc], list[_Phase]]:
    """The launches of ``s``, and what is made around them, which is memory of the device."""
    storage, parts = _opened(s, around_blocks=True)
    return storage, [_Phase(*perfect_nest(part, "block")) for part in parts]


def _share_blocks(
    loop: str, phases: list[_Phase], taken: set[str], limit: int | None
) -> tuple[tuple[For, ...], list[Stmt]]:
    """The blocks that do all phases, and what each of them does: phases with as many keep their loops."""
    first = max(phases, key=lambda p: prod(p.counts or ()))
    most = min(limit or 1 << 62, prod(first.counts or ()))
    if all(p.counts == first.counts for p in phases) and most == prod(first.counts or ()):
        renamed = [{a.var: b.var for a, b in zip(p.blocks, first.blocks)} for p in phases]
        return first.blocks, [substitute(p.body, names) for p, names in zip(phases, renamed)]
    number = Var(fresh_name(f"{loop}_block", taken))
    blocks = For(number, idx(0), idx(most), "block", Seq(()))
    return (blocks,), [_numbered(p, number, most, taken) for p in phases]


def _numbered(phase: _Phase, number: Var, most: int, taken: set[str]) -> Stmt:
    """What block ``number`` of ``most`` does of a phase with others: its own, or several in turns."""
    turn, count = Var(fresh_name(f"{number.name}_turn", taken)), prod(phase.counts or ())
    place: Expr = number if count <= most else turn * idx(most) + number
    rest = place
    values: dict[Var, Expr] = {}
    for f, size in zip(reversed(phase.blocks), reversed(phase.counts or ())):
        values[f.var] = rest if f is phase.blocks[0] else rest % idx(size)
        rest = rest // idx(size)
    body = substitute(phase.body, values)
    body = body if count % most == 0 else If(Compare("<", place, idx(count)), body)
    return body if count <= most else For(turn, idx(0), idx(-(-count // most)), "serial", body)


@dataclass(frozen=True, slots=True)
class _Hoisting:
    """What is filled with the same in every iteration of ``loop``; ``inside`` is what all of its body mentions."""

    loop: For
    inside: Mentions

    def hoist(self, s: Stmt, kept: list[Stmt]) -> Stmt:
        """``s`` without what goes before the loop, which is added to ``kept``, storage before what fills it."""
        if isinstance(s, If) and s.otherwise is None and self.loop.var.name not in free_vars(s.condition):
            start = len(kept)
            then = self.hoist(s.then, kept)
            kept[start:] = [k if isinstance(k, Alloc) else replace(s, then=k) for k in kept[start:]]
            return replace(s, then=then)
        allocs, parts = _opened(s)
        own = {a.buffer.name for a in allocs}
        fills = [p for p in parts if self.is_same(p, own, parts)]
        filled = {name for p in fills for name in mentions(p).stored}
        kept += [replace(a, body=Seq(())) for a in allocs if a.buffer.name in filled]
        kept += fills
        body = sequence([p for p in parts if p not in fills])
        for a in reversed(allocs):
            body = body if a.buffer.name in filled else replace(a, body=body)
        return body

    def is_same(self, s: Stmt, own: set[str], parts: Iterable[Stmt]) -> bool:
        """Whether ``s`` does nothing but fill storage of the block's ``own``, which no other part stores to."""
        here = mentions(s)
        others = {name for p in parts if p is not s for name in mentions(p).stored}
        return (
            bool(here.stored)
            and here.stored <= own - others
            and here.loaded.isdisjoint(self.inside.stored)
            and not here.addressed
            and self.loop.var.name not in free_vars(s)
        )


def _opened(s: Stmt, *, around_blocks: bool = False) -> tuple[list[Alloc], list[Stmt]]:
    """``s`` as storage around statements one after another; ``around_blocks``: storage of blocks stays with them."""
    if isinstance(s, Alloc) and (not around_blocks or has_loop(s, "block")):
        allocs, parts = _opened(s.body, around_blocks=around_blocks)
        return [s, *allocs], parts
    if isinstance(s, Seq):
        found = [_opened(part, around_blocks=around_blocks) for part in s.body]
        return [a for allocs, _ in found for a in allocs], [p for _, parts in found for p in parts]
    return [], [s]
