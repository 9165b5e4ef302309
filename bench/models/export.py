"""``python -m bench.models.export MODEL BATCH DTYPE``: a model's files, for checks and for peers without torch."""

from __future__ import annotations

import sys

import numpy as np
import torch

from bench.models.networks import make_network
from bench.models.workloads import ModelWorkload


def export(workload: ModelWorkload) -> None:
    model, x = make_network(workload.model, workload.batch, "cpu", workload.dtype)
    workload.folder.mkdir(parents=True, exist_ok=True)
    np.save(workload.folder / "x.npy", x.numpy())
    torch.onnx.export(model, (x,), str(workload.onnx), input_names=["x"], dynamo=True, verbose=False)
    np.savez(workload.reference, model(x).numpy())  # last: who finds it finds all


if __name__ == "__main__":
    export(ModelWorkload(sys.argv[1], int(sys.argv[2]), dtype=sys.argv[3]))
