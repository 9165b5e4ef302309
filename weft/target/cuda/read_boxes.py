"""Boxes of arrays in memory that the copy engine fetches to shared memory by itself: Hopper's bulk tensor copies.

A nest of loops around one store is such a copy where rows of shared memory are 128 bytes, and subscripts of the array
count up with those of the shared buffer::

    for i in 0:128 { for j in 0:64 { R[turn, i, j] = m + i < 4000 && k + j < 4096 ? A[m + i, k + j] : 0 } }

What is outside of the array comes as zeros; of a dimension it may fetch every second element, or up to every eighth. A
dimension that several loops go through (``A[k, 64 * b + i]``) is fetched by one copy for each iteration of the outer
ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Const, Expr, Load, Select, Var, idx
from weft.ir.inequality import conjuncts, slack, tight
from weft.ir.interval import Ranges, bounds
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Stmt, Store
from weft.ir.visit import substitute, walk
from weft.passes.analysis.loop_ranges import constant_extent
from weft.target.cuda.swizzle import has_rows

#: What addresses and strides of an array are multiples of, the most dimensions, and the most elements along one.
ALIGN, MOST_DIMENSIONS, MOST_ELEMENTS = 16, 5, 256
#: The largest step from one element to the next.
MOST_STEP = 8
#: Bytes of elements that warp groups multiply, and of those that the engine fetches.
MULTIPLIED, FETCHED = (1, 2), (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Box:
    """A copy from ``load`` to ``store``, once for each iteration of the loops ``apart``.

    ``dimensions`` are those of the array from the one along memory on, ``sizes`` how much of each is fetched, and
    ``steps`` from one element of it to the next.
    """

    apart: tuple[For, ...]
    store: Store
    load: Load
    dimensions: tuple[int, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]


def read_box(nest: Stmt, around: Ranges | None = None) -> Box | None:
    """``nest`` as a copy of the engine; None where it is none, or the array does not lie as the engine needs it.

    ``around`` are ranges of variables there, for tests to be understood. Without them it is known to be a copy: passes
    may have written tests otherwise meanwhile.
    """
    loops: list[For] = []
    while isinstance(nest, For) and nest.lo == idx(0) and constant_extent(nest):
        loops.append(nest)
        nest = nest.body
    if not isinstance(nest, Store) or not loops or nest.buffer.scope != "shared" or not has_rows(nest.buffer):
        return None
    load = _source(nest, around)
    if load is None or why_not_fetched(load.buffer, FETCHED) is not None:
        return None
    taken = _dimensions(loops, nest, load)
    if taken is None:
        return None
    apart, own = loops[: len(loops) - len(taken)], loops[len(loops) - len(taken) :]
    others = [d for d in _long(load.buffer) if d not in taken]
    sizes = (*(constant_extent(x) or 0 for x in reversed(own)), *(1 for _ in others))
    steps = (*(linear_form(simplify(load.indices[d])).terms[x.var] for d, x in zip(taken, own)),)
    start: dict[Var, Expr] = {x.var: idx(0) for x in own}
    return Box(
        tuple(apart),
        substitute(nest, start),
        substitute(load, start),
        (*reversed(taken), *reversed(others)),
        sizes,
        (*reversed(steps), *(1 for _ in others)),
    )


def why_not_fetched(buffer: Buffer, itemsizes: tuple[int, ...] = MULTIPLIED) -> str | None:
    """Why the engine cannot fetch boxes of ``buffer``; None where it can, if its address is a multiple of 16 bytes."""
    if not _may_be_fetched(buffer, itemsizes):
        return f"`{buffer.name}` is no array of 8-bit or 16-bit elements with up to {MOST_DIMENSIONS} dimensions"
    numbers = [e.value for e in (*buffer.shape, *buffer.element_strides()) if isinstance(e, Const)]
    if len(numbers) < 2 * buffer.rank:
        return f"not all sizes of `{buffer.name}` are numbers"
    *outer, last = (int(numbers[buffer.rank + d]) for d in _long(buffer))
    steps = [buffer.dtype.itemsize * n for n in outer]
    if last != 1 or any(n % ALIGN or n <= 0 for n in steps):
        return f"rows of `{buffer.name}` do not begin at multiples of {ALIGN} bytes"
    return None


def _may_be_fetched(buffer: Buffer, itemsizes: tuple[int, ...] = MULTIPLIED) -> bool:
    is_short = 0 < len(_long(buffer)) <= MOST_DIMENSIONS
    return buffer.scope == "global" and buffer.dtype.itemsize in itemsizes and is_short


def _long(buffer: Buffer) -> list[int]:
    """The dimensions of ``buffer``, those of one element left out: nothing is ever further along one."""
    return [d for d, n in enumerate(buffer.shape) if n != idx(1)]


def rows_apart(buffer: Buffer) -> int | None:
    """Elements between the rows of a copy of ``buffer`` that the engine can fetch from; None where it never can."""
    row, each = buffer.shape[-1:], ALIGN // buffer.dtype.itemsize
    if not _may_be_fetched(buffer) or not row:
        return None
    return -int(row[0].value) % each if all(isinstance(n, Const) for n in buffer.shape) else None  # type: ignore[attr-defined]


def _source(s: Store, around: Ranges | None) -> Load | None:
    """What is copied: everything that is there, zeros elsewhere."""
    value, tests = s.value, list[Expr]()
    while isinstance(value, Select) and isinstance(value.otherwise, Const) and value.otherwise.value == 0:
        tests, value = [*tests, *conjuncts(value.condition)], value.then
    if not isinstance(value, Load) or value.dtype != s.buffer.dtype:
        return None
    inside = [gap for e, n in zip(value.indices, value.buffer.shape) for gap in (e, n - 1 - e)]
    return value if around is None or all(_follows(t, inside, around) for t in tests) else None


def _follows(test: Expr, inside: list[Expr], around: Ranges) -> bool:
    """Whether ``test`` holds wherever none of ``inside`` is negative."""
    found = slack(test)
    if found is None:
        return False
    gap = tight(found)
    for known in (tight(linear_form(e)) for e in inside):
        times = {known.terms[e] // n for e, n in gap.terms.items() if e in known.terms and known.terms[e] % n == 0}
        for n in (n for n in times if n > 0):
            least = bounds(Linear().add(gap, n).add(known, -1).expr(dt.index), around).lo
            if least is not None and least > -n:  # n times the gap is more than -n
                return True
    return False


def _dimensions(loops: list[For], s: Store, load: Load) -> list[int] | None:
    """The dimension of the array that each of the innermost loops goes through, the last along memory.

    The others go through these dimensions too, in larger steps; all go through the shared buffer in order.
    """
    places = [(simplify(e), n) for e, n in zip(s.indices[1:], s.buffer.shape[1:]) if n != idx(1)]
    whole = [e == x.var and n == x.hi for (e, n), x in zip(places, loops)]
    if len(places) != len(loops) or not all(whole):
        return None
    terms = [linear_form(simplify(i)).terms for i in load.indices]
    taken: list[int] = []
    for loop in reversed(loops):
        found = [d for d, own in enumerate(terms) if own.get(loop.var)]
        if len(found) != 1:
            return None
        step = terms[found[0]][loop.var]
        if not 1 <= step <= MOST_STEP or (step > 1 and not taken) or found[0] in taken:
            break
        if ((constant_extent(loop) or 0) - 1) * step >= MOST_ELEMENTS:
            return None
        taken.insert(0, found[0])
    free = {x.var for x in loops}
    hidden = any(v in free for own in terms for atom in own if atom not in free for v in walk(atom))
    return taken if taken and taken[-1] == _long(load.buffer)[-1] and not hidden else None


def turn_bytes(ring: Buffer) -> int:
    """Bytes of one turn of a ring."""
    return prod(int(n.value) for n in ring.shape[1:] if isinstance(n, Const)) * ring.dtype.itemsize
