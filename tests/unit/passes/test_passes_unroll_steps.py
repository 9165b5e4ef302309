"""Which loops of sums in registers are written out, and that sums stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.ir.stmt import For
from weft.ir.verify import verify
from weft.ir.visit import walk
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.registers.unroll_steps import unroll_steps


def _sums(bounds: str, rows: int, scope: str = "register") -> str:
    return f"""kernel k(A: float32[{rows}, 40], B: float32[40, 8], out C: float32[{rows}, 8]) {{
        alloc T: float32[{rows}, 8] in {scope} {{
            unroll i in 0:{rows} {{ vector j in 0:8 {{ T[i, j] = 0.0 }} }}
            for k in {bounds} {{ unroll i in 0:{rows} {{
                vector j in 0:8 {{ T[i, j] = T[i, j] + A[i, k] * B[k, j] }} }} }}
            unroll i in 0:{rows} {{ vector j in 0:8 {{ C[i, j] = T[i, j] }} }} }} }}"""


@pytest.mark.parametrize(
    ("bounds", "rows", "loops"),
    [
        ("0:32", 6, [4, 8]),
        ("0:30", 6, [5, 6]),
        ("3:40", 6, [4, 8, 5]),  # 37 steps: five are left over
        ("0:7", 6, [1, 7]),
        ("0:3", 6, [3]),
        ("0:32", 16, [8, 4]),
        ("0:32", 24, [32]),  # no registers are left for what is loaded ahead
    ],
)
def test_steps_at_a_time(bounds: str, rows: int, loops: list[int]) -> None:
    before = parse_kernel(_sums(bounds, rows))
    after = unroll_steps(before)
    verify(after)
    found = [n for n in walk(after) if isinstance(n, For) and n.var.name.startswith("k")]
    assert [constant_extent(n) for n in found] == loops
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, 40), (40, 8)))
    got, want = (np.zeros((rows, 8), np.float32) for _ in range(2))
    interpret(after, [a, b, got])
    interpret(before, [a, b, want])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    "text",
    [
        _sums("0:32", 6, "local"),
        _sums("0:32", 6).replace("T[i, j] = T[i, j] +", "C[i, j] = T[i, j] +"),
        _sums("0:N", 6).replace("kernel k(", "kernel k(N: int64, "),
    ],
)
def test_what_is_no_sum_in_registers_stays(text: str) -> None:
    kernel = parse_kernel(text)
    assert unroll_steps(kernel) == kernel


@pytest.mark.parametrize(("width", "steps"), [(16, 8), (32, 1), (64, 1)])
def test_vectors_that_serve_one_sum_stay_few_loads(width: int, steps: int) -> None:
    text = _sums("0:32", 1).replace("0:8", f"0:{width}").replace(", 8]", f", {width}]")
    before = parse_kernel(text)
    after = unroll_steps(before, vector_bits=128)
    extents = [constant_extent(n) for n in walk(after) if isinstance(n, For) and n.var.name.startswith("k")]
    assert extents == ([32 // steps, steps] if steps > 1 else [32])
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((1, 40), (40, width)))
    got, want = (np.zeros((1, width), np.float32) for _ in range(2))
    interpret(after, [a, b, got])
    interpret(before, [a, b, want])
    np.testing.assert_array_equal(got, want)


def test_a_core_that_counts_meanwhile_needs_no_more_code() -> None:
    kernel = parse_kernel(_sums("0:32", 6))
    assert unroll_steps(kernel, slots=6.0) == kernel


def test_steps_that_read_the_same_elements_count_registers() -> None:
    kernel = parse_kernel(_sums("0:32", 14))
    assert unroll_steps(kernel, vector_bits=128) != kernel
    windows = parse_kernel(_sums("0:7", 14).replace("A[i, k]", "A[0, i + k]"))
    assert unroll_steps(windows, vector_bits=256) != windows
    assert unroll_steps(windows, vector_bits=128) == windows
