"""Ranges solved from subscripts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtype as dt
from weft.ir.errors import LanguageError, ShapeError
from weft.ir.expr import Binary, Cast, Var, const, idx
from weft.ir.simplify import simplify
from weft.ir.visit import substitute
from weft.tensor.build import ProgramBuilder, RangeClause
from weft.tensor.text import describe

N, M, K = Var("N"), Var("M"), Var("K")
i, j, k = Var("i"), Var("j"), Var("k")
S, P = (Cast(dt.index, Var(name, dt.int32)) for name in "SP")


def program(*reads, left=(i,), where=(), sizes=None, output=None, exists=()):
    """``O(left) +=! A(..) * B(..) ..``: the reads of A, B, ... in order, each a tuple of subscripts."""
    b = ProgramBuilder("f")
    for name in "SP":
        b.scalar(name, dt.int32)
    names = "ABCDEFG"[: len(reads) + len(exists)]
    shapes = sizes or [tuple(Var("MNKQR"[r]) for r in range(len(read))) for read in (*reads, *exists)]
    for name, shape in zip(names, shapes):
        for v in shape:
            if isinstance(v, Var):
                b.size(v.name)
        b.input(name, dt.float32, shape)
    b.declare_output("O", None if output is None else dt.float32, output)
    loads = [b.access(name, read) for name, read in zip(names, (*reads, *exists))]
    value = loads[0]
    for load in loads[1 : len(reads)]:
        value = value * load
    b.statement("O", left, "+", True, value, where=where, exists=loads[len(reads) :])
    return b.finish()


def ranges(*reads, **kw):
    return {a.var.name: f"{describe(a.lo)}:{describe(a.hi)}" for a in program(*reads, **kw).statements[0].axes}


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (i, "0:M"),
        (i + 3, "0:M-3"),
        (i * 2, "0:(M+1)/2"),
        (i * 2 + 1, "0:M/2"),
        (M - 1 - i, "0:M"),
        (i * 3 + 1, "0:(M+1)/3"),
        (S * i, "0:(M+S-1)/S"),
        (i + P, "0:M-P"),
        (Binary("//", i, idx(2)), "0:2*M"),
        (Binary("tdiv", i + 1, idx(2)), "0:2*M-1"),
    ],
)
def test_one_subscript_gives_the_largest_range_from_zero(index, expected):
    assert ranges((index,)) == {"i": expected}


def test_a_convolution_resolves_the_kernel_first():
    assert ranges((i + k,), (k,), sizes=[(N,), (K,)]) == {"i": "0:N-K+1", "k": "0:K"}


def test_a_strided_dilated_convolution():
    found = ranges((S * i + P * k,), (k,), sizes=[(N,), (K,)])
    assert found == {"i": "0:(N+P+S-K*P-1)/S", "k": "0:K"}


def test_the_stride_must_be_positive_and_the_kernel_fit():
    requirements = program((S * i + k,), (k,), sizes=[(N,), (K,)]).requirements
    assert [describe(r.condition) for r in requirements] == ["S >= 1", "N-K+1 >= 0"]
    assert "`S` must be at least 1" in requirements[0].message


def test_ranges_of_one_round_intersect():
    assert ranges((i,), (i,), sizes=[(N,), (N + 2,)]) == {"i": "0:N"}
    assert ranges((i,), (i,), sizes=[(M,), (N,)]) == {"i": "0:min(M, N)"}


def test_a_later_round_does_not_narrow_but_is_required():
    p = program((i,), (i + k,), (k,), sizes=[(N,), (M,), (K,)])
    assert describe(p.statements[0].axes[0].hi) == "N"
    assert [describe(r.condition) for r in p.requirements] == ["M+1 >= K+N || N <= 0 || K <= 0"]


def test_independent_shifts_do_not_read_outside():
    """The program Tensor Comprehensions got wrong: ``B(i) + B(j+3)``."""
    found = ranges((i,), (j + 3,), left=(i, j), sizes=[(N,), (N,)])
    assert found == {"i": "0:N", "j": "0:N-3"}


def test_a_where_range_is_taken_as_it_stands():
    assert ranges((i - 1,), where=[RangeClause(i, idx(1), N)], sizes=[(N,)]) == {"i": "1:N"}
    assert ranges((i, j), where=[RangeClause(j, idx(0), i + 1)], left=(i, j), sizes=[(N, N)])["j"] == "0:i+1"


def test_a_triangular_range_bounds_what_depends_on_it():
    found = ranges((i + j,), where=[RangeClause(j, idx(0), i + 1)], left=(i, j), sizes=[(N,)], exists=())
    assert found["i"] == "0:(N+1)/2"


def test_quotients_and_remainders_of_other_variables():
    """Depth to space: ``A(4*c + 2*(h%2) + w%2, h/2, w/2)``."""
    c, h, w = Var("c"), Var("h"), Var("w")
    depth = c * 4 + Binary("tmod", h, idx(2)) * 2 + Binary("tmod", w, idx(2))
    found = ranges((depth, Binary("tdiv", h, idx(2)), Binary("tdiv", w, idx(2))), left=(c, h, w))
    assert found == {"c": "0:M/4", "h": "0:2*N", "w": "0:2*K"}


def test_exists_helps_inference_only():
    p = program((idx(0),), left=(i,), sizes=[(M,), (N,)], exists=[(i,)])
    assert describe(p.statements[0].axes[0].hi) == "N"


def test_a_declared_output_is_the_last_resort():
    assert ranges((i,), left=(i,), sizes=[(N,)], output=(N,)) == {"i": "0:N"}
    found = ranges((idx(0),), left=(i,), sizes=[(idx(4),)], output=(idx(7),))
    assert found == {"i": "0:7"}


def test_an_unknown_range_says_why_and_what_to_add():
    with pytest.raises(LanguageError) as e:
        ranges((i,), left=(i, j))
    assert str(e.value) == (
        "error: unknown range of index variable `j`\n"
        "  why:   no access to a tensor of known size mentions `j`\n"
        "  help:  add `where j in 0:...` with the range you mean"
    )


def test_variables_tied_to_each_other_are_both_named():
    with pytest.raises(LanguageError, match="index variables `i`, `j`") as e:
        ranges((i + j,), left=(i, j))
    assert "`i` is tied to `j` in `A(i+j)`" in str(e.value)


def test_a_subscript_that_is_not_affine_is_named():
    with pytest.raises(LanguageError, match=r"`i` cannot be solved from `A\(i\*i\)`"):
        ranges((i * i,))


@pytest.mark.parametrize(
    ("left", "shape"),
    [
        ((i,), "N"),
        ((i + 2,), "N+2"),
        ((i * 2,), "max(2*N-1, 0)"),
        ((N - 1 - i,), "N"),
        ((idx(3),), "4"),
        ((Binary("tdiv", i, idx(2)),), "(N+1)/2"),
    ],
)
def test_the_output_just_covers_what_is_written(left, shape):
    where = [RangeClause(i, idx(0), N)]
    assert describe(program((i,), left=left, where=where, sizes=[(N,)]).outputs[0].shape[0]) == shape


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from([-3, -2, -1, 1, 2, 3]),
    st.integers(-2, 3),
    st.integers(0, 6),
    st.integers(1, 4),
    st.integers(1, 30),
)
def test_the_range_is_the_largest_that_stays_inside(slope, other, offset, width, size):
    """Against trying every value: ``A(slope*i + other*k + offset)`` with ``k`` in ``0:width``."""

    def inside(v):
        return all(0 <= slope * v + other * w + offset < size for w in range(width))

    wanted = next(v for v in range(100) if not inside(v))
    clause = RangeClause(k, idx(0), idx(width))
    try:
        p = program((i * slope + k * other + offset,), where=[clause], sizes=[(idx(size),)])
    except ShapeError:
        assert not inside(0)
        return
    found = p.statements[0].axes[0]
    if inside(0):
        assert describe(found.hi) == str(wanted)
    else:
        # Nothing fits: the range is empty, or negative and refused when sizes are checked.
        assert int(found.hi.value) <= 0


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 12), st.integers(1, 4))
def test_symbolic_ranges_equal_those_of_numbers(stride, dilation, n, width):
    """``A(S*i + P*k) * B(k)``: sizes put into the symbolic range give the range found for those sizes."""
    symbolic = program((S * i + P * k,), (k,), sizes=[(N,), (K,)]).statements[0].axes[0].hi
    values = {N: idx(n), K: idx(width), Var("S", dt.int32): const(stride, dt.int32)}
    values[Var("P", dt.int32)] = const(dilation, dt.int32)
    room = n - dilation * (width - 1)
    assert simplify(substitute(symbolic, values)) == idx(-(-room // stride))
