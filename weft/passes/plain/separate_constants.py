"""What depends on constant parameters alone, as a kernel of its own that runs once.

Weights are repacked, scaled or transposed before the first call; each call finds the result::

    kernel f(X, W, out Y) { Wp = pack(W);  Y = X Wp }
    ->  kernel f_prepare(W, out Wp)  and  kernel f(X, out Y, Wp)

Only whole nests at the top of the program move: those that read constants (and what such nests wrote), write
temporaries that nothing else writes, and need no other parameter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Const
from weft.ir.nesting import inner_statements
from weft.ir.stmt import Alloc, Assert, Kernel, Param, Seq, Stmt
from weft.ir.visit import free_vars, loads, mentions, rebuild, stores, walk


@dataclass(frozen=True, slots=True)
class Separated:
    """``main`` takes the parameters that are not constant, then constants it still reads, then ``prepared``.

    ``prepare`` takes the constants it reads and writes ``prepared``; it is None where there is nothing to do once.
    """

    prepare: Kernel | None
    main: Kernel
    kept: tuple[str, ...]
    prepared: tuple[Buffer, ...]


def separate_constants(kernel: Kernel, constants: frozenset[str]) -> Separated:
    """``kernel`` for calls in which the parameters named ``constants`` always have the same values."""
    moved = _find_constant_nests(kernel, constants)
    nests = [s for s in _top_statements(kernel.body) if id(s) in moved]
    inside = {name for s in nests for name in mentions(s).allocated}
    written = {w.buffer.name: w.buffer for s in nests for w in stores(s) if w.buffer.name not in inside}
    remaining = _without(kernel.body, moved)
    read = {x.buffer.name for x in (*loads(remaining), *stores(remaining))}
    prepared = tuple(b for name, b in written.items() if name in read)
    body = _drop_allocs(remaining, {b.name for b in written.values()})
    used = read | set(free_vars(body))
    kept = tuple(p for p in kernel.params if p.name in constants and p.name in used)
    others = tuple(p for p in kernel.params if p.name not in constants)
    main = replace(kernel, params=(*others, *kept, *prepared), body=body)
    prepare = _prepare_kernel(kernel, nests, prepared, written, constants) if prepared else None
    return Separated(prepare, main, tuple(p.name for p in kept), prepared)


def _prepare_kernel(
    kernel: Kernel,
    nests: list[Stmt],
    prepared: tuple[Buffer, ...],
    written: dict[str, Buffer],
    constants: frozenset[str],
) -> Kernel:
    params: tuple[Param, ...] = tuple(p for p in kernel.params if p.name in constants)
    body: Stmt = Seq(tuple(nests))
    for name, buffer in written.items():
        if buffer not in prepared:
            body = Alloc(written[name], body)
    names = tuple(b.name for b in prepared)
    return Kernel(f"{kernel.name}_prepare", (*params, *prepared), names, body, span=kernel.span)


def _find_constant_nests(kernel: Kernel, constants: frozenset[str]) -> set[int]:
    """The statements at the top, by identity, that depend on ``constants`` alone."""
    top = list(_top_statements(kernel.body))
    allocated = {a.buffer.name for a in _top_allocs(kernel.body) if _has_fixed_size(a.buffer)}
    writers: dict[str, int] = {}
    for s in top:
        for name in {w.buffer.name for w in stores(s)}:
            writers[name] = writers.get(name, 0) + 1
    known, moved = set(constants), set()
    for s in top:
        inside = mentions(s).allocated
        wrote = {w.buffer.name for w in stores(s)} - inside
        read = {x.buffer.name for x in loads(s)} - inside - wrote
        needed = {name for name in free_vars(s) if name not in constants}
        if not wrote or needed or any(isinstance(n, Assert) for n in walk(s)):
            continue
        if read <= known and wrote <= allocated and all(writers[name] == 1 for name in wrote):
            moved.add(id(s))
            known |= wrote
    return moved


def _has_fixed_size(buffer: Buffer) -> bool:
    return all(isinstance(e, Const) for e in (*buffer.shape, *(buffer.strides or ())))


def _top_statements(s: Stmt) -> Iterator[Stmt]:
    """The statements that run one after another, whatever is allocated around them."""
    if isinstance(s, (Seq, Alloc)):
        for inner in inner_statements(s):
            yield from _top_statements(inner)
    else:
        yield s


def _top_allocs(s: Stmt) -> Iterator[Alloc]:
    if isinstance(s, Alloc):
        yield s
    if isinstance(s, (Seq, Alloc)):
        for inner in inner_statements(s):
            yield from _top_allocs(inner)


def _without(s: Stmt, moved: set[int]) -> Stmt:
    if isinstance(s, Seq):
        return Seq(tuple(_without(inner, moved) for inner in s.body if id(inner) not in moved), span=s.span)
    if isinstance(s, Alloc):
        return replace(s, body=Seq(()) if id(s.body) in moved else _without(s.body, moved))
    return s


def _drop_allocs(s: Stmt, names: set[str]) -> Stmt:
    if isinstance(s, Alloc):
        inner = _drop_allocs(s.body, names)
        return inner if s.buffer.name in names else replace(s, body=inner)
    if isinstance(s, Seq):
        return rebuild(s, lambda inner: _drop_allocs(inner, names))
    return s
