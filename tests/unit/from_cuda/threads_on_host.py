"""CUDA kernels as plain C++: each thread of a block is a thread of the host. What the language itself says."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_PRELUDE = """
#include <algorithm>
#include <cmath>
#include <pthread.h>
#include <thread>
#include <vector>
#define __global__ static
#define __shared__ static
struct dim { unsigned x, y, z; };
static thread_local dim threadIdx, blockIdx;
static dim blockDim, gridDim;
static pthread_barrier_t arrived;
static void __syncthreads() { pthread_barrier_wait(&arrived); }
using std::min; using std::max;
template <class F> static void launch(unsigned blocks, unsigned threads, F run) {
  gridDim = {blocks, 1, 1}; blockDim = {threads, 1, 1};
  for (unsigned b = 0; b < blocks; b++) {
    pthread_barrier_init(&arrived, nullptr, threads);
    std::vector<std::thread> all;
    for (unsigned t = 0; t < threads; t++)
      all.emplace_back([=] { threadIdx = {t, 0, 0}; blockIdx = {b, 0, 0}; run(); });
    for (auto &one : all) one.join();
    pthread_barrier_destroy(&arrived);
  }
}
"""
_ENTRY = """
extern "C" void run{n}(const int *a, const float *b, int *c, float *d, int count) {{
  launch(2, 64, [=] {{ kernel{n}::k(a, b, c, d, count); }});
}}
"""


def build(kernels: Sequence[str], folder: Path) -> Any:
    """A library with ``run0``, ``run1`` ... for the kernels; None where there is no compiler."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        return None
    parts = [f"namespace kernel{n} {{\n{text}}}{_ENTRY.format(n=n)}" for n, text in enumerate(kernels)]
    (folder / "kernels.cpp").write_text(_PRELUDE + "".join(parts))
    library = folder / "kernels.so"
    flags = ["-O1", "-shared", "-fPIC", "-pthread", "-std=c++17", "-w", "-ffp-contract=off"]
    subprocess.run([compiler, *flags, "-o", str(library), str(folder / "kernels.cpp")], check=True)
    return ctypes.CDLL(str(library))
