"""What statements touch of a buffer, dimension by dimension, as bounds in terms of the loops around them.

>>> infer_spans(kernel, T, below=y_loop, fixed=1)         # T[y-1, x] and T[y+1, x] below `for x in 0:64`
((y - 1, y + 1), (0, 63))

This is region inference, in Halide bounds inference. A subscript that loops do not bound (a gather) spans its whole
dimension, so there is an answer for every access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, Const, Expr, Load, Select, Var, idx
from weft.ir.interval import Interval, Ranges, range_between
from weft.ir.simplify import simplify
from weft.ir.simplify_expr import ExprSimplifier
from weft.ir.stmt import For, Kernel, Stmt
from weft.ir.visit import free_vars, walk
from weft.poly.leaves import Access, Leaf, leaves_touching

Span = tuple[Expr, Expr]
Spans = tuple[Span, ...]


def infer_spans(
    program: Kernel | Stmt,
    buffer: Buffer,
    below: Stmt | None,
    fixed: int,
    wanted: Callable[[Leaf, Access], bool] = lambda leaf, access: True,
) -> Spans | None:
    """Least and greatest subscript per dimension of the accesses in ``below``; None where there are none.

    The outermost ``fixed`` loops around an access stay as variables. Ends may lie outside the buffer where tests
    keep the access from happening there.
    """
    united: list[Span] | None = None
    around = Limits(lambda leaf: {*leaf.loop_names[fixed:], *leaf.lets}, {})
    for leaf in leaves_touching(program, below, buffer.name):
        touching = [a for a in leaf.accesses if a.buffer.name == buffer.name and wanted(leaf, a)]
        if touching:
            around.ranges.update(leaf.ranges)
        for access in touching:
            here = [around.span(leaf, access, d) or _whole(size, around.ranges) for d, size in enumerate(buffer.shape)]
            united = here if united is None else [_union(a, b, around.ranges) for a, b in zip(united, here)]
    return None if united is None else tuple(united)


def _whole(size: Expr, ranges: Ranges) -> Span:
    return idx(0), simplify(size - idx(1), ranges)


class Limits:
    """Between which subscripts accesses lie, as what is ``moving`` around them runs; those of one nest share most of
    the answer."""

    def __init__(self, moving: Callable[[Leaf], Set[str]], ranges: Ranges) -> None:
        self.moving = moving
        self.ranges = dict(ranges)
        self.of_loops: dict[int, tuple[Set[str], dict[str, Span], dict[str, Interval]]] = {}
        self.spans: dict[tuple[int, tuple[Axis, ...], Expr], Span | None] = {}

    def span(self, leaf: Leaf, access: Access, d: int) -> Span | None:
        """The least and the greatest subscript in dimension ``d``; None where what moves does not bound it."""
        index = leaf.resolve(access.indices[d])
        key = (id(leaf.loops), access.axes, index)
        if key not in self.spans:
            self.spans[key] = self._infer(leaf, access, index)
        return self.spans[key]

    def _infer(self, leaf: Leaf, access: Access, index: Expr) -> Span | None:
        moving, limits, ranges = self._around(leaf)
        if access.axes:
            limits, ranges = dict(limits), dict(ranges)
            for axis in access.axes:
                _add_limits(leaf, (axis.var.name, axis.lo, axis.hi), limits, ranges)
        span = extremes(simplify(index, ranges), limits)
        if span is None or any(_depends(end, moving | limits.keys()) for end in span):
            return None
        return simplify(span[0], ranges), simplify(span[1], ranges)

    def _around(self, leaf: Leaf) -> tuple[Set[str], dict[str, Span], dict[str, Interval]]:
        """What moves, and ends and range of each loop that does."""
        kept = self.of_loops.get(id(leaf.loops))
        if kept is None:
            moving, limits, ranges = self.moving(leaf), dict[str, Span](), dict(self.ranges)
            for loop in leaf.loops:
                if loop.hi is not None and loop.name in moving:
                    _add_limits(leaf, (loop.name, loop.lo, loop.hi), limits, ranges)
            kept = self.of_loops[id(leaf.loops)] = moving, limits, ranges
        return kept


def _depends(e: Expr, moving: Set[str]) -> bool:
    return any((isinstance(n, Var) and n.name in moving) or isinstance(n, Load) for n in walk(e))


def _add_limits(leaf: Leaf, loop: tuple[str, Expr, Expr], limits: dict[str, Span], ranges: dict[str, Interval]) -> None:
    name, lo, hi = loop[0], leaf.resolve(loop[1]), leaf.resolve(loop[2])
    limits[name] = lo, simplify(hi - idx(1), ranges)
    ranges[name] = range_between(lo, hi, ranges)


def extremes(e: Expr, limits: Mapping[str, Span]) -> Span | None:
    """The least and greatest value of ``e`` as its variables run between their limits (outer ones first)."""
    if e.dtype != dt.index:
        return None
    low, high = _extreme(e, limits, 0), _extreme(e, limits, 1)
    return None if low is None or high is None else (low, high)


def _extreme(e: Expr, limits: Mapping[str, Span], side: int) -> Expr | None:
    """Inner variables go to their ends first, so that what they share with outer ones cancels."""
    linear, changed = linear_form(e), False
    for name in reversed(list(limits)):
        var = Var(name)
        factor = linear.terms.get(var)
        if factor is None or any(type(a) is not Var and name in free_vars(a) for a in linear.terms):
            continue
        del linear.terms[var]
        linear.add(linear_form(limits[name][side if factor > 0 else 1 - side]), factor)
        changed = True
    e = linear.expr(dt.index) if changed else e
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
    return least(a[0], b[0], ranges), greatest(a[1], b[1], ranges)


def least(a: Expr, b: Expr, ranges: Mapping[str, Interval]) -> Expr:
    """The smaller of the two: one of them where that is known."""
    if is_at_most(a, b, ranges):
        return a
    return b if is_at_most(b, a, ranges) else simplify(Binary("min", a, b), ranges)


def greatest(a: Expr, b: Expr, ranges: Mapping[str, Interval]) -> Expr:
    """The larger of the two: one of them where that is known."""
    if is_at_most(a, b, ranges):
        return b
    return a if is_at_most(b, a, ranges) else simplify(Binary("max", a, b), ranges)


def is_at_most(a: Expr, b: Expr, ranges: Mapping[str, Interval]) -> bool:
    """Whether ``a <= b`` surely holds."""
    gap = linear_form(a).add(linear_form(b), -1)
    most = gap.bounds(ranges).hi
    if most is not None and most <= 0:
        return True
    if all(isinstance(atom, Var) for atom in gap.terms):
        return False
    return _is_at_most(simplify(a, ranges), simplify(b, ranges), ranges, 3)


def _is_at_most(a: Expr, b: Expr, ranges: Mapping[str, Interval], depth: int) -> bool:
    most = _upper(Binary("-", a, b), ranges, 6)
    if most is not None and most <= 0:
        return True
    if depth == 0:
        return False
    for e, is_left, op in ((b, False, "min"), (a, True, "max"), (b, False, "max"), (a, True, "min")):
        sides = _choices(e, op)
        if sides is None:
            continue
        # Below a min is below both sides; below a max, below one of them; and the other way round on the left.
        answers = (_is_at_most(*((s, b) if is_left else (a, s)), ranges, depth - 1) for s in sides)
        if all(answers) if is_left == (op == "max") else any(answers):
            return True
    return False


def _choices(e: Expr, op: str) -> list[Expr] | None:
    """The two sides of ``min(..) + rest`` (or max), ``rest`` added to each."""
    linear = linear_form(e)
    for atom, factor in linear.terms.items():
        if factor == 1 and isinstance(atom, Binary) and atom.op == op:
            rest = Linear({a: c for a, c in linear.terms.items() if a is not atom}, linear.constant)
            return [Linear().add(rest).add(linear_form(side)).expr(e.dtype) for side in (atom.left, atom.right)]
    return None


def upper_bound(e: Expr, ranges: Mapping[str, Interval]) -> int | None:
    """A number that ``e`` never exceeds; minima, maxima and selects in sums are taken apart, so that terms cancel."""
    return _upper(simplify(e, ranges), ranges, 6)


def _upper(e: Expr, ranges: Mapping[str, Interval], depth: int) -> int | None:
    linear = linear_form(e)
    interval = linear.bounds(ranges).hi
    choices = () if depth == 0 else ((a, _as_choice(a, ranges)) for a in linear.terms if not isinstance(a, Var))
    atom, inner = next(((a, choice) for a, choice in choices if choice is not None), (None, None))
    if atom is None or inner is None:
        return interval
    factor = linear.terms.pop(atom)
    parts = []
    for end, known in _sides(inner, ranges):
        total = Linear().add(linear).add(linear_form(end), factor).expr(e.dtype)
        # What a test says may decide tests further inside.
        parts.append(_upper(total if known is ranges else simplify(total, known), known, depth - 1))
    # A positive min is below either side, a negative max as well; elsewhere the worse side decides.
    either = isinstance(inner, Binary) and (inner.op == "min") == (factor > 0)
    found_parts = [p for p in parts if p is not None]
    pick = min if either else max
    bound = pick(found_parts) if found_parts and (either or len(found_parts) == len(parts)) else None
    return bound if interval is None else interval if bound is None else min(interval, bound)


def _as_choice(e: Expr, ranges: Mapping[str, Interval]) -> Expr | None:
    """``e`` as a minimum, a maximum or a select; ``(min(a, b) + c) // 8`` is the smaller of two quotients."""
    if isinstance(e, Select) or (isinstance(e, Binary) and e.op in ("min", "max")):
        return e
    if not isinstance(e, Binary) or e.op != "//" or not isinstance(e.right, Const) or int(e.right.value) <= 0:
        return None
    linear = linear_form(e.left)
    inner = next((a for a in linear.terms if isinstance(a, Binary) and a.op in ("min", "max")), None)
    if inner is None:
        return None
    factor = linear.terms.pop(inner)
    sides = (Linear().add(linear).add(linear_form(side), factor).expr(e.dtype) for side in (inner.left, inner.right))
    left, right = (simplify(Binary("//", side, e.right), ranges) for side in sides)
    return Binary("min" if (inner.op == "min") == (factor > 0) else "max", left, right)


def _sides(e: Expr, ranges: Mapping[str, Interval]) -> list[tuple[Expr, Mapping[str, Interval]]]:
    """What a choice can be, each with what is known where it is that."""
    if isinstance(e, Select):
        facts = ExprSimplifier(ranges).facts
        return [
            (e.then, {**ranges, **facts(e.condition, True)}),
            (e.otherwise, {**ranges, **facts(e.condition, False)}),
        ]
    assert isinstance(e, Binary)
    return [(e.left, ranges), (e.right, ranges)]


def clip(spans: Spans, buffer: Buffer, simple: ExprSimplifier) -> Spans:
    """``spans`` without what lies outside ``buffer``, as first subscript and one past the last."""
    clipped = []
    for (lo, hi), size in zip(spans, buffer.shape):
        low = simple.expr(Binary("max", lo, idx(0)))
        clipped.append((low, simple.expr(Binary("min", hi + idx(1), size))))
    return tuple(clipped)


@contextmanager
def knowing_loops(loops: Sequence[For], sizes: Mapping[str, Interval]) -> Iterator[ExprSimplifier]:
    """A simplifier that knows what the variables of ``loops``, outermost first, can be."""
    simple = ExprSimplifier(sizes)
    with ExitStack() as inner:
        for loop in loops:
            inner.enter_context(simple.running(loop.var, simple.expr(loop.lo), simple.expr(loop.hi)))
        yield simple
