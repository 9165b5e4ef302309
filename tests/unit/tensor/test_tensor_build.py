"""The program builder: axes, types, shapes, what it refuses."""

import pytest

from weft.ir import dtype as dt
from weft.ir.errors import LanguageError, ShapeError
from weft.ir.expr import Axis, Binary, Cast, Compare, Const, Select, Var, cast, const, idx
from weft.ir.simplify import simplify
from weft.ir.visit import substitute
from weft.tensor.build import ProgramBuilder, RangeClause
from weft.tensor.text import describe

i, j, k, m, n = (Var(name) for name in "ijkmn")


def builder(*inputs, scalars=(), outputs=("O",)):
    """``builder(("A", "M K"), ...)`` with float32 inputs over sizes (or numbers) by name."""
    b = ProgramBuilder("f")
    for name, sizes, *rest in inputs:
        shape = tuple(idx(int(s)) if s.isdigit() else b.size(s) for s in sizes.split())
        b.input(name, rest[0] if rest else dt.float32, shape)
    for name in scalars:
        b.scalar(name, dt.int32)
    for name in outputs:
        b.declare_output(name)
    return b


def test_matmul_is_the_program_one_would_write_by_hand():
    b = builder(("A", "M K"), ("B", "K N"), outputs=["C"])
    b.statement("C", (m, n), "+", True, b.access("A", (m, k)) * b.access("B", (k, n)))
    program = b.finish()
    (s,) = program.statements
    assert s.axes == (Axis(m, idx(0), Var("M")), Axis(n, idx(0), Var("N")), Axis(k, idx(0), Var("K")))
    assert [a.var.name for a in s.reduce_axes] == ["k"]
    assert program.outputs[0].shape == (Var("M"), Var("N"))
    assert program.outputs[0].dtype == dt.float32
    assert [v.name for v in program.sizes] == ["M", "K", "N"]
    assert program.requirements == ()
    assert program.carried == ()
    assert program.temporaries == ()


def test_a_written_name_that_is_not_declared_is_a_temporary():
    b = builder(("A", "N"))
    b.statement("T", (i,), "=", False, b.access("A", (i,)) * 2)
    b.statement("O", (i,), "=", False, b.access("T", (i,)))
    program = b.finish()
    assert [t.name for t in program.temporaries] == ["T"]
    assert [o.name for o in program.outputs] == ["O"]


def test_plain_assignment_with_a_reduction_variable_is_refused():
    b = builder(("A", "N K"))
    with pytest.raises(LanguageError, match=r"`=` with reduction variable `k`") as e:
        b.statement("O", (i,), "=", False, b.access("A", (i, k)))
    assert "+=!" in str(e.value)


def test_inputs_are_never_written():
    b = builder(("A", "N"))
    with pytest.raises(LanguageError, match="cannot write `A`"):
        b.statement("A", (i,), "=", False, b.access("A", (i,)))


@pytest.mark.parametrize(("rank", "text"), [(1, "1 index is given"), (3, "3 indices are given")])
def test_the_rank_of_an_access_is_checked(rank, text):
    b = builder(("A", "N K"))
    with pytest.raises(ShapeError, match=text):
        b.access("A", (i, j, k)[:rank])


def test_a_target_keeps_its_rank():
    b = builder(("A", "N"))
    b.statement("O", (i,), "=", False, b.access("A", (i,)))
    with pytest.raises(ShapeError, match="`O` has 1 dimension"):
        b.statement("O", (i, j), "=", False, b.access("A", (i,)), where=[RangeClause(j, idx(0), idx(3))])


def test_narrowing_into_a_typed_output_is_refused_and_widening_casts():
    b = ProgramBuilder("f")
    b.input("A", dt.float32, (b.size("N"),))
    b.declare_output("H", dt.float16, (b.size("N"),))
    b.declare_output("D", dt.float64, (b.size("N"),))
    with pytest.raises(LanguageError, match="cannot put float32 into float16 tensor `H`"):
        b.statement("H", (i,), "=", False, b.access("A", (i,)))
    b.statement("H", (i,), "=", False, const(1.5, dt.float32))
    b.statement("D", (i,), "=", False, b.access("A", (i,)))
    half, double = b.finish().statements
    assert half.value == Const(1.5, dt.float16)
    assert double.value.dtype == dt.float64


def test_a_count_of_bools_is_an_int():
    b = builder(("A", "N"))
    b.statement("O", (), "+", True, Compare(">", b.access("A", (i,)), const(0, dt.float32)))
    assert b.finish().outputs[0].dtype == dt.int32


def test_sums_into_bools_are_refused():
    b = ProgramBuilder("f")
    b.input("A", dt.bool_, (b.size("N"),))
    b.declare_output("O", dt.bool_, ())
    with pytest.raises(LanguageError, match="into bool tensor"):
        b.statement("O", (), "+", True, b.access("A", (i,)))


def test_concatenation_grows_the_output():
    b = builder(("A", "N"), ("B", "M"))
    b.statement("O", (i,), "=", False, b.access("A", (i,)))
    b.statement("O", (i + Var("N"),), "=", False, b.access("B", (i,)))
    program = b.finish()
    assert describe(program.outputs[0].shape[0]) == "M+N"
    assert {s.target for s in program.statements} == {program.outputs[0]}


def test_a_scan_grows_its_output_and_reads_the_grown_one():
    b = builder(("A", "N"))
    b.statement("O", (idx(0),), "=", False, b.access("A", (idx(0),)))
    value = b.access("O", (i - 1,)) + b.access("A", (i,))
    b.statement("O", (i,), "=", False, value, where=[RangeClause(i, idx(1), Var("N"))])
    program = b.finish()
    assert program.carried == ()
    assert program.statements[1].value.left.buffer == program.outputs[0]


def test_a_scatter_needs_a_declared_size():
    b = builder(("X", "N"), ("I", "N", dt.int32))
    with pytest.raises(LanguageError, match="the size of dimension 0 of `O` is unknown"):
        b.statement("O", (b.access("I", (i,)),), "+", False, b.access("X", (i,)))


def test_a_declared_output_resolves_variables_nothing_else_does():
    b = ProgramBuilder("f")
    b.declare_output("O", dt.float32, (b.size("N"),))
    b.statement("O", (i,), "=", False, const(0, dt.float32))
    assert b.finish().statements[0].axes == (Axis(i, idx(0), Var("N")),)


def test_accumulating_or_reading_first_makes_an_output_carried():
    b = builder(("A", "N"))
    b.statement("O", (i,), "+", False, b.access("A", (i,)))
    assert b.finish().carried == ("O",)
    b = ProgramBuilder("f")
    b.input("A", dt.float32, (b.size("N"),))
    b.declare_output("O", dt.float32, (b.size("N"),))
    b.statement("O", (i,), "=", False, b.access("O", (i,)) + b.access("A", (i,)))
    assert b.finish().carried == ("O",)


def scan(lo):
    """``S(i) = A(i) + (i > lo ? S(i-1) : 0)`` in one statement."""
    b = ProgramBuilder("f")
    b.input("A", dt.float32, (b.size("N"),))
    b.declare_output("S", dt.float32, (b.size("N"),))
    before = Select(Compare(">", Cast(dt.int32, i), const(lo, dt.int32)), b.access("S", (i - 1,)), const(0, dt.float32))
    b.statement("S", (i,), "=", False, b.access("A", (i,)) + before, where=[RangeClause(i, idx(lo), Var("N"))])
    return b.finish()


def test_a_scan_that_reads_only_what_it_wrote_is_not_carried():
    assert scan(0).carried == ()
    assert scan(2).carried == ()


def test_integer_parameters_in_subscripts_become_constants():
    b = builder(("A", "N"), scalars=["S", "alpha"])
    stride = cast(dt.index, b._scalars["S"])
    b.statement("O", (i,), "=", False, b.access("A", (stride * i,)) * b._scalars["alpha"])
    program = b.finish()
    assert [c.name for c in program.constants] == ["S"]
    assert [describe(r.condition) for r in program.requirements] == ["S >= 1"]


def test_argmin_is_two_statements():
    b = builder(("D", "M N"), outputs=["I"])
    b.statement("I", (m,), "argmin", True, b.access("D", (m, n)))
    program = b.finish()
    best, place = program.statements
    assert best.target.name == "I_best"
    assert best.op == "min"
    assert best.initialize
    assert place.target.dtype == dt.int32
    assert place.op == "min"
    assert place.initialize
    assert isinstance(place.value, Select)
    assert isinstance(place.value.condition, Binary)
    assert place.value.otherwise == const(2**31 - 1, dt.int32)


@pytest.mark.parametrize("initialize", [True, False])
def test_argmin_wants_one_reduction_variable_and_a_bang(initialize):
    b = builder(("D", "M N"), outputs=["I"])
    indices = (m,) if not initialize else ()
    with pytest.raises(LanguageError, match="`argmin=` needs"):
        b.statement("I", indices, "argmin", initialize, b.access("D", (m, n)))


def test_triangular_ranges_follow_the_variable_they_depend_on():
    b = builder(("A", "N N"), outputs=["O"])
    b.statement("O", (j, i), "=", False, b.access("A", (i, j)), where=[RangeClause(j, idx(0), i + 1)])
    program = b.finish()
    assert [a.var.name for a in program.statements[0].axes] == ["i", "j"]
    assert describe(program.outputs[0].shape[0]) == "N"


def test_a_left_range_cannot_depend_on_a_reduction():
    b = builder(("A", "N N"))
    with pytest.raises(LanguageError, match="depends on reduction variable `k`"):
        b.statement("O", (i,), "+", True, b.access("A", (i, k)), where=[RangeClause(i, idx(0), k + 1)])


@pytest.mark.parametrize(
    ("clauses", "message"),
    [
        ([RangeClause(j, idx(0), idx(3))], "`j` has a range but is not used"),
        ([RangeClause(i, idx(0), Var("q"))], "unknown name `q` in the range of `i`"),
        ([RangeClause(i, idx(0), const(1.5, dt.float32))], "a bound of `i` is float32"),
    ],
)
def test_where_clauses_are_checked(clauses, message):
    b = builder(("A", "N"))
    with pytest.raises(LanguageError, match=message):
        b.statement("O", (i,), "=", False, b.access("A", (i,)), where=clauses)


def test_where_bounds_read_no_tensors():
    b = builder(("A", "N"), ("L", "N", dt.int32))
    bound = cast(dt.index, b.access("L", (idx(0),)))
    with pytest.raises(LanguageError, match="a bound of `i` reads a tensor"):
        b.statement("O", (i,), "=", False, b.access("A", (i,)), where=[RangeClause(i, idx(0), bound)])


def test_outputs_must_be_written_and_names_be_new():
    b = builder(("A", "N"))
    with pytest.raises(LanguageError, match="output `O` is never written"):
        b.finish()
    with pytest.raises(LanguageError, match="`A` is declared twice"):
        b.scalar("A", dt.int32)


def test_spelled_out_ranges_mean_the_same_program():
    def convolution(where):
        b = builder(("I", "H"), ("W", "K"), scalars=["S"])
        stride = cast(dt.index, b._scalars["S"])
        value = b.access("I", (stride * i + k,)) * b.access("W", (k,))
        b.statement("O", (i,), "+", True, value, where=where)
        return b.finish()

    inferred = convolution([])
    axes = inferred.statements[0].axes
    assert convolution([RangeClause(a.var, a.lo, a.hi) for a in axes]) == inferred


def test_ranges_that_depend_on_each_other_are_refused():
    b = builder(("A", "N N"))
    clauses = [RangeClause(i, idx(0), j + 1), RangeClause(j, idx(0), i + 1)]
    with pytest.raises(LanguageError, match="the range of `i` depends on itself"):
        b.statement("O", (i, j), "=", False, b.access("A", (i, j)), where=clauses)


def test_an_index_goes_into_an_integer_tensor():
    b = ProgramBuilder("f")
    b.input("D", dt.float32, (b.size("N"),))
    b.declare_output("I", dt.float32, ())
    with pytest.raises(LanguageError, match="needs an integer tensor"):
        b.statement("I", (), "argmax", True, b.access("D", (n,)))


def test_a_stride_under_an_intersection_is_proved():
    """``h`` ends at the lesser of two sizes, one of them a quotient; both ends are inside, so nothing is required."""
    b = builder(("G", "L"), ("A", "N"), scalars=["S", "K"])
    stride, width = (cast(dt.index, b._scalars[name]) for name in "SK")
    value = b.access("G", (i,)) * b.access("A", (stride * i + k,))
    b.statement("O", (k,), "+", True, value, where=[RangeClause(k, idx(0), width)])
    program = b.finish()
    assert "min(" in describe(program.statements[0].axes[1].hi)
    assert [describe(r.condition) for r in program.requirements] == ["S >= 1", "N-K+1 >= 0"]


def test_two_ranges_of_a_variable_hold_both():
    b = builder(("A", "N"))
    clauses = [RangeClause(i, idx(1), Var("N")), RangeClause(i, idx(0), idx(5))]
    b.statement("O", (i,), "=", False, b.access("A", (i,)), where=clauses)
    axis = b.finish().statements[0].axes[0]
    values = {Var("N"): idx(3)}
    assert (simplify(substitute(axis.lo, values)), simplify(substitute(axis.hi, values))) == (idx(1), idx(3))


def test_a_range_without_use_repeats_an_accumulation():
    b = builder(("A", "N"))
    b.statement("O", (i,), "+", True, b.access("A", (i,)), where=[RangeClause(j, idx(0), idx(3))])
    assert [a.var.name for a in b.finish().statements[0].axes] == ["i", "j"]
