"""Import, first call and warm start: what a user waits for before a kernel runs.

    python -m bench.start_up

Each figure is a median over fresh processes (import, cold and warm start) or over new kernels in
one process (first call).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

KERNELS = {
    "elementwise": ("def f{n}(float(N) A, float(N) B) -> (C) {{ C(i) = {n}.5 * A(i) + B(i) }}", ((64,), (64,))),
    "matmul": (
        "def f{n}(float(M,K) A, float(K,N) B) -> (C) {{ C(m,n) +=! {n}.5 * A(m,k) * B(k,n) }}",
        ((64, 32), (32, 48)),
    ),
    "softmax": (
        "def f{n}(float(M,N) X) -> (O) {{ T(m) max=! {n}.5 * X(m,n)\n E(m,n) = exp(X(m,n) - T(m))\n"
        " S(m) +=! E(m,n)\n O(m,n) = E(m,n) / S(m) }}",
        ((32, 64),),
    ),
}

FRESH = """
import time, json
start = time.perf_counter(); import numpy as np
numpy_ms = (time.perf_counter() - start) * 1e3
start = time.perf_counter(); import weft
weft_ms = (time.perf_counter() - start) * 1e3
arrays = [np.ones(shape, np.float32) for shape in {shapes!r}]
start = time.perf_counter()
weft.define({text!r})(*arrays)
call_ms = (time.perf_counter() - start) * 1e3
print(json.dumps([numpy_ms, weft_ms, call_ms]))
"""


def fresh_process(text: str, shapes: tuple[tuple[int, ...], ...], cache: str) -> list[float]:
    """Milliseconds to import numpy, to import weft after it, and from definition to result."""
    code = FRESH.format(text=text, shapes=shapes)
    environment = {**os.environ, "WEFT_CACHE_DIR": cache}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    return [float(x) for x in json.loads(done.stdout)]


def first_calls(template: str, shapes: tuple[tuple[int, ...], ...], count: int) -> list[float]:
    """Milliseconds from definition to result for ``count`` kernels this process has not seen."""
    import numpy as np

    import weft

    arrays = [np.ones(shape, np.float32) for shape in shapes]
    weft.define(template.format(n=0))(*arrays)
    times = []
    for n in range(1, count + 1):
        start = time.perf_counter()
        weft.define(template.format(n=n))(*arrays)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    os.environ["WEFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="weft-bench-")
    print(f"{'kernel':<14}{'first call, new kernel':>24}{'cold process':>16}{'warm process':>16}")
    imports: list[list[float]] = []
    for name, (template, shapes) in KERNELS.items():
        new = statistics.median(first_calls(template, shapes, repeats))
        text = template.format(n=0)
        cold, warm = [], []
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                cold.append(fresh_process(text, shapes, cache))
                warm.append(fresh_process(text, shapes, cache))
        imports += warm
        middle = [statistics.median(run[2] for run in runs) for runs in (cold, warm)]
        print(f"{name:<14}{new:>21.1f} ms{middle[0]:>13.1f} ms{middle[1]:>13.1f} ms")
    numpy_ms, weft_ms = (statistics.median(run[k] for run in imports) for k in (0, 1))
    print(f"import numpy {numpy_ms:.1f} ms, import weft after it {weft_ms:.1f} ms")
    print("bars: first call of a new kernel 60 ms, warm process 5 ms beyond the import, import 100 ms")


if __name__ == "__main__":
    main()
