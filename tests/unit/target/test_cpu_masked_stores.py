"""A masked tail writes its own elements and not a byte beside them."""

from __future__ import annotations

import numpy as np
import pytest
from run_compiled import Runner

from weft.ir.interpret import interpret
from weft.ir.parser import parse_kernel
from weft.target.cpu.host import NAMED
from weft.target.cpu.lower import emit_kernel


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "int64", "float32"])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 9, 17, 18, 33, 65])
def test_truncated_values_stay_in_their_place(dtype: str, width: int) -> None:
    kernel = parse_kernel(
        f"""kernel f(A: int64[3, {width}], out T: {dtype}[3, {width}]) {{
          for i in 0:3 {{
            for j in 0:{width} {{
              T[i, j] = {dtype}(A[i, j])
            }}
          }}
        }}"""
    )
    values = np.random.default_rng(0).integers(0, 100, (3, width))
    memory = np.full(3 * width + 128, 77, dtype)
    target = memory[64 : 64 + 3 * width].reshape(3, width)
    assert Runner(kernel)(values, target) == 0
    np.testing.assert_array_equal(target, values.astype(dtype))
    assert (memory[:64] == 77).all()
    assert (memory[64 + 3 * width :] == 77).all()


STEPS = """kernel f(A: DTYPE[5, 40], out T: DTYPE[40, 5]) {
    vector i in 0:8 { if i < COUNT { T[i + 30, 2] = A[1, i * STEP] + A[3, i + 1] } }
    vector j in 0:8 { T[j, 1] = j < COUNT ? A[2, j * STEP + 1] : A[0, 0] }
    vector k in 0:8 { T[k + 9, 0] = A[4, 39 - k] } }"""


@pytest.mark.parametrize("dtype", ["int8", "float32", "float64"])
@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_known_lanes_a_known_step_apart(dtype: str, step: int, count: int) -> None:
    """First lanes of a vector, stored in pieces or one by one: neither masks nor vectors of addresses are made."""
    text = STEPS.replace("DTYPE", dtype).replace("STEP", str(step)).replace("COUNT", str(count))
    kernel = parse_kernel(text)
    emitted = emit_kernel(kernel, NAMED["x86-64-avx2"])
    assert not [name for name in ("masked.store", "masked.scatter", "masked.gather") if name in emitted]
    values = np.random.default_rng(1).integers(-50, 50, (5, 40)).astype(dtype)
    expected, found = np.zeros((40, 5), dtype), np.zeros((40, 5), dtype)
    interpret(kernel, [values, expected])
    assert Runner(kernel)(values, found) == 0
    np.testing.assert_array_equal(found, expected)
