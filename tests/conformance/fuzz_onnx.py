"""ONNX files damaged at random: `python -m tests.conformance.fuzz_onnx [--count 3000] [--seed 0]`.

Bytes, fields and nodes of small models are changed. Each file must run or be refused by an error that is no internal
one; a crash, a hang or any other exception fails the command. Batches run in processes of their own.
"""

from __future__ import annotations

import argparse
import collections
import sys
import warnings
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import weft
from tests.conformance.apart import run_all_apart
from weft.ir.errors import Error, InternalError

#: Files tried in one process.
BATCH = 100


def _model(nodes: list[Any], inputs: dict[str, list[int]], constants: dict[str, Any]) -> Any:
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def _node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), [output], op.lower(), **attributes)


def models() -> list[tuple[Any, dict[str, Any]]]:
    """Models with what a file can have wrong: sizes, axes, pads, types, subgraphs; and inputs for each."""
    rng = np.random.default_rng(0)
    image, rows = rng.standard_normal((1, 3, 6, 6)).astype("f"), rng.standard_normal((2, 4)).astype("f")
    w = rng.standard_normal((4, 3, 3, 3)).astype("f")
    convolution = _model(
        [_node("Conv", "x w", "a", pads=[1, 1, 1, 1], strides=[2, 1]), _node("Relu", "a", "b"),
         _node("MaxPool", "b", "c", kernel_shape=[2, 2]), _node("Flatten", "c", "d"), _node("Gemm", "d m", "y")],
        {"x": [1, 3, 6, 6]}, {"w": w, "m": rng.standard_normal((40, 3)).astype("f")},
    )  # fmt: skip
    shapes = _model(
        [_node("Shape", "x", "s"), _node("Gather", "s i", "n", axis=0), _node("Concat", "n k", "to", axis=0),
         _node("Reshape", "x to", "a"), _node("Transpose", "a", "b", perm=[1, 0]), _node("Softmax", "b", "c", axis=-1),
         _node("Slice", "c from until", "d"), _node("Pad", "d pads", "e"), _node("ReduceSum", "e", "y")],
        {"x": [2, 4]},
        {"i": np.array([0]), "k": np.array([4]), "from": np.array([1]), "until": np.array([3]),
         "pads": np.array([0, 1, 1, 0])},
    )  # fmt: skip
    inner = helper.make_graph(
        [_node("Mul", "x x", "t")], "then", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)]
    )
    branch = _model(
        [_node("If", "go", "h", then_branch=inner, else_branch=inner), _node("Cast", "h", "j", to=TensorProto.DOUBLE),
         _node("Expand", "j to", "k"), _node("Where", "go k k", "y")],
        {"x": [2, 4]}, {"go": np.array(True), "to": np.array([3, 2, 4])},
    )  # fmt: skip
    places = _model(
        [_node("ArgMax", "x", "a", axis=1), _node("ScatterElements", "x a u", "b", axis=1),
         _node("SplitToSequence", "b two", "s", axis=1), _node("ConcatFromSequence", "s", "c", axis=0),
         _node("Reshape", "c to", "d"), _node("GridSample", "d g", "e"), _node("QuantizeLinear", "e scale zero", "f"),
         _node("MatMulInteger", "f w", "y")],
        {"x": [2, 4]},
        {"u": np.ones((2, 1), "f"), "two": np.array([2, 2]), "to": np.array([1, 1, 4, 2]), "zero": np.uint8(9),
         "g": rng.standard_normal((1, 3, 2, 2)).astype("f"), "scale": np.float32(0.1), "w": np.ones((2, 3), np.int8)},
    )  # fmt: skip
    return [(convolution, {"x": image}), (shapes, {"x": rows}), (branch, {"x": rows}), (places, {"x": rows})]


def damaged(proto: Any, rng: Any) -> bytes:
    """The bytes of a model with some of them changed, or with numbers of its nodes and tensors changed."""
    if rng.random() < 0.5:
        data = bytearray(proto.SerializeToString())
        for place in rng.integers(0, len(data), int(rng.integers(1, 5))):
            data[place] = rng.integers(0, 256)
        return bytes(data[: rng.integers(1, len(data))] if rng.random() < 0.05 else data)
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    odd = [0, 1, -1, 2, 3, 7, -7, 1 << 31, -(1 << 40), (1 << 62)]
    for _ in range(int(rng.integers(1, 3))):
        node = copy.graph.node[int(rng.integers(len(copy.graph.node)))]
        tensor = copy.graph.initializer[int(rng.integers(len(copy.graph.initializer)))]
        value = odd[int(rng.integers(len(odd)))]
        kind = int(rng.integers(6))
        if kind == 0 and node.attribute:
            attribute = node.attribute[int(rng.integers(len(node.attribute)))]
            attribute.i = value
            attribute.ints[:] = [value, *attribute.ints[1:]]
        elif kind == 1 and tensor.dims:
            tensor.dims[0] = value
        elif kind == 2:
            tensor.data_type = int(rng.integers(0, 24))
        elif kind == 3 and len(node.input) > 1:
            node.input[0], node.input[1] = node.input[1], node.input[0]
        elif kind == 4:
            node.op_type = copy.graph.node[int(rng.integers(len(copy.graph.node)))].op_type
        elif tensor.data_type == TensorProto.INT64 and tensor.raw_data:
            tensor.raw_data = np.full(len(tensor.raw_data) // 8, value).tobytes()
    return bytes(copy.SerializeToString())


def try_file(seed: int) -> tuple[str, str]:
    """``runs``, ``refused``, ``internal`` or ``wrong``, and why."""
    rng = np.random.default_rng(seed)
    every = models()
    proto, inputs = every[seed % len(every)]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            weft.load_onnx(damaged(proto, rng)).run(None, inputs)
    except InternalError as error:
        return "internal", str(error)
    except Error:
        return "refused", ""
    except Exception as error:
        return "wrong", f"{type(error).__name__}: {error}"
    return "runs", ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    counts: collections.Counter[str] = collections.Counter()
    items = [(seed,) for seed in range(options.seed, options.seed + options.count)]
    for (seed,), (how, found) in zip(items, run_all_apart(try_file, items, limit=120, each=BATCH)):
        verdict, why = found if how == "done" else (how, str(found))
        counts[verdict] += 1
        if verdict not in ("runs", "refused"):
            print(f"{verdict} --seed {seed}: {why[:500]}", flush=True)
    print(f"{sum(counts.values())} files: " + ", ".join(f"{n} {v}" for v, n in counts.most_common()))
    return 1 if set(counts) - {"runs", "refused"} else 0


if __name__ == "__main__":
    sys.exit(main())
