"""`weft run`, `explain` and `profile` of ONNX models: what they print, and what is wrong with what they are given."""

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
    (("--save", "z={}"), "error: m.onnx has no output `z`\n  why:   it has y\n"),
    (("--def", "f"), "error: {} has no definitions\n  why:   it is one model\n  help:  leave --def out\n"),
])  # fmt: skip
def test_they_are_told_first(
    option: tuple[str, str], said: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    option = option[0], option[1].format(model.parent / "x.npy")
    assert main(["run", str(model), "--size", "n=3", *option]) != 0
    assert capsys.readouterr() == ("", said.format(model))


def test_a_size_that_an_array_does_not_have(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(model), "--arg", f"x={model.parent / 'x.npy'}", "--size", "n=4"]) != 0
    assert capsys.readouterr().err == "error: n is 4, and `x` has 2 elements along it\n"


def test_explain_and_profile(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(model), "--size", "n=4"]) == 0
    assert "for x float32[4, 3]: g: 1 fragments in 1 kernels" in capsys.readouterr().out
    trace = model.parent / "trace.json"
    assert main(["profile", str(model), "--size", "n=4", "--save", str(trace), "--runs", "2"]) == 0
    assert "in 1 steps" in capsys.readouterr().out
    assert "traceEvents" in trace.read_text()


def test_trace_shows_the_graph_and_its_kernels(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = model.parent / "out.html"
    assert main(["trace", str(model), str(out), "--size", "n=4"]) == 0
    page = out.read_text()
    for title in ("the model as it was read", "fold_constants", "kernel 0", "kernel 0 as loops", "explain"):
        assert f">{title}<" in page or f"{title}, " in page
    assert "input x float32[4,3]" in page
    assert "kernel " in page
    assert main(["trace", str(model), str(out), "--size", "n=4", "--target", "cuda"]) == 1
    assert "is a model, which has no schedule of its own" in capsys.readouterr().err


@pytest.mark.parametrize(("name", "help"), [
    ("m.onnx", "models are for weft run, explain, profile and trace"),
    ("m.pt", "export it with torch.onnx.export"),
])  # fmt: skip
def test_what_to_do_with_another_file(name: str, help: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = model.rename(model.parent / name)
    assert main(["show", str(other), "--stage", "tensor"]) != 0
    assert f"  help:  {help}" in capsys.readouterr().err


def test_bfloat16_numbers_and_inputs_with_values_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import ml_dtypes

    kind = onnx.TensorProto.BFLOAT16
    ports = [onnx.helper.make_tensor_value_info(n, kind, s) for n, s in (("x", [2]), ("s", []), ("o", [2]), ("y", [2]))]
    nodes = [onnx.helper.make_node("Mul", ["x", "s"], ["m"]), onnx.helper.make_node("Add", ["m", "o"], ["y"])]
    own = onnx.helper.make_tensor("o", kind, [2], [1.0, 1.0])
    graph = onnx.helper.make_graph(nodes, "g", ports[:3], ports[3:], [own])
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=9), path)
    for name, values in (("x", [1.0, 2.0]), ("o", [3.0, 4.0])):
        np.save(tmp_path / f"{name}.npy", np.array(values, ml_dtypes.bfloat16))
    given = [f"--arg={name}={tmp_path / name}.npy" for name in "xo"]
    assert main(["run", str(path), given[0], "--arg", "s=2"]) == 0
    assert main(["run", str(path), *given, "--arg", "s=2"]) == 0
    assert [t for t in capsys.readouterr().out.splitlines() if t[0] == "y"] == [
        "y: bfloat16[2] [3 5]", "y: bfloat16[2] [5 8]",
    ]  # fmt: skip


def test_sizes_by_name(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(model), "--size", "n=4"]) == 0
    assert "y: float32[4, 3]" in capsys.readouterr().out
