"""Rows of shared arrays moved apart where threads of a warp would meet in bank conflicts.

Shared memory has 32 banks of four bytes. Threads that touch different words of one bank at a time take turns, as in
the column ``T[t, 0]`` of ``T[32, 32]``: all its words are in bank 0. With rows of 33 each word has a bank of its own.
The accesses of a warp are counted out, with rows as they are and a little longer; they stay as they are unless that
is better.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Const, Expr, Load, Unary, Var, idx
from weft.ir.hardware import ACROSS_THREADS
from weft.ir.intrinsics import HINTS
from weft.ir.nesting import statements_in
from weft.ir.stmt import Alloc, Atomic, Evaluate, For, Stmt, Store, Tensorized
from weft.ir.visit import children, replace_buffers
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.thread_shapes import WARP, suffix_products

BANKS, WORD = 32, 4
#: Bytes that the threads of a warp get at a time, and the most one of them asks for.
_AT_ONCE, _WIDEST = BANKS * WORD, 16
#: How many times its narrowest step a row may become longer.
_MOST_STEPS = 4
#: Iterations of one loop count no more than this.
_MOST_TIMES = 64

_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "<<": lambda a, b: a << b if 0 <= b < 64 else 0,
    ">>": lambda a, b: a >> min(max(b, 0), 63),
    "^": int.__xor__,
    "&": int.__and__,
}


@dataclass(frozen=True, slots=True)
class Touch:
    """An access to a shared array: ``bytes`` side by side, about ``times`` times."""

    indices: tuple[Expr, ...]
    bytes: int
    times: int


def pad_shared(launch: Stmt, threads: Sequence[For], spare_bytes: int) -> Stmt:
    """``launch`` with longer rows of shared arrays where that is quicker and ``spare_bytes`` suffice."""
    extents = [constant_extent(t) or 1 for t in threads]
    if math.prod(extents) == 1:
        return launch
    lanes = _lanes(threads, extents)
    touched = _touches(launch)
    longer: dict[Buffer, Buffer] = {}
    for alloc in (n for n in statements_in(launch, Alloc) if n.buffer.scope == "shared"):
        old = alloc.buffer
        touches = touched.get(old.name, [])
        if None in touches or old.rank < 2 or old.strides is not None:
            continue
        new = _padded(old, [t for t in touches if t is not None], lanes)
        cost = (new.byte_count() or 0) - (old.byte_count() or 0)
        if new is not old and cost <= spare_bytes:
            longer[old] = new
            spare_bytes -= cost
    return replace_buffers(launch, longer) if longer else launch


def _lanes(threads: Sequence[For], extents: Sequence[int]) -> list[dict[str, int]]:
    """The thread variables of the threads of the first warp."""
    count = min(WARP, math.prod(extents))
    places = list(zip(threads, suffix_products(extents), extents))
    return [{t.var.name: n // stride % extent for t, stride, extent in places} for n in range(count)]


def _touches(launch: Stmt) -> dict[str, list[Touch | None]]:
    """The accesses to each buffer; None for one that is made in another way."""
    touched: dict[str, list[Touch | None]] = defaultdict(list)

    def visit(n: object, loops: tuple[For, ...], fixed: bool) -> None:
        if isinstance(n, (Load, Store, Atomic)):
            touch = None if fixed else _touch(n.buffer, n.indices, loops)
            touched[n.buffer.name].append(touch)
        elif isinstance(n, AddressOf):
            touched[n.buffer.name].append(None)
        if isinstance(n, Evaluate) and n.call.name in HINTS:  # those name a buffer, wherever its rows are
            return
        if isinstance(n, For):
            loops = (*loops, n)
        if isinstance(n, Tensorized):
            fixed = n.intrinsic not in ACROSS_THREADS
        for inner in children(n):  # type: ignore[arg-type]
            visit(inner, loops, fixed)

    visit(launch, (), False)
    return touched


def _touch(buffer: Buffer, indices: tuple[Expr, ...], loops: tuple[For, ...]) -> Touch:
    size = buffer.dtype.itemsize
    width = size
    times = 1
    for loop in loops:
        extent = constant_extent(loop)
        if loop.kind == "vector" and indices and extent is not None:
            if linear_form(indices[-1]).terms.get(loop.var) == 1:
                width = min(_WIDEST, size * extent)
        elif loop.kind in ("serial", "unroll"):
            times *= min(extent or _MOST_TIMES, _MOST_TIMES)
    return Touch(indices, width, times)


def _padded(buffer: Buffer, touches: Sequence[Touch], lanes: Sequence[Mapping[str, int]]) -> Buffer:
    """``buffer``, or one with longer rows that is touched more quickly."""
    size = buffer.dtype.itemsize
    places = [(t, [_place(t.indices, lane) for lane in lanes]) for t in touches]
    if any(None in where for _, where in places) or not all(isinstance(n, Const) for n in buffer.shape):
        return buffer
    step = max([WORD, *(t.bytes for t in touches)]) // size or 1
    best, least = buffer, _turns(buffer, places)
    for count in range(1, _MOST_STEPS + 1):
        row = int(buffer.shape[-1].value) + count * step  # type: ignore[attr-defined]
        tried = replace(buffer, shape=(*buffer.shape[:-1], idx(row)))
        turns = _turns(tried, places)
        if turns < least:
            best, least = tried, turns
    return best


def _turns(buffer: Buffer, places: Sequence[tuple[Touch, list[tuple[int, ...] | None]]]) -> int:
    """How many times the banks are asked, over all accesses."""
    steps = suffix_products([int(n.value) for n in buffer.shape])  # type: ignore[attr-defined]
    size = buffer.dtype.itemsize
    total = 0
    for touch, where in places:
        starts = [sum(i * s for i, s in zip(p, steps)) * size for p in where if p is not None]
        together = max(1, _AT_ONCE // max(touch.bytes, WORD))
        for first in range(0, len(starts), together):
            total += touch.times * _conflict(starts[first : first + together], touch.bytes)
    return total


def _conflict(starts: Sequence[int], width: int) -> int:
    """The most words that are wanted of one bank."""
    words: dict[int, set[int]] = defaultdict(set)
    for start in starts:
        for word in range(start // WORD, (start + width - 1) // WORD + 1):
            words[word % BANKS].add(word)
    return max(map(len, words.values()), default=0)


def _place(indices: Sequence[Expr], lane: Mapping[str, int]) -> tuple[int, ...] | None:
    """The subscripts of one lane; other variables count as 0, which moves all lanes alike."""
    values = [_value(e, lane) for e in indices]
    return None if None in values else tuple(n for n in values if n is not None)


def _value(e: Expr, lane: Mapping[str, int]) -> int | None:
    if isinstance(e, Const):
        return int(e.value)
    if isinstance(e, Var):
        return lane.get(e.name, 0)
    if isinstance(e, Unary) and e.op == "-":
        inner = _value(e.operand, lane)
        return None if inner is None else -inner
    if isinstance(e, Binary) and e.op in _ARITHMETIC:
        left, right = _value(e.left, lane), _value(e.right, lane)
        return None if left is None or right is None else _ARITHMETIC[e.op](left, right)
    return None
