"""OpenVINO, tuned for latency, from the same ONNX graphs."""

from __future__ import annotations

import time
from collections.abc import Mapping

import openvino

from bench.field.onnx_graphs import make_model
from bench.field.peers import Array, Prepared
from bench.field.workloads import Workload


def version() -> str:
    return str(openvino.__version__).split("-")[0]


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    start = time.perf_counter()
    core = openvino.Core()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}  # fmt: skip
    model = core.read_model(make_model(workload, inputs).SerializeToString())
    compiled = core.compile_model(model, "CPU", settings)
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        request.set_tensor(port, openvino.Tensor(inputs[port.any_name], shared_memory=True))
    request.infer()
    took = time.perf_counter() - start

    def results() -> tuple[Array, ...]:
        request.infer()
        return tuple(t.data.copy() for t in request.output_tensors)

    return Prepared({"filling": request.infer}, results, {"cold": took})
