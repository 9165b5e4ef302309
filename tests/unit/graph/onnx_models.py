"""Small ONNX models for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str] | None


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    """Names are separated by blanks; the node is called after its operator."""
    name = attributes.pop("name", op.lower())
    return helper.make_node(op, inputs.split(), outputs.split(), name, **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Shape],
    outputs: Sequence[str],
    constants: Mapping[str, Any] | None = None,
    *,
    opset: int = 17,
    kind: int = TensorProto.FLOAT,
    functions: Sequence[Any] = (),
    domains: Sequence[str] = (),
) -> Any:
    graph = helper.make_graph(
        list(nodes),
        "net",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), name) for name, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=list(functions))


def mlp() -> Any:
    """Two layers, and a reshape whose sizes are computed from those of the input."""
    rng = np.random.default_rng(0)
    constants = {
        "w": rng.standard_normal((4, 8)).astype(np.float32), "b": rng.standard_normal(8).astype(np.float32),
        "zero": np.array(0), "first": np.array([0]), "rest": np.array([-1]),
    }  # fmt: skip
    nodes = [
        node("MatMul", "x w", "h"), node("Add", "h b", "a"), node("Relu", "a", "r"), node("Shape", "r", "s"),
        node("Gather", "s zero", "n"), node("Unsqueeze", "n first", "n1"), node("Concat", "n1 rest", "to", axis=0),
        node("Reshape", "r to", "y"),
    ]  # fmt: skip
    return model(nodes, {"x": ["n", 2, 4]}, ["y"], constants)


def weights(proto: Any) -> dict[str, Any]:
    return {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}


__all__ = ["TensorProto", "helper", "mlp", "model", "node", "onnx", "weights"]
