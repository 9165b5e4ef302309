"""CUDA kernels on a GPU: the text as it is, the same call and the same results as on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.from_cuda.header_cases import CASES, Case
from weft.from_cuda.clang import find_clang
from weft.ir.errors import TargetError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")


@pytest.fixture(autouse=True)
def _clang() -> None:
    """Arguments are passed by the types that clang reads."""
    try:
        find_clang()
    except TargetError as error:
        pytest.skip(str(error).splitlines()[0])


#: What needs headers that NVRTC does not have by itself, or types that torch has not.
_LATER = (
    "math",
    "half",
    "cooperative",
    "barrier of the grid",
    "hashes",
    "counters",
    "unsigned",
    "atomics",
    "standard library",
)


def on_device(value: Any) -> Any:
    return torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("case", [c for c in CASES if not any(w in c.name for w in _LATER)], ids=lambda c: c.name)
def test_kernels_run_as_they_are(case: Case) -> None:
    args = [on_device(a.copy() if isinstance(a, np.ndarray) else a) for a in case.args]
    weft.cuda.kernel(case.source, "k")(case.grid, case.block, args, shared_mem=case.shared)
    torch.cuda.synchronize()
    for place, expected in case.expected.items():
        np.testing.assert_allclose(args[place].cpu().numpy(), np.asarray(expected), rtol=2e-5, atol=2e-6)
