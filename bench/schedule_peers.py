"""Other people's ways to compute the rows of `bench.schedules`; None where they are not installed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Call = Callable[[], object]


def onnx_call(
    what: str,
    inputs: Mapping[str, np.ndarray],
    threads: int,
    constants: Mapping[str, np.ndarray] | None = None,
    **attributes: Any,
) -> Call | None:
    """One operator in onnxruntime, inputs and output bound to memory that stays."""
    try:
        import onnxruntime as ort
        from onnx import helper, numpy_helper
    except ImportError:
        return None
    constants = constants or {}
    values = {**inputs, **constants}
    nodes, extra = _nodes(what, list(values), values, attributes)
    types = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in inputs.items()}
    graph = helper.make_graph(
        nodes,
        "bench",
        [helper.make_tensor_value_info(k, types[k], v.shape) for k, v in inputs.items()],
        [helper.make_empty_tensor_value_info("Y")],
        [numpy_helper.from_array(v, k) for k, v in {**constants, **extra}.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Its threads may spin while it works, but not while others are timed.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result = session.run(None, dict(inputs))[0]
    binding = session.io_binding()
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
    binding.bind_ortvalue_output("Y", ort.OrtValue.ortvalue_from_numpy(result))
    return lambda: session.run_with_iobinding(binding)


def _nodes(
    what: str, names: list[str], values: Mapping[str, np.ndarray], attributes: Mapping[str, Any]
) -> tuple[list[Any], dict[str, np.ndarray]]:
    """The nodes for ``what``, and constants that they need."""
    from onnx import helper

    if what == "bias_gelu":
        return [helper.make_node("Add", names, ["T"]), helper.make_node("Gelu", ["T"], ["Y"])], {}
    if what in ("rows", "columns"):
        axis = np.array([1 if what == "rows" else 0], np.int64)
        return [helper.make_node("ReduceSum", [*names, "axes"], ["Y"], keepdims=0)], {"axes": axis}
    if what == "Transpose":
        attributes = {"perm": [1, 0]}
    return [helper.make_node(what, names, ["Y"], **attributes)], {}


def torch_compiled(plain: Callable[..., Any], args: tuple[Any, ...]) -> Call:
    """``plain`` through torch.compile, for the number of threads there are now."""
    import torch

    torch._dynamo.reset()
    made = torch.compile(plain)
    made(*args)
    return lambda: made(*args)


def halide_blurs(image: np.ndarray, threads: int) -> dict[str, Call]:
    """The blur of Halide's own papers, in floats, by the schedules that are best for it, and by ours."""
    try:
        import halide as hl
    except ImportError:
        return {}
    return {
        f"halide, {way}": _halide_blur(hl, image, threads, way) for way in ("windows", "tiles", "rows in registers")
    }


def _halide_blur(hl: Any, image: np.ndarray, threads: int, way: str) -> Call:
    x, y, xi, yi = hl.Var("x"), hl.Var("y"), hl.Var("xi"), hl.Var("yi")
    source = hl.Buffer(image)
    across, down = hl.Func("across"), hl.Func("down")
    across[x, y] = (source[x, y] + source[x + 1, y] + source[x + 2, y]) / hl.f32(3.0)
    down[x, y] = (across[x, y] + across[x, y + 1] + across[x, y + 2]) / hl.f32(3.0)
    if way == "rows in registers":
        down.tile(x, y, xi, yi, 16, 4).vectorize(xi).unroll(yi)
    elif way == "tiles":
        down.tile(x, y, xi, yi, 256, 32).vectorize(xi, 16)
        across.compute_at(down, x).vectorize(x, 16)
    else:
        down.split(y, y, yi, 64).vectorize(x, 16)
        across.store_at(down, y).compute_at(down, yi).vectorize(x, 16)
    if threads > 1:
        down.parallel(y)
    result = hl.Buffer(hl.Float(32), [image.shape[1] - 2, image.shape[0] - 2])
    down.compile_jit()
    return lambda: down.realize(result)
