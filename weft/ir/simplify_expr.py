"""The expression rules of `simplify`.

Integer sums are collected into `Linear` forms and written back in one canonical order, so equal
index arithmetic becomes equal text; division and remainder by constants are split with
the ranges of the variables. int64 (index) arithmetic is taken not to overflow; for other integer types a rule
that needs it first shows that nothing wraps. Floats change only where every bit stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from weft.ir import dtype as dt
from weft.ir import expr as ex
from weft.ir.affine import Linear, linear_form, sort_key
from weft.ir.buffer import Buffer
from weft.ir.divide import divide_linear, merge_quotients
from weft.ir.dtype import DType
from weft.ir.fold import drop_neutral, fold_binary, fold_cast, fold_compare, fold_unary
from weft.ir.inequality import ALLOWED, NEGATED, Limits, balance, bound_sum, conjuncts, decide, quotient
from weft.ir.interval import Interval, Ranges, bounds, half_open
from weft.ir.intrinsics import INTRINSICS
from weft.ir.visit import rebuild

#: Calls whose result is the same on every target, so constants may fold.
_EXACT_CALLS = ("sqrt", "floor", "ceil", "trunc", "rint", "abs", "isnan", "isinf", "isfinite")


class ExprSimplifier:
    """Rules over expressions, with what is known of each variable at this place."""

    def __init__(self, ranges: Ranges | None) -> None:
        self.ranges: Ranges = {} if ranges is None else ranges
        self.limits: Limits = {}
        self.mutable: set[str] = set()
        #: Numbers of threads: they stay in subscripts, which say whose an element is, where a test leaves only one.
        self.threads: set[str] = set()

    @contextmanager
    def knowing(self, facts: Ranges) -> Iterator[None]:
        """``facts`` hold inside the ``with``."""
        saved = self.ranges
        if facts:
            self.ranges = {**saved, **facts}
        try:
            yield
        finally:
            self.ranges = saved

    @contextmanager
    def running(self, var: ex.Var, lo: ex.Expr, hi: ex.Expr) -> Iterator[None]:
        """``var`` lies in the half-open range from ``lo`` to ``hi``, both simplified, inside the ``with``."""
        saved, first, last = self.limits, linear_form(lo), linear_form(hi)
        atoms = {**first.terms, **last.terms}
        if atoms and all(isinstance(a, ex.Var) and a.name not in self.mutable for a in atoms):
            self.limits = {**saved, var: (first, last.add(Linear({}, -1)))}
        with self.knowing({var.name: half_open(self.bounds(lo), self.bounds(hi))}):
            yield
        self.limits = saved

    def bounds(self, e: ex.Expr) -> Interval:
        return bounds(e, self.ranges)

    def expr(self, e: ex.Expr) -> ex.Expr:
        kind = type(e)
        if kind is ex.Const:
            return e
        rule = _RULES.get(kind)
        return rule(self, e) if rule is not None else rebuild(e, self.child)

    def child(self, n: Any) -> Any:
        return n if isinstance(n, Buffer) else self.expr(n) if isinstance(n, ex.Expr) else rebuild(n, self.child)

    def exprs(self, old: tuple[ex.Expr, ...]) -> tuple[ex.Expr, ...]:
        """Each simplified; the same tuple where nothing changed."""
        new = tuple(map(self.expr, old))
        return old if all(a is b for a, b in zip(old, new)) else new

    def var(self, e: ex.Var) -> ex.Expr:
        interval = self.ranges.get(e.name)
        if interval is not None and interval.lo is not None and interval.lo == interval.hi and e.type.is_integer:
            return ex.const(interval.lo, e.type)
        return e

    def load(self, e: ex.Load) -> ex.Expr:
        indices = self.exprs(e.indices)
        return e if indices is e.indices else ex.Load(e.buffer, indices, span=e.span)

    # Integer sums

    def linear(self, e: ex.Expr) -> Linear:
        """The simplified sum that scalar integer ``e`` is."""
        if isinstance(e, ex.Const):
            return Linear({}, int(e.value))
        if isinstance(e, ex.Binary):
            if e.op == "+" or e.op == "-":
                sign, left = 1 if e.op == "+" else -1, self.linear(e.left)
                if isinstance(e.right, ex.Const):
                    left.constant += sign * int(e.right.value)
                    return left
                return left.add(self.linear(e.right), sign)
            if e.op == "*":
                if type(e.left) is ex.Var and type(e.right) is ex.Const:  # most are
                    simple, times = self.var(e.left), int(e.right.value)
                    if simple is e.left and times:
                        return Linear({simple: times})
                return _product(self.linear(e.left), self.linear(e.right), e)
        elif isinstance(e, ex.Unary) and e.op == "-":
            return Linear().add(self.linear(e.operand), -1)
        simple = self.var(e) if type(e) is ex.Var else self.expr(e)
        return Linear({simple: 1}) if isinstance(simple, ex.Var) else linear_form(simple)

    def sum(self, e: ex.Unary | ex.Binary) -> ex.Expr:
        t = e.dtype
        linear = self.linear(e)
        if not linear.terms:
            return ex.const(linear.constant, t)
        result = merge_quotients(linear).wrapped(t).expr(t, e.span)
        return e if result == e else result

    def divide(self, e: ex.Binary) -> ex.Expr:
        """``//``, ``%``, ``tdiv`` and ``tmod`` of scalar integers."""
        t, op = e.dtype, e.op
        left, right = self.expr(e.left), self.expr(e.right)
        if isinstance(left, ex.Const) and isinstance(right, ex.Const):
            return fold_binary(op, left, right)
        low, high = self.bounds(left), self.bounds(right)
        if op in ("tdiv", "tmod"):
            if low.lo is None or high.lo is None or low.lo < 0 or high.lo < 0:
                return self.truncate(e, left, right)
            op = "//" if op == "tdiv" else "%"
        if isinstance(right, ex.Const) and right.value in (0, 1):
            return left if right.value == 1 and op == "//" else ex.const(0, t)
        if low.lo is not None and low.hi is not None and high.lo is not None and 0 <= low.lo <= low.hi < high.lo:
            return left if op == "%" else ex.const(0, t)
        if left == right and high.lo is not None and high.lo > 0:
            return ex.const(int(op == "//"), t)
        if isinstance(right, ex.Const) and right.value > 1:
            split = divide_linear(op, linear_form(left), int(right.value), t, self.ranges, e.span)
            if split is not None:
                return _kept(e, merge_quotients(split).wrapped(t).expr(t, e.span))
        return _kept_binary(e, op, left, right)

    def truncate(self, e: ex.Binary, left: ex.Expr, right: ex.Expr) -> ex.Expr:
        if isinstance(right, ex.Const) and right.value in (0, 1):
            return left if right.value == 1 and e.op == "tdiv" else ex.const(0, e.dtype)
        return _kept_binary(e, e.op, left, right)

    def least_or_greatest(self, e: ex.Binary) -> ex.Expr:
        left, right = self.expr(e.left), self.expr(e.right)
        if isinstance(left, ex.Const) and isinstance(right, ex.Const):
            return fold_binary(e.op, left, right)
        if left == right:
            return left
        t = e.dtype
        if not t.is_integer or t.lanes > 1:
            return _kept_binary(e, e.op, left, right)
        gap = self.difference(left, right, t)
        if gap.lo is not None and gap.lo >= 0:
            return left if e.op == "max" else right
        if gap.hi is not None and gap.hi <= 0:
            return right if e.op == "max" else left
        if isinstance(left, ex.Const):
            left, right = right, left
        if isinstance(right, ex.Const) and isinstance(left, ex.Binary) and left.op == e.op:
            inner = left.right
            if isinstance(inner, ex.Const):
                left, right = left.left, fold_binary(e.op, inner, right)
        return _kept_binary(e, e.op, left, right)

    def difference(self, left: ex.Expr, right: ex.Expr, t: DType) -> Interval:
        """Bounds of ``left - right``, where both are simplified."""
        if t == dt.index:
            return bound_sum(linear_form(left).add(linear_form(right), -1), self.ranges, self.limits)
        return self.bounds(left).minus(self.bounds(right))

    # Comparisons and logic

    def compare(self, e: ex.Compare) -> ex.Expr:
        left, right = self.expr(e.left), self.expr(e.right)
        if isinstance(left, ex.Const) and isinstance(right, ex.Const):
            return fold_compare(e.op, left, right)
        t = left.dtype
        if t.is_integer and t.lanes == 1:
            gap = Interval(0, 0) if left == right else self.difference(left, right, t)
            verdict = decide(e.op, gap)
            if verdict is not None:
                return ex.Const(verdict, dt.bool_)
            if t == dt.index:
                return _kept(e, balance(e, linear_form(left).add(linear_form(right), -1)))
        return e if left is e.left and right is e.right else ex.Compare(e.op, left, right, span=e.span)

    def negate(self, e: ex.Unary) -> ex.Expr:
        operand = self.expr(e.operand)
        if isinstance(operand, ex.Const):
            return fold_unary("!", operand)
        if isinstance(operand, ex.Unary) and operand.op == "!":
            return operand.operand
        if isinstance(operand, ex.Compare) and (not operand.left.dtype.is_float or operand.op in ("==", "!=")):
            return ex.Compare(NEGATED[operand.op], operand.left, operand.right, span=e.span)
        return e if operand is e.operand else ex.Unary("!", operand, span=e.span)

    def both_or_either(self, e: ex.Binary) -> ex.Expr:
        """``&&`` and ``||``: the right side is reached only where the left one leaves the question open."""
        conjunction = e.op == "&&"
        left = self.expr(e.left)
        with self.knowing(self.facts(left, conjunction)):
            right = self.expr(e.right)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, ex.Const):
                return other if one.value == conjunction else one
        return left if left == right else _kept_binary(e, e.op, left, right)

    def select(self, e: ex.Select) -> ex.Expr:
        condition = self.expr(e.condition)
        if isinstance(condition, ex.Const):
            return self.expr(e.then if condition.value else e.otherwise)
        with self.knowing(self.facts(condition, True)):
            then = self.expr(e.then)
        with self.knowing(self.facts(condition, False)):
            otherwise = self.expr(e.otherwise)
        if then == otherwise:
            return then
        if condition is e.condition and then is e.then and otherwise is e.otherwise:
            return e
        return ex.Select(condition, then, otherwise, span=e.span)

    def facts(self, condition: ex.Expr, truth: bool) -> dict[str, Interval]:
        """What ``condition`` being ``truth`` says about variables that do not change."""
        found: dict[str, Interval] = {}
        for part in conjuncts(condition, truth):
            if isinstance(part, ex.Compare) and part.left.dtype == dt.index:
                gap = linear_form(part.left).add(linear_form(part.right), -1)
                with self.knowing(found):
                    found = {**found, **self.solve(gap, part.op)}
        return found

    def solve(self, gap: Linear, op: str) -> dict[str, Interval]:
        """Ranges of the variables in ``gap op 0``, one at a time, given those of the others."""
        narrowed: dict[str, Interval] = {}
        allowed = ALLOWED.get(op)
        if allowed is None or len(gap.terms) > 4:
            return narrowed
        for atom, factor in gap.terms.items():
            if isinstance(atom, ex.Var) and atom.name not in self.mutable:
                others = Linear({a: c for a, c in gap.terms.items() if a is not atom}, gap.constant)
                product = allowed.minus(others.bounds(self.ranges))
                interval = self.ranges.get(atom.name, Interval(None, None)).intersect(quotient(product, factor))
                if op == "==" or atom.name not in self.threads or interval.point is None:
                    narrowed[atom.name] = interval
        return narrowed

    # Everything else

    def unary(self, e: ex.Unary) -> ex.Expr:
        if e.op == "!":
            return self.negate(e)
        if e.op == "-" and e.dtype.is_integer and e.dtype.lanes == 1:
            return self.sum(e)
        operand = self.expr(e.operand)
        if isinstance(operand, ex.Const):
            return fold_unary(e.op, operand)
        if isinstance(operand, ex.Unary) and operand.op == e.op:
            return operand.operand
        return e if operand is e.operand else ex.Unary(e.op, operand, span=e.span)

    def binary(self, e: ex.Binary) -> ex.Expr:
        op, t = e.op, e.left.dtype
        if op in ("&&", "||"):
            return self.both_or_either(e)
        if op in ("min", "max"):
            return self.least_or_greatest(e)
        if t.is_integer and t.lanes == 1:
            if op in ("+", "-", "*"):
                return self.sum(e)
            if op in ("//", "%", "tdiv", "tmod"):
                return self.divide(e)
        left, right = self.expr(e.left), self.expr(e.right)
        if isinstance(left, ex.Const) and isinstance(right, ex.Const):
            return fold_binary(op, left, right)
        same = drop_neutral(op, left, right)
        return same if same is not None else _kept_binary(e, op, left, right)

    def cast(self, e: ex.Cast) -> ex.Expr:
        operand = self.expr(e.operand)
        if operand.dtype == e.type:
            return operand
        if isinstance(operand, ex.Const):
            return fold_cast(e.type, operand)
        if isinstance(operand, ex.Cast) and self.is_transparent(e.type, operand):
            return self.cast(ex.Cast(e.type, operand.operand, span=e.span))
        return e if operand is e.operand else ex.Cast(e.type, operand, span=e.span)

    def is_transparent(self, outer: DType, inner: ex.Cast) -> bool:
        """Whether the cast ``inner`` inside a cast to ``outer`` changes nothing."""
        source, middle = inner.operand.dtype, inner.type
        if source.is_float:
            widens = middle.is_float and middle.bits > source.bits
            return widens or (middle.is_float and source == middle)
        if middle.is_bool:
            return source.is_bool
        if middle.is_integer:
            if outer.is_integer and not source.is_bool and outer.bits <= middle.bits:
                return True
            interval = self.bounds(inner.operand)
            return interval.within(middle.min_value, middle.max_value)
        digits = middle.shape.digits + 1
        return outer.is_float and self.bounds(inner.operand).within(-(1 << digits), 1 << digits)

    def call(self, e: ex.Call) -> ex.Expr:
        args = self.exprs(e.args)
        if e.name in _EXACT_CALLS and isinstance(args[0], ex.Const) and args[0].type in (dt.float32, dt.float64):
            kind = np.float32 if args[0].type == dt.float32 else np.float64
            with np.errstate(all="ignore"):
                value = INTRINSICS[e.name].evaluate(kind(args[0].value))
            return ex.const(float(value), e.type)
        return e if args is e.args else ex.Call(e.name, args, e.type, span=e.span)

    def reduce(self, e: ex.Reduce) -> ex.Expr:
        axes: list[ex.Axis] = []
        with ExitStack() as inner:
            for a in e.axes:
                lo, hi = self.expr(a.lo), self.expr(a.hi)
                axes.append(a if lo is a.lo and hi is a.hi else ex.Axis(a.var, lo, hi))
                inner.enter_context(self.running(a.var, lo, hi))
            value = self.expr(e.value)
        if value is e.value and all(a is b for a, b in zip(axes, e.axes)):
            return e
        return ex.Reduce(e.op, tuple(axes), value, span=e.span)

    def ramp(self, e: ex.Ramp) -> ex.Expr:
        base, stride = self.expr(e.base), self.expr(e.stride)
        if isinstance(stride, ex.Const) and stride.value == 0:
            return ex.Broadcast(base, e.lanes, span=e.span)
        return e if base is e.base and stride is e.stride else ex.Ramp(base, stride, e.lanes, span=e.span)


_RULES: dict[type, Callable[[Any, Any], ex.Expr]] = {
    ex.Var: ExprSimplifier.var,
    ex.Load: ExprSimplifier.load,
    ex.Unary: ExprSimplifier.unary,
    ex.Binary: ExprSimplifier.binary,
    ex.Compare: ExprSimplifier.compare,
    ex.Select: ExprSimplifier.select,
    ex.Cast: ExprSimplifier.cast,
    ex.Call: ExprSimplifier.call,
    ex.Reduce: ExprSimplifier.reduce,
    ex.Ramp: ExprSimplifier.ramp,
}


def _kept(old: ex.Expr, new: ex.Expr) -> ex.Expr:
    return old if new == old else new


def _kept_binary(e: ex.Binary, op: ex.BinaryOp, left: ex.Expr, right: ex.Expr) -> ex.Expr:
    return e if left is e.left and right is e.right and op == e.op else ex.Binary(op, left, right, span=e.span)


def _product(left: Linear, right: Linear, e: ex.Binary) -> Linear:
    """The product of two sums; of two that vary, an atom with its factors in order."""
    if not right.terms:
        return Linear().add(left, right.constant)
    if not left.terms:
        return Linear().add(right, left.constant)
    t, times = e.dtype, 1
    factors: list[ex.Expr] = []
    for side in (left, right):
        if len(side.terms) == 1 and not side.constant:
            ((atom, factor),) = side.terms.items()
            times *= factor
            factors += _factors(atom)
        else:
            factors.append(merge_quotients(side).wrapped(t).expr(t, e.span))
    factors.sort(key=sort_key)
    product = factors[0]
    for f in factors[1:]:
        product = ex.Binary("*", product, f, span=e.span)
    return Linear({product: times})


def _factors(e: ex.Expr) -> list[ex.Expr]:
    return [*_factors(e.left), *_factors(e.right)] if isinstance(e, ex.Binary) and e.op == "*" else [e]
