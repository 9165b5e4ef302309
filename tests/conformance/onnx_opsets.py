"""One model in every version of ONNX's operators: `python -m tests.conformance.onnx_opsets [--first 9] [--exported]`.

Operators that changed between versions are written as each version has them: axes that were attributes and became
inputs, softmax that flattened, limits, pads and steps, nearest and linear resizing, sorting. onnxruntime says what each
model means where it is installed and knows the version, else ONNX's own reference evaluator (whose batch norm of
versions 9 to 13 is that of training, and whose softmax is always that of version 13).

``--exported`` runs the models of `bench.models` instead, as exported by PyTorch, against PyTorch's own results:
`python -m bench.models.export` makes their files.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, checker, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import weft
from weft.graph.from_onnx.edge import NEWEST

OLDEST = 9


class Drawing:
    """A model being written in one version."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.rng = np.random.default_rng(opset)

    def constant(self, value: Any, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *sizes: int) -> str:
        return self.constant(self.rng.standard_normal(sizes) / 2)

    def add(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> Any:
        made = [f"t{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, made, f"{op}_{len(self.nodes)}", **attributes))
        return made[0] if outputs == 1 else made

    def listed(self, op: str, x: str, since: int, name: str, values: Any, **more: Any) -> str:
        """An operator whose list is an attribute before version ``since``, and an input from there on."""
        if self.opset < since:
            return str(self.add(op, x, **{name: values}, **more))
        return str(self.add(op, x, self.constant(values, "int64"), **more))


def convolutions(d: Drawing, x: str) -> str:
    """Of 1x3x8x8: convolution, batch norm, limits, pools, padding, resizing."""
    y = d.add("Conv", x, d.random(4, 3, 3, 3), d.random(4), pads=[1, 1, 1, 1], strides=[1, 1])
    stats = [d.random(4), d.random(4), d.random(4), d.constant(d.rng.uniform(0.5, 2, 4))]
    y = d.add("BatchNormalization", y, *stats)
    if d.opset < 11:
        y = d.add("Clip", y, min=-0.5, max=1.5)
        y = d.add("Pad", y, pads=[0, 0, 1, 0, 0, 0, 0, 1], value=0.25)
    else:
        y = d.add("Clip", y, d.constant(-0.5), d.constant(1.5))
        y = d.add("Pad", y, d.constant([0, 0, 1, 0, 0, 0, 0, 1], "int64"), d.constant(0.25))
    y = d.add("Dropout", d.add("MaxPool", y, kernel_shape=[2, 2], strides=[1, 1]))
    scales = d.constant([1, 1, 2, 2])
    if d.opset < 10:
        y = d.add("Upsample", y, scales, mode="nearest")
    elif d.opset < 11:  # the reference has no Resize of that version
        y = d.add("ConvTranspose", y, d.random(4, 4, 2, 2), strides=[2, 2])
    else:
        y = d.add(
            "Resize",
            y,
            d.constant([]) if d.opset < 13 else "",
            scales,
            mode="linear",
            coordinate_transformation_mode="half_pixel",
        )
    return str(d.add("AveragePool", y, kernel_shape=[3, 3], strides=[2, 2], count_include_pad=1, pads=[1, 1, 1, 1]))


def rows(d: Drawing, y: str) -> list[tuple[str, int]]:
    """Of 1x4xHxW: shapes computed, slices, softmax as the version has it, sums, splits, sorting."""
    y = d.listed("Squeeze", y, 13, "axes", [0])
    sizes = d.add("Shape", y)
    first = d.add("Gather", sizes, d.constant([0], "int64"), axis=0)
    y = d.add("Reshape", y, d.add("Concat", first, d.constant([-1], "int64"), axis=0))
    if d.opset < 10:
        y = d.add("Slice", y, axes=[1], starts=[0], ends=[12])
    else:
        y = d.add("Slice", y, *(d.constant([n], "int64") for n in (0, 24, 1, 2)))
    y = d.add("Gemm", y, d.random(12, 6), d.random(6))
    soft = d.add("Softmax", d.listed("Unsqueeze", y, 13, "axes", [0]), axis=1)  # flattened to rows before version 13
    total = d.listed("ReduceSum", soft, 13, "axes", [2], keepdims=0)
    mean = d.listed("ReduceMean", y, 18, "axes", [1], keepdims=1)
    if d.opset < 13:
        left, right = d.add("Split", y, outputs=2, axis=1, split=[2, 4])
    else:
        left, right = d.add("Split", y, d.constant([2, 4], "int64"), outputs=2, axis=1)
    if d.opset < 10:
        top, places = d.add("TopK", right, outputs=2, axis=1, k=2)
    else:
        top, places = d.add("TopK", right, d.constant([2], "int64"), outputs=2, axis=1)
    picked = d.add("Where", d.add("Less", left, top), left, d.add("Cast", places, to=TensorProto.FLOAT))
    return [(soft, 3), (total, 2), (mean, 2), (picked, 2)]


def model_of(opset: int) -> ModelProto:
    d = Drawing(opset)
    outputs = rows(d, convolutions(d, "x"))
    graph = helper.make_graph(
        d.nodes, f"opset_{opset}", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, rank * [None]) for name, rank in outputs], d.constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    checker.check_model(model)
    return model


def expected_of(model: ModelProto, x: Any) -> tuple[str, list[Any]]:
    """Who says so, and what."""
    try:
        import onnxruntime

        return "onnxruntime", onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    except Exception:  # not there, or it does not know the version, which it says in ways of its own
        return "onnx.reference", ReferenceEvaluator(model).run(None, {"x": x})


def try_opset(opset: int) -> str:
    """Raises unless the model of a version gives what it should; who said what that is."""
    model, x = model_of(opset), np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype("f")
    judge, expected = expected_of(model, x)
    for ours, theirs in zip(weft.load_onnx(model).run(None, {"x": x}), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    return f"as {judge} says"


def try_exported(folder: Path) -> str:
    """How far the results of an exported model are from PyTorch's, in parts of the largest value."""
    x, right = np.load(folder / "x.npy"), np.load(folder / "right.npz")
    made = weft.load_onnx(folder / "model.onnx").run(None, {"x": x})
    off = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(made, right.values(), strict=True))
    assert off < 1e-4, f"off by {off:.2g}"
    return f"off by {off:.2g}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=OLDEST)
    parser.add_argument("--exported", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(".bench/exported"))
    options = parser.parse_args()
    work: list[tuple[str, Any, Any]] = [(f"opset {n}", try_opset, n) for n in range(options.first, NEWEST + 1)]
    if options.exported:
        work = [(p.name, try_exported, p) for p in sorted(options.folder.iterdir()) if (p / "right.npz").exists()]
    failed = 0
    for name, run, argument in work:
        start = time.time()
        try:
            print(f"right {name} {run(argument)} ({time.time() - start:.0f} s)", flush=True)
        except Exception as error:
            failed += 1
            print(f"{type(error).__name__} {name}: {str(error).strip()[:600]}", flush=True)
    print(f"{len(work)} models, {failed} not right")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
