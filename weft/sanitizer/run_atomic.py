"""Atomic updates by many lanes: as if one came after another."""

from __future__ import annotations

import numpy as np

from weft.ir.stmt import Atomic
from weft.sanitizer.lanes import Array, Lanes
from weft.sanitizer.memory import Memory
from weft.sanitizer.run import Run
from weft.sanitizer.run_expr import evaluate
from weft.tensor.array_arithmetic import BINARY, computed


def run_atomic(s: Atomic, lanes: Lanes, run: Run) -> Array:
    """Updates memory; the value each lane found there."""
    memory, site = run.memories[s.buffer.name], run.site(s, s.buffer, "atomic", s.span)
    value = evaluate(s.value, lanes, run)
    expected = None if s.expected is None else evaluate(s.expected, lanes, run)
    part, flat = run.locate(memory, s.indices, lanes, site)
    old = np.zeros(lanes.count, memory.data.dtype)
    if part is None:
        return old
    run.note(memory, part, flat, site)
    if s.op != "exchange" or s.result is not None:
        run.check_written(memory, part, flat, site)
    elements = np.broadcast_to(flat, (part.count,))
    values, wanted = (_spread(v, lanes, part) for v in (value, expected))
    assert values is not None
    place = part.place_in(lanes)
    old[... if place is None else place] = _update(s.op, memory, elements, values, wanted)
    if memory.written is not None:
        memory.written[elements] = True
    return old


def _spread(value: Array | None, lanes: Lanes, subset: Lanes) -> Array | None:
    return None if value is None else np.broadcast_to(subset.bring(value, lanes), (subset.count,))


def _update(op: str, memory: Memory, elements: Array, values: Array, expected: Array | None) -> Array:
    """One lane after another for each element: in rounds, each of which takes one lane of every element."""
    order = np.argsort(elements, kind="stable")
    sorted_elements = elements[order]
    first = np.r_[True, sorted_elements[1:] != sorted_elements[:-1]]
    starts = np.nonzero(first)[0]
    if op == "+" and memory.data.dtype.kind in "iu":
        return _sum_up(memory, order, sorted_elements, values, starts)
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    by_rank = order[np.argsort(rank, kind="stable")]
    old = np.zeros(len(elements), memory.data.dtype)
    ends = np.cumsum(np.bincount(rank))
    for begin, end in zip(np.r_[0, ends[:-1]], ends):
        turn = by_rank[begin:end]
        at = elements[turn]
        old[turn] = memory.data[at]
        memory.data[at] = _combine(op, memory, old[turn], values[turn], None if expected is None else expected[turn])
    return old


def _combine(op: str, memory: Memory, old: Array, new: Array, expected: Array | None) -> Array:
    if op == "exchange":
        return new
    if expected is not None:
        return np.asarray(np.where(old == expected, new, old))
    return computed(memory.buffer.dtype, BINARY[op], old, new)


def _sum_up(memory: Memory, order: Array, elements: Array, values: Array, starts: Array) -> Array:
    """Integer sums: what a lane finds is what those before it have added."""
    sums = np.cumsum(values[order], dtype=memory.data.dtype)
    before = np.r_[memory.data.dtype.type(0), sums[:-1]]
    lengths = np.diff(np.r_[starts, len(order)])
    base = np.repeat(before[starts], lengths)
    old = np.zeros(len(order), memory.data.dtype)
    old[order] = memory.data[elements] + (before - base)
    ends = starts + lengths - 1
    memory.data[elements[starts]] += sums[ends] - before[starts]
    return old
