"""Kernels that test the reader of CUDA C++ do on a GPU, built by nvcc, what their cases say."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.from_cuda.header_cases import CASES, Case

SCALARS = {"int": np.int32, "size_t": np.uint64}


def build(source: str, folder: Path) -> tuple[Path, str]:
    """A module with the machine code of the kernel ``k``, and the kernel's name in it."""
    text, module = folder / "case.cu", folder / "case.cubin"
    text.write_text(source)
    options = ["-std=c++17", "--expt-relaxed-constexpr", "-arch=native", "-w", "-cubin"]
    command = ["nvcc", *options, str(text), "-o", str(module)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ValueError(done.stdout + done.stderr)
    found = re.search(rb"\.text\.(_Z1k\w+)", module.read_bytes())
    assert found
    return module, found.group(1).decode()


def parameter_types(source: str) -> list[str]:
    found = re.search(r"__global__ void k\(([^)]*)\)", source)
    assert found
    return [parameter.rsplit(" ", 1)[0] for parameter in found.group(1).split(", ")]


def on_device(number: int, module: Path, name: str) -> list[Any]:
    """The arguments of a case after its launch."""
    import cupy

    case = CASES[number]
    loaded = cupy.RawModule(path=str(module), enable_cooperative_groups="this_grid" in case.source)
    given = [
        cupy.asarray(np.ascontiguousarray(a).view(np.uint8)) if isinstance(a, np.ndarray) else SCALARS[kind](a)
        for a, kind in zip(case.args, parameter_types(case.source), strict=True)
    ]
    loaded.get_function(name)(case.grid, case.block, tuple(given), shared_mem=case.shared)
    cupy.cuda.Device().synchronize()
    return [
        cupy.asnumpy(after).view(before.dtype) if isinstance(before, np.ndarray) else before
        for after, before in zip(given, case.args)
    ]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[c.name for c in CASES])
def test_kernels_do_on_a_gpu_what_cases_say(number: int, tmp_path: Path, cupy: Any) -> None:
    """Each in a process of its own: a kernel that fails there ends all later work of its process."""
    case: Case = CASES[number]
    module, name = build(case.source, tmp_path)
    with multiprocessing.get_context("spawn").Pool(1) as process:
        args = process.apply_async(on_device, (number, module, name)).get(30)
    for place, expected in case.expected.items():
        np.testing.assert_allclose(args[place], np.asarray(expected), rtol=2e-5, atol=2e-6, err_msg=f"argument {place}")
