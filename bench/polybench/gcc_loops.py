"""The loops in C, compiled by ``gcc -O3 -march=native`` with sizes as constants, called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from bench.field.peers import Array, Cannot, Prepared
from bench.field.workloads import Workload
from bench.polybench.programs import FOLDER, Program

_FLAGS = ("-O3", "-march=native", "-fPIC", "-shared", "-std=c11")


@cache
def version() -> str:
    found = subprocess.run(["gcc", "-dumpfullversion"], check=True, capture_output=True, text=True)
    return f"{found.stdout.strip()} -O3 -march=native"


def compile_program(program: Program) -> Callable[..., None]:
    """The loops as a function of arrays: those only read, then those written."""
    if shutil.which("gcc") is None:
        raise Cannot("there is no gcc")
    source = FOLDER / "c" / f"{program.family.definition}.c"
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "loops.so"
        sizes = [f"-D{name}={value}" for name, value in program.sizes.items()]
        subprocess.run(["gcc", *_FLAGS, *sizes, str(source), "-o", str(made)], check=True, capture_output=True)
        kernel = ctypes.CDLL(str(made)).kernel
    kernel.restype = None

    def call(*arrays: Array) -> None:
        kernel(*(ctypes.c_void_p(a.ctypes.data) for a in arrays))

    return call


def prepare(workload: Workload, inputs: Mapping[str, Array], threads: int) -> Prepared:
    assert isinstance(workload, Program)
    call = compile_program(workload)
    results = workload.make_results(inputs)
    arrays = [*workload.read_only(inputs), *results.values()]

    def run() -> None:
        workload.restart(inputs, results)
        call(*arrays)

    return Prepared({"filling": run}, lambda: _after(run, results))


def _after(run: Callable[[], None], results: Mapping[str, Array]) -> tuple[Array, ...]:
    run()
    return tuple(results.values())
