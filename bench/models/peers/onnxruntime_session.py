"""ONNX Runtime on the model that PyTorch exported, input and output bound to memory that stays."""

from __future__ import annotations

import time
from collections.abc import Mapping

import onnxruntime as ort

from bench.field.peers import Array, Prepared
from bench.models.workloads import ModelWorkload


def version() -> str:
    return str(ort.__version__)


def prepare(workload: ModelWorkload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    start = time.perf_counter()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(workload.onnx), options, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    (made,) = session.get_outputs()
    results = session.run(None, {given.name: inputs["x"]})
    seconds = {"cold": time.perf_counter() - start}
    binding = session.io_binding()
    binding.bind_ortvalue_input(given.name, ort.OrtValue.ortvalue_from_numpy(inputs["x"]))
    binding.bind_ortvalue_output(made.name, ort.OrtValue.ortvalue_from_numpy(results[0]))
    return Prepared({"filling": lambda: session.run_with_iobinding(binding)}, lambda: tuple(results), seconds)
