"""Every bench of this folder, one after another: ``python -m bench [name ...]``."""

from __future__ import annotations

import subprocess
import sys

BENCHES = {
    "start_up": "import, first call, warm start",
    "call_overhead": "what a call costs, against numpy and torch",
    "compile_time": "what compiling costs, stage by stage",
    "vector_math": "math functions on 1M elements, against torch, 1 thread",
    "model_rank": "the time model against the clock, on random schedules",
    "schedules": "examples/schedules against torch, onnxruntime and halide",
    "gpu_on_cpu": "examples/kernels, written for a GPU, against OpenMP C",
}


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no bench called {', '.join(unknown)}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    status = 0
    for name in names or BENCHES:
        print(f"== {name}: {BENCHES[name]}", flush=True)
        status |= subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
        print()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
