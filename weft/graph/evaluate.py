"""The meaning of a graph, by the independent evaluator: every stage is tested against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.graph.graph import Fragment, Graph
from weft.ir.errors import UnsupportedError
from weft.ir.numpy_dtypes import convert
from weft.runtime.arrays import copy_dense, describe, device_of, is_on_gpu, look_at
from weft.tensor.evaluate import evaluate as evaluate_program


def evaluate_fragment(node: Fragment, args: Sequence[Any], *, wide: bool = False) -> tuple[Any, ...]:
    """The outputs of one fragment, as numpy arrays."""
    return evaluate_program(node.program, [_read_only(a) for a in args], wide=wide)


def _read_only(array: Any) -> Any:
    """As `as_numpy`, but no copy of what is in this machine's memory: the evaluator writes to nothing it is given."""
    if isinstance(array, np.ndarray) or is_on_gpu(device_of(array)):
        return as_numpy(array)
    return look_at(describe(array))


def as_numpy(array: Any) -> Any:
    """The values of an array of any framework."""
    if isinstance(array, np.ndarray):
        return array
    return copy_dense(describe(array.cpu() if is_on_gpu(device_of(array)) else array)).owner


def evaluate(graph: Graph, args: Sequence[Any], *, wide: bool = False) -> tuple[Any, ...]:
    """The outputs of ``graph`` for one array an input; ``wide`` computes every float in float64."""
    values: dict[str, Any] = {name: as_numpy(a) for name, a in zip(graph.inputs, args)}
    values |= {name: as_numpy(a) for name, a in graph.constants.items()}
    for node in graph.nodes:
        if not isinstance(node, Fragment):
            raise UnsupportedError(f"`{node.name}` is a call of {node.call.target}, which the evaluator does not know")
        made = evaluate_fragment(node, [values[name] for name in node.inputs], wide=wide)
        values |= dict(zip(node.outputs, made))
    if wide:
        return tuple(values[name] for name in graph.outputs)
    return tuple(convert(values[name], graph.edges[name].dtype) for name in graph.outputs)
