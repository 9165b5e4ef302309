"""Whole programs that test the reader of CUDA C++ print on a GPU, built by nvcc, what their tests say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.from_cuda import test_libraries, test_programs

LIBRARIES = ("-lcublas", "-lcublasLt", "-lcufft", "-lcurand", "-lcuda")
#: Not here: products by descriptors and graphs (their programs read device memory from the host, which only our runtime
#: allows).
OF_LIBRARIES = (
    "test_thrust_and_cub",
    "test_random_numbers_transforms_graphs_and_the_driver",
    "test_units_that_are_linked_share_functions_and_variables",
    "test_rounding_in_a_direction_and_groups_of_every_kind",
    "test_threads_wait_by_counts_and_stages",
    "test_calls_of_the_runtime",
    "test_lambdas_of_the_host_as_arguments",
)
OF_PROGRAMS = (
    "test_units_share_nothing_but_what_c_shares",
    "test_groups_of_threads_and_floats_of_16_bits",
    "test_random_numbers_and_products_of_the_libraries",
)

pytestmark = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")


def build(folder: Path, *files: tuple[str, str], options: tuple[str, ...] = ()) -> Path:
    """The program of these sources, by nvcc."""
    for name, text in files:
        (folder / name).write_text(text)
    sources = [str(folder / name) for name, _ in files]
    command = [
        "nvcc",
        "-std=c++17",
        "-arch=native",
        "-w",
        *options,
        *sources,
        *LIBRARIES,
        "-o",
        str(folder / "program"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "program"


def printed(folder: Path, text: str, *options: str) -> list[str]:
    program = build(folder, ("program.cu", text), options=options)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("name", OF_LIBRARIES)
def test_programs_with_libraries(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")  # here a launch is done when the call returns
    monkeypatch.setattr(test_libraries, "printed", printed)
    getattr(test_libraries, name)(tmp_path)


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_programs_by_themselves(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cupy: Any) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    monkeypatch.setattr(test_programs, "build", build)
    getattr(test_programs, name)(tmp_path)
