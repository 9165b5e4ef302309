"""Rows that data choose: read along memory, fetched ahead, added in registers."""

from __future__ import annotations

import numpy as np
import pytest

import weft

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("columns", [1, 3, 16, 64, 73, 300])
@pytest.mark.parametrize("numerics", ["fast", "strict"])
def test_sums_of_chosen_rows(columns: int, numerics: str) -> None:
    table, chosen = RNG.standard_normal((40, columns), np.float32), RNG.integers(0, 40, (7, 5)).astype(np.int32)
    op = weft.ops.lut1.with_schedule("auto", numerics=numerics)
    np.testing.assert_allclose(op(table, chosen), table[chosen].sum(1), rtol=1e-5, atol=1e-5)


def test_chosen_rows_themselves() -> None:
    table, chosen = RNG.standard_normal((40, 33), np.float32), RNG.integers(0, 40, 11).astype(np.int32)
    np.testing.assert_array_equal(weft.ops.gather_rows(table, chosen), table[chosen])


def test_rows_of_a_large_table_are_fetched_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_TARGET", "x86-64-avx512")  # rows of four vectors
    told = weft.ops.lut1.explain(LUT=(100_000, 64), I=(128, 50))
    assert "4 vectors of sums" in told
    assert "rows of `LUT` fetched 8 ahead" in told
    assert "ahead" not in weft.ops.lut1.explain(LUT=(100, 64), I=(128, 50))


def test_an_index_outside_is_still_told() -> None:
    with pytest.raises(weft.ShapeError, match="LUT index out of range"):
        weft.ops.lut1(np.zeros((4, 64), np.float32), np.full((2, 2), 4, np.int32))


def test_rows_on_threads(two_threads: None) -> None:
    assert "`b` on 2 threads" in weft.ops.lut1.explain(LUT=(100_000, 64), I=(128, 50))
