"""Instructions that the value of a statement takes: each part as often as unrolled copies and lanes differ in it."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod
from typing import NamedTuple

from weft.auto.estimate_regions import Counts, Region
from weft.auto.estimate_vectors import data_bits
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Unary, Var
from weft.ir.intrinsics import REINTERPRET
from weft.ir.visit import children
from weft.schedules.index_forms import variables

#: Vector instructions of the functions that take many, in the length of multiplications (measured).
CALL_COST = {
    "exp": 9, "exp2": 7, "expm1": 12, "log": 21, "log2": 24, "log10": 25, "log1p": 28, "sin": 15, "cos": 16,
    "tan": 22, "asin": 14, "acos": 16, "atan": 17, "sinh": 20, "cosh": 14, "tanh": 19, "asinh": 45, "acosh": 42,
    "atanh": 40, "cbrt": 35, "sigmoid": 16, "erf": 11, "erfc": 38, "tgamma": 500, "lgamma": 280, "sqrt": 8,
    "rsqrt": 14, "pow": 80, "atan2": 28, "fmod": 45, "hypot": 30, "fma": 1,
    REINTERPRET: 0,
}  # fmt: skip
#: Those that fast numerics compute otherwise.
FAST_CALL_COST = {"sigmoid": 9, "tanh": 11}
DIVISION, INTEGER_DIVISION, TO_INTEGER = 5.0, 12.0, 20.0


Offset = tuple[int, ...]


def count_value(region: Region, fast: bool) -> tuple[Counts, float]:
    """The instructions of one run of the body, and the operations they do."""
    return _Value(region, fast).count()


class _Part(NamedTuple):
    """A part of a value: the loops it depends on, its own instructions, what it is but for a shift, and the shift."""

    on: frozenset[str]
    multiplies: float
    simple: float
    flops: float
    shape: Hashable
    offset: Offset


class _Value:
    """Counts the instructions of a value: equal parts are computed once, also those of different unrolled copies."""

    def __init__(self, region: Region, fast: bool) -> None:
        self.region = region
        self.fast = fast
        self.bits = data_bits(region.leaf)
        self.seen: dict[Expr, _Part] = {}
        self.accesses = {a.key: a for a in region.leaf.accesses}

    def count(self) -> tuple[Counts, float]:
        self.visit(self.region.leaf.value)
        region, counts, flops = self.region, Counts(), 0.0
        alike: dict[Hashable, list[_Part]] = {}
        for part in self.seen.values():
            if part.multiplies or part.simple or part.flops:
                alike.setdefault(part.shape, []).append(part)
        for parts in alike.values():
            part = parts[0]
            in_lanes = region.lanes is not None and region.lanes.nest.name in part.on
            times = self._instances(parts) * (region.vectors if in_lanes else 1.0)
            counts.multiplies += part.multiplies * times
            counts.simple += part.simple * times
            flops += part.flops * len(parts)
        return counts, flops * region.all_copies() * (region.lanes.count if region.lanes else 1)

    def _instances(self, parts: list[_Part]) -> float:
        """Different ones among the copies of parts that differ by a shift."""
        moving = [(nest.name, int(trips)) for nest, trips in self.region.copies if nest.name in parts[0].on]
        if len(parts) == 1 or not moving:
            return len(parts) * prod(trips for _, trips in moving)
        steps = [self._steps(parts[0].shape, name) for name, _ in moving]
        if None in steps:
            return len(parts) * prod(trips for _, trips in moving)
        found = {stmt.offset for stmt in parts}
        for step, (_, trips) in zip(steps, moving):
            assert step is not None
            found = {tuple(o + n * d for o, d in zip(offset, step)) for offset in found for n in range(trips)}
        return len(found)

    def _steps(self, shape: Hashable, name: str) -> Offset | None:
        """How far a copy of a loop shifts a part, where all that it loads is shifted alike."""
        loaded = set(_loaded(shape))
        if len(loaded) != 1:
            return None
        (key,) = loaded
        assert isinstance(key, tuple)
        return tuple(sum(c for t, c in terms if t.variable == name) for terms in key[2])

    def visit(self, e: Expr) -> _Part:
        known = self.seen.get(e)
        if known is None:
            known = self.seen[e] = self._part(e)
        return known

    def _part(self, e: Expr) -> _Part:
        if isinstance(e, Const):
            return _Part(frozenset(), 0, 0, 0, ("const", e), ())
        if isinstance(e, Var):
            form = self.region.leaf.forms.get(e.name)
            return _Part(frozenset() if form is None else variables(form), 0, 0, 0, ("var", e.name), ())
        if isinstance(e, Load):
            return self._load(e)
        inner = [self.visit(conjunct) for conjunct in children(e) if isinstance(conjunct, Expr)]
        on: frozenset[str] = frozenset().union(*(conjunct.on for conjunct in inner))
        first = next((conjunct.offset for conjunct in inner if conjunct.offset), ())
        shifts = tuple(_apart(conjunct.offset, first) for conjunct in inner)
        shape = (
            type(e).__name__,
            getattr(e, "op", getattr(e, "name", "")),
            shifts,
            *(conjunct.shape for conjunct in inner),
        )
        return _Part(on, *self._cost(e), shape, first)

    def _load(self, e: Load) -> _Part:
        access = self.accesses.get((e.buffer.name, e.indices))
        if access is None:
            return _Part(frozenset(), 0, 0, 0, ("other", e), ())
        on: frozenset[str] = frozenset().union(*map(variables, access.forms)) | access.private
        terms = tuple(tuple(form.coefficients.items()) for form in access.forms)
        return _Part(on, 0, 0, 0, ("load", e.buffer.name, terms), tuple(form.constant for form in access.forms))

    def _cost(self, e: Expr) -> tuple[float, float, float]:
        """Multiplications (or what takes as long), simple instructions, operations."""
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Call):
            cost = FAST_CALL_COST.get(e.name) if self.fast else None
            return cost or CALL_COST.get(e.name, 2), 0, 2 if e.name == "fma" else 1
        if isinstance(e, Compare):
            return 0, e.left.dtype.bits / min(64, self.bits) if e.left.dtype.is_integer else 1.0, 0
        if isinstance(e, Cast):
            hard = e.operand.dtype.is_float and not e.dtype.is_float
            free = e.operand.dtype == e.dtype or isinstance(e.operand, Var)
            return 0, TO_INTEGER if hard else 0.0 if free else 1.0, 0
        return 0, 1.0, 1 if isinstance(e, Unary) else 0

    def _binary(self, e: Binary) -> tuple[float, float, float]:
        if e.op == "/":
            lanes = self.region.lanes
            steady = lanes is not None and lanes.nest.name not in self.visit(e.right).on
            return 1.0 if self.fast and (steady or isinstance(e.right, Const)) else DIVISION, 0, 1
        if e.op in ("//", "%", "tdiv", "tmod"):
            return INTEGER_DIVISION, 0, 1
        if e.op == "*":
            return 1.0, 0, 1
        if e.op in ("+", "-") and self._fuses(e):
            return 0, 0, 1
        return 0, 2.0 if e.op in ("min", "max") and e.dtype.is_float else 1.0, 1

    def _fuses(self, e: Binary) -> bool:
        """Whether a sum takes a product in, in one instruction."""
        return self.fast and e.dtype.is_float and any(isinstance(s, Binary) and s.op == "*" for s in (e.left, e.right))


def _apart(offset: Offset, first: Offset) -> Offset:
    if len(offset) != len(first):
        return offset
    return tuple(a - b for a, b in zip(offset, first))


def _loaded(shape: Hashable) -> Iterator[Hashable]:
    """The loads in a shape."""
    if isinstance(shape, tuple) and shape:
        if shape[0] == "load":
            yield shape
        elif shape[0] not in ("const", "var", "other"):
            for part in shape[3:]:
                yield from _loaded(part)
