"""Recurrent layers of ONNX models, beside PyTorch's: both directions, sequences of different lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("torch")

import torch
from onnx import TensorProto, helper, numpy_helper

import weft
from weft.ir.errors import UnsupportedError

STEPS, BATCH, FEATURES, UNITS = 4, 3, 2, 5
#: PyTorch's order of gates, by ONNX's numbers.
ORDER = {"LSTM": [0, 2, 3, 1], "GRU": [1, 0, 2]}


def layer_and_model(op: str) -> tuple[Any, Any]:
    """PyTorch's layer of two directions, and ONNX's with the same weights."""
    layer = getattr(torch.nn, op)(FEATURES, UNITS, bidirectional=True)
    order = ORDER[op]
    back = [order.index(n) for n in range(len(order))]

    def stored(name: str) -> Any:
        sides = [getattr(layer, f"{name}_l0{end}").detach() for end in ("", "_reverse")]
        return np.stack([s.view(len(order), UNITS, -1)[back].reshape(s.shape).numpy() for s in sides])

    arrays = {"W": stored("weight_ih"), "R": stored("weight_hh")}
    arrays["B"] = np.concatenate([stored("bias_ih"), stored("bias_hh")], 1)
    more = {"linear_before_reset": 1} if op == "GRU" else {}
    node = helper.make_node(
        op, ["X", "W", "R", "B", "L"], ["Y", "H"], hidden_size=UNITS, direction="bidirectional", **more
    )
    graph = helper.make_graph(
        [node], "layer",
        [
            helper.make_tensor_value_info("X", TensorProto.FLOAT, [STEPS, BATCH, FEATURES]),
            helper.make_tensor_value_info("L", TensorProto.INT32, [BATCH]),
        ],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "YH"],
        [numpy_helper.from_array(a, n) for n, a in arrays.items()],
    )  # fmt: skip
    return layer, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ({"direction": "sideways"}, "direction is 'sideways'"),
        ({"direction": "forward"}, r"W is of shape \(2, 20, 2\)"),
        ({"activations": ["Tanh"]}, "1 functions of gates"),
        ({"activations": ["Sigmoid", "Tanh", "Odd"]}, "with 'odd'"),
        ({"activations": ["Sigmoid", "Tanh", "Affine"] * 2}, "'affine' without its numbers"),
    ],
)
def test_layers_that_cannot_be_are_refused_by_name(attributes: dict[str, Any], why: str) -> None:
    _, model = layer_and_model("LSTM")
    (node,) = model.graph.node
    node.name = "gates"
    kept = [a for a in node.attribute if a.name not in attributes]
    del node.attribute[:]
    node.attribute.extend([*kept, *(helper.make_attribute(n, v) for n, v in attributes.items())])
    x = np.zeros((STEPS, BATCH, FEATURES), np.float32)
    with pytest.raises(UnsupportedError, match=f"(?s)LSTM `gates`: .*{why}"):
        weft.load_onnx(model).run(None, {"X": x, "L": np.full(BATCH, STEPS, np.int32)})


@pytest.mark.parametrize("op", ["LSTM", "GRU"])
def test_both_directions_of_sequences_of_different_lengths(op: str) -> None:
    torch.manual_seed(0)
    layer, model = layer_and_model(op)
    x, lengths = torch.randn(STEPS, BATCH, FEATURES), torch.tensor([4, 1, 3])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    with torch.no_grad():
        made, state = layer(packed)
    padded, _ = torch.nn.utils.rnn.pad_packed_sequence(made)
    every, last = weft.load_onnx(model).run(None, {"X": x.numpy(), "L": lengths.int().numpy()})
    theirs = padded.view(STEPS, BATCH, 2, UNITS).transpose(1, 2).numpy()
    np.testing.assert_allclose(every, theirs, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, (state[0] if op == "LSTM" else state).numpy(), rtol=1e-4, atol=1e-5)


def _hard_sigmoid(x: Any, scale: float = 0.2, shift: float = 0.5) -> Any:
    return np.clip(scale * x + shift, 0, 1)


def _elu(x: Any, scale: float = 1.0) -> Any:
    return np.where(x > 0, x, scale * np.expm1(x))


@pytest.mark.parametrize(
    ("attributes", "functions"),
    [
        ({"activations": ["HardSigmoid", "Tanh", "Elu"]}, (_hard_sigmoid, np.tanh, _elu)),
        (
            {
                "activations": ["Elu", "HardSigmoid", "LeakyRelu"],
                "activation_alpha": [0.3, 0.4],
                "activation_beta": [0.1],
            },
            (
                lambda x: _elu(x, 0.3),
                lambda x: _hard_sigmoid(x, 0.4, 0.1),
                lambda x: np.where(x > 0, x, 0.01 * x),
            ),
        ),
        (
            {
                "activations": ["ScaledTanh", "Affine", "ThresholdedRelu"],
                "activation_alpha": [0.3, 0.4, 0.05],
                "activation_beta": [0.7, -0.2],
            },
            (lambda x: 0.3 * np.tanh(0.7 * x), lambda x: 0.4 * x - 0.2, lambda x: np.where(x > 0.05, x, 0)),
        ),
    ],
)
def test_gates_with_functions_that_have_numbers(attributes: dict[str, Any], functions: Any) -> None:
    """As Keras has them (`hard_sigmoid`), and with numbers that functions take one after another."""
    rng = np.random.default_rng(3)
    x, w, r = (
        rng.standard_normal(s).astype("f") for s in ((STEPS, BATCH, FEATURES), (1, 20, FEATURES), (1, 20, UNITS))
    )
    node = helper.make_node("LSTM", ["X", "W", "R"], ["Y", "H"], hidden_size=UNITS, **attributes)
    graph = helper.make_graph(
        [node], "layer",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "YH"],
        [numpy_helper.from_array(w, "W"), numpy_helper.from_array(r, "R")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    f, g, last = functions
    h = c = np.zeros((BATCH, UNITS))
    for row in x.astype("d"):
        i, o, forget, new = np.split(row @ w[0].T + h @ r[0].T, 4, 1)
        c = f(forget) * c + f(i) * g(new)
        h = f(o) * last(c)
    np.testing.assert_allclose(weft.load_onnx(model)(x)[1][0], h, rtol=1e-5, atol=1e-6)
