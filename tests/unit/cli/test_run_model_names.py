"""`weft run model.onnx` with names that the model does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from weft.cli.main import main

onnx = pytest.importorskip("onnx")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    ports = [onnx.helper.make_tensor_value_info(name, 1, ["n", 3]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("Relu", ["x"], ["y"])], "g", ports[:1], ports[1:])
    opset = onnx.helper.make_opsetid("", 20)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[opset], ir_version=9), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", np.ones((2, 3), np.float32))
    return tmp_path / "m.onnx"


@pytest.mark.parametrize(("option", "said"), [
    (("--arg", "z={}"), "error: the model has no input `z`\n  why:   it has x\n"),
    (("--size", "m=4"), "error: the model has no size `m`\n  why:   it has n\n"),
])  # fmt: skip
def test_they_are_told_first(
    option: tuple[str, str], said: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = option[0], option[1].format(model.parent / "x.npy")
    assert main(["run", str(model), *option]) != 0
    assert capsys.readouterr().err == said


def test_sizes_by_name(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(model), "--size", "n=4"]) == 0
    assert "y: float32[4, 3]" in capsys.readouterr().out
