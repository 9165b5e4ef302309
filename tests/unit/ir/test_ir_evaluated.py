"""Which parts of an expression are evaluated under which tests."""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.evaluated import evaluated
from weft.ir.expr import Axis, Binary, Compare, Expr, Load, Reduce, Select, Var, const, idx
from weft.ir.printer import print_expr

i, j = Var("i"), Var("j")
X = Buffer("X", dt.float32, (idx(9),))
FLAGS = Buffer("F", dt.bool_, (idx(9),))


def loads_with_tests(e: Expr) -> dict[str, list[str]]:
    return {
        print_expr(node): [("" if t.holds else "!") + print_expr(t.condition) for t in tests]
        for node, tests, _ in evaluated(e)
        if isinstance(node, Load)
    }


def test_sides_of_selects_have_their_condition() -> None:
    low, high = Compare("<", i, idx(3)), Compare("<", j, idx(3))
    e = Select(low, Load(X, (i,)), Select(high, Load(X, (j,)), const(0, dt.float32)))
    assert loads_with_tests(e) == {"X[i]": ["i < 3"], "X[j]": ["!i < 3", "j < 3"]}


def test_right_sides_are_evaluated_where_the_left_leaves_it_open() -> None:
    left, right = Load(FLAGS, (i,)), Load(FLAGS, (j,))
    assert loads_with_tests(Binary("&&", left, right)) == {"F[i]": [], "F[j]": ["F[i]"]}
    assert loads_with_tests(Binary("||", left, right)) == {"F[i]": [], "F[j]": ["!F[i]"]}


def test_parts_come_in_program_order_parents_first() -> None:
    e, inner = Binary("+", Load(X, (i + j,)), Load(X, (j,))), ["X[i + j]", "i + j", "i", "j", "X[j]", "j"]
    assert [print_expr(n) for n, _, _ in evaluated(e)] == ["X[i + j] + X[j]", *inner]


def test_values_of_sums_are_evaluated_at_the_points_of_their_axes() -> None:
    axis = Axis(j, idx(0), idx(4))
    e = Reduce("+", (axis,), Load(X, (j,)))
    assert [axes for n, _, axes in evaluated(e) if isinstance(n, Load)] == [(axis,)]
