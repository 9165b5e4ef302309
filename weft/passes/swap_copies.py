"""Two shared arrays exchanged instead of one copied to the other.

``T(A) -> B; barrier; A = B; barrier; T(A) -> B`` keeps what one step gave for the next. Where all that is read of ``A``
afterwards was copied, and all that is read of ``B`` is written before, the copy goes and the two change names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Load, Var
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import perfect_nest
from weft.ir.simplify import inner_statements
from weft.ir.stmt import Alloc, Atomic, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import children, rebuild, replace_buffers, walk
from weft.passes.loop_ranges import constant_extent, loop_range

#: The elements from a lowest to a highest subscript in each dimension.
Box = tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """A load or store of a buffer by all threads of a nest, and the elements; ``always`` where no test is around."""

    buffer: str
    writes: bool
    box: Box
    always: bool


def swap_copies(kernel: Kernel) -> Kernel:
    """``kernel`` with copies between shared arrays of a block replaced by a change of names."""
    return replace(kernel, body=_visit(kernel.body, {}))


def _visit(s: Stmt, shared: dict[str, Buffer]) -> Stmt:
    """``shared`` are arrays that nothing after ``s`` touches."""
    if isinstance(s, Alloc) and s.buffer.scope == "shared":
        shared = {**shared, s.buffer.name: s.buffer}
    inner = shared if isinstance(s, (Alloc, Let, If)) else {}
    s = rebuild(s, lambda n: _visit(n, inner) if isinstance(n, Stmt) else n)
    return _swapped(s, shared) if isinstance(s, Seq) and shared else s


def _swapped(s: Seq, shared: dict[str, Buffer]) -> Stmt:
    parts = list(s.body)
    n = 0
    while n < len(parts):
        found = _copy(parts[n])
        if found is not None:
            to, source, region = found
            if to in shared and source in shared and _may_swap(shared[to], shared[source], region, parts[n + 1 :]):
                names = {shared[to]: shared[source], shared[source]: shared[to]}
                parts[n:] = [replace_buffers(part, names) for part in parts[n + 1 :]]
                continue
        n += 1
    return replace(s, body=tuple(parts)) if len(parts) < len(s.body) else s


def _copy(s: Stmt) -> tuple[str, str, Box] | None:
    """Target, source and region of ``thread t { A[t] = B[t] }``."""
    if not isinstance(s, For) or s.kind != "thread":
        return None
    loops, body = perfect_nest(s, "thread")
    match body:
        case Store(value=Load() as load) if body.indices == load.indices and body.buffer.name != load.buffer.name:
            own = {loop.var: loop for loop in loops if constant_extent(loop)}
            variables = [i for i in body.indices if isinstance(i, Var) and i in own]
            if len(set(variables)) == len(body.indices) == len(loops):
                return body.buffer.name, load.buffer.name, tuple(loop_range(own[v], {}) for v in variables)
    return None


def _may_swap(to: Buffer, source: Buffer, region: Box, rest: list[Stmt]) -> bool:
    """Whether ``rest`` cannot tell what was copied from what is there after a change of names."""
    if to.shape != source.shape or to.dtype != source.dtype or to.strides or source.strides:
        return False
    written: dict[str, list[Box]] = {to.name: [], source.name: []}
    for part in rest:
        touched = list(touches(part, {to.name, source.name}))
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


def touches(s: Stmt, names: set[str]) -> Iterator[Touch | None]:
    """What thread nests in ``s`` touch; None where something is not a plain nest."""
    if isinstance(s, For) and s.kind == "thread" and constant_extent(s) is not None:
        loops, body = perfect_nest(s, "thread")
        if all(constant_extent(loop) is not None for loop in loops):
            ranges = {loop.var.name: loop_range(loop, {}) for loop in loops}
            yield from _accesses(body, names, ranges, always=True)
            return
    if any(isinstance(n, (Load, Store, Atomic, AddressOf)) and n.buffer.name in names for n in walk(s)):
        yield None


def _accesses(s: Stmt, names: set[str], ranges: dict[str, Interval], *, always: bool) -> Iterator[Touch | None]:
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
    plain = isinstance(s, (Seq, Let))
    for inner in inner_statements(s):
        yield from _accesses(inner, names, ranges, always=always and plain and not isinstance(s, If))
