"""OpenVINO, tuned for latency, in float32 throughout: by default it computes in bfloat16 where it can."""

from __future__ import annotations

import time
from collections.abc import Mapping

import openvino

from bench.field.peers import Array, Prepared
from bench.models.workloads import ModelWorkload


def version() -> str:
    return str(openvino.__version__).split("-")[0]


def prepare(workload: ModelWorkload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    start = time.perf_counter()
    settings = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1,
                "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False}  # fmt: skip
    core = openvino.Core()
    compiled = core.compile_model(core.read_model(str(workload.onnx)), "CPU", settings)
    request = compiled.create_infer_request()
    request.set_tensor(compiled.inputs[0], openvino.Tensor(inputs["x"], shared_memory=True))
    request.infer()
    seconds = {"cold": time.perf_counter() - start}

    def results() -> tuple[Array, ...]:
        request.infer()
        return tuple(t.data.copy() for t in request.output_tensors)

    return Prepared({"filling": request.infer}, results, seconds)
