"""Every family as an ONNX graph, for the runtimes that read them; constants are initializers, so they may be packed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import helper, numpy_helper, shape_inference

from bench.field.workloads import Array, Workload

#: Gelu is as old as version 20, RMSNormalization as 23; runtimes that decompose either lose nothing here.
OPSET = 20


class Graph:
    """A graph under construction; a call of ``graph.Add("a", "b")`` gives the name of a node's first output."""

    def __init__(self, workload: Workload, inputs: Mapping[str, Array]) -> None:
        self.sizes = workload.sizes
        self.nodes: list[Any] = []
        self.initializers = [numpy_helper.from_array(inputs[n], n) for n in workload.family.constants]
        self.shapes = {name: value.shape for name, value in inputs.items()}

    def __getattr__(self, operator: str) -> Callable[..., str]:
        def add(*given: str | Array | float | list[int], **attributes: Any) -> str:
            out = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node(operator, [self._name(g) for g in given], [out], **attributes))
            return out

        return add

    def _name(self, given: str | Array | float | list[int]) -> str:
        if isinstance(given, str):
            return given
        value = np.asarray(given, np.int64 if isinstance(given, list) else np.float32)
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(value, name))
        return name

    def linear(self, x: str, weight: str, bias: str | None = None) -> str:
        return self.Gemm(x, weight, *([bias] if bias else []), transB=1)

    def part(self, x: str, starts: list[int], ends: list[int], axes: list[int]) -> str:
        return self.Slice(x, starts, ends, axes)


def _conv(g: Graph) -> str:
    pads, steps, taps = [g.sizes["P"]] * 4, [g.sizes["S"]] * 2, [g.sizes["D"]] * 2
    return g.Conv("I", "Kernel", pads=pads, strides=steps, dilations=taps)


def _depthwise(g: Graph) -> str:
    channels, *taps = g.shapes["Kernel"]
    return g.Conv("I", g.Reshape("Kernel", [channels, 1, *taps]), pads=[g.sizes["P"]] * 4, group=channels)


def _grouped(g: Graph) -> str:
    n, groups, c, h, w = g.shapes["I"]
    _, f, _, *taps = g.shapes["Kernel"]
    image, kernel = g.Reshape("I", [n, groups * c, h, w]), g.Reshape("Kernel", [groups * f, c, *taps])
    out = g.Conv(image, kernel, pads=[g.sizes["P"]] * 4, group=groups)
    return g.Reshape(out, [n, groups, f, h + 2 * g.sizes["P"] - taps[0] + 1, w + 2 * g.sizes["P"] - taps[1] + 1])


def _grad_weight(g: Graph) -> str:
    """A convolution of the image with the gradient, batch and channels exchanged."""
    image, grad = g.Transpose("I", perm=[1, 0, 2, 3]), g.Transpose("GO", perm=[1, 0, 2, 3])
    return g.Transpose(g.Conv(image, grad), perm=[1, 0, 2, 3])


def _conv_relu_pool(g: Graph) -> str:
    conv = g.Conv("I", "Kernel", "b", pads=[g.sizes["P"]] * 4)
    return g.MaxPool(g.Relu(conv), kernel_shape=[2, 2], strides=[2, 2])


def _pool(kind: str) -> Callable[[Graph], str]:
    def pool(g: Graph) -> str:
        return str(getattr(g, kind)("I", kernel_shape=[g.sizes["K"]] * 2, strides=[g.sizes["S"]] * 2))

    return pool


def _rms_norm(g: Graph) -> str:
    mean = g.ReduceMean(g.Mul("X", "X"), [1], keepdims=1)
    return g.Mul(g.Div("X", g.Sqrt(g.Add(mean, 1e-5))), "Gain")


def _batch_norm(g: Graph) -> str:
    channels = [1, g.shapes["Gain"][0], 1, 1]
    centred = g.Sub("I", g.ReduceMean("I", [0, 2, 3], keepdims=1))
    variance = g.ReduceMean(g.Mul(centred, centred), [0, 2, 3], keepdims=1)
    scale = g.Div(g.Reshape("Gain", channels), g.Sqrt(g.Add(variance, 1e-5)))
    return g.Add(g.Mul(centred, scale), g.Reshape("Shift", channels))


def _group_norm(g: Graph) -> str:
    n, groups, c, h, w = g.shapes["I"]
    ones, zeros = np.ones(groups, np.float32), np.zeros(groups, np.float32)
    flat = g.InstanceNormalization(g.Reshape("I", [n, groups, c * h * w]), ones, zeros, epsilon=1e-5)
    image, each = g.Reshape(flat, [n, groups, c, h, w]), [1, groups, c, 1, 1]
    return g.Add(g.Mul(image, g.Reshape("Gain", each)), g.Reshape("Shift", each))


def _swiglu(g: Graph) -> str:
    y = _rms_norm(g)
    gate = g.linear(y, "Gate")
    return g.Mul(g.Mul(gate, g.Sigmoid(gate)), g.linear(y, "Up"))


def _attention(g: Graph, causal: bool = False) -> str:
    scale = float(g.shapes["Q"][3]) ** -0.5
    scores = g.MatMul(g.Mul("Q", scale), g.Transpose("K", perm=[0, 1, 3, 2]))
    if causal:
        size = g.shapes["Q"][2]
        hidden = np.triu(np.full((size, size), -np.inf, np.float32), 1)
        scores = g.Add(scores, hidden)
    return g.MatMul(g.Softmax(scores, axis=-1), "V")


def _blur(g: Graph) -> str:
    h, w = g.shapes["A"]
    image = g.Reshape("A", [1, 1, h, w])
    across = g.AveragePool(image, kernel_shape=[1, 3])
    return g.Reshape(g.AveragePool(across, kernel_shape=[3, 1]), [h - 2, w - 2])


def _kronecker(g: Graph) -> str:
    m, n0, _, _ = g.shapes["X"]
    d0, d1, d2 = (g.shapes[name][0] for name in ("W0", "W1", "W2"))
    once = g.MatMul("X", g.Transpose("W2", perm=[1, 0]))
    twice = g.Reshape(g.MatMul("W1", once), [m, n0, d1 * d2])
    return g.Reshape(g.MatMul("W0", twice), [m, d0, d1, d2])


def _mlp3(g: Graph) -> str:
    x = "X"
    for i in "123":
        x = g.Relu(g.linear(x, f"W{i}", f"B{i}"))
    return x


def _lut(g: Graph, table: str, index: str) -> str:
    return g.ReduceSum(g.Gather(table, index, axis=0), [1], keepdims=0)


def _wavenet(g: Graph) -> tuple[str, str]:
    step = g.sizes["D"]
    kept = {"pads": [step, 0], "dilations": [step]}
    z = g.Mul(g.Tanh(g.Conv("X", "WF", "BF", **kept)), g.Sigmoid(g.Conv("X", "WG", "BG", **kept)))
    residual, skip = (g.Reshape(name, [*g.shapes[name], 1]) for name in ("WR", "WS"))
    return g.Add("X", g.Conv(z, residual, "BR")), g.Conv(z, skip, "BS")


def _pairs(g: Graph) -> tuple[str, str]:
    return g.Unsqueeze("X", [1]), g.Unsqueeze("Y", [0])


def _l1(g: Graph) -> str:
    return g.ReduceSum(g.Abs(g.Sub(*_pairs(g))), [2], keepdims=0)


def _squared_distance(g: Graph) -> str:
    rows, columns = (g.ReduceSum(g.Mul(n, n), [1], keepdims=int(n == "X")) for n in ("X", "Y"))
    product = g.MatMul("X", g.Transpose("Y", perm=[1, 0]))
    return g.Sub(g.Add(rows, columns), g.Mul(product, 2.0))


def _max_plus(g: Graph) -> str:
    return g.ReduceMax(g.Add(g.Unsqueeze("A", [2]), g.Unsqueeze("B", [0])), [1], keepdims=0)


def _bilateral(g: Graph) -> str:
    radius, (rows, columns) = g.sizes["R"], g.shapes["G"]
    height, width = (n - 2 * radius for n in g.shapes["I"])
    centre = g.part("I", [radius, radius], [radius + height, radius + width], [0, 1])
    weighted, weights = [], []
    for y in range(rows):
        for x in range(columns):
            other = g.part("I", [y, x], [y + height, x + width], [0, 1])
            apart = g.Sub(other, centre)
            near = g.part("G", [y, x], [y + 1, x + 1], [0, 1])
            weights.append(g.Mul(near, g.Exp(g.Neg(g.Mul(apart, apart)))))
            weighted.append(g.Mul(weights[-1], other))
    return g.Div(g.Sum(*weighted), g.Sum(*weights))


GRAPHS: dict[str, Callable[[Graph], str | tuple[str, ...]]] = {
    "matmul": lambda g: g.MatMul("A", "B"),
    "A^T B": lambda g: g.Gemm("A", "B", transA=1),
    "batched matmul": lambda g: g.MatMul("X", "Y"),
    "linear+GELU": lambda g: g.Gelu(g.linear("X", "W", "b")),
    "conv": _conv,
    "depthwise conv": _depthwise,
    "grouped conv": _grouped,
    "conv1d": lambda g: g.Conv("I", "W"),
    "conv grad input": lambda g: g.ConvTranspose("GO", "Kernel"),
    "conv grad weight": _grad_weight,
    "conv+bias+ReLU+maxpool": _conv_relu_pool,
    "max pool": _pool("MaxPool"),
    "avg pool": _pool("AveragePool"),
    "softmax": lambda g: g.Softmax("X", axis=1),
    "log softmax": lambda g: g.LogSoftmax("X", axis=1),
    "layer norm": lambda g: g.LayerNormalization("X", "Gain", "Shift", axis=1, epsilon=1e-5),
    "RMS norm": _rms_norm,
    "batch norm": _batch_norm,
    "group norm": _group_norm,
    "bias+GELU": lambda g: g.Gelu(g.Add("X", "b")),
    "RMS norm+SwiGLU": _swiglu,
    "attention": _attention,
    "causal attention": lambda g: _attention(g, causal=True),
    "sums of rows": lambda g: g.ReduceSum("A", [1], keepdims=0),
    "sums of columns": lambda g: g.ReduceSum("A", [0], keepdims=0),
    "sum of all": lambda g: g.ReduceSum("A", [0, 1], keepdims=0),
    "transpose": lambda g: g.Transpose("A", perm=[1, 0]),
    "blur 3x3": _blur,
    "tmm": lambda g: g.Gemm("A", "B", transB=1),
    "tbmm": lambda g: g.MatMul("X", g.Transpose("Y", perm=[0, 2, 1])),
    "Kronecker 3": _kronecker,
    "MLP1": lambda g: g.Relu(g.linear("X", "W", "b")),
    "MLP3": _mlp3,
    "C3": lambda g: g.linear("I", "W"),
    "1LUT": lambda g: _lut(g, "LUT", "I"),
    "2LUT": lambda g: (_lut(g, "LUT1", "I1"), _lut(g, "LUT2", "I2")),
    "WaveNet": _wavenet,
    "L1 distance": _l1,
    "max-plus": _max_plus,
    "min distance": lambda g: g.ReduceMin(_squared_distance(g), [1], keepdims=0),
    "argmin distance": lambda g: g.ArgMin(_squared_distance(g), axis=1, keepdims=0),
    "bilateral": _bilateral,
}


def make_model(workload: Workload, inputs: Mapping[str, Array]) -> Any:
    """The model of a workload, types and shapes inferred."""
    graph = Graph(workload, inputs)
    made = GRAPHS[workload.family.name](graph)
    names = made if isinstance(made, tuple) else (made,)
    variables = {n: v for n, v in inputs.items() if n not in workload.family.constants}
    kind = helper.np_dtype_to_tensor_dtype
    model = helper.make_graph(
        graph.nodes,
        "bench",
        [helper.make_tensor_value_info(n, kind(v.dtype), v.shape) for n, v in variables.items()],
        [helper.make_empty_tensor_value_info(n) for n in names],
        graph.initializers,
    )
    made_model = helper.make_model(model, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)
    return shape_inference.infer_shapes(made_model)
