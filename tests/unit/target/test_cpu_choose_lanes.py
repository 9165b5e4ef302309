"""How many lanes vector loops get where 64-bit subscripts are what they compute with."""

from __future__ import annotations

import pytest

from weft.ir.parser import parse_kernel
from weft.passes.vectors.choose_lanes import choose_lanes, data_bits
from weft.schedules.find import find_loop
from weft.target.cpu.host import NAMED

CHECKS = 'kernel f(A: int8[N], N: int64) { for i in 0:N { assert i * 3 % (N + 1) < N, "{0} is too far", i } }'
DIVIDES = "kernel f(A: int8[N], out B: int8[N], N: int64) { for i in 0:N { B[i] = A[i * 3 % N] } }"
SHIFTS = "kernel f(A: int8[N], out B: int8[N], N: int64) { for i in 0:N { B[i] = A[i // 4 * 4 + i % 4] } }"


@pytest.mark.parametrize(("text", "bits"), [(CHECKS, 64), (DIVIDES, 64), (SHIFTS, 8)])
def test_divisions_and_checks_of_subscripts_count(text: str, bits: int) -> None:
    """Hundreds of lanes of 64-bit divisions would take the code generator most of a minute."""
    loop = find_loop(parse_kernel(text), "i")
    machine = NAMED["x86-64-avx512"]
    assert data_bits(loop) == bits
    assert choose_lanes(loop, False, machine=machine) <= 4 * machine.lanes(bits)
