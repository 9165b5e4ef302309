"""Reads outside a tensor against numpy's padding."""

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.errors import InternalError
from weft.ir.expr import Const, Load, Select, Var, const
from weft.ir.visit import walk
from weft.tensor.boundary import Outside, expand_outside
from weft.tensor.build import ProgramBuilder, RangeClause
from weft.tensor.evaluate import evaluate

i, j = Var("i"), Var("j")


def zero_outside(load):
    return Outside(load, "value", const(0, load.dtype))


def padded(mode, before, fill=None):
    """``O(i) = A(i - before)`` over ``A.0 + 2 * before`` elements."""
    b = ProgramBuilder("pad")
    n = b.size("N")
    b.input("A", dt.float32, (n,))
    b.declare_output("O")
    load = b.access("A", (i - before,))
    where = [RangeClause(i, Const(0, dt.index), n + 2 * before)]
    b.statement("O", (i,), "=", False, Outside(load, mode, fill), where=where)
    return b.finish()


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect"])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("before", [0, 1, 4])
def test_modes_are_those_of_numpy(mode, size, before):
    a = np.arange(1, size + 1, dtype=np.float32)
    (out,) = evaluate(padded(mode, before), [a])
    np.testing.assert_array_equal(out, np.pad(a, before, mode=mode))


@pytest.mark.parametrize("fill", [0.0, -2.5, float("inf")])
def test_a_stated_value(fill):
    a = np.arange(1, 6, dtype=np.float32)
    (out,) = evaluate(padded("value", 3, const(fill, dt.float32)), [a])
    np.testing.assert_array_equal(out, np.pad(a, 3, constant_values=fill))


def test_an_empty_tensor_has_only_outside():
    (out,) = evaluate(padded("value", 2, const(7, dt.float32)), [np.zeros(0, np.float32)])
    np.testing.assert_array_equal(out, np.full(4, 7, np.float32))


def test_accesses_with_a_defined_outside_do_not_bound_ranges():
    b = ProgramBuilder("shift")
    n = b.size("N")
    b.input("A", dt.float32, (n,))
    b.input("B", dt.float32, (n,))
    b.declare_output("O")
    value = zero_outside(b.access("A", (i - 1,))) + b.access("B", (i,))
    b.statement("O", (i,), "=", False, value)
    assert b.finish().statements[0].axes[0].hi == n


def test_nothing_of_the_node_is_left_and_scalars_need_no_test():
    b = ProgramBuilder("f")
    b.input("A", dt.float32, (b.size("N"), b.size("N")))
    b.input("s", dt.float32, ())
    inner = zero_outside(b.access("A", (i, j - 1)))
    expanded = expand_outside(inner * inner)
    assert not [n for n in walk(expanded) if isinstance(n, Outside)]
    assert len([n for n in walk(expanded) if isinstance(n, Select)]) == 2
    assert isinstance(expand_outside(zero_outside(b.access("s", ()))), Load)


def test_a_fill_of_another_type_is_refused():
    b = ProgramBuilder("f")
    b.input("A", dt.float32, (b.size("N"),))
    load = b.access("A", (i,))
    with pytest.raises(InternalError, match="types differ"):
        Outside(load, "value", const(0, dt.int32))
    with pytest.raises(InternalError, match="takes fill"):
        Outside(load, "edge", const(0, dt.float32))
