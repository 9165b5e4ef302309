"""Rows that are gone through several times: while one is computed with, the next one is fetched.

::

    for m { for n { Top = max(Top, X[m, n]) } ; for n { Total += exp(X[m, n] - Top) } ; for n { O[m, n] = ... } }

The first pass over a row waits for memory, the others find it in a cache and leave the memory idle. So the one of these
that has most to compute, and stores nothing that goes to memory, asks for the same elements of the next row:
``prefetch(X[m + 1, n])``, once for each line. Processors fetch ahead by themselves only what a pass goes on with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from weft.ir.affine import affine_form
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Call, Const, Expr, Load, Var, idx
from weft.ir.nesting import inner_statements, sequence
from weft.ir.simplify import simplify
from weft.ir.solve import Form, variables
from weft.ir.stmt import For, Kernel, Stmt, Store, hint
from weft.ir.visit import count_nodes, map_statements, mentions, substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent

#: Bytes that come together.
LINE = 64
#: Rows of less are fetched ahead by the processor itself, more or less.
SHORTEST = 512
#: Nodes of an expression that a call counts for.
CALL = 16


@dataclass(frozen=True, slots=True)
class _Pass:
    """An innermost loop over vectors in a loop over rows, all loops from there on, and what it reads of a buffer."""

    loops: tuple[For, ...]
    load: Load

    @property
    def cost(self) -> int:
        return count_nodes(self.loops[-1]) + CALL * sum(isinstance(n, Call) for n in walk(self.loops[-1]))


def prefetch_rows(kernel: Kernel, *, cache_bytes: int) -> Kernel:
    """``kernel`` with the next row asked for in passes over rows of what is too large for ``cache_bytes``."""
    large = {b.name: b for b in kernel.buffers if (_size(b) or 0) > cache_bytes and b.name not in kernel.outputs}
    return replace(kernel, body=_visit(kernel.body, large, cache_bytes // 4)) if large else kernel


def _size(buffer: Buffer) -> int | None:
    sizes = [int(e.value) if isinstance(e, Const) else None for e in buffer.shape]
    return None if None in sizes else prod(n or 0 for n in sizes) * buffer.dtype.itemsize


def _visit(s: Stmt, large: Mapping[str, Buffer], longest: int) -> Stmt:
    if not isinstance(s, For) or s.kind not in ("serial", "parallel"):
        return map_statements(s, lambda n: _visit(n, large, longest))
    read = Counter(n.buffer.name for n in walk(s) if isinstance(n, Load))
    large = {name: buffer for name, buffer in large.items() if read[name] > 1}
    if not large:  # what is read in one place alone is no second pass over it
        return s
    for buffer in large.values():
        passes = [p for p in _passes(s, (s,), buffer) if _goes_through_rows(p, longest)]
        own = mentions(s.body).allocated
        inside = [p for p in passes[1:] if all(n.buffer.name in own for n in walk(p.loops[-1]) if isinstance(n, Store))]
        if inside:
            s = _asking(s, max(inside, key=lambda p: p.cost))
    return map_statements(s, lambda n: _visit(n, large, longest))


def _passes(s: Stmt, loops: tuple[For, ...], buffer: Buffer) -> Iterator[_Pass]:
    """The loops in ``s`` with nothing but vectors inside that read ``buffer``, each once."""
    for inner in inner_statements(s):
        if not isinstance(inner, For):
            yield from _passes(inner, loops, buffer)
        elif inner.kind == "serial":
            deeper = (*loops, inner)
            if any(isinstance(n, For) and n.kind != "vector" for n in walk(inner.body)):
                yield from _passes(inner, deeper, buffer)
                continue
            found = (n for n in walk(inner.body) if isinstance(n, Load) and n.buffer.name == buffer.name)
            yield from (_Pass(deeper, load) for load in list(found)[:1])


def _goes_through_rows(p: _Pass, longest: int) -> bool:
    """Whether each iteration of the outermost loop reads another row, of a length worth asking for, in order."""
    form = _address(p.load)
    row, *inside = p.loops
    if form is None:
        return False
    steps = {name: form[name] for name in variables(form) if name != row.var.name}
    lanes = {n.var.name: n for n in walk(p.loops[-1].body) if isinstance(n, For)}
    extents = {name: constant_extent(loop) for name, loop in (*((x.var.name, x) for x in inside), *lanes.items())}
    if not steps.keys() <= extents.keys() or any(extents[name] is None for name in steps):
        return False
    length = 1 + sum(abs(step) * ((extents[name] or 1) - 1) for name, step in steps.items())
    size, itemsize = form.get(row.var.name, 0), p.load.buffer.dtype.itemsize
    is_dense = any(steps.get(name) == 1 for name in lanes) and steps.get(p.loops[-1].var.name, 0) > 1
    return is_dense and length <= size and SHORTEST <= length * itemsize <= longest


def _address(load: Load) -> Form | None:
    """Which element ``load`` reads, counted in memory."""
    total: Expr = idx(0)
    for index, step in zip(load.indices, load.buffer.element_strides()):
        if index.dtype.lanes > 1:
            return None
        total = total + index * step
    return affine_form(simplify(total))


def _asking(s: For, p: _Pass) -> For:
    """``s`` with hints for its next iteration in the innermost loop of ``p``."""
    host, form = p.loops[-1], _address(p.load)
    assert form is not None
    lanes: dict[Var, Expr] = {n.var: idx(0) for n in walk(host.body) if isinstance(n, For)}
    first = [substitute(i, {**lanes, s.var: s.var + idx(1)}) for i in p.load.indices]
    per_line = max(1, LINE // p.load.buffer.dtype.itemsize)
    lines = range(0, form[host.var.name], per_line)
    asked = [
        hint("prefetch", AddressOf(p.load.buffer, (*first[:-1], simplify(first[-1] + idx(start))))) for start in lines
    ]

    def visit(n: Stmt) -> Stmt:
        return replace(host, body=sequence([*asked, host.body])) if n is host else map_statements(n, visit)

    return replace(s, body=visit(s.body))
