"""ONNX models: calls, sizes that change, shapes from values, functions, control flow."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx_models import TensorProto, helper, mlp, model, node, onnx, weights

import weft
import weft.onnx as backend
from weft.cli.main import main
from weft.ir.errors import ArgumentError, UnsupportedError


def some(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def expected(proto: Any, x: Any) -> Any:
    w = weights(proto)
    return np.maximum(x @ w["w"] + w["b"], 0).reshape(len(x), -1)


def test_calls_and_sizes_that_change() -> None:
    proto = mlp()
    net = weft.load_onnx(proto)
    for n in (3, 5, 3):
        x = some(n, 2, 4, seed=n)
        np.testing.assert_allclose(net(x), expected(proto, x), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(net(x), net.run(None, {"x": x})[0])
    assert len(net.variants) == 2
    assert net.run(["y"], {"x": x})[0].shape == (3, 16)
    assert str(net.inputs[0]) == "x: float32[n, 2, 4]"
    assert [p.name for p in net.get_outputs()] == ["y"]
    assert net.get_inputs()[0].type == "tensor(float)"


def test_arithmetic_on_shapes_leaves_no_nodes() -> None:
    net = weft.load_onnx(mlp())
    net(some(3, 2, 4))
    text = weft.explain(net)
    assert "for x float32[3, 2, 4]: net: " in text
    assert "in 1 kernels" in text


def test_files_bytes_and_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proto, x = mlp(), some(2, 2, 4)
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    for source in (path, str(path), path.read_bytes()):
        np.testing.assert_allclose(weft.load_onnx(source)(x), expected(proto, x), rtol=1e-5, atol=1e-6)
    np.save(tmp_path / "x.npy", x)
    assert main(["run", str(path), "--arg", f"x={tmp_path / 'x.npy'}", "--save", f"y={tmp_path / 'y.npy'}"]) == 0
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(proto, x), rtol=1e-5, atol=1e-6)
    assert main(["run", str(path), "--size", "n=2"]) == 0
    assert "y: float32[2, 16]" in capsys.readouterr().out


def test_weights_beside_the_model(tmp_path: Path) -> None:
    proto, x = mlp(), some(2, 2, 4)
    want = expected(proto, x)
    onnx.save(proto, tmp_path / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    np.testing.assert_allclose(weft.load_onnx(tmp_path / "m.onnx")(x), want, rtol=1e-5, atol=1e-6)


def test_shapes_that_depend_on_values_of_inputs() -> None:
    graph = helper.make_graph(
        [node("Expand", "x to", "y")],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3]),
         helper.make_tensor_value_info("to", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    net = weft.load_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    x = some(1, 3)
    for n in (2, 4, 2):
        np.testing.assert_array_equal(net(x, np.array([n, 3])), np.repeat(x, n, 0))
    assert len(net.variants) == 2


def test_functions_of_the_model_are_taken_apart() -> None:
    body = [
        helper.make_node("LeakyRelu", ["a"], ["l"]),
        helper.make_node("Add", ["l", "a"], ["out"]),
    ]
    slope = onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    body[0].attribute.append(slope)
    function = helper.make_function("mine", "Twice", ["a"], ["out"], body, [helper.make_opsetid("", 17)], ["slope"])
    call = helper.make_node("Twice", ["x"], ["y"], "twice", domain="mine", slope=0.5)
    net = weft.load_onnx(model([call], {"x": [4, 5]}, ["y"], functions=[function], domains=["mine"]))
    x = some(4, 5)
    np.testing.assert_allclose(net(x), np.where(x > 0, x, 0.5 * x) + x, rtol=1e-6)


def test_results_are_the_callers_own() -> None:
    net = weft.load_onnx(
        model([node("Identity", "x", "y"), node("Identity", "c", "z")], {"x": [3]}, ["y", "z"], {"c": np.ones(2)})
    )
    x = some(3)
    y, z = net(x)
    y[:], z[:] = 7, 7
    assert not np.any(x == 7)
    np.testing.assert_array_equal(net(x)[1], np.ones(2))


@pytest.mark.parametrize("opset", [9, 11, 13, 18])
def test_softmax_and_reductions_mean_what_their_version_says(opset: int) -> None:
    x = some(2, 3, 4)
    nodes = [node("Softmax", "x", "y", axis=1)]
    constants: dict[str, Any] = {}
    if opset < 18:
        nodes.append(node("ReduceMax", "y", "z", axes=[-1], keepdims=0))
    else:
        constants["over"] = np.array([-1])
        nodes.append(node("ReduceMax", "y over", "z", keepdims=0))
    made = weft.load_onnx(model(nodes, {"x": [2, 3, 4]}, ["z"], constants, opset=opset))(x)
    axes = (1, 2) if opset < 13 else 1
    power = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(made, (power / power.sum(axes, keepdims=True)).max(-1), rtol=1e-5)


def test_a_loop_whose_rounds_are_known() -> None:
    body = helper.make_graph(
        [node("Mul", "state factor", "next"), node("Identity", "go", "on"), node("Identity", "next", "row")],
        "body",
        [helper.make_tensor_value_info("i", TensorProto.INT64, []),
         helper.make_tensor_value_info("go", TensorProto.BOOL, []),
         helper.make_tensor_value_info("state", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in ("on", "next", "row")],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["times", "", "x"], ["last", "rows"], "loop", body=body)
    constants = {"times": np.array(4), "factor": np.array(2, np.float32)}
    net = weft.load_onnx(model([loop], {"x": [3]}, ["last", "rows"], constants))
    x = some(3)
    last, rows = net(x)
    np.testing.assert_array_equal(last, 16 * x)
    np.testing.assert_array_equal(rows, np.stack([2 * x, 4 * x, 8 * x, 16 * x]))


def test_names_of_any_letters() -> None:
    net = weft.load_onnx(model([node("Relu", "größe/数:0", "é")], {"größe/数:0": [3]}, ["é"]))
    x = some(3)
    np.testing.assert_array_equal(net.run(["é"], {"größe/数:0": x})[0], np.maximum(x, 0))


def test_the_standard_backend() -> None:
    assert weft.onnx.supports_device("CPU")
    assert not weft.onnx.supports_device("CUDA")
    x = some(2, 2, 4)
    [made] = weft.onnx.run_model(mlp(), [x])
    np.testing.assert_allclose(made, expected(mlp(), x), rtol=1e-5, atol=1e-6)
    [made] = weft.onnx.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
    np.testing.assert_array_equal(made, np.maximum(x, 0))
    assert not weft.onnx.is_compatible(model([node("Nonsense", "x", "y")], {"x": [1]}, ["y"]))


def test_a_result_that_is_another_look_at_one_keeps_its_type() -> None:
    import ml_dtypes

    nodes = [node("Add", "x x", "a"), node("Reshape", "a to", "b"), node("Transpose", "b", "y", perm=[1, 0])]
    proto = model(nodes, {"x": [6]}, ["y", "a"], {"to": np.array([2, 3])}, kind=TensorProto.BFLOAT16)
    x = np.arange(6).astype(ml_dtypes.bfloat16)
    for made in weft.load_onnx(proto)(x):
        assert made.dtype == x.dtype


@pytest.mark.parametrize("op", ["CumSum", "CumProd"])
@pytest.mark.parametrize("size", [1, 4])
def test_running_values_before_each_element(op: str, size: int) -> None:
    x = np.arange(1, 3 * size + 1, dtype="f").reshape(3, size)
    for backwards in (0, 1):
        made = model(
            [node(op, "x d", "y", exclusive=1, reverse=backwards)], {"x": [3, size]}, ["y"], {"d": np.array(1)},
            opset=26 if op == "CumProd" else 14,
        )  # fmt: skip
        fn, neutral = (np.cumsum, 0) if op == "CumSum" else (np.cumprod, 1)
        rows = x[:, ::-1] if backwards else x
        wanted = fn(np.concatenate([np.full((3, 1), neutral, "f"), rows[:, :-1]], 1), 1)
        np.testing.assert_array_equal(weft.load_onnx(made)(x), wanted[:, ::-1] if backwards else wanted)


@pytest.mark.parametrize(
    ("start", "end", "step", "wanted"),
    [
        (-100, -(2**63), -1, [0]),  # ONNX begins at the first element, where Python would be before it
        (-4, -100, -2, [0]),
        (100, -100, -2, [3, 1]),
        (-100, 100, 3, [0, 3]),
        (-1, 0, -1, [3, 2, 1]),
        (2, 2**63 - 1, -1, []),
    ],
)
def test_slices_that_begin_outside(start: int, end: int, step: int, wanted: list[int]) -> None:
    bounds = {name: np.array([n]) for name, n in (("a", start), ("b", end), ("d", 0), ("s", step))}
    made = model([node("Slice", "x a b d s", "y")], {"x": [4]}, ["y"], bounds)
    np.testing.assert_array_equal(weft.load_onnx(made)(np.arange(4, dtype="f")), np.array(wanted, "f"))


def test_models_copy_and_pickle_before_and_after_they_are_called() -> None:
    proto = model([node("MatMul", "x w", "h"), node("Relu", "h", "y")], {"x": ["N", 3]}, ["y"],
                  {"w": np.arange(12, dtype=np.float32).reshape(3, 4) - 6})  # fmt: skip
    net, x = weft.load_onnx(proto), np.ones((2, 3), np.float32)
    early = [copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    y = net(x)
    for other in [*early, copy.deepcopy(net), pickle.loads(pickle.dumps(net))]:
        np.testing.assert_array_equal(other(x), y)
        np.testing.assert_array_equal(other.run(None, {"x": x[:1]})[0], y[:1])
        assert repr(other) == repr(net)
        assert other.variants.keys() == {*other.variants}
        assert all(a is not b for a in other.variants.values() for b in net.variants.values())


@pytest.mark.parametrize(
    ("op", "given", "facts", "shape"),
    [
        ("InstanceNormalization", ["x", "", ""], {}, [2, 3, 4]),
        ("LSTM", ["x", "", ""], {"hidden_size": 3}, [2, 3, 4]),
        ("Einsum", ["x", ""], {"equation": "ij,jk->ik"}, [3, 4]),
        ("Conv", ["x", ""], {}, [2, 3, 4]),
        ("Concat", ["x", "", "x"], {"axis": 0}, [3, 4]),
        ("Gemm", ["", "x"], {}, [3, 4]),
    ],
)
def test_a_required_input_that_is_left_empty(op: str, given: list[str], facts: Any, shape: list[int]) -> None:
    proto = model([helper.make_node(op, given, ["y"], "it", **facts)], {"x": shape}, ["y"])
    with pytest.raises(
        ArgumentError, match=rf"net is not a sound ONNX model\n  why:   {op} `it`: its input \w+ is left"
    ):
        weft.load_onnx(proto)


def test_a_required_input_that_a_call_of_a_function_leaves_empty() -> None:
    inside = [node("Add", "a b", "c")]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "f", ["a", "b"], ["c"], inside, imports)
    call = helper.make_node("f", ["x", ""], ["y"], "call", domain="own")
    proto = model([call], {"x": [2, 4]}, ["y"], functions=[function], domains=["own"])
    with pytest.raises(UnsupportedError, match=r"Add `call/add`: its input B is left empty"):
        weft.load_onnx(proto)(np.ones((2, 4), np.float32))


def test_the_backend_says_which_devices_there_are() -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("TPU")
    assert not backend.supports_device("CUDA:77")
    with pytest.raises(ArgumentError, match=r"no ONNX model is compiled for the device 'TPU' here\n  why: "):
        backend.prepare(model([node("Relu", "x", "y")], {"x": [2]}, ["y"]), "TPU")
