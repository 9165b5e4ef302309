"""How far results may be from the interpreter's where the order of operations is free.

Under fast numerics sums may be reordered, products fused into sums, divisions made products with a reciprocal;
functions may differ in the last bits. `error_bounds` runs a kernel once more with three numbers for every value:
the value, the size of the terms it is made of (what it would be were all of them positive), and the error that
roundings relative to that size add up to. What is decided by values nearer to each other than their errors, a
comparison or a conversion to integers, has no bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Reduce, Select, Unary, Var, identity
from weft.ir.interpret_scalar import binary_op, call_op, cast_op, compare_op, scalar_value, unary_op
from weft.ir.intrinsics import INTRINSICS
from weft.ir.stmt import Alloc, Assert, Assign, Block, Evaluate, For, If, Kernel, Let, Seq, Stmt, Store

#: Value, size of its terms, error.
Triple = tuple[Any, float, float]
_EPSILON = {16: 2.0**-10, 32: 2.0**-23, 64: 2.0**-52}
#: Roundings a single operation may differ by; a reciprocal and a function of ours have a few.
_ROUNDINGS, _FUNCTION = 2.0, 16.0
_STEPS = 400_000
_SMOOTH = ("tanh", "sigmoid", "sin", "cos", "erf", "erfc", "atan", "abs", "asinh")


class Doubtful(Exception):
    """Which statements run, or which elements they touch, depends on roundings, or is not followed here."""


def epsilon(dtype: DType) -> float:
    return 2.0**-7 if str(dtype).startswith("bfloat16") else _EPSILON[dtype.bits]


def smallest(dtype: DType) -> float:
    return 2.0**-133 if str(dtype).startswith("bfloat16") else {16: 2.0**-24, 32: 2.0**-149, 64: 2.0**-1074}[dtype.bits]


def largest(dtype: DType) -> float:
    return {16: 65504.0, 32: 3e38, 64: 1e308}[32 if str(dtype).startswith("bfloat16") else dtype.bits]


def error_bounds(kernel: Kernel, arguments: Sequence[Any]) -> list[Any]:
    """For each output, in the order of the parameters, an array of bounds: infinite where there is none."""
    tracker = Tracker(kernel, arguments)
    named = [(p.name, np.shape(a)) for p, a in zip(kernel.params, arguments) if p.name in kernel.outputs]
    limits = {name: np.zeros(shape) for name, shape in named}
    try:
        with np.errstate(all="ignore"):
            tracker.run(kernel.body)
    except (Doubtful, OverflowError, ArithmeticError):
        return [np.full(shape, np.inf) for _, shape in named]
    for name, limit in limits.items():
        for element, (_, _, error) in tracker.memory[name].items():
            limit[element] = error
    return list(limits.values())


class Tracker:
    """Runs a kernel in order; ``memory`` has what was written, by buffer and element."""

    def __init__(self, kernel: Kernel, arguments: Sequence[Any]) -> None:
        self.env: dict[str, Triple] = {}
        self.arrays: dict[str, Any] = {}
        self.memory: dict[str, dict[tuple[int, ...], Triple]] = {}
        self.left = _STEPS
        for param, argument in zip(kernel.params, arguments):
            if isinstance(param, Buffer):
                self.arrays[param.name] = argument
                self.memory[param.name] = {}
            else:
                self.env[param.name] = exact(scalar_value(param.dtype, argument))

    # Statements

    def run(self, s: Stmt) -> None:
        match s:
            case Seq():
                for part in s.body:
                    self.run(part)
            case For():
                for value in range(self.index(s.lo), self.index(s.hi)):
                    self.env[s.var.name] = exact(value)
                    self.run(s.body)
            case If():
                taken = s.then if self.decide(s.condition) else s.otherwise
                if taken is not None:
                    self.run(taken)
            case Alloc():
                self.memory[s.buffer.name] = {}
                self.run(s.body)
            case Block():
                self.block(s)
            case Store():
                self.memory[s.buffer.name][self.element(s.indices)] = self.value(s.value)
            case Let():
                self.env[s.var.name] = self.value(s.value)
                self.run(s.body)
            case Assign():
                self.env[s.var.name] = self.value(s.value)
            case Assert() | Evaluate():
                return
            case _:
                raise Doubtful(type(s).__name__)

    def block(self, s: Block) -> None:
        for i in s.iters:
            self.env[i.var.name] = exact(self.index(i.binding))
        reduce = [i for i in s.iters if i.kind == "reduce"]
        if s.init is not None and all(self.env[i.var.name][0] == self.index(i.lo) for i in reduce):
            self.run(s.init)
        self.run(s.body)

    def index(self, e: Expr) -> int:
        value, _, error = self.value(e)
        if error:
            raise Doubtful("an index")
        return int(value)

    def decide(self, e: Expr) -> bool:
        value, _, error = self.value(e)
        if error:
            raise Doubtful("a test")
        return bool(value)

    def element(self, indices: Sequence[Expr]) -> tuple[int, ...]:
        return tuple(map(self.index, indices))

    # Expressions

    def value(self, e: Expr) -> Triple:
        self.left -= 1
        if self.left < 0 or e.dtype.lanes != 1:
            raise Doubtful("too long, or vectors")
        match e:
            case Const():
                return exact(scalar_value(e.dtype, e.value))
            case Var():
                return self.env[e.name]
            case Load():
                return self.load(e)
            case Select():
                return self.select(e)
            case Cast():
                return cast(e.operand.dtype, e.dtype, self.value(e.operand))
            case Unary():
                value, size, error = self.value(e.operand)
                made = unary_op(e.op, e.dtype)(value)
                return made, size if e.dtype.is_float else abs(float(made)), error
            case Compare():
                return compare(e.op, self.value(e.left), self.value(e.right))
            case Binary():
                return self.binary(e)
            case Reduce():
                return self.reduce(e)
            case Call() if e.name in INTRINSICS:
                return call(e, [self.value(a) for a in e.args])
        raise Doubtful(type(e).__name__)

    def load(self, e: Load) -> Triple:
        element, name = self.element(e.indices), e.buffer.name
        found = self.memory[name].get(element)
        if found is None:
            if name not in self.arrays:
                raise Doubtful("a read of what has no value")
            found = exact(scalar_value(e.dtype, np.asarray(self.arrays[name])[element]))
        return found

    def select(self, e: Select) -> Triple:
        condition, _, error = self.value(e.condition)
        if not error:
            return self.value(e.then if condition else e.otherwise)
        value, size, _ = self.value(e.then if condition else e.otherwise)
        return value, size, math.inf

    def binary(self, e: Binary) -> Triple:
        left = self.value(e.left)
        if e.op in ("&&", "||"):
            if not left[2] and bool(left[0]) != (e.op == "&&"):
                return left
            right = self.value(e.right)
            chosen = right[0] if bool(left[0]) == (e.op == "&&") else left[0]
            return chosen, 1.0, left[2] + right[2]
        return combine(e.op, e.dtype, left, self.value(e.right))

    def reduce(self, e: Reduce) -> Triple:
        total = exact(scalar_value(e.dtype, identity(e.op, e.dtype).value))

        def add(axes: Sequence[Any]) -> None:
            nonlocal total
            if not axes:
                total = combine(e.op, e.dtype, total, self.value(e.value))
                return
            for value in range(self.index(axes[0].lo), self.index(axes[0].hi)):
                self.env[axes[0].var.name] = exact(value)
                add(axes[1:])

        add(e.axes)
        return total


def exact(value: Any) -> Triple:
    return value, abs(float(value)), 0.0


def rounded(dtype: DType, value: Any, size: float, error: float, roundings: float = _ROUNDINGS) -> Triple:
    """``error`` and the roundings of one more operation; no bound near the ends of the type's range."""
    if not dtype.is_float:
        return value, size, math.inf if error else 0.0
    total = error + roundings * (epsilon(dtype) * size + smallest(dtype))
    unbounded = not size < largest(dtype) / 4 or not math.isfinite(float(value)) or total != total
    return value, size, math.inf if unbounded else total


def cast(source: DType, target: DType, operand: Triple) -> Triple:
    value, size, error = operand
    result = cast_op(source, target)(value)
    if target.is_float:
        return rounded(target, result, size, error)
    if not error:
        return exact(result)
    if not math.isfinite(error) or not math.isfinite(float(value)):
        return result, math.inf, math.inf
    # The whole number next to a value that is not known exactly is known where no other is as near.
    near = abs(float(value) - round(float(value)))
    return result, abs(float(result)), 0.0 if error < near and not target.is_bool else math.inf


def compare(op: str, left: Triple, right: Triple) -> Triple:
    (a, _, ea), (b, _, eb) = left, right
    unclear = bool(ea or eb) and not abs(float(a) - float(b)) > ea + eb
    return compare_op(op)(a, b), 1.0, math.inf if unclear else 0.0


def combine(op: str, dtype: DType, left: Triple, right: Triple) -> Triple:
    (a, sa, ea), (b, sb, eb) = left, right
    value = binary_op(op, dtype)(a, b)
    if not dtype.is_float:
        return value, abs(float(value)), math.inf if ea or eb else 0.0
    if op in ("+", "-"):
        return rounded(dtype, value, sa + sb, ea + eb)
    if op == "*":
        return rounded(dtype, value, sa * sb, ea * sb + eb * sa + ea * eb)
    if op in ("min", "max"):
        return value, max(sa, sb), max(ea, eb)
    away = abs(float(b)) - eb
    if op != "/" or not away > 0:
        return value, math.inf, math.inf
    return rounded(dtype, value, sa / away * max(1.0, sb / away), (ea + sa * eb / away) / away)


def call(e: Call, args: list[Triple]) -> Triple:
    """A function: the error of its argument times its slope, and a few roundings."""
    value = call_op(e.name, e.args[0].dtype, e.dtype)(*(a[0] for a in args))
    x, size, error = args[0]
    if not any(a[2] for a in args):
        return exact(value) if e.name == "abs" else rounded(e.dtype, value, abs(float(value)), 0.0, _FUNCTION)
    away = abs(float(x)) - error
    slope = math.inf
    if e.name in _SMOOTH:
        slope = 1.2
    elif e.name == "exp" and error < 1:
        slope = 3 * abs(float(value))
    elif e.name in ("sqrt", "log", "log1p") and away > 0:
        slope = 1 / math.sqrt(away) if e.name == "sqrt" else 1 / away if e.name == "log" else 1.0
    if e.name == "abs":
        return value, size, error
    return rounded(e.dtype, value, abs(float(value)), slope * error, _FUNCTION)
