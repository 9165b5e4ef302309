from __future__ import annotations

import numpy as np
import pytest
from tensor_oracles import all_ways, program_of, run_loops, sizes_of

from weft.ir.errors import Error
from weft.ir.expr import idx
from weft.ir.printer import print_kernel
from weft.ir.stmt import Alloc, Assert, Block, For, Seq
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.tensor.lower import lower
from weft.tensor.specialize import specialize

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }"
rng = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def ints(high: int, *shape: int) -> np.ndarray:
    return rng.integers(0, high, shape).astype(np.int32)


def blocks(kernel) -> dict[str, Block]:
    return {b.name: b for b in walk(kernel) if isinstance(b, Block)}


def test_matmul_is_one_nest_with_init():
    kernel = lower(specialize(program_of(MATMUL), {"M": 2, "N": 3, "K": 4}))
    assert (
        print_kernel(kernel)
        == """\
kernel mm(A: float32[2, 4], B: float32[4, 3], out C: float32[2, 3]) {
  for m in 0:2 {
    for n in 0:3 {
      for k in 0:4 {
        block C(vm spatial 0:2 = m, vn spatial 0:3 = n, vk reduce 0:4 = k)
            reads C[vm, vn], A[vm, vk], B[vk, vn]
            writes C[vm, vn]
        {
          init {
            C[vm, vn] = 0.0
          }
          C[vm, vn] = C[vm, vn] + A[vm, vk] * B[vk, vn]
        }
      }
    }
  }
}
"""
    )


def test_symbolic_sizes_are_parameters_and_may_be_zero():
    kernel = lower(program_of(MATMUL))
    assert [p.name for p in kernel.params] == ["A", "B", "M", "K", "N", "C"]
    assert list(blocks(kernel)) == ["C_init", "C"]
    assert blocks(kernel)["C"].init is None


def test_every_node_has_the_statements_span():
    kernel = lower(program_of(MATMUL))
    for node in walk(kernel):
        if isinstance(node, (For, Block)):
            assert node.span is not None
            assert node.span.line == 1


def test_loop_names_never_clash_with_tensors_or_sizes():
    program = program_of("def f(float(N) vi, float(N) i0) -> (float(9) O) { O(2*i) = vi(i) + i0(i) where i in 0:N }")
    verify(lower(program))


def test_block_names_are_unique():
    kernel = lower(program_of("def f(float(N) A) -> (O) { O(i) = A(i)\n O(i) = O(i) + 1.0\n O(i) = O(i) * 2.0 }"))
    assert list(blocks(kernel)) == ["O", "O_1", "O_2"]


@pytest.mark.parametrize(
    ("text", "fills"),
    [
        ("def f(float(N) A) -> (O) { O(i) = A(i) }", []),
        ("def f(float(N) A, float(M) B) -> (O) { O(i) = A(i)\n O(i+N) = B(i) }", []),
        ("def f(float(N,M) A, float(N,K) B) -> (O) { O(i,j) = A(i,j)\n O(i,j+M) = B(i,j) }", []),
        ("def f(float(N) A) -> (float(20) O) { O(i) = A(i) }", ["O_fill"]),
        ("def f(float(N) A) -> (float(20) O) { O(2*i) = A(i) }", ["O_fill"]),
        ("def f(float(N,N) A) -> (O) { O(i,j) = A(i,j) where j in 0:i+1 }", ["O_fill"]),
        ("def f(float(N) A, int(N) I) -> (float(9) O) { O(I(i)) = A(i) }", ["O_fill"]),
        ("def f(float(N) A, int(N) I) -> (float(9) O) { O(I(i)) +=! A(i) }", []),
        ("def f(float(N,M) A) -> (O) { T(i) *= A(i,j)\n O(i) = T(i) }", ["T_fill"]),
        ("def f(float(N,M) A) -> (O) { O(i) += A(i,j) }", []),
        ("def f(float(N) A) -> (O) { T(i) = A(i) + (i > 0 ? T(i-1) : 0.0)\n O(i) = T(i) }", []),
        ("def f(float(N) A) -> (float(N) O) { O(i) = A(i) where i in 0:1\n O(i) = O(i-1) where i in 1:N }", []),
        ("def f(float(N) A, int(N) I) -> (float(N) O) { O(i) = A(i) where i in 0:1\n O(i) = O(I(i)) }", ["O_fill"]),
        ("def f(float(N) A) -> (O) { O(i) = A(i)\n O(i) = O(i) + 1.0 }", []),
    ],
)
def test_fills_only_what_is_not_provably_written(text, fills):
    kernel = lower(program_of(text))
    assert [name for name in blocks(kernel) if name.endswith("_fill")] == fills


def test_overlapping_pieces_cover_once_sizes_are_known():
    program = program_of("def f(float(N) A) -> (float(8) O) { O(i) = A(i)\n O(i+3) = A(i) }")
    assert "O_fill" in blocks(lower(program))
    assert "O_fill" not in blocks(lower(specialize(program, {"N": 5})))


def test_temporaries_are_allocated_around_everything():
    kernel = lower(program_of("def f(float(N) A) -> (O) { T(i) = A(i)\n U(i) = T(i)\n O(i) = U(i) }"))
    assert isinstance(kernel.body, Alloc)
    assert isinstance(kernel.body.body, Alloc)
    assert kernel.body.buffer.scope == "global"


def test_iterators_that_meet_an_element_twice_are_reductions():
    kernel = lower(program_of("def f(float(N,D) X, int(N) I) -> (float(5,D) O) { O(I(n),d) +=! X(n,d) }"))
    assert [i.kind for i in blocks(kernel)["O"].iters] == ["reduce", "spatial"]
    scan = "def s(float(N,D) X) -> (Y) { Y(i,j) = X(i,j) where i in 0:1\n Y(i,j) = Y(i-1,j) + X(i,j) where i in 1:N }"
    assert [i.kind for i in blocks(lower(program_of(scan)))["Y_1"].iters] == ["reduce", "spatial"]


def test_strides_reach_loads_and_parameters():
    program = specialize(program_of(MATMUL), {"M": 2, "N": 3, "K": 4}, {"A": (1, 2), "C": (3, 1)})
    kernel = lower(program)
    assert kernel.params[0].strides == (idx(1), idx(2))
    assert {b.strides for b in kernel.buffers} == {(idx(1), idx(2)), None, (idx(3), idx(1))}
    verify(kernel)


# -- checks

LOOKUP = "def lut(float(E,D) LUT, int(B,L) I) -> (O) { O(b,d) +=! LUT(I(b,l),d) }"


def test_lookup_is_tested_before_anything_is_written():
    program = program_of(LOOKUP)
    kernel = lower(specialize(program, {"E": 10, "D": 4, "B": 2, "L": 3}))
    assert isinstance(kernel.body, Seq)
    first = kernel.body.body[0]
    assert isinstance(first, For)
    assert [n.var.name for n in walk(first) if isinstance(n, For)] == ["b", "l"]
    assert any(isinstance(n, Assert) for n in walk(first))


def test_lookup_out_of_range_says_where():
    program = program_of(LOOKUP)
    table, where = floats(10, 4), np.array([[1, 2], [10, 3]], np.int32)
    for symbolic in (False, True):
        with pytest.raises(Error) as caught:
            run_loops(program, [table, where], {}, symbolic)
        assert caught.value.what == (
            "LUT index out of range in `O(b, d) +=! LUT(I(b, l), d)`: I[1, 0] = 10, but LUT has 10 rows"
        )


def test_negative_lookup_is_out_of_range():
    with pytest.raises(Error, match=r"I\[0, 1\] = -1, but LUT has 10 rows"):
        run_loops(program_of(LOOKUP), [floats(10, 4), np.array([[1, -1]], np.int32)], {}, False)


def test_nested_lookups_are_tested_from_the_inside():
    program = program_of("def g(float(E) A, int(F) P, int(N) I) -> (O) { O(i) = A(P(I(i))) }")
    with pytest.raises(Error, match=r"P index out of range.*I\[1\] = 3, but P has 3 elements"):
        run_loops(program, [floats(5), ints(5, 3), np.array([0, 3], np.int32)], {}, False)


def test_lookup_by_an_earlier_result_is_tested_before_its_statement():
    program = program_of("def g(float(E) A, int(N) I) -> (O) { T(i) = I(i) * 2\n O(i) = A(T(i)) }")
    with pytest.raises(Error, match=r"T\[1\] = 6, but A has 5 elements"):
        run_loops(program, [floats(5), np.array([2, 3], np.int32)], {}, False)


def test_lookup_by_what_the_statement_computes_is_tested_inside_it():
    text = "def walk(int(N) next) -> (path) { path(i) = 0 where i in 0:1\n path(i) = next(path(i-1)) where i in 1:N }"
    assert all_ways(text, [np.array([2, 0, 1], np.int32)])[0].tolist() == [0, 2, 1]
    with pytest.raises(Error, match=r"path\[1\] = 9, but next has 3 elements"):
        run_loops(program_of(text), [np.array([9, 0, 0], np.int32)], {}, False)


def test_widened_scatter_speaks_of_the_users_tensor():
    program = program_of("def s(half(N) X, int(N) I) -> (half(4) O) { O(I(n)) +=! X(n) }")
    with pytest.raises(Error, match=r"O index out of range in `O\(I\(n\)\) \+=! X\(n\)`: I\[1\] = 4, but O has 4 elem"):
        run_loops(program, [floats(2).astype(np.float16), np.array([0, 4], np.int32)], {}, False)


def test_checks_can_be_left_out():
    kernel = lower(program_of(LOOKUP), checks=False)
    assert not any(isinstance(n, Assert) for n in walk(kernel))


def test_symbolic_kernel_asserts_the_requirements():
    program = program_of("def c(float(W) I, float(KW) K, int S) -> (O) { O(w) +=! I(S*w+kw)*K(kw) }")
    messages = [n.message for n in walk(lower(program)) if isinstance(n, Assert)]
    assert any("`S` must be at least 1" in m for m in messages)


# -- the same result every way

A, B, C0 = floats(5, 7), floats(7, 3), floats(5, 3)
ROWS = ints(5, 20)
X = floats(20, 4)
RUN = "Y(i,j) = X(i,j) where i in 0:1\n Y(i,j) = Y(i-1,j) + X(i,j) where i in 1:N"


def scattered(op, start):
    result = np.full((5, 4), start, np.float32)
    op.at(result, ROWS, X)
    return result


@pytest.mark.parametrize(
    ("text", "args", "out", "expected"),
    [
        (MATMUL, [A, B], {}, A @ B),
        (MATMUL, [floats(5, 0), floats(0, 3)], {}, np.zeros((5, 3))),
        (MATMUL, [floats(0, 2), floats(2, 3)], {}, np.zeros((0, 3))),
        (MATMUL.replace("+=!", "+="), [A, B], {}, A @ B),
        (MATMUL.replace("+=!", "+="), [A, B], {"C": C0}, A @ B + C0),
        (MATMUL.replace("+=!", "min=!"), [floats(5, 0), floats(0, 3)], {}, np.full((5, 3), np.inf)),
        ("def s(float(N,D) X) -> (Y) { " + RUN + "}", [A], {}, np.cumsum(A, 0)),
        ("def t(float(N,M) X) -> (Y) { Y(i) +=! X(i,j) where j in 0:i+1 }", [A], {}, np.tril(A).sum(1)),
        ("def t(float(N,M) X) -> (float(N,M) Y) { Y(i,j) = X(i,j) where i in 0:j+1 }", [A[:, :5]], {},
         np.triu(A[:, :5])),
        ("def l(float(E,D) T, int(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }", [A, ROWS.reshape(4, 5)], {},
         A[ROWS.reshape(4, 5)].sum(1)),
        ("def s(float(N,D) X, int(N) I) -> (float(5,D) O) { O(I(n),d) +=! X(n,d) }", [X, ROWS], {},
         scattered(np.add, 0)),
        ("def s(float(N,D) X, int(N) I) -> (float(5,D) O) { O(I(n),d) max=! X(n,d) }", [X, ROWS], {},
         scattered(np.maximum, -np.inf)),
        ("def c(float(W) I, float(K) F, int S) -> (O) { O(w) +=! I(S*w+k)*F(k) }", [A[0], B[:3, 0], 2], {},
         np.convolve(A[0], B[2::-1, 0], "valid")[::2]),
        ("def c(float(N) A, float(M) B) -> (O) { O(i) = A(i)\n O(i+N) = B(i) }", [A[0], A[1]], {},
         np.concatenate(A[:2])),
        ("def p(float(N) A, float(M) B) -> (O) { O(i+j) +=! A(i)*B(j) }", [A[0], A[1]], {}, np.convolve(A[0], A[1])),
        ("def a(float(N,M) A) -> (O) { O(i) argmin=! A(i,j) }", [A], {}, A.argmin(1)),
        ("def a(float(N,M) A) -> (O) { O(i) argmax=! A(i,j) }", [A], {}, A.argmax(1)),
        ("def d(float(N,N) A) -> (s) { s +=! A(i,i) }", [A[:, :5]], {}, np.trace(A[:, :5])),
        ("def z(float(N) A) -> (float(20) O) { O(2*i+1) = A(i) }", [A[0]], {},
         np.stack([np.zeros(7), A[0]], 1).reshape(-1).tolist() + [0] * 6),
        ("def any(bool(N,M) A) -> (bool(N) O) { O(i) max=! A(i,j) }", [A > 1], {}, (A > 1).any(1)),
        ("def lo(float(N,N) L, float(N) b) -> (x) { x(i) = b(i)\n x(i) += -L(i,j)*x(j) where j in 0:i }",
         [A[:, :5], C0[:, 0]], {}, np.linalg.solve(np.tril(A[:, :5], -1) + np.eye(5), C0[:, 0])),
        ("def e(float(N,M) A) -> (O) { O(i) max=! A(i,j) }", [floats(3, 0)], {}, np.full(3, -np.inf)),
        ("def e(int(N,M) A) -> (O) { O(i) min=! A(i,j) }", [ints(9, 3, 0)], {}, np.full(3, 2**31 - 1)),
        ("def r(float(N) A) -> (O) { O(i) = i > 0 ? A(i-1) : 0.0 where i in 0:N }", [A[0]], {},
         np.concatenate([[0], A[0][:-1]])),
    ],
)  # fmt: skip
def test_agrees_with_numpy_and_itself(text, args, out, expected):
    (result,) = all_ways(text, args, **out)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_specialized_kernel_has_no_sizes_left():
    program = program_of(MATMUL)
    special = specialize(program, sizes_of(program, [A, B], {}))
    assert [p.name for p in lower(special).params] == ["A", "B", "C"]
