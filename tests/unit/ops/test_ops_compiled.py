"""Every kernel of the library as machine code, against float64 numpy, on odd shapes, for every element type."""

from __future__ import annotations

import numpy as np
import pytest
from test_ops_library import CASES, EPSILON, make_argument, widened

import weft


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested is the compiler as it is, not what an earlier one left on the disk."""
    monkeypatch.setenv("WEFT_CACHE", "off")


@pytest.mark.parametrize("name", sorted(CASES))
def test_compiled_kernel_matches_numpy(name: str) -> None:
    """In one of the narrow types: they differ in how they are widened alone, which every other kernel does."""
    case, left_out = CASES[name], ("float16", "bfloat16")[sorted(CASES).index(name) % 2]
    for dtype, epsilon in EPSILON.items():
        if dtype == left_out:
            continue
        rng = np.random.default_rng(len(name) + 1)
        args = [make_argument(spec, dtype, rng) for spec in case.args]
        found = weft.ops.get(name, dtype)(*args)
        wanted = case.reference(*map(widened, args))
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for got, want in pairs:
            assert np.shape(got) == np.shape(want)
            scale = max(1.0, float(np.max(np.abs(want))))
            wide = np.asarray(got).astype(np.float64)
            np.testing.assert_allclose(wide, want, rtol=0, atol=case.slack * epsilon * scale, err_msg=dtype)


def test_kernels_are_attributes_and_made_once() -> None:
    assert weft.ops.softmax is weft.ops.get("softmax", "float32")
    assert "layer_norm" in dir(weft.ops)
    with pytest.raises(AttributeError, match="no kernel 'sofmax'"):
        _ = weft.ops.sofmax
