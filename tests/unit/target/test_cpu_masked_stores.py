"""A masked tail writes its own elements and not a byte beside them."""

from __future__ import annotations

import numpy as np
import pytest
from run_compiled import Runner

from weft.ir.parser import parse_kernel


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
