"""The same program becomes the same code in every process, whatever order Python's sets have there.

Kept kernels, goldens and random tests rely on it: the order of a set must never decide anything.
"""

from __future__ import annotations

import os
import subprocess
import sys

#: Prints a schedule and a digest of the code of each program, for a CPU and for a GPU.
SCRIPT = """
import hashlib
import numpy as np
import weft

CALLS = {
    "matmul": [(67, 45), (45, 53)],
    "softmax": [(33, 130)],
    "layer_norm": [(17, 96), (96,), (96,)],
    "conv2d": [(2, 3, 9, 11), (4, 3, 3, 3)],
    "sum_planes": [(6, 7, 8)],
}
for name, shapes in CALLS.items():
    op = getattr(weft.ops, name)
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    for target, stages in {"cpu": ["lowered", "llvm"], "cuda": ["lowered", "cuda"]}.items():
        print(name, target, op.schedule(*arrays, target=target).trace)
        for stage in stages:
            print(stage, hashlib.md5(op.show(stage, *arrays, target=target).encode()).hexdigest())
"""


def printed(seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_code_does_not_depend_on_the_order_of_sets() -> None:
    first = printed("1")
    assert first.count("llvm") == 5
    assert printed("2") == first
