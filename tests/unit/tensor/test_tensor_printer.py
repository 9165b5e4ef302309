from __future__ import annotations

import pytest
from tensor_oracles import program_of

from weft.tensor.printer import print_program
from weft.tensor.specialize import specialize

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k)*B(k,n) }"
BODIES = [
    "(float(N) A) -> (O) { O(i) = A(i) * 2.0 - (A(i) - 1.0) / 3.5e-7 }",
    "(half(N) A) -> (O) { O(i) = exp(A(i) * 0.5) + float16(3.0) }",
    "(float(N) A) -> (O) { O(i) = (A(i) > 0.0 && i < N-1) || !(A(i) != 2.0) ? -A(i) : A(N-1-i) }",
    "(int(N) A) -> (O) { O(i) = A(i) + i*2 - (A(i) % 3) / (A(i) // 2) * -5 }",
    "(int64(N) A) -> (O) { O(i) = A(i) + i == 3 ? A(i) : int64(7) }",
    "(int(N) A) -> (O) { O(i) = bit_and(A(i), 12) + shift_left(A(i), 2) + bit_not(A(i)) + floormod(A(i), 3) }",
    "(uint8(N) A) -> (O) { O(i) = uint8(200) + A(i) }",
    "(float(N) A) -> (O) { O(i) = min(A(i), 1.0) + max(A(i), -1.0) + pow(A(i), 2.0) + fma(A(i), A(i), 1.0) }",
    "(float(N) A, int(M) I) -> (O) { O(i) = A(I(i)) }",
    "(float(N) A, int(N) I) -> (float(7) O) { O(I(i)+1) max=! A(i) }",
    "(float(N) A) -> (O) { O(i) = A(i-1) + A(i+1) where i in 0:N, A outside reflect }",
    "(float(N) A) -> (O) { O(i) = A(i-1) + A(i+1) where i in 0:N, A outside 2.5 }",
    "(float(N) A, float(N) B) -> (O) { O(i) = A(i-1) + B(i+1) where i in 0:N, A outside zero, B outside wrap }",
    "(float(N) A) -> (O) { O(i) = A(i/2) + A(i%3) + A(min(i, 2)) where i in 0:N }",
    "(float(N,M) A) -> (O) { T(i) +=! A(i,j)\n O(i) = T(i) / M }",
    "(float(N,M) A) -> (O) { O(i) argmin=! A(i,j) }",
    "(float(N) A) -> (s) { s +=! A(i) }",
    "(float(N) A, float alpha) -> (O) { O(i) = alpha * A(i) + i }",
    "(float(W) I, float(K) F, int S) -> (O) { O(w) +=! I(S*w+k)*F(k) }",
    "(float(N,N) A) -> (float(N,N) O) { O(i,j) = A(i,j) where i in 0:j+1 }",
    "(bool(N) A) -> (O) { O(i) = A(i) ? true : i > 2 }",
    "(double(N) A) -> (O) { O(i) = A(i) > 1.5 ? double(1.0) : sqrt(A(i)) }",
    "(bfloat16(N,M) A) -> (O) { O(i) +=! A(i,j) * A(i,j) }",
    "(float(N) A) -> (O) { O(2*i+1) = A(i) }",
    "(float(N) A, float(M) B) -> (O) { O(i) = A(i)\n O(i+N) = B(i) }",
    "(float(N) A) -> (O) { O(i) += A(i) }",
]


def test_matmul():
    assert (
        print_program(program_of(MATMUL))
        == """\
def mm(float32(M,K) A, float32(K,N) B) -> (float32(M,N) C) {
    C(m,n) +=! A(m,k) * B(k,n) where m in 0:M, n in 0:N, k in 0:K
}
"""
    )


@pytest.mark.parametrize("body", BODIES)
def test_reads_back_to_the_equal_program(body):
    program = program_of("def f" + body)
    again = program_of(print_program(program))
    assert again == program
    assert print_program(again) == print_program(program)


def test_specialized_program_reads_back():
    program = specialize(program_of(MATMUL), {"M": 2, "K": 3, "N": 4})
    assert program_of(print_program(program)) == program


def test_different_programs_print_differently():
    texts = {print_program(program_of("def f" + body)) for body in BODIES}
    assert len(texts) == len(BODIES)


def test_strides_are_part_of_the_text():
    dense = specialize(program_of(MATMUL), {"M": 2, "K": 3, "N": 4})
    strided = specialize(program_of(MATMUL), {"M": 2, "K": 3, "N": 4}, {"A": (1, 2)})
    assert print_program(strided) == "# A has strides 1, 2\n" + print_program(dense)
