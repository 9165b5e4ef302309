"""The full text of the errors about ONNX models: unsound files, operators that are missing, inputs that do not fit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "unit" / "graph"))

from onnx_models import TensorProto, mlp, model, node, onnx

import weft
from weft.graph.from_onnx.table import TABLE
from weft.ir.errors import ArgumentError, Error, InternalError, ShapeError, UnsupportedError

SOUND = "export the model again, or check it with onnx.checker"
SIGNATURE = "its inputs are x: float32[n, 2, 4] and its outputs y: undefined[…]"


def net() -> Any:
    return weft.load_onnx(mlp())


def x() -> Any:
    return np.zeros((3, 2, 4), np.float32)


def _huge() -> Any:
    proto = mlp()
    proto.graph.initializer[0].dims[:] = [1 << 40, 1 << 20]
    return proto


def _of_shape(*sizes: int) -> Any:
    nodes = [node("ConstantOfShape", "to", "c"), node("Add", "x c", "y")]
    return model(nodes, {"x": [1]}, ["y"], {"to": np.array(sizes)})


def _two_inputs() -> Any:
    return weft.load_onnx(model([node("Add", "a b", "y")], {"a": ["n", 2], "b": ["n", 2]}, ["y"]))


CASES: dict[str, tuple[Callable[[], Any], type[Error], str]] = {
    "no such file": (lambda: weft.load_onnx("no/such.onnx"), ArgumentError, """\
error: cannot read no/such.onnx
  why:   No such file or directory"""),
    "nothing to load": (lambda: weft.load_onnx(7), ArgumentError, """\
error: cannot load a model from int
  help:  pass a path, bytes or an onnx.ModelProto"""),
    "not a model": (lambda: weft.load_onnx(b"\x07hello"), ArgumentError, f"""\
error: the bytes given is not a sound ONNX model
  why:   its bytes are not those of a model: the file is cut off, or of another kind
  help:  {SOUND}"""),
    "empty": (lambda: weft.load_onnx(b""), ArgumentError, f"""\
error: the bytes given is not a sound ONNX model
  why:   it has no graph: it is empty, cut off, or no ONNX model at all
  help:  {SOUND}"""),
    "cut off": (lambda: weft.load_onnx(mlp().SerializeToString()[:-40]), ArgumentError, f"""\
error: the bytes given is not a sound ONNX model
  why:   its bytes are not those of a model: the file is cut off, or of another kind
  help:  {SOUND}"""),
    "from the future": (
        lambda: weft.load_onnx(model([node("Relu", "x", "y")], {"x": [1]}, ["y"], opset=99)), UnsupportedError, """\
error: net uses version 99 of ONNX's operators
  why:   Weft knows versions 1 to 28
  help:  onnx.version_converter.convert_version makes another version of a model"""),
    "old": (
        lambda: weft.load_onnx(model([node("Add", "x x", "y")], {"x": [1]}, ["y"], opset=6)), UnsupportedError, """\
error: net has operators that Weft does not have
  why:   Add `add`: in version 6 it means something else than later
  help:  onnxruntime has them all; or export the model without these"""),
    "a cycle": (
        lambda: weft.load_onnx(model([node("Add", "x b", "a"), node("Neg", "a", "b")], {"x": [1]}, ["b"])),
        ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   Add `add` reads `b`, which only a later node makes (a cycle, or nodes out of order)
  help:  {SOUND}"""),
    "missing weights": (
        lambda: weft.load_onnx(model([node("MatMul", "x w", "h"), node("Add", "h b", "y")], {"x": [1]}, ["y", "z"])),
        ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   MatMul `matmul` reads `w`, which nothing makes; Add `add` reads `b`, which nothing makes; \
output `z` is made by no node
  help:  {SOUND}"""),
    "huge weights": (lambda: weft.load_onnx(_huge()), ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   its tensor `w` of shape [1099511627776, 1048576] does not have 1152921504606846976 float values
  help:  {SOUND}"""),
    "a name that is none": (
        lambda: weft.load_onnx(mlp().SerializeToString().replace(b"relu", b"r\xfflu")), ArgumentError, f"""\
error: the bytes given is not a sound ONNX model
  why:   it has a name that is not UTF-8 text
  help:  {SOUND}"""),
    "no such operator": (
        lambda: weft.load_onnx(model([node("Rule", "x", "y")], {"x": [1]}, ["y"])), ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   Rule `rule`: no such operator in version 17
  help:  {SOUND}"""),
    "too many inputs": (
        lambda: weft.load_onnx(model([node("Relu", "x x", "y")], {"x": [1]}, ["y"])), ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   Relu `relu`: it takes 1 inputs, not 2
  help:  {SOUND}"""),
    "operators that are missing": (
        lambda: weft.load_onnx(
            model([node("Det", "x", "a"), node("Unique", "a", "b"), node("Neg", "b", "y")], {"x": [2, 2]}, ["y"])
        ),
        UnsupportedError, """\
error: net has operators that Weft does not have
  why:   Det `det`; Unique `unique`
  help:  onnxruntime has them all; or export the model without these"""),
    "operators of onnxruntime's own": (
        lambda: weft.load_onnx(
            model([node("FusedConv", "x", "y", domain="com.microsoft")], {"x": [2]}, ["y"], domains=["com.microsoft"])
        ),
        UnsupportedError, """\
error: net has operators that Weft does not have
  why:   com.microsoft.FusedConv `fusedconv`: ONNX does not say what operators of com.microsoft mean
  help:  load the model as it was before onnxruntime optimized it, or quantize it with QuantFormat.QDQ"""),
    "nodes that cannot be compiled": (
        lambda: weft.load_onnx(
            model([node("Reshape", "x to", "a"), node("Transpose", "x", "b", perm=[0, 0]), node("Add", "a b", "y")],
                  {"x": [2, 2]}, ["y"], {"to": np.array([3])})
        )(np.zeros((2, 2), np.float32)),
        UnsupportedError, """\
error: net has nodes that Weft cannot compile
  why:   Reshape `reshape`: (2, 2) does not have the elements of (3,); \
Transpose `transpose`: (0, 0) is no order of 2 axes
  help:  see that the model was exported for such sizes; what Weft does not have, onnxruntime may"""),
    "huge sizes": (lambda: weft.load_onnx(_of_shape(1 << 31, 1 << 31))(np.zeros(1, np.float32)), UnsupportedError, """\
error: net has nodes that Weft cannot compile
  why:   ConstantOfShape `constantofshape`: a tensor of shape (2147483648, 2147483648) has 18446744073709551616 bytes
  help:  see that the model was exported for such sizes; what Weft does not have, onnxruntime may"""),
    "huge images": (
        lambda: weft.load_onnx(
            model([node("Resize", "x none s", "y")], {"x": [1, 1, 4, 4]}, ["y"],
                  {"none": np.zeros(0, np.float32), "s": np.array([1, 1, 1e12, 1e12], np.float32)})
        )(np.zeros((1, 1, 4, 4), np.float32)),
        UnsupportedError, """\
error: net has nodes that Weft cannot compile
  why:   Resize `resize`: a tensor of shape (1, 1, 3999999983616, 3999999983616) has 63999999475712001073741824 bytes
  help:  see that the model was exported for such sizes; what Weft does not have, onnxruntime may"""),
    "an attribute of another type": (
        lambda: weft.load_onnx(model([node("Softmax", "x", "y", axis="last")], {"x": [2]}, ["y"])), ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   Softmax `softmax`: its attribute axis is string, not int
  help:  {SOUND}"""),
    "an attribute of no meaning": (
        lambda: weft.load_onnx(model([node("Softmax", "x", "y", alpha=1.0)], {"x": [2]}, ["y"])), ArgumentError, f"""\
error: net is not a sound ONNX model
  why:   Softmax `softmax`: it takes no attribute alpha
  help:  {SOUND}"""),
    "a string as input": (
        lambda: weft.load_onnx(model([node("Identity", "x", "y")], {"x": [1]}, ["y"], kind=TensorProto.STRING)),
        UnsupportedError, """\
error: input `x` of net is a string
  why:   Weft computes with tensors of numbers"""),
    "another input": (lambda: net().run(None, {"x": x(), "z": x()}), ArgumentError, f"""\
error: net has no input `z`
  why:   {SIGNATURE}"""),
    "no input": (lambda: net()(), ArgumentError, f"""\
error: net needs `x` too
  why:   {SIGNATURE}"""),
    "too many": (lambda: net()(x(), x()), ArgumentError, f"""\
error: net takes 1 inputs, not 2
  why:   {SIGNATURE}"""),
    "another output": (lambda: net().run(["q"], {"x": x()}), ArgumentError, f"""\
error: net has no output `q`
  why:   {SIGNATURE}"""),
    "not by name": (lambda: net().run(None, [x()]), ArgumentError, """\
error: inputs are a list
  help:  net.run(None, {"x": x})"""),
    "another type": (lambda: net()(x().astype(np.float64)), ArgumentError, """\
error: input `x` is float64, not float32
  help:  pass x.astype(...) of that type"""),
    "another shape": (lambda: net()(x()[..., :3]), ShapeError, """\
error: input `x` has shape (3, 2, 3)
  why:   the model says x: float32[n, 2, 4]"""),
    "one size, two values": (
        lambda: _two_inputs()(np.zeros((3, 2), np.float32), np.zeros((1, 2), np.float32)), ShapeError, """\
error: input `b` has 1 elements along n
  why:   `a` has 3: n is one size"""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_error(name: str) -> None:
    run, kind, text = CASES[name]
    with pytest.raises(kind) as caught:
        run()
    assert str(caught.value) == text


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/passwd", ""])
def test_data_outside_the_folder_is_refused(tmp_path: Path, location: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(128))
    folder = tmp_path / "model"
    folder.mkdir()
    proto = mlp()
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], location)
    proto.graph.initializer[0].ClearField("raw_data")
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArgumentError) as caught:
        weft.load_onnx(folder / "m.onnx")
    assert f"asks for the file {location!r}" in str(caught.value)
    assert "may only be in the folder of the model" in str(caught.value)


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(128))
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").symlink_to(tmp_path / "secret.bin")
    proto = mlp()
    onnx.external_data_helper.set_external_data(proto.graph.initializer[0], "w.bin")
    proto.graph.initializer[0].ClearField("raw_data")
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(ArgumentError, match="may only be in the folder"):
        weft.load_onnx(folder / "m.onnx")


def test_any_damage_to_a_file_is_an_error_of_ours() -> None:
    """Bytes changed at random: the model runs, or is refused by an error of ours, but nothing else."""
    rng, whole = np.random.default_rng(5), bytearray(mlp().SerializeToString())
    outcomes = {"runs": 0, "refused": 0, "internal": 0}
    for _ in range(300):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 3):
            data[place] = rng.integers(0, 256)
        try:
            weft.load_onnx(bytes(data))(x())
            outcomes["runs"] += 1
        except InternalError:
            outcomes["internal"] += 1
        except Error:
            outcomes["refused"] += 1
    assert min(outcomes["runs"], outcomes["refused"]) > 10
    assert outcomes["internal"] == 0


def test_a_fault_of_ours_is_told_from_a_model_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("oops")

    monkeypatch.setitem(TABLE, "Relu", broken)
    with pytest.raises(InternalError) as caught:
        net()(x())
    assert (
        str(caught.value)
        == """\
error: Relu `relu` of net could not be compiled
  why:   KeyError: 'oops'
  help:  this is a fault of Weft: please report it with the model"""
    )
