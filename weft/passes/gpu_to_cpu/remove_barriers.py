"""Barriers that order nothing removed.

A barrier orders what threads touch before it against what they touch after it. It is needed where two different
threads may touch one element on its two sides, one of them writing, with no other barrier in between; a barrier
for which no such pair exists goes. Of two barriers with nothing shared between them only one can have such a pair.

Others call it barrier elimination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from weft.ir.nesting import around, inner_statements, perfect_nest
from weft.ir.stmt import Barrier, Break, Continue, For, If, Kernel, Return, Seq, Stmt, While
from weft.ir.visit import map_statements
from weft.passes.analysis.thread_teams import barriers_in
from weft.poly.conflicts import Meeting, Memory, Surroundings, after, before, commute, written_by
from weft.poly.leaves import Access, Leaf, leaves, sizes_of


@dataclass(slots=True)
class _Node:
    """A place in a thread's program: accesses or a barrier, and where it goes on."""

    accesses: list[tuple[Leaf, Access]] = field(default_factory=list)
    barrier: Barrier | None = None
    after: list[_Node] = field(default_factory=list)
    before: list[_Node] = field(default_factory=list)


#: Pairs of accesses that are looked at for one barrier; with more it stays.
MOST_PAIRS = 2000


def remove_barriers(kernel: Kernel) -> Kernel:
    """``kernel`` with only those barriers that order something."""

    def visit(s: Stmt, outside: tuple[str, ...]) -> Stmt:
        if not barriers_in(s):
            return s
        if isinstance(s, For) and s.kind == "thread":
            loops, body = perfect_nest(s, "thread")
            kept = _needed(kernel, s, body, tuple(loop.var.name for loop in loops), frozenset(outside))
            return around(loops, _without(body, iter(kept)))
        inside = (*outside, s.var.name) if isinstance(s, For) else outside
        return map_statements(s, lambda n: visit(n, inside))

    return replace(kernel, body=visit(kernel.body, ()))


def _without(s: Stmt, kept: Iterator[bool]) -> Stmt:
    """``s`` without the barriers that are not ``kept``, asked for in program order."""
    if isinstance(s, Barrier):
        return s if next(kept) else Seq(())
    if not barriers_in(s):
        return s
    return map_statements(s, lambda n: _without(n, kept))


def _needed(kernel: Kernel, nest: For, body: Stmt, threads: tuple[str, ...], outside: frozenset[str]) -> list[bool]:
    """For each barrier in program order whether it is needed, given those before it that are not."""
    touched: dict[int, list[tuple[Leaf, Access]]] = {}
    below = leaves(kernel, nest)
    for leaf in below:
        touched.setdefault(id(leaf.stmt), []).extend((leaf, a) for a in leaf.accesses)
    surroundings, memory = Surroundings(outside, written_by(below), sizes_of(kernel)), Memory()

    def may_meet(one: tuple[Leaf, Access], other: tuple[Leaf, Access]) -> bool:
        """Whether two different threads may touch one element, and it matters who is first."""
        meeting = Meeting(*one, *other, surroundings, memory)
        return any(meeting.find([way(name)]) is not None for name in threads for way in (after, before))

    flags: list[bool] = []
    for node in _Graph(body, touched).barriers:
        barrier = node.barrier
        assert barrier is not None
        first = _reach(node, lambda n: n.before, barrier.scope)
        second = _reach(node, lambda n: n.after, barrier.scope)
        pairs = [(one, other) for one in first for other in second if _conflict(one[1], other[1])]
        is_needed = len(pairs) > MOST_PAIRS or any(may_meet(one, other) for one, other in pairs)
        flags.append(is_needed)
        if not is_needed:
            node.barrier = None
    return flags


def _reach(start: _Node, step: Callable[[_Node], list[_Node]], scope: str) -> list[tuple[Leaf, Access]]:
    """Accesses on the ways from ``start`` to the next barriers that hold as many threads together."""
    reached: dict[int, _Node] = {}
    waiting = list(step(start))
    while waiting:
        node = waiting.pop()
        if id(node) in reached or (node.barrier is not None and (scope == "warp" or node.barrier.scope != "warp")):
            continue
        reached[id(node)] = node
        waiting += step(node)
    return [access for node in reached.values() for access in node.accesses]


def _conflict(a: Access, b: Access) -> bool:
    is_one = a.buffer.name == b.buffer.name and (a.writes or b.writes)
    return is_one and not commute(a, b, "fast", concurrent=True)


class _Graph:
    """The ways a thread can go through its program."""

    def __init__(self, body: Stmt, touched: Mapping[int, list[tuple[Leaf, Access]]]) -> None:
        self.touched = touched
        self.barriers: list[_Node] = []
        self.end = _Node()
        self.add(body, [_Node()], None)

    def add(self, s: Stmt, start: list[_Node], loop: tuple[_Node, _Node] | None) -> list[_Node]:
        """The places that follow ``s`` where it follows ``start``; ``loop`` is where continue and break go."""
        if isinstance(s, Seq):
            for stmt in s.body:
                start = self.add(stmt, start, loop)
            return start
        node = _Node(self.touched.get(id(s), []))
        for earlier in start:
            self.link(earlier, node)
        match s:
            case Barrier():
                node.barrier = s
                self.barriers.append(node)
            case Return():
                return self.go(node, self.end)
            case Break() | Continue() if loop is not None:
                return self.go(node, loop[isinstance(s, Break)])
            case If():
                ends = self.add(s.then, [node], loop)
                return [*ends, *(self.add(s.otherwise, [node], loop) if s.otherwise is not None else [node])]
            case For() | While():
                done = _Node()
                self.link(node, done)
                for last in self.add(s.body, [node], (node, done)):
                    self.link(last, node)
                return [done]
            case _:
                ends = [node]
                for inner in inner_statements(s):
                    ends = self.add(inner, ends, loop)
                return ends
        return [node]

    def go(self, node: _Node, there: _Node) -> list[_Node]:
        self.link(node, there)
        return []

    def link(self, a: _Node, b: _Node) -> None:
        a.after.append(b)
        b.before.append(a)
