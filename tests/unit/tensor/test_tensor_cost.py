from __future__ import annotations

import itertools
from random import Random

import pytest
from tensor_oracles import program_of

from weft.ir.errors import InternalError
from weft.tensor.cost import infer_cost
from weft.tensor.specialize import specialize

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }"


def cost(text: str, **sizes: int):
    return infer_cost(specialize(program_of(text), sizes))


def test_matmul():
    found = cost(MATMUL, M=20, K=30, N=40)
    assert found.flops == 2 * 20 * 30 * 40
    assert found.bytes_read == 4 * (20 * 30 + 30 * 40)
    assert found.bytes_written == 4 * 20 * 40
    assert found.intensity == found.flops / (found.bytes_read + found.bytes_written)


def test_accumulating_into_what_is_there_reads_it():
    assert cost(MATMUL.replace("+=!", "+="), M=2, K=3, N=4).bytes_read == 4 * (6 + 12 + 8)


def test_intrinsics_count_by_their_table():
    assert cost("def f(float(N) A) -> (O) { O(i) = exp(A(i)) + 1.0 }", N=10).flops == 10 * (8 + 1)


def test_of_a_select_the_dearer_side_counts_and_subscripts_are_free():
    assert cost("def f(float(N) A) -> (O) { O(i) = A(i) > 0.0 ? A(i)*2.0+1.0 : A(N-1-i) }", N=10).flops == 20


def test_triangle():
    found = cost("def f(float(N,N) X) -> (Y) { Y(i) +=! X(i,j) where j in 0:i+1 }", N=7)
    assert found.flops == 28
    assert found.bytes_read == 28 * 4


def test_three_dependent_axes():
    text = "def f(float(N,N,N) X) -> (s) { s +=! X(i,j,k) where i in 0:N, j in i:N, k in j:N }"
    count = sum(1 for i, j, k in itertools.product(range(6), repeat=3) if i <= j <= k)
    assert cost(text, N=6).flops == count


@pytest.mark.parametrize(
    ("text", "sizes", "elements"),
    [
        ("def f(float(N) A) -> (O) { O(i) = A(2*i) }", {"N": 11}, 6),
        ("def f(float(N) A, float(K) B) -> (O) { O(i) +=! A(i+k)*B(k) }", {"N": 11, "K": 3}, 11 + 3),
        ("def f(float(N) A) -> (O) { O(i) = A(i) + A(i+5) where i in 0:3 }", {"N": 20}, 6),
        ("def f(float(N,N) A) -> (O) { O(i) = A(i,i) }", {"N": 9}, 9),
        ("def f(float(N,M) A) -> (O) { O(i) = A(i,0) + A(0,i) where i in 0:4 }", {"N": 9, "M": 5}, 7),
        ("def f(float(N,M) A) -> (O) { O(i) = A(i/4, i%4) where i in 0:8 }", {"N": 9, "M": 5}, 8),
        ("def f(float(N) A) -> (O) { O(i) = A(i-1) where i in 0:N, A outside zero }", {"N": 9}, 8),
        ("def f(float(N) A) -> (O) { O(i) = A(i+2) where i in 0:N, A outside edge }", {"N": 9}, 7),
        ("def f(float(N) A) -> (O) { O(i) = A(6*i+j) where i in 0:2, j in 0:3 }".replace("O(i)", "O(i,j)"),
         {"N": 40}, 6),
    ],
)  # fmt: skip
def test_each_element_read_counts_once(text, sizes, elements):
    assert cost(text, **sizes).bytes_read == 4 * elements


def test_sizes_beyond_memory_are_counted_without_it():
    n = 3 * 2**31
    found = cost("def f(float(N) A) -> (O) { O(i) = A(i) + A(i+1) where i in 0:N-1 }", N=n)
    assert (found.flops, found.bytes_read, found.bytes_written) == (n - 1, 4 * n, 4 * (n - 1))
    assert cost(MATMUL, M=2**20, K=2**20, N=2**20).flops == 2**61


def test_footprints_agree_with_counting_every_access(first_seed):
    random = Random(first_seed + 5)
    for _ in range(60):
        n = random.randint(1, 30)
        extents = [random.randint(1, 5) for _ in range(2)]
        forms = [(random.randint(-3, 4), random.randint(-3, 4), random.randint(-4, 12)) for _ in range(2)]
        text = " + ".join(f"A({a}*i+{b}*j+{c})" for a, b, c in forms)
        ranges = ", ".join(f"{v} in 0:{e}" for v, e in zip("ij", extents))
        program = f"def f(float(N) A) -> (O) {{ O(i,j) = {text} where {ranges}, A outside zero }}"
        points = itertools.product(*map(range, extents))
        touched = {a * i + b * j + c for i, j in points for a, b, c in forms}
        assert cost(program, N=n).bytes_read == 4 * len([t for t in touched if 0 <= t < n]), program


def test_lookups_count_as_all_different_up_to_the_table():
    text = "def f(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }"
    assert cost(text, N=100, M=7).bytes_read == 4 * (7 + 7)
    assert cost(text, N=5, M=7).bytes_read == 4 * (5 + 7)


def test_empty():
    found = cost(MATMUL, M=0, K=3, N=4)
    assert (found.flops, found.bytes_written) == (0, 0)


def test_temporaries_are_free():
    text = "def f(float(N) A) -> (O) { T(i) = A(i)*2.0\n O(i) = T(i)+1.0 }"
    found = cost(text, N=10)
    assert (found.flops, found.bytes_read, found.bytes_written) == (20, 40, 40)


def test_numbers_need_sizes():
    with pytest.raises(InternalError):
        infer_cost(program_of(MATMUL))
