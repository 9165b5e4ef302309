"""Barriers that order nothing removed.

A barrier orders what threads touch before it against what they touch after it. It is needed where two different
threads may touch one element on its two sides, one of them writing, with no other barrier in between; a barrier
for which no such pair exists goes. Of two barriers with nothing shared between them only one can have such a pair.

Others call it barrier elimination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from weft.ir.dtype import index
from weft.ir.expr import Expr, Load
from weft.ir.nesting import around, inner_statements, perfect_nest
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Atomic, Barrier, Break, Continue, For, If, Kernel, Return, Seq, Stmt, Store, While
from weft.ir.visit import children, map_statements, mentions, walk
from weft.passes.analysis.are_apart import affine_terms, loop_bounds
from weft.passes.analysis.conditions import conjuncts, slack
from weft.passes.analysis.thread_teams import barriers_in
from weft.poly.solve import Form, combine, solve


@dataclass(frozen=True, slots=True)
class Access:
    """A load, store or atomic update of memory that threads share, and what is known of variables where it stands."""

    buffer: str
    indices: tuple[Expr, ...]
    writes: bool
    is_atomic: bool
    known: tuple[Form, ...] = field(hash=False)
    own: frozenset[str] = field(compare=False)  # variables that other threads, or other times, have of their own


@dataclass(slots=True)
class _Node:
    """A place in a thread's program: accesses or a barrier, and where it goes on."""

    accesses: list[Access] = field(default_factory=list)
    barrier: Barrier | None = None
    after: list[_Node] = field(default_factory=list)
    before: list[_Node] = field(default_factory=list)


#: Pairs of accesses that are looked at for one barrier; with more it stays.
MOST_PAIRS = 2000


def remove_barriers(kernel: Kernel) -> Kernel:
    """``kernel`` with only those barriers that order something."""
    return replace(kernel, body=_visit(kernel.body, ()))


def _visit(s: Stmt, outside: tuple[For, ...]) -> Stmt:
    if not barriers_in(s):
        return s
    if isinstance(s, For) and s.kind == "thread":
        loops, body = perfect_nest(s, "thread")
        kept = _needed(loops, body, outside)
        return around(loops, _without(body, iter(kept)))
    inside = (*outside, s) if isinstance(s, For) else outside
    return map_statements(s, lambda n: _visit(n, inside))


def _without(s: Stmt, kept: Iterator[bool]) -> Stmt:
    """``s`` without the barriers that are not ``kept``, asked for in program order."""
    if isinstance(s, Barrier):
        return s if next(kept) else Seq(())
    if not barriers_in(s):
        return s
    return map_statements(s, lambda n: _without(n, kept))


def _needed(loops: tuple[For, ...], body: Stmt, outer: tuple[For, ...]) -> list[bool]:
    """For each barrier in program order whether it is needed, given those before it that are not."""
    graph = _Graph(body)
    threads = frozenset(loop.var.name for loop in loops)
    outside = [form for loop in outer for form in loop_bounds(loop)]
    bounds = [form for loop in loops for form in loop_bounds(loop)]
    flags: list[bool] = []
    for node in graph.barriers:
        barrier = node.barrier
        assert barrier is not None
        before = _reach(node, lambda n: n.before, barrier.scope)
        after = _reach(node, lambda n: n.after, barrier.scope)
        pairs = [(a, b) for a in before for b in after if _conflict(a, b)]
        is_needed = len(pairs) > MOST_PAIRS or any(_may_meet(a, b, threads, bounds, outside) for a, b in pairs)
        flags.append(is_needed)
        if not is_needed:
            node.barrier = None
    return flags


def _reach(start: _Node, step: Callable[[_Node], list[_Node]], scope: str) -> list[Access]:
    """Accesses on the ways from ``start`` to the next barriers that hold as many threads together."""
    reached: dict[int, _Node] = {}
    waiting = list(step(start))
    while waiting:
        node = waiting.pop()
        if id(node) in reached or (node.barrier is not None and (scope == "warp" or node.barrier.scope != "warp")):
            continue
        reached[id(node)] = node
        waiting += step(node)
    return list(dict.fromkeys(access for node in reached.values() for access in node.accesses))


def _conflict(a: Access, b: Access) -> bool:
    return a.buffer == b.buffer and (a.writes or b.writes) and not (a.is_atomic and b.is_atomic)


def _may_meet(a: Access, b: Access, threads: frozenset[str], bounds: list[Form], outside: list[Form]) -> bool:
    """Whether two different threads may touch one element by ``a`` and ``b``."""
    one, other = threads | a.own, threads | b.own
    equations: list[Form] = []
    for left, right in zip(a.indices, b.indices):
        first, second = affine_terms(left), affine_terms(right)
        if first is not None and second is not None:
            equations.append(combine(_renamed(first, one, "'"), _renamed(second, other, '"'), -1))
    facts = [
        *outside,
        *(_renamed(f, one, "'") for f in (*bounds, *a.known)),
        *(_renamed(f, other, '"') for f in (*bounds, *b.known)),
    ]
    for thread in threads:
        for sign in (1, -1):
            apart = {f"{thread}'": sign, f'{thread}"': -sign, "": -1}
            if solve(equations, [*facts, apart]) is not None:
                return True
    return False


def _renamed(form: Form, names: frozenset[str], mark: str) -> Form:
    return {f"{name}{mark}" if name in names else name: factor for name, factor in form.items()}


class _Graph:
    """The ways a thread can go through its program."""

    def __init__(self, body: Stmt) -> None:
        self.shared = mentions(body).stored - mentions(body).allocated
        self.own = frozenset(mentions(body).bound)
        self.changing = assigned_names(body)
        self.barriers: list[_Node] = []
        self.end = _Node()
        self.add(body, [_Node()], (), None)

    def add(
        self, s: Stmt, start: list[_Node], facts: tuple[Form, ...], loop: tuple[_Node, _Node] | None
    ) -> list[_Node]:
        """The places that follow ``s`` where it follows ``start``; ``loop`` is where continue and break go."""
        if isinstance(s, Seq):
            for stmt in s.body:
                start = self.add(stmt, start, facts, loop)
            return start
        node = self.node(s, start, facts)
        match s:
            case Barrier():
                node.barrier = s
                self.barriers.append(node)
            case Return():
                return self.go(node, self.end)
            case Break() | Continue() if loop is not None:
                return self.go(node, loop[isinstance(s, Break)])
            case If():
                return self.branch(s, node, facts, loop)
            case For() | While():
                done = _Node()
                self.link(node, done)
                bounds = self.lasting(loop_bounds(s)) if isinstance(s, For) else []
                for last in self.add(s.body, [node], (*facts, *bounds), (node, done)):
                    self.link(last, node)
                return [done]
            case _:
                ends = [node]
                for inner in inner_statements(s):
                    ends = self.add(inner, ends, facts, loop)
                return ends
        return [node]

    def branch(self, s: If, node: _Node, facts: tuple[Form, ...], loop: tuple[_Node, _Node] | None) -> list[_Node]:
        gaps = [gap for conjunct in conjuncts(s.condition) if (gap := slack(conjunct)) is not None]
        forms = self.lasting(form for gap in gaps if (form := affine_terms(gap.expr(index))) is not None)
        ends = self.add(s.then, [node], (*facts, *forms), loop)
        return [*ends, *(self.add(s.otherwise, [node], facts, loop) if s.otherwise is not None else [node])]

    def lasting(self, forms: Iterable[Form]) -> list[Form]:
        """What stays true however variables are assigned to."""
        return [form for form in forms if self.changing.isdisjoint(form)]

    def node(self, s: Stmt, start: list[_Node], facts: tuple[Form, ...]) -> _Node:
        """A new place after ``start`` with what ``s`` itself touches."""
        node = _Node()
        for before in start:
            self.link(before, node)
        read = [n for e in children(s) if isinstance(e, Expr) for n in walk(e) if isinstance(n, Load)]
        node.accesses = [self.access(load, facts) for load in read if load.buffer.name in self.shared]
        if isinstance(s, (Store, Atomic)) and s.buffer.name in self.shared:
            node.accesses.append(self.access(s, facts))
        return node

    def access(self, n: Load | Store | Atomic, facts: tuple[Form, ...]) -> Access:
        writes = not isinstance(n, Load)
        return Access(n.buffer.name, n.indices, writes, isinstance(n, Atomic), facts, self.own)

    def go(self, node: _Node, there: _Node) -> list[_Node]:
        self.link(node, there)
        return []

    def link(self, a: _Node, b: _Node) -> None:
        a.after.append(b)
        b.before.append(a)
