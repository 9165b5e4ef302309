"""Two shared arrays exchanged instead of one copied to the other.

``T(A) -> B; barrier; A = B; barrier; T(A) -> B`` keeps what one step gave for the next. Where all that is read of ``A``
afterwards was copied, and all that is read of ``B`` is written before, the copy goes and the two change names. Tests
around every store to an array (whether the element is inside the data, most often) do not matter: what they keep out is
never stored, so it is not read either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Expr, Load, Var
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import inner_statements, perfect_nest, strip
from weft.ir.stmt import Atomic, For, If, Let, Seq, Stmt, Store
from weft.ir.visit import children, free_vars, mentions, replace_buffers, walk
from weft.passes.analysis.conditions import conjuncts, is_pure, peel_guards
from weft.passes.analysis.loop_ranges import constant_extent, loop_range

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
    s: Stmt, names: set[str], ranges: dict[str, Interval], ignored: frozenset[Expr], *, always: bool
) -> Iterator[Touch | None]:
    if isinstance(s, For):
        ranges = {**ranges, s.var.name: loop_range(s, ranges)}
    for e in children(s):
        if not isinstance(e, Stmt):
            for n in walk(e):
                if isinstance(n, AddressOf) and n.buffer.name in names:
                    yield None
                if isinstance(n, Load) and n.buffer.name in names:
                    yield Touch(n.buffer.name, False, tuple(bounds(i, ranges) for i in n.indices), always)
    if isinstance(s, Atomic) and s.buffer.name in names:
        yield None
    if isinstance(s, Store) and s.buffer.name in names:
        own = all(isinstance(i, Var) for i in s.indices) and len(set(s.indices)) == len(s.indices)
        box = tuple(bounds(i, ranges) for i in s.indices)
        yield Touch(s.buffer.name, True, box, always and own)
    plain = isinstance(s, (Seq, Let)) or (isinstance(s, If) and ignored.issuperset(conjuncts(s.condition)))
    for inner in inner_statements(s):
        first = not isinstance(s, If) or inner is s.then
        yield from _accesses(inner, names, ranges, ignored, always=always and plain and first)
