"""Programs written in Python: what they mean, and the errors that point at the user's line."""

import numpy as np
import pytest

import weft
from weft.ir import dtype as dt
from weft.ir.errors import ArgumentError, LanguageError, ShapeError
from weft.ir.expr import Axis, Load, Var, idx
from weft.ir.intrinsics import INTRINSICS
from weft.lang.parse import parse_programs
from weft.tensor import python_api as api
from weft.tensor.build import ProgramBuilder
from weft.tensor.evaluate import evaluate
from weft.tensor.printer import print_program

M, N, K = api.sizes("M N K")
rng = np.random.default_rng(7)


def run(inputs, outputs, *args):
    results = evaluate(api.build_program(inputs, outputs), args)
    return results[0] if len(results) == 1 else results


def matrix(m, n):
    return rng.standard_normal((m, n)).astype(np.float32)


def test_matmul_is_the_same_program_as_the_builder_makes():
    A, B = api.placeholder("A", (M, K)), api.placeholder("B", (K, N))
    k = api.reduce_axis(K, "k")
    C = api.compute((M, N), lambda m, n: api.sum(A[m, k] * B[k, n], over=k), name="C")
    made = api.build_program([A, B], [C], name="mm")
    b = ProgramBuilder("mm")
    b.input("A", dt.float32, (b.size("M"), b.size("K")))
    b.input("B", dt.float32, (b.size("K"), b.size("N")))
    b.declare_output("C")
    m, n, k_ = Var("m"), Var("n"), Var("k")
    b.statement("C", (m, n), "+", True, b.access("A", (m, k_)) * b.access("B", (k_, n)))
    assert made == b.finish()


def test_every_public_name_is_found_from_weft():
    for name in api.__all__:
        if name != "build_program":
            assert getattr(weft, name) is getattr(api, name)
    assert set(INTRINSICS) <= set(api.__all__)


def test_softmax_with_reductions_inside_the_expression():
    X = api.placeholder("X", (M, N))
    j = api.reduce_axis(N, "j")

    def softmax(i, n):
        top = api.max(X[i, j], over=j)
        return api.exp(X[i, n] - top) / api.sum(api.exp(X[i, j] - top), over=j)

    Y = api.compute((M, N), softmax, name="Y")
    program = api.build_program([X], [Y])
    assert [t.name for t in program.temporaries] == ["Y_max", "Y_sum"]
    x = matrix(3, 5)
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(evaluate(program, [x])[0], e / e.sum(1, keepdims=True), rtol=1e-6)


def test_computes_chain_through_temporaries_with_names_of_their_own():
    X = api.placeholder("X", (N,))
    double = api.compute((N,), lambda i: X[i] * 2)
    plus = api.compute((N,), lambda i: double[i] + 1)
    out = api.compute((N,), lambda i: plus[i] * double[i], name="O")
    program = api.build_program([X], [out])
    assert [t.name for t in program.temporaries] == ["T", "T_1"]
    x = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(program, [x])[0], (2 * x + 1) * 2 * x)


def test_a_tensor_dropped_by_python_is_still_computed():
    X = api.placeholder("X", (N,))
    out = api.compute((N,), lambda i: api.compute((N,), lambda j: X[j] + 1)[i], name="O")
    np.testing.assert_array_equal(run([X], [out], np.zeros(3, np.float32)), np.ones(3, np.float32))


def test_equal_names_of_index_and_reduction_variables_are_kept_apart():
    X = api.placeholder("X", (N, N))
    i = api.reduce_axis(N, "i")
    out = api.compute((N,), lambda i_: api.sum(X[i_, i], over=i), name="O")
    same = api.compute((N,), eval("lambda i: api.sum(X[i, r], over=r)", {"api": api, "X": X, "r": i}), name="O")
    x = matrix(4, 4)
    np.testing.assert_allclose(run([X], [out], x), x.sum(1), rtol=1e-6)
    np.testing.assert_allclose(run([X], [same], x), x.sum(1), rtol=1e-6)


def test_several_outputs_in_the_order_given():
    X = api.placeholder("X", (N,))
    k = api.reduce_axis(N, "k")
    total = api.compute((), lambda: api.sum(X[k], over=k), name="total")
    scaled = api.compute((N,), lambda i: X[i] / total[()], name="scaled")
    a, b = run([X], [scaled, total], np.array([1, 3], np.float32))
    np.testing.assert_array_equal(a, [0.25, 0.75])
    assert b == 4


def test_arg_reductions():
    X = api.placeholder("X", (M, N))
    j = api.reduce_axis(N, "j")
    low = api.compute((M,), lambda i: api.argmin(X[i, j], over=j), name="L")
    high = api.compute((M,), lambda i: api.argmax(X[i, j], over=j) + 0, name="H")
    x = matrix(6, 9)
    x[2, 4] = np.nan
    a, b = run([X], [low, high], x)
    np.testing.assert_array_equal(a, np.argmin(x, 1))
    np.testing.assert_array_equal(b, np.argmax(x, 1))


def test_other_reductions():
    X = api.placeholder("X", (M, N), "int32")
    j = api.reduce_axis(N, "j")
    outs = [
        api.compute((M,), lambda i: api.prod(X[i, j], over=j), name="P"),
        api.compute((M,), lambda i: api.min(X[i, j], over=j), name="L"),
        api.compute((M,), lambda i: api.any(X[i, j] > 2, over=j), name="Y"),
        api.compute((M,), lambda i: api.all(X[i, j] > 0, over=j), name="W"),
        api.compute((M,), lambda i: api.sum(X[i, j] > 1, over=j), name="S"),
    ]
    x = rng.integers(0, 4, (5, 3)).astype(np.int32)
    got = run([X], outs, x)
    for a, b in zip(got, [x.prod(1), x.min(1), (x > 2).any(1), (x > 0).all(1), (x > 1).sum(1)]):
        np.testing.assert_array_equal(a, b)


def test_a_triangular_reduction():
    X = api.placeholder("X", (N,))

    def prefix(i):
        k = api.reduce_axis((0, i + 1), "k")
        return api.sum(X[k], over=k)

    S = api.compute((N,), prefix, name="S")
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(run([X], [S], x), np.cumsum(x))


def test_a_reduction_under_a_condition_reads_nothing_it_should_not():
    X = api.placeholder("X", (M, N))
    j = api.reduce_axis(N, "j")
    Y = api.compute((M,), lambda i: api.select(i > 0, api.sum(X[i - 1, j], over=j), -1), name="Y")
    x = matrix(4, 3)
    np.testing.assert_allclose(run([X], [Y], x), [-1, *x.sum(1)[:-1]], rtol=1e-6)


@pytest.mark.parametrize(("mode", "pad"), [("edge", "edge"), ("wrap", "wrap"), ("reflect", "reflect")])
def test_boundaries(mode, pad):
    X = api.placeholder("X", (N,))
    Y = api.compute((N,), lambda i: X.outside(mode)[i - 1] + X.outside(mode)[i + 1], name="Y")
    x = np.arange(1, 6, dtype=np.float32)
    p = np.pad(x, 1, mode=pad)
    np.testing.assert_array_equal(run([X], [Y], x), p[:-2] + p[2:])


def test_a_stated_outside_and_zero():
    X = api.placeholder("X", (N,), "int64")
    Y = api.compute((N,), lambda i: X.outside("zero")[i - 1] + X.outside(9)[i + 1], name="Y")
    np.testing.assert_array_equal(run([X], [Y], np.array([1, 2, 3])), [2, 4, 11])


def test_scalars_as_values_strides_and_sizes():
    X = api.placeholder("X", (N,))
    alpha, S = api.scalar("alpha"), api.scalar("S", "int32")
    Y = api.compute((N // 2,), lambda i: alpha * X[S * i], name="Y")
    program = api.build_program([X, alpha, S], [Y])
    assert [c.name for c in program.constants] == ["S"]
    x = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(evaluate(program, [x, 0.5, 2])[0], x[::2] * 0.5)


def test_index_variables_as_values():
    X = api.placeholder("X", (N,))
    Y = api.compute((N,), lambda i: X[i] + i * 2 + N, name="Y")
    Z = api.compute((N,), lambda i: i % 3, name="Z")
    y, z = run([X], [Y, Z], np.zeros(5, np.float32))
    np.testing.assert_array_equal(y, np.arange(5) * 2 + 5)
    assert y.dtype == np.float32
    assert z.dtype == np.int32
    np.testing.assert_array_equal(z, np.arange(5) % 3)


def test_gather_and_comparison_operators():
    X, at_ = api.placeholder("X", (M,)), api.placeholder("I", (N,), "int32")
    Y = api.compute((N,), lambda i: api.where((at_[i] == 0) | ~(at_[i] != 2), X[at_[i]], -X[at_[i]]), name="Y")
    x, at = np.array([1, 2, 3], np.float32), np.array([2, 1, 0, 1], np.int32)
    np.testing.assert_array_equal(run([X, at_], [Y], x, at), [3, -2, 1, -2])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_python_floats_take_the_type_they_meet(dtype):
    X = api.placeholder("X", (N,), dtype)
    Y = api.compute((N,), lambda i: 0.5 * X[i] + api.exp(X[i]), name="Y")
    assert api.build_program([X], [Y]).outputs[0].dtype == dt.parse_dtype(dtype)


def test_python_division_and_powers():
    X = api.placeholder("X", (N,))
    outs = [
        api.compute((N,), lambda i: X[i] // 2.0, name="F"),
        api.compute((N,), lambda i: X[i] % 3.0, name="R"),
        api.compute((N,), lambda i: X[i] ** 2 + 2.0 ** X[i], name="P"),
    ]
    x = np.array([-3.5, -1, 0, 2.5, 7], np.float32)
    for got, want in zip(run([X], outs, x), [x // 2, x % 3, x**2 + 2**x]):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_one_variable_may_not_be_reduced_under_an_axis_the_program_lost():
    X = api.placeholder("X", (N,))
    k = api.reduce_axis(N, "k")
    with pytest.raises(LanguageError, match="`k` has no meaning here") as e:
        api.compute((N,), lambda i: X[k], name="Y")
    assert "weft.sum(..., over=k)" in str(e.value)


A = api.placeholder("A", (M, K))
kk = api.reduce_axis(K, "k")


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: A[1], ShapeError, "`A` has 2 dimensions, but 1 index is given"),
        (lambda: api.compute((M,), lambda i: A[i, 0.5]), LanguageError, "a subscript of `A` is float32"),
        (
            lambda: api.compute((M,), lambda i, j: A[i, j]),
            ArgumentError,
            "takes 2 index variables, but the shape has 1",
        ),
        (lambda: api.sum(A[0, kk], over=3), ArgumentError, "`over` takes reduction axes"),
        (lambda: api.sum(A[0, kk], over=(M,)), ArgumentError, "`over` takes reduction axes"),
        (lambda: api.placeholder("A", (M,), "float33"), ArgumentError, "unknown element type `float33`"),
        (lambda: api.placeholder("1A", (M,)), ArgumentError, "`1A` is not a name"),
        (lambda: A.outside("mirror"), ArgumentError, "unknown boundary `mirror`"),
        (lambda: api.select(True, 1, 2), LanguageError, "is the Python value True"),
        (lambda: bool(A[0, 0] > 1), LanguageError, "no truth value"),
        (lambda: api.exp(A[0, 0], A[0, 0]), ArgumentError, "`exp` takes 1 argument, not 2"),
        (lambda: api.popcount(A[0, 0]), LanguageError, "takes integers"),
        (lambda: A[0, 0] + "x", LanguageError, "cannot compute with a str"),
        (lambda: A[0, 0] + A, LanguageError, "cannot compute with a Tensor"),
        (lambda: api.build_program([A], [A]), ArgumentError, "made with weft.compute"),
        (lambda: api.build_program([], [api.compute((M,), lambda i: A[i, 0])]), LanguageError, "`A` is used but"),
    ],
)
def test_mistakes(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_errors_point_at_the_users_line():
    with pytest.raises(ShapeError) as e:
        api.compute((M,), lambda i: A[i] + 1)
    where = str(e.value).splitlines()[1:3]
    assert "test_tensor_python_api.py:" in where[0]
    assert where[1][where[0].index("A[i]") :].startswith("^^^^")


def test_out_of_range_reads_are_refused_at_the_access():
    X = api.placeholder("X", (N,))
    Y = api.compute((N,), lambda i: X[i - 1], name="Y")
    with pytest.raises(ShapeError) as e:
        api.build_program([X], [Y])
    assert "`X(i-1)` reads outside `X`" in str(e.value)
    assert "X[i - 1]" in str(e.value)


def test_ranges_are_the_shape_given():
    X = api.placeholder("X", (N,))
    Y = api.compute((3,), lambda i: X[i], name="Y")
    program = api.build_program([X], [Y])
    assert program.statements[0].axes == (Axis(Var("i"), idx(0), idx(3)),)
    assert isinstance(program.statements[0].value, Load)
    assert len(program.requirements) == 1


def test_a_scan_is_a_block_of_steps():
    X, S0 = api.placeholder("X", (N, M)), api.placeholder("S0", (M,))
    scale = api.compute((M,), lambda i: S0[i] * 0.0 + 0.5, name="Scale")

    def step(t, s):
        total = api.compute((), lambda: api.sum(s[k], over=k), name="Total")
        return [api.compute((M,), lambda i: scale[i] * s[i] + X[t, i] + total[()], name="S")]

    k = api.reduce_axis(M, "k")
    (steps,) = api.scan(N, [S0], step)
    last = api.compute((M,), lambda i: steps[N, i], name="Last")
    program = api.build_program([X, S0], [steps, last], name="f")
    text = print_program(program)
    assert parse_programs(text)["f"] == program
    assert text.index("Scale(i) =") < text.index("for t in 0:N {") < text.index("Total +=!")
    x, s = matrix(5, 3), matrix(1, 3)[0]
    found, end = evaluate(program, [x, s])
    wanted = [s.astype(np.float64)]
    for row in x:
        wanted.append(0.5 * wanted[-1] + row + wanted[-1].sum())
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(end, wanted[-1], rtol=1e-5)


def test_states_of_a_scan_keep_their_number_type_and_shape():
    X = api.placeholder("X", (N,))
    with pytest.raises(ArgumentError, match="a step of this scan gives 1 tensor"):
        api.scan(N, [X], lambda t, x: [])
    with pytest.raises(ShapeError, match="`Y` does not follow `X`"):
        api.scan(N, [X], lambda t, x: [api.compute((M,), lambda i: x[i], name="Y")])
