"""`weft.profile` and what `weft.explain` says of times and fusion."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft
from tests.unit.graph.onnx_models import mlp
from weft.ir.errors import ArgumentError

torch = pytest.importorskip("torch")


@pytest.fixture
def fast() -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
    return weft.compile(model, (torch.randn(4, 32),))


def test_every_step_has_a_time_and_a_reason(fast: Any, tmp_path: Path) -> None:
    made = weft.profile(fast, torch.randn(4, 32), runs=3)
    assert len(made.rows) >= 2
    assert all(row.seconds > 0 and row.bound for row in made.rows)
    starts = [row.start for row in made.rows]
    assert starts == sorted(starts)
    assert starts[0] == 0
    text = str(made)
    assert "bound by" in text
    assert f"in {len(made.rows)} steps" in text
    made.save(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [e["name"] for e in events] == [row.name for row in made.rows]
    assert all(e["ph"] == "X" and e["dur"] > 0 for e in events)


def test_explain_tells_what_was_measured_and_fused(fast: Any) -> None:
    before = weft.explain(fast)
    assert "operators that compute -> " in before
    assert "us (" in before
    weft.profile(fast, torch.randn(4, 32), runs=2)
    assert "measured" in weft.explain(fast)


class _Lines(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Sigmoid())

    def forward(self, x: Any) -> Any:
        return self.layer(x).cumsum(0)


def test_lines_are_those_of_the_model_not_of_torch() -> None:
    line = _Lines.forward.__code__.co_firstlineno + 1
    told = weft.explain(weft.compile(_Lines().eval(), (torch.randn(4, 8),)))
    assert set(re.findall(r"(\w+\.py:\d+)", told)) == {f"test_graph_profile.py:{line}"}


def test_profile_leaves_results_right(fast: Any) -> None:
    x = torch.randn(4, 32)
    weft.profile(fast, x, runs=2)
    with torch.no_grad():
        assert torch.allclose(fast(x), fast.model(x), atol=1e-5)


def test_onnx_models_too() -> None:
    made = weft.profile(weft.load_onnx(mlp()), np.ones((3, 2, 4), "f"), runs=1)
    assert made.rows
    with pytest.raises(ArgumentError, match="profile takes a model that weft compiled, not a int"):
        weft.profile(3)


def test_a_model_that_torch_compiled_is_profiled() -> None:
    torch._dynamo.reset()
    net, x = (
        torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).eval(),
        torch.randn(2, 8),
    )
    fast = torch.compile(net, backend="weft")
    with torch.no_grad():
        rows = weft.profile(fast, x, runs=2).rows
        assert rows
        assert all(row.seconds > 0 for row in rows)
        assert len(weft.profile(weft.compile(net, x), x, runs=2).rows) == len(rows)
    with pytest.raises(weft.ArgumentError, match=r"torch.compile made 0 parts of this model that Weft runs"):
        weft.profile(torch.compile(lambda x: x, backend="weft"), torch.ones(2, requires_grad=True))
