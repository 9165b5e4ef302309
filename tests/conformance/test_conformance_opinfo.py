"""A fixed part of PyTorch's own samples of its operators; all of them: `python -m tests.conformance.opinfo`."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from opinfo import entries, try_entry

from weft.graph.compile_graph import _Compilation

#: Each so many entries: a dozen of them, spread over the list.
STEP = 53


@pytest.fixture(autouse=True)
def _our_kernels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Compilation, "_choose_libraries", lambda self: None)


@pytest.mark.parametrize(("dtype", "first"), [("float32", 0), ("int64", 20), ("bool", 7), ("bfloat16", 31)])
def test_some_operators_are_as_right_as_eager(dtype: str, first: int) -> None:
    wanted: list[Any] = []
    for place, op in list(enumerate(entries()))[first::STEP]:
        if getattr(torch, dtype) in op.supported_dtypes("cpu"):
            wanted.append(try_entry(place, dtype, 1))
    assert len(wanted) > 2
    assert [o for o in wanted if o.verdict == "wrong"] == []
