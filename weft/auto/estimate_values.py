"""Instructions that the value of a statement takes: each part as often as unrolled copies and lanes differ in it."""

from __future__ import annotations

from weft.auto.estimate_regions import Counts, Region
from weft.auto.estimate_vectors import data_bits
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.schedules.index_forms import variables

#: Vector instructions of the functions that take many, in the length of multiplications (measured).
CALL_COST = {
    "exp": 9, "exp2": 7, "expm1": 12, "log": 21, "log2": 24, "log10": 25, "log1p": 28, "sin": 15, "cos": 16,
    "tan": 22, "asin": 14, "acos": 16, "atan": 17, "sinh": 20, "cosh": 14, "tanh": 19, "asinh": 45, "acosh": 42,
    "atanh": 40, "cbrt": 35, "sigmoid": 16, "erf": 22, "erfc": 38, "tgamma": 500, "lgamma": 280, "sqrt": 8,
    "rsqrt": 14, "pow": 80, "atan2": 28, "fmod": 45, "hypot": 30, "fma": 1,
}  # fmt: skip
DIVISION, INTEGER_DIVISION, TO_INTEGER = 5.0, 12.0, 20.0


def count_value(region: Region, fast: bool) -> tuple[Counts, float]:
    """The instructions of one run of the body, and the operations they do."""
    return _Value(region, fast).count()


class _Value:
    """Counts the instructions of a value, each as often as copies differ."""

    def __init__(self, region: Region, fast: bool) -> None:
        self.region = region
        self.fast = fast
        self.counts = Counts()
        self.flops = 0.0
        self.bits = data_bits(region.leaf)
        self.seen: dict[Expr, frozenset[str]] = {}

    def count(self) -> tuple[Counts, float]:
        self.visit(self.region.leaf.value)
        return self.counts, self.flops

    def visit(self, e: Expr) -> frozenset[str]:
        """The loops that ``e`` depends on; its instructions are counted on the first visit."""
        known = self.seen.get(e)
        if known is None:
            known = self.seen[e] = self._visit(e)
        return known

    def _visit(self, e: Expr) -> frozenset[str]:
        if isinstance(e, Const):
            return frozenset()
        if isinstance(e, Var):
            form = self.region.leaf.forms.get(e.name)
            return frozenset() if form is None else variables(form)
        if isinstance(e, Load):
            return self._depends(*e.indices, count=False)
        if isinstance(e, Binary):
            return self._binary(e)
        if isinstance(e, Call):
            on = self._depends(*e.args)
            self._add(on, CALL_COST.get(e.name, 2), flops=2 if e.name == "fma" else 1)
            return on
        if isinstance(e, Select):
            on = self._depends(e.condition, e.then, e.otherwise)
            self._add(on, 0, simple=1.0)
            return on
        if isinstance(e, Compare):
            on = self._depends(e.left, e.right)
            wide = e.left.dtype.bits / min(64, self.bits) if e.left.dtype.is_integer else 1.0
            self._add(on, 0, simple=wide)
            return on
        if isinstance(e, Cast):
            on = self._depends(e.operand)
            hard = e.operand.dtype.is_float and not e.dtype.is_float
            free = e.operand.dtype == e.dtype or isinstance(e.operand, Var)
            self._add(on, 0, simple=TO_INTEGER if hard else 0.0 if free else 1.0)
            return on
        if isinstance(e, Unary):
            on = self._depends(e.operand)
            self._add(on, 0, simple=1.0, flops=1)
            return on
        return frozenset()

    def _depends(self, *parts: Expr, count: bool = True) -> frozenset[str]:
        found: frozenset[str] = frozenset()
        for part in parts:
            found |= self.visit(part) if count else self._variables(part)
        return found

    def _variables(self, e: Expr) -> frozenset[str]:
        if isinstance(e, Var):
            form = self.region.leaf.forms.get(e.name)
            return frozenset() if form is None else variables(form)
        if isinstance(e, Binary):
            return self._variables(e.left) | self._variables(e.right)
        if isinstance(e, Load):
            return frozenset().union(*map(self._variables, e.indices))
        return self._variables(e.operand) if isinstance(e, (Cast, Unary)) else frozenset()

    def _binary(self, e: Binary) -> frozenset[str]:
        on = self._depends(e.left, e.right)
        if e.op == "/":
            scaled = self.fast and isinstance(e.right, Const)
            steady = (
                self.fast and self.region.lanes is not None and self.region.lanes.nest.name not in self.visit(e.right)
            )
            self._add(on, 1.0 if scaled or steady else DIVISION, flops=1)
        elif e.op in ("//", "%", "tdiv", "tmod"):
            self._add(on, INTEGER_DIVISION, flops=1)
        elif e.op == "*":
            self._add(on, 1.0, flops=1)
        elif e.op in ("+", "-") and self._fuses(e):
            self._add(on, 0.0, flops=1)
        elif e.op in ("min", "max"):
            self._add(on, 0, simple=2.0 if e.dtype.is_float else 1.0, flops=1)
        else:
            self._add(on, 0, simple=1.0, flops=1)
        return on

    def _fuses(self, e: Binary) -> bool:
        """Whether a sum takes a product in, in one instruction."""
        return self.fast and e.dtype.is_float and any(isinstance(s, Binary) and s.op == "*" for s in (e.left, e.right))

    def _add(self, on: frozenset[str], multiplies: float, simple: float = 0.0, flops: float = 0.0) -> None:
        region = self.region
        copies = 1.0
        for nest, trips in region.copies:
            if nest.name in on:
                copies *= trips
        in_lanes = region.lanes is not None and region.lanes.nest.name in on
        self.flops += flops * region.all_copies() * (region.lanes.count if region.lanes else 1)
        times = copies * (region.vectors if in_lanes else 1.0)
        self.counts.multiplies += multiplies * times
        self.counts.simple += simple * times
