"""Tests around a read written by hand, as the boundary they spell: ``0 <= i && i < N ? I(i) : 0.0`` is ``I(i)``, `I
outside zero`. Exact.

Where the test holds the read is in bounds, or the program was refused. So what is to be proved is the other direction:
that the test holds wherever the read is in bounds.
"""

from __future__ import annotations

from weft.ir.expr import Axis, Cast, Const, Expr, Load, Select, const
from weft.ir.visit import Node, loads, rewrite, walk
from weft.tensor.boundary import Outside
from weft.tensor.conditions import alternatives
from weft.tensor.facts import Facts
from weft.tensor.normal_form.conversions import converted, holds
from weft.tensor.polynomial import Polynomial


def read_tests(value: Expr, axes: tuple[Axis, ...]) -> Expr:
    """Every test in ``value`` that a boundary of the tensor behind it can take the place of, as that boundary."""
    if not any(isinstance(n, Select) for n in walk(value)):
        return value
    facts = Facts.of(axes)

    def step(node: Node) -> Expr | None:
        return _boundary(node, facts) if isinstance(node, Select) else None

    return rewrite(value, step)


def _boundary(e: Select, facts: Facts) -> Expr | None:
    for then, fill, negate in ((e.then, e.otherwise, False), (e.otherwise, e.then, True)):
        read = then.operand if isinstance(then, Cast) and holds(then.type, then.operand.dtype) else then
        load = read.load if isinstance(read, Outside) else read
        if not isinstance(load, Load) or not isinstance(fill, Const) or any(loads(i) for i in load.indices):
            continue
        value = _exactly(fill, load)
        if value is None or (isinstance(read, Outside) and (read.mode, read.fill) != ("value", value)):
            continue
        if _holds_inside(e.condition, load, facts, negate):
            return converted(then.dtype, Outside(load, "value", value, span=load.span))
    return None


def _exactly(fill: Const, load: Load) -> Const | None:
    """``fill`` in the type of ``load``, where that is the same number."""
    value = const(fill.value, load.dtype)
    back = const(value.value, fill.dtype)
    return value if repr(back.value) == repr(fill.value) else None


def _holds_inside(condition: Expr, load: Load, facts: Facts, negate: bool) -> bool:
    """Whether ``condition`` holds (or, with ``negate``, does not) wherever ``load`` is in bounds."""
    cases = alternatives(condition, facts.intervals(), negate)
    if len(cases) != 1 or not cases[0]:
        return False
    within = Facts(facts.ranges, [*facts.inequalities, *inside(load)])
    return all(goal in within.inequalities or within.proves(goal) for goal in cases[0])


def inside(load: Load) -> list[Polynomial]:
    """What is at least 0 where ``load`` is in bounds."""
    pairs = [(Polynomial.of(i), Polynomial.of(n)) for i, n in zip(load.indices, load.buffer.shape)]
    return [p for i, n in pairs for p in (i, n - i - 1)]
