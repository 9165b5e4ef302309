"""What one thread loop stores and the next one reads, handed on without memory.

A shared array that a thread loop fills from memory which does not change is read from there (`_read_through`). Two
thread loops over the same threads, of which the second reads only what its own thread stored, become one, and the
value is handed on in a variable (`_joined`). Stores that nothing reads any more go.

Two arrays are exchanged instead of one copied to the other (`swap_copies`): ``T(A) -> B; barrier; A = B; barrier;
T(A) -> B`` keeps what one step gave for the next. Where all that is read of ``A`` afterwards was copied, and all that
is read of ``B`` is written before, the copy goes and they change names. Tests around every store to an array (whether
the element is inside the data, most often) do not matter: what they keep out is never stored, so it is not read either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Expr, Load, Var
from weft.ir.interval import Interval, Ranges, bounds
from weft.ir.nesting import inner_statements, perfect_nest, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import JUMPS, Assert, Assign, Atomic, Evaluate, For, If, Let, Seq, Stmt, Store
from weft.ir.visit import (
    children,
    free_vars,
    fresh_name,
    loads,
    mentions,
    replace_buffers,
    rewrite,
    substitute,
    walk,
)
from weft.passes.analysis.conditions import conjuncts, guarded, is_pure, peel_guards
from weft.passes.analysis.loop_ranges import constant_extent, loop_range, ranges_inside
from weft.passes.analysis.thread_teams import Team
from weft.passes.gpu_to_cpu.clamps import bounds_where
from weft.passes.gpu_to_cpu.forward_shared import is_cheap

#: Statements that do something.
_EFFECTS = (Assert, Assign, Atomic, Evaluate, Store, *JUMPS)


def forwarded(parts: Sequence[Stmt], shared: Mapping[str, Buffer], taken: set[str]) -> list[Stmt]:
    """``parts``, which run one after another and alone touch the arrays ``shared``, with less in these."""
    parts = swap_copies(parts, shared)
    done = _without_unread(_joined(_read_through(parts, shared), shared, taken), shared)
    return [stmt for stmt in done if any(isinstance(n, _EFFECTS) for n in walk(stmt))]


@dataclass(frozen=True, slots=True)
class _Fill:
    """``if tests { buffer[indices] = value }`` by every thread of a nest, and the elements filled."""

    buffer: str
    threads: tuple[Var, ...]
    value: Expr
    box: Box
    tests: frozenset[Expr]

    def read_through(self, n: Any) -> Any:
        """What was stored, in place of a read of it."""
        if not isinstance(n, Load) or n.buffer.name != self.buffer:
            return None
        return simplify(substitute(self.value, dict(zip(self.threads, n.indices))))


def _read_through(parts: list[Stmt], shared: Mapping[str, Buffer]) -> list[Stmt]:
    """Reads of arrays filled from memory that does not change, read from that memory."""
    for n, part in enumerate(parts):
        fill = _fill(part)
        if fill is None or fill.buffer not in shared:
            continue
        leaves = [leaf for leaf in walk(fill.value) if isinstance(leaf, (Load, Var))]
        fixed = {leaf.name if isinstance(leaf, Var) else leaf.buffer.name for leaf in leaves}
        rest = parts[n + 1 :]
        ignored = common_tests(parts, {fill.buffer})
        last = _last_reader(fill, rest, ignored) if fill.tests <= ignored else None
        if last is None or any(fixed & (mentions(p).stored | assigned_names(p)) for p in (part, *rest)):
            continue
        parts[n + 1 : n + 1 + last] = [rewrite(p, fill.read_through) for p in rest[:last]]
    return parts


def _fill(s: Stmt) -> _Fill | None:
    if not isinstance(s, For) or s.kind != "thread":
        return None
    loops, inside = perfect_nest(s, "thread")
    tests, body = peel_guards(inside)
    body = strip(body)
    if not isinstance(body, Store) or not is_cheap(body.value) or not loads(body.value):
        return None
    box = own_box(loops, body.indices)
    if box is None:
        return None
    threads = tuple(i for i in body.indices if isinstance(i, Var))
    return _Fill(body.buffer.name, threads, body.value, box, frozenset(tests))


def _last_reader(fill: _Fill, rest: list[Stmt], ignored: frozenset[Expr]) -> int | None:
    """How many parts read what ``fill`` stored, before it is overwritten; None where that is not known."""
    written: list[Box] = []
    is_written = False
    count = 0
    for n, part in enumerate(rest):
        touched = list(touches(part, {fill.buffer}, ignored))
        if any(t is None for t in touched):
            return None
        reads = [t.box for t in touched if t is not None and not t.writes]
        writes = [t for t in touched if t is not None and t.writes]
        is_written |= bool(writes)
        if is_written:
            if not all(any(contains(box, read) for box in written) for read in reads):
                return None
            written += [t.box for t in writes if t.always]
        elif not all(contains(fill.box, read) for read in reads):
            return None
        else:
            count = n + 1
    return count


def _joined(parts: list[Stmt], shared: Mapping[str, Buffer], taken: set[str]) -> list[Stmt]:
    """Neighbours over the same threads in one loop, where the second reads only what its own thread stored."""
    done: list[Stmt] = []
    for stmt in parts:
        made = _join(done[-1], stmt, shared, taken) if done else None
        if made is None:
            done.append(stmt)
        else:
            done[-1] = made
    return done


def _join(first: Stmt, second: Stmt, shared: Mapping[str, Buffer], taken: set[str]) -> Stmt | None:
    if not (isinstance(first, For) and isinstance(second, For) and first.kind == second.kind == "thread"):
        return None
    loops, inside = perfect_nest(first, "thread")
    others, body = perfect_nest(second, "thread")
    tests, store = peel_guards(inside)
    store = strip(store)
    if not isinstance(store, Store) or store.buffer.name not in shared or not _same_loops(loops, others):
        return None
    same, body = peel_guards(substitute(body, {b.var: a.var for a, b in zip(loops, others)}))
    if same != tests or not all(map(is_pure, tests)):
        return None
    own = all(isinstance(i, Var) for i in store.indices) and {loop.var for loop in loops} == set(store.indices)
    reads = [load for load in loads(body) if load.buffer.name == store.buffer.name]
    stored = mentions(body).stored
    if not own or not reads or any(load.indices != store.indices for load in reads) or store.buffer.name in stored:
        return None
    if any(load.buffer.name in stored for load in loads(store)) or any(isinstance(n, AddressOf) for n in walk(body)):
        return None
    kept = Var(fresh_name(f"{store.buffer.name}_value", taken), store.buffer.dtype)
    body = rewrite(body, lambda n: kept if n == reads[0] else None)
    return Team(loops).around(guarded(tests, Let(kept, store.value, Seq((replace(store, value=kept), body)))))


def _same_loops(a: tuple[For, ...], b: tuple[For, ...]) -> bool:
    return len(a) == len(b) and all(x.lo == y.lo and x.hi == y.hi for x, y in zip(a, b))


def _without_stores(s: Stmt, gone: set[str]) -> Stmt:
    return rewrite(s, lambda n: Seq(()) if isinstance(n, Store) and n.buffer.name in gone else None)


def _without_unread(parts: list[Stmt], shared: Mapping[str, Buffer]) -> list[Stmt]:
    """From the last part on, stores to shared arrays that no later part reads go."""
    read: set[str] = set()
    done: list[Stmt] = []
    for stmt in reversed(parts):
        held = mentions(stmt)
        gone = {name for name in held.stored if name in shared and name not in read | held.loaded | held.addressed}
        if gone and not any(isinstance(n, Atomic) for n in walk(stmt)):
            stmt = _without_stores(stmt, gone)
        read |= held.loaded | held.addressed
        done.append(stmt)
    return done[::-1]


#: The elements from a lowest to a highest subscript in each dimension.
Box = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """A load or store of a buffer by all threads of a nest, and the elements; ``always`` where no test is around."""

    buffer: str
    writes: bool
    box: Box
    always: bool


def swap_copies(parts: Sequence[Stmt], shared: Mapping[str, Buffer]) -> list[Stmt]:
    """``parts``, which run one after another and alone touch the arrays ``shared``, with fewer copies."""
    parts = list(parts)
    n = 0
    while n < len(parts):
        copy = _copy(parts[n])
        if copy is not None and copy.to in shared and copy.source in shared:
            to, source = copy.to, copy.source
            ignored = common_tests(parts, {to, source})
            if copy.tests <= ignored and _may_swap(shared[to], shared[source], copy.box, parts[n + 1 :], ignored):
                names = {shared[to]: shared[source], shared[source]: shared[to]}
                parts[n:] = [replace_buffers(stmt, names) for stmt in parts[n + 1 :]]
                continue
        n += 1
    return parts


@dataclass(frozen=True, slots=True)
class _Copy:
    """``thread t { if tests { to[t] = source[t] } }``."""

    to: str
    source: str
    box: Box
    tests: frozenset[Expr]


def _copy(s: Stmt) -> _Copy | None:
    if not isinstance(s, For) or s.kind != "thread":
        return None
    loops, inside = perfect_nest(s, "thread")
    tests, body = peel_guards(inside)
    match strip(body):
        case Store(to, indices, Load(source, same)) if same == indices and to.name != source.name:
            box = own_box(loops, indices)
            return None if box is None else _Copy(to.name, source.name, box, frozenset(tests))
    return None


def own_box(loops: Sequence[For], indices: Sequence[Expr]) -> Box | None:
    """The elements at ``indices``, where these are the variables of the loops and so each thread has its own."""
    own = {loop.var: loop for loop in loops if constant_extent(loop)}
    variables = [i for i in indices if isinstance(i, Var) and i in own]
    if not len(set(variables)) == len(indices) == len(loops):
        return None
    return tuple(loop_range(own[v], {}) for v in variables)


def common_tests(parts: Sequence[Stmt], names: set[str]) -> frozenset[Expr]:
    """Tests around every store to the arrays ``names`` in ``parts``: where they fail nothing is stored, nor read.

    All stores must have the same subscripts, variables of threads, so that a test says the same of an element.
    """
    found = [t for stmt in parts for t in _tests_around(stmt, names, frozenset())]
    if not found or len({indices for indices, _ in found}) > 1 or not all(isinstance(i, Var) for i in found[0][0]):
        return frozenset()
    elements = {i.name for i in found[0][0] if isinstance(i, Var)}
    inside = frozenset(name for stmt in parts for name in mentions(stmt).bound) - elements
    common = frozenset.intersection(*(tests for _, tests in found))
    return frozenset(t for t in common if is_pure(t) and not inside & set(free_vars(t)))


def _tests_around(
    s: Stmt, names: set[str], tests: frozenset[Expr]
) -> Iterator[tuple[tuple[Expr, ...], frozenset[Expr]]]:
    if isinstance(s, (Store, Atomic)) and s.buffer.name in names:
        yield s.indices, tests if isinstance(s, Store) else frozenset()
    for inner in inner_statements(s):
        held = frozenset(conjuncts(s.condition)) if isinstance(s, If) and inner is s.then else frozenset()
        yield from _tests_around(inner, names, tests | held)


def _may_swap(to: Buffer, source: Buffer, region: Box, rest: list[Stmt], ignored: frozenset[Expr]) -> bool:
    """Whether ``rest`` cannot tell what was copied from what is there after a change of names."""
    if to.shape != source.shape or to.dtype != source.dtype or to.strides or source.strides:
        return False
    written: dict[str, list[Box]] = {to.name: [], source.name: []}
    for stmt in rest:
        touched = list(touches(stmt, {to.name, source.name}, ignored))
        if any(t is None for t in touched):
            return False
        for t in touched:
            assert t is not None
            known = [*written[t.buffer], *([region] if t.buffer == to.name else [])]
            if not t.writes and not any(contains(box, t.box) for box in known):
                return False
        for t in touched:
            if t is not None and t.writes and t.always:
                written[t.buffer].append(t.box)
    return True


def contains(box: Box, other: Box) -> bool:
    return all(a.lo is not None and a.hi is not None and b.within(a.lo, a.hi) for a, b in zip(box, other))


def touches(s: Stmt, names: set[str], ignored: frozenset[Expr] = frozenset()) -> Iterator[Touch | None]:
    """What thread nests in ``s`` touch, tests that are ``ignored`` aside; None where something is not a plain nest."""
    if isinstance(s, For) and s.kind == "thread" and constant_extent(s) is not None:
        loops, body = perfect_nest(s, "thread")
        if all(constant_extent(loop) is not None for loop in loops):
            ranges = {loop.var.name: loop_range(loop, {}) for loop in loops}
            yield from _accesses(body, names, ranges, ignored, always=True)
            return
    if any(isinstance(n, (Load, Store, Atomic, AddressOf)) and n.buffer.name in names for n in walk(s)):
        yield None


def _accesses(
    s: Stmt, names: set[str], ranges: Ranges, ignored: frozenset[Expr], tests: tuple[Expr, ...] = (), *, always: bool
) -> Iterator[Touch | None]:
    ranges = ranges_inside(s, ranges)
    for e in children(s):
        if not isinstance(e, Stmt):
            for n in walk(e):
                if isinstance(n, AddressOf) and n.buffer.name in names:
                    yield None
                if isinstance(n, Load) and n.buffer.name in names:
                    yield Touch(n.buffer.name, False, tuple(bounds_where(i, tests, ranges) for i in n.indices), always)
    if isinstance(s, Atomic) and s.buffer.name in names:
        yield None
    if isinstance(s, Store) and s.buffer.name in names:
        own = all(isinstance(i, Var) for i in s.indices) and len(set(s.indices)) == len(s.indices)
        box = tuple(bounds(i, ranges) for i in s.indices)
        yield Touch(s.buffer.name, True, box, always and own)
    plain = isinstance(s, (Seq, Let)) or (isinstance(s, If) and ignored.issuperset(conjuncts(s.condition)))
    for inner in inner_statements(s):
        first = not isinstance(s, If) or inner is s.then
        held = tuple(conjuncts(s.condition)) if isinstance(s, If) and first else ()
        yield from _accesses(inner, names, ranges, ignored, (*tests, *held), always=always and plain and first)
