"""Accesses: proved, refused with a witness, required of sizes, or left to the call."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import ShapeError
from weft.ir.expr import Axis, Binary, Cast, Compare, Load, Select, Unary, Var, const, idx
from weft.tensor.boundary import Outside, expand_outside
from weft.tensor.find_witness import evaluate_index
from weft.tensor.program import Statement
from weft.tensor.prove_bounds import GuardedAccess, check_access, check_bounds, unproved_accesses
from weft.tensor.text import describe

i, j, N, M = Var("i"), Var("j"), Var("N"), Var("M")
ZERO = const(0, dt.float32)


def axis(var, lo, hi):
    return Axis(var, idx(lo) if isinstance(lo, int) else lo, idx(hi) if isinstance(hi, int) else hi)


def read(size, index, *axes, guard=None):
    """``O(axes) = A(index)`` with A of ``size``, perhaps only where ``guard`` holds."""
    size = idx(size) if isinstance(size, int) else size
    load = Load(Buffer("A", dt.float32, (size,)), (index if not isinstance(index, int) else idx(index),))
    value = load if guard is None else Select(guard, load, ZERO)
    out = Buffer("O", dt.float32, tuple(a.hi for a in axes))
    return Statement(out, tuple(a.var for a in axes), "=", False, value, axes)


def verdict(statement):
    """The verdict on the one read of A."""
    return check_access(_access(statement), 0).kind


def _access(statement):
    from weft.tensor.prove_bounds import guarded_accesses

    return next(a for a in guarded_accesses(statement) if a.buffer.name == "A")


@pytest.mark.parametrize(
    "statement",
    [
        read(N, i, axis(i, 0, N)),
        read(N, i + 3, axis(i, 0, N - 3)),
        read(N, N - 1 - i, axis(i, 0, N)),
        read(N, i - 1, axis(i, 1, N)),
        read(N, i * 2, axis(i, 0, Binary("//", N + 1, idx(2)))),
        read(N, i - j, axis(i, 0, N), axis(j, 0, i + 1)),
        read(N, i + j, axis(i, 0, N), axis(j, 0, N - i)),
        read(N, Binary("min", i, N - 1), axis(i, 0, M), axis(j, 0, N)),
        read(N, Binary("//", i, idx(2)), axis(i, 0, N * 2)),
        read(4, Binary("%", i, idx(4)), axis(i, 0, N)),
        read(N, i - 1, axis(i, 0, N), guard=Compare(">=", i, idx(1))),
        read(N, i - 1, axis(i, 0, N), guard=Compare("!=", i, idx(0))),
        read(N, i - 1, axis(i, 0, N), guard=Unary("!", Compare("<", i, idx(1)))),
        read(8, i + 1, axis(i, 0, 8), guard=Compare("<", Cast(dt.int32, i) + 1, const(8, dt.int32))),
        read(N, i, axis(i, 0, Binary("min", M, N))),
        read(N * M, i * M + j, axis(i, 0, N), axis(j, 0, M)),
        read(256, Cast(dt.index, Load(Buffer("I", dt.uint8, (N,)), (i,))), axis(i, 0, N)),
        read(N, 5, axis(i, 0, 0)),
    ],
    ids=lambda s: describe(s.value),
)
def test_proved(statement):
    assert verdict(statement) == "proved"


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        (read(M, i, axis(i, 0, N)), "M >= N || N <= 0"),
        (read(N, i, axis(i, 0, 5)), "N >= 5"),
        (read(N, i - M, axis(i, 0, N)), "0 >= M || N <= 0"),
    ],
    ids=lambda x: describe(x.value) if isinstance(x, Statement) else x,
)
def test_sizes_decide(statement, condition):
    (requirement,) = check_bounds(statement)
    assert describe(requirement.condition) == condition


@pytest.mark.parametrize(
    "statement",
    [
        read(N, Cast(dt.index, Load(Buffer("I", dt.int32, (N,)), (i,))), axis(i, 0, N)),
        read(N, i * i, axis(i, 0, N)),
        read(N, i - 1, axis(i, 0, N), guard=Compare(">", Load(Buffer("A", dt.float32, (N,)), (i,)), ZERO)),
    ],
    ids=lambda s: describe(s.value),
)
def test_only_the_call_decides(statement):
    assert check_bounds(statement) == []
    ((unproved, _),) = [u for u in unproved_accesses(statement) if u[1] == 0]
    assert unproved.buffer.name == "A"
    assert len(unproved.guards) == isinstance(statement.value, Select)


def test_a_narrow_guard_that_may_wrap_proves_nothing():
    huge = 2**32 + 8
    guard = Compare("<", Cast(dt.int32, i), const(8, dt.int32))
    assert verdict(read(8, i, axis(i, 0, huge), guard=guard)) != "proved"
    assert verdict(read(8, i, axis(i, 0, 100), guard=guard)) == "proved"


def test_a_read_below_zero_is_refused_at_definition_with_the_remedy():
    with pytest.raises(ShapeError) as e:
        check_bounds(read(N, i - 1, axis(i, 0, N)))
    assert str(e.value) == (
        "error: `A(i-1)` reads outside `A`\n"
        "  why:   at i=0: index -1 of dimension 0, which has size N\n"
        "  help:  give the range: `where i in 1:N`, or say what is there: `where A outside zero`"
    )


def test_a_definite_violation_at_given_sizes_has_a_witness():
    with pytest.raises(ShapeError, match="at i=7, j=2: index 9 of dimension 0, which has size 9"):
        unproved_accesses(read(9, i + j, axis(i, 0, 8), axis(j, 0, 3)))


def test_a_triangular_violation_is_found_where_the_domain_has_points():
    assert unproved_accesses(read(11, i * 2 - j + 5, axis(i, 0, 6), axis(j, i, 6))) == []
    assert unproved_accesses(read(3, i, axis(i, 0, 6), axis(j, i, 3))) == []
    with pytest.raises(ShapeError, match="at i=0, j=5: index 5"):
        unproved_accesses(read(5, j, axis(i, 0, 6), axis(j, i, 6)))


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "value"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_expanded_boundaries_stay_inside(mode, size):
    load = Load(Buffer("A", dt.float32, (idx(size),)), (i - 3,))
    value = expand_outside(Outside(load, mode, ZERO if mode == "value" else None))
    out = Buffer("O", dt.float32, (idx(11),))
    assert unproved_accesses(Statement(out, (i,), "=", False, value, (axis(i, 0, 11),))) == []


small = st.integers(-3, 3)


@st.composite
def index_expressions(draw, depth=2):
    if depth == 0:
        return draw(st.sampled_from([i, j, idx(1), idx(2), idx(3)]))
    left = draw(index_expressions(depth=depth - 1))
    if draw(st.booleans()):
        return left
    op = draw(st.sampled_from(["+", "-", "min", "max", "*", "//", "%", "tdiv"]))
    right = idx(draw(st.integers(1, 4))) if op in ("*", "//", "%", "tdiv") else draw(index_expressions(depth=depth - 1))
    return Binary(op, left, right)


@settings(max_examples=150, deadline=None)
@given(index_expressions(), st.integers(-2, 2), st.integers(1, 5), st.integers(1, 5), st.integers(0, 9), st.booleans())
def test_proofs_are_never_wrong(index, lo, hi, extent, size, triangular):
    inner = axis(j, 0, i + 1 if triangular else extent)
    axes = (axis(i, lo, hi), inner)
    guard = Compare("<=", i, j)
    buffer = Buffer("A", dt.float32, (idx(size),))
    found = check_access(GuardedAccess(buffer, (index,), axes, (guard,), False), 0)
    values = []
    for a in range(lo, hi):
        for b in range(a + 1 if triangular else extent):
            if a <= b:
                values.append(evaluate_index(index, {"i": a, "j": b}))
    inside = all(0 <= v < size for v in values)
    assert inside == (found.kind != "refuted")
    if found.kind == "proved":
        assert inside
    if found.kind == "refuted":
        point = {n: int(v.value) for n, v in found.witness.items()}
        full = [dict(zip("ij", p)) for p in itertools.product(range(lo, hi), range(-5, 9))]
        assert any(all(p[n] == v for n, v in point.items()) for p in full)
        assert not 0 <= evaluate_index(index, {"i": 0, "j": 0, **point}) < size


@settings(max_examples=60, deadline=None)
@given(small, small, st.integers(1, 3), st.integers(0, 6), st.integers(0, 6), st.integers(0, 6))
def test_symbolic_proofs_hold_at_every_size(a, c, stride, n, m, size_offset):
    """What is proved with symbols is true with numbers put in for them."""
    index = i * stride + j * a + c
    statement = read(N + size_offset, index, axis(i, 0, N), axis(j, 0, M))
    if verdict(statement) == "proved":
        for x, y in itertools.product(range(n), range(m)):
            assert 0 <= stride * x + a * y + c < n + size_offset
