"""The box of a buffer that statements touch, in terms of the variables around them.

>>> region_read(loop.body, A, inside=[ii, k])            # A[io*14 + ii, k] below ii in 0:14, k in 0:32
Box(starts=(io*14, 0), extents=(14, 32))

This is region inference, in Halide bounds inference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, BinaryOp, Const, Expr, Load, Select, Var, idx
from weft.ir.interval import Interval, bounds, half_open
from weft.ir.nesting import find_path
from weft.ir.simplify import simplify
from weft.ir.stmt import For, Kernel, Stmt, While
from weft.ir.visit import free_vars, walk
from weft.poly.leaves import Access, Leaf, leaves

Span = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Box:
    """Elements from ``starts``, ``extents`` a side."""

    starts: tuple[Expr, ...]
    extents: tuple[Expr, ...]


def region_read(program: Kernel | Stmt, buffer: str, below: Stmt | None = None, fixed: int | None = None) -> Box | None:
    """The bounding box of what is read of ``buffer`` in ``below``, in terms of the loops around ``below``.

    ``fixed`` loops (counted from the outermost around each access) stay as variables; by default those around
    ``below``. None where nothing is read, or a subscript is not bounded by loops alone (a gather).
    """
    return region_of(program, lambda a: a.reads and a.buffer.name == buffer, below, fixed)


def region_written(
    program: Kernel | Stmt, buffer: str, below: Stmt | None = None, fixed: int | None = None
) -> Box | None:
    """As `region_read`, of what is written."""
    return region_of(program, lambda a: a.writes and a.buffer.name == buffer, below, fixed)


def region_of(
    program: Kernel | Stmt, wanted: Callable[[Access], bool], below: Stmt | None = None, fixed: int | None = None
) -> Box | None:
    """The bounding box of the accesses that are ``wanted``."""
    statements = leaves(program, below)
    outer = fixed if fixed is not None else _common_depth(program, below)
    box: list[Span] | None = None
    ranges: dict[str, Interval] = {}
    for leaf in statements:
        for access in leaf.accesses:
            if not wanted(access):
                continue
            ranges.update(loop_ranges(leaf))
            spans = _spans(leaf, access, outer, ranges)
            if spans is None:
                return None
            box = spans if box is None else [_union(x, y, ranges) for x, y in zip(box, spans)]
    if box is None:
        return None
    extents = tuple(simplify(hi - lo + idx(1), ranges) for lo, hi in box)
    return Box(tuple(lo for lo, _ in box), extents)


def _common_depth(program: Kernel | Stmt, below: Stmt | None) -> int:
    """How many loops are around ``below``."""
    body = program.body if isinstance(program, Kernel) else program
    path = [] if below is None else find_path(body, below) or []
    return sum(isinstance(s, (For, While)) for s in path[:-1])


def loop_ranges(leaf: Leaf) -> dict[str, Interval]:
    """What each loop variable around ``leaf`` can be."""
    ranges: dict[str, Interval] = {}
    for loop in leaf.loops:
        lo = bounds(leaf.resolve(loop.lo), ranges)
        hi = Interval(None, None) if loop.hi is None else bounds(leaf.resolve(loop.hi), ranges)
        ranges[loop.name] = half_open(lo, hi)
    return ranges


def _spans(leaf: Leaf, access: Access, outer: int, ranges: Mapping[str, Interval]) -> list[Span] | None:
    """Least and greatest subscript of each dimension."""
    limits: dict[str, Span] = {}
    for loop in leaf.loops[outer:]:
        if loop.hi is not None:
            limits[loop.name] = (leaf.resolve(loop.lo), leaf.resolve(loop.hi) - idx(1))
        else:
            return None
    for axis in access.axes:
        limits[axis.var.name] = (leaf.resolve(axis.lo), leaf.resolve(axis.hi) - idx(1))
    spans = []
    for e in access.indices:
        span = extremes(simplify(leaf.resolve(e), ranges), limits)
        hidden = {*leaf.lets, *limits}
        if span is None or any(hidden & set(free_vars(end)) for end in span):
            return None
        spans.append((simplify(span[0], ranges), simplify(span[1], ranges)))
    return spans


def extremes(e: Expr, limits: Mapping[str, Span]) -> Span | None:
    """The least and greatest value of ``e`` as its variables run between their limits (outer ones first)."""
    if e.dtype != dt.index:
        return None
    low, high = _extreme(e, limits, 0), _extreme(e, limits, 1)
    return None if low is None or high is None else (low, high)


def _extreme(e: Expr, limits: Mapping[str, Span], side: int) -> Expr | None:
    """Inner variables go to their ends first, so that what they share with outer ones cancels."""
    for name in reversed(list(limits)):
        linear = linear_form(e)
        var = Var(name)
        others = (a for a in linear.terms if a != var)
        if var not in linear.terms or any(name in free_vars(a) for a in others):
            continue
        factor = linear.terms.pop(var)
        end = limits[name][side if factor > 0 else 1 - side]
        e = linear.add(linear_form(end), factor).expr(dt.index)
    if not any(name in limits for name in free_vars(e)):
        return None if any(isinstance(n, Load) for n in walk(e)) else e
    linear = linear_form(e)
    total: Expr = idx(linear.constant)
    for atom, factor in linear.terms.items():
        span = _atom_extremes(atom, limits)
        if span is None:
            return None
        total = total + span[side if factor > 0 else 1 - side] * idx(factor)
    return _extreme(total, limits, side) if any(name in limits for name in free_vars(total)) else total


def _atom_extremes(atom: Expr, limits: Mapping[str, Span]) -> Span | None:
    if isinstance(atom, Var):
        return limits.get(atom.name, (atom, atom))
    if isinstance(atom, Binary) and atom.op in ("//", "%") and isinstance(atom.right, Const) and atom.right.value > 0:
        inner = extremes(atom.left, limits)
        if inner is None:
            return None
        return (inner[0] // atom.right, inner[1] // atom.right) if atom.op == "//" else _remainders(inner, atom.right)
    if isinstance(atom, Binary) and atom.op in ("min", "max"):
        left, right = extremes(atom.left, limits), extremes(atom.right, limits)
        if left is None or right is None:
            return None
        return Binary(atom.op, left[0], right[0]), Binary(atom.op, left[1], right[1])
    if isinstance(atom, Select):
        then, otherwise = extremes(atom.then, limits), extremes(atom.otherwise, limits)
        if then is None or otherwise is None:
            return None
        return Binary("min", then[0], otherwise[0]), Binary("max", then[1], otherwise[1])
    return extremes(atom, {}) if not any(n in limits for n in free_vars(atom)) else None


def _remainders(inner: Span, by: Const) -> Span:
    """All remainders, unless the whole range surely lies between two multiples."""
    low, high = simplify(inner[0] // by), simplify(inner[1] // by)
    if low == high:
        return inner[0] - low * by, inner[1] - low * by
    return idx(0), idx(int(by.value) - 1)


def _union(a: Span, b: Span, ranges: Mapping[str, Interval]) -> Span:
    return _pick("min", a[0], b[0], ranges), _pick("max", a[1], b[1], ranges)


def _pick(op: BinaryOp, a: Expr, b: Expr, ranges: Mapping[str, Interval]) -> Expr:
    """The smaller (or larger) of two ends: one of them where that is known."""
    gap = bounds(simplify(b - a, ranges), ranges)
    if gap.lo is not None and gap.lo >= 0:
        return a if op == "min" else b
    if gap.hi is not None and gap.hi <= 0:
        return b if op == "min" else a
    return simplify(Binary(op, a, b), ranges)


def covers(outer: Box, inner: Box, ranges: Mapping[str, Interval] | None = None) -> bool:
    """Whether ``outer`` surely contains ``inner``; ``ranges`` are those of the variables in both."""
    inner_ranges = ranges or {}
    for o, n, i, m in zip(outer.starts, outer.extents, inner.starts, inner.extents):
        before = bounds(simplify(i - o, inner_ranges), inner_ranges)
        behind = bounds(simplify((o + n) - (i + m), inner_ranges), inner_ranges)
        if before.lo is None or before.lo < 0 or behind.lo is None or behind.lo < 0:
            return False
    return True


def writes_between(program: Kernel | Stmt, buffer: str, below: Stmt | None = None) -> Sequence[Leaf]:
    """The statements in ``below`` that write ``buffer``."""
    return [f for f in leaves(program, below) if any(a.writes and a.buffer.name == buffer for a in f.accesses)]
