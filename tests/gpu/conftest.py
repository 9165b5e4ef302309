"""Tests that need a GPU: skipped where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from weft.ir.stmt import Kernel

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if HERE in Path(item.fspath).parents]
    if mine and not weft.cuda.is_available():
        for item in mine:
            item.add_marker(pytest.mark.skip(reason="no GPU"))


@pytest.fixture
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("torch without CUDA")
    return found


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy")


@pytest.fixture
def run_kernel() -> Callable[..., list[np.ndarray[Any, Any]]]:
    """``run_kernel(kernel, args)`` runs a loop program on the GPU with copies of ``args``; gives its arrays after."""

    def run(kernel: str | Kernel, args: Sequence[Any], numerics: Any = "strict") -> list[np.ndarray[Any, Any]]:
        given = [weft.cuda.DeviceArray.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
        weft.kernel(kernel, numerics=numerics)(*given)
        weft.cuda.synchronize()
        return [a.numpy() for a in given if isinstance(a, weft.cuda.DeviceArray)]

    return run
