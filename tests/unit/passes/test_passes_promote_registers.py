"""Accumulators kept in variables, and where that would be wrong."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.ir.printer import print_kernel
from weft.passes.registers.promote_registers import promote_registers


def promoted(body: str, params: str = "A: float32[4, 8], I: int64[8], N: int64, out C: float32[8]") -> str:
    return " ".join(print_kernel(promote_registers(parse_kernel(f"kernel f({params}) {{ {body} }}"))).split())


def test_through_nested_loops_with_one_store() -> None:
    text = promoted("for m in 0:4 { C[m] = 0.0 for k in 0:8 { for l in 0:8 { C[m] = C[m] + A[m, k] } } }")
    assert text.count("C[m] =") == 1
    assert "= 0.0" in text


def test_a_loop_that_may_be_empty_is_guarded() -> None:
    assert "if 0 < N" in promoted("for m in 0:4 { for k in 0:N { C[m] = C[m] + A[m, k] } }")


@pytest.mark.parametrize(
    "update",
    [
        "C[k] = C[k] + A[0, k]",  # another element each time
        "C[0] = C[0] + C[k]",  # read elsewhere
        "C[I[k]] = C[I[k]] + A[0, k]",  # which element depends on the iteration
        "if A[0, k] > 0.0 { C[N] = C[N] + A[0, k] }",  # perhaps never touched, perhaps not there
        "C[0] = A[0, k]",  # never read: nothing to keep
        "C[0] = C[0] + A[0, k] if C[0] > 5.0 { return }",  # leaves before it would be stored
    ],
)
def test_left_alone(update: str) -> None:
    text = promoted(f"for k in 0:8 {{ {update} }}")
    assert "let" not in text


def test_two_accumulators_in_one_loop() -> None:
    text = promoted(
        "for k in 0:8 { C[0] = C[0] + A[0, k] D[0] = max(D[0], A[0, k]) }",
        "A: float32[4, 8], out C: float32[1], out D: float32[1]",
    )
    assert text.count("let") == 2
