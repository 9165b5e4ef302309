"""ONNX Runtime, inputs and outputs bound to memory that stays."""

from __future__ import annotations

import time
from collections.abc import Mapping

import onnxruntime as ort

from bench.field.onnx_graphs import make_model
from bench.field.peers import Array, Prepared
from bench.field.workloads import Workload


def version() -> str:
    return str(ort.__version__)


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    start = time.perf_counter()
    model = make_model(workload, inputs).SerializeToString()
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    variables = {i.name: inputs[i.name] for i in session.get_inputs()}
    results = session.run(None, variables)
    took = time.perf_counter() - start
    binding = session.io_binding()
    for name, value in variables.items():
        binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(value))
    for output, value in zip(session.get_outputs(), results):
        binding.bind_ortvalue_output(output.name, ort.OrtValue.ortvalue_from_numpy(value))
    return Prepared({"filling": lambda: session.run_with_iobinding(binding)}, lambda: tuple(results), {"cold": took})
