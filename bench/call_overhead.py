"""What a call costs beyond its work: 64 elements, against numpy and torch in the same run.

    python bench/call_overhead.py [--max-numpy-us 1] [--max-torch-us 1.5] [--max-cuda-us 5] [--max-model-us 5]

Each row is the least of several repeats, rows interleaved, so that a busy machine slows all alike.
With a limit given, the exit status says whether it holds.
"""

from __future__ import annotations

import argparse
import importlib
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

import weft

SOURCE = """
def add(float(N) A, float(N) B) -> (C) {
    C(n) = A(n) + B(n)
}"""


def numpy_rows(op: Any) -> dict[str, Callable[[], Any]]:
    a, b, c = (np.random.rand(64).astype(np.float32) for _ in range(3))
    return {
        "weft, numpy, out=": lambda: op(a, b, out=c),
        "weft, numpy": lambda: op(a, b),
        "numpy.add, out=": lambda: np.add(a, b, out=c),
        "numpy.add": lambda: np.add(a, b),
    }


def torch_rows(op: Any) -> dict[str, Callable[[], Any]]:
    try:
        import torch
    except ImportError:
        return {}
    a, b, c = (torch.rand(64) for _ in range(3))
    return {
        "weft, torch, out=": lambda: op(a, b, out=c),
        "weft, torch": lambda: op(a, b),
        "torch.add, out=": lambda: torch.add(a, b, out=c),
        "torch.add": lambda: torch.add(a, b),
    }


def model_rows() -> dict[str, Callable[[], Any]]:
    """Whole models, next to nothing to compute in them: three formulas, fifty layers with weights to check, ONNX."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_grad_enabled(False)
    x, y = torch.rand(64), torch.rand(1, 4)
    layers = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(50))).eval()
    formulas, stack = weft.compile(lambda x: torch.relu(x * 2 + 1), (x,)), weft.compile(layers, (y,))
    nested = weft.compile(lambda x, scale: {"y": x * scale, "rest": (torch.relu(x), None)}, (x, x))
    rows = {"weft.compile, 3 formulas": lambda: formulas(x), "weft.compile, 50 layers": lambda: stack(y),
            "weft.compile, by name, nested results": lambda: nested(x, scale=x)}  # fmt: skip
    return rows | {f"{name}, kernels alone": _kernels_alone(fast, a) for name, fast, a in
                   (("3 formulas", formulas, x), ("50 layers", stack, y))} | onnx_rows()  # fmt: skip


def _kernels_alone(fast: Any, x: Any) -> Callable[[], Any]:
    """The table of kernels with everything in place, through ctypes."""
    import torch

    (part,) = fast.parts.values()
    (variant,) = part.model.variants.values()
    executable = variant.compiled.executable
    frame, edges = executable._make_frame(), executable.graph.edges
    arrays = [x, *(torch.empty(edges[name].shape) for name in executable.made)]
    for name, array in zip((*executable.graph.inputs, *executable.made), arrays):
        executable._patch(frame.slots, name, array.data_ptr())
    count = executable.row_count
    return lambda: (executable._run_table(frame.head[0], 0, count), arrays)


def onnx_rows() -> dict[str, Callable[[], Any]]:
    try:
        from onnx import TensorProto, helper
    except ImportError:
        return {}
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "net", ports[:1], ports[1:])
    net, x = weft.load_onnx(helper.make_model(graph)), np.random.rand(64).astype(np.float32)
    return {"weft.load_onnx": lambda: net(x), "weft.load_onnx, run": lambda: net.run(None, {"x": x})}


#: Sums of columns, then what needs them: two launches and a temporary between them.
TWO_LAUNCHES = """
def normalize(float(N,M) X) -> (Y) {
    S(j) +=! X(i,j)
    Y(i,j) = X(i,j) / S(j)
}"""
LOOPS = """kernel add(A: float32[64], B: float32[64], out C: float32[64]) {
  block b in 0:1 { thread t in 0:64 { C[t] = A[t] + B[t] } }
}"""


def cuda_rows(op: Any) -> dict[str, Callable[[], Any]]:
    """What a launch costs the caller; nobody waits for the GPU, which is quicker."""
    if not weft.cuda.is_available():
        return {}
    import torch

    a, b, c = (torch.rand(64, device="cuda") for _ in range(3))
    x, y = torch.rand(8, 8, device="cuda"), torch.rand(8, 8, device="cuda")
    two, loops = weft.define(TWO_LAUNCHES), weft.kernel(LOOPS)
    op(a, b, out=c)
    return {
        "weft, cuda, out=": lambda: op(a, b, out=c),
        "weft, cuda": lambda: op(a, b),
        "weft, in Python, out=": lambda: op._call_slowly(a, b, out=c),
        "weft, two launches": lambda: two(x, out=y),
        "weft.kernel, cuda": lambda: loops(a, b, c),
        "torch.add, cuda, out=": lambda: torch.add(a, b, out=c),
        "torch.add, cuda": lambda: torch.add(a, b),
        "a bare launch": bare_launch(op, [a.data_ptr(), b.data_ptr(), c.data_ptr()]),
    } | cupy_rows(op)


def bare_launch(op: Any, addresses: list[int]) -> Callable[[], Any]:
    """The same kernel through NVIDIA's bindings, its parameters prepared."""
    from cuda.bindings import driver

    from weft.runtime.cuda_program import Frame

    program = next(iter(op._known.values())).loaded
    plan = program.plan(addresses)
    frame = Frame(program, plan, 0)
    for place, address in enumerate(addresses):
        frame.slots[place] = address
    launch, grid = plan.launches[0]
    function, params = driver.CUfunction(program.functions[launch.name]), frame.launches[0][2].value
    return lambda: (driver.cuLaunchKernel(function, *grid, *launch.block, 0, 0, params, 0), frame)


def cupy_rows(op: Any) -> dict[str, Callable[[], Any]]:
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return {}
    a, b, c = (cupy.random.rand(64, dtype=cupy.float32) for _ in range(3))
    return {
        "weft, cupy, out=": lambda: op(a, b, out=c),
        "cupy.add, out=": lambda: cupy.add(a, b, out=c),
    }


def measure(rows: dict[str, Callable[[], Any]], repeat: int, number: int = 20000) -> dict[str, float]:
    """Microseconds a call, without what calling the lambda costs."""
    empty = min(timeit.repeat(lambda: None, number=number, repeat=repeat)) / number
    for run in rows.values():
        for _ in range(100):
            run()
    best = dict.fromkeys(rows, float("inf"))
    for _ in range(repeat):
        for name, run in rows.items():
            best[name] = min(best[name], timeit.timeit(run, number=number) / number)
    return {name: (seconds - empty) * 1e6 for name, seconds in best.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--max-numpy-us", type=float, default=float("inf"))
    parser.add_argument("--max-torch-us", type=float, default=float("inf"))
    parser.add_argument("--max-cuda-us", type=float, default=float("inf"))
    parser.add_argument("--max-model-us", type=float, default=float("inf"))
    parser.add_argument("--only", choices=("cpu", "cuda"), help="rows of one target")
    options = parser.parse_args()
    op = weft.define(SOURCE)
    rows = {} if options.only == "cuda" else numpy_rows(op) | torch_rows(op)
    rows |= {} if options.only == "cpu" else cuda_rows(op)
    rows |= {} if options.only == "cuda" else model_rows()
    times = measure(rows, options.repeat)
    for name, micros in times.items():
        print(f"{name:<25} {micros:7.3f} us")
    limits = {
        "weft, numpy, out=": options.max_numpy_us,
        "weft, torch, out=": options.max_torch_us,
        "weft, cuda, out=": options.max_cuda_us,
        "weft.compile, 3 formulas": options.max_model_us,
    }
    return int(any(times.get(name, 0.0) > limit for name, limit in limits.items()))


if __name__ == "__main__":
    raise SystemExit(main())
