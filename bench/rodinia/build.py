"""Builds and runs a version of a program in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.rodinia.programs import Program, Version
from weft.from_cuda.nvcc_options import BuildOptions, read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.serve import run_program
from weft.ir.errors import Error

HERE = Path(__file__).parent
#: A program that runs longer than this has failed.
SECONDS = 300
GCC = ("gcc", "-O3", "-march=native", "-fopenmp", "-w", "-fcommon")


class Failed(Exception):
    """A program that does not build or run, and why."""


@dataclass
class Outcome:
    """What a run gave: seconds in kernels, of which kernels, its results as text, and its copies from the device.

    To each kernel: how often it was launched, how often of these thread by thread, and its seconds; OpenMP's parallel
    regions count as one.
    """

    kernel_seconds: float
    wall_seconds: float
    results: str
    copies: Path
    kernels: Mapping[str, tuple[int, int, float]]
    refused: Mapping[str, str]

    @property
    def seconds_of_a_launch(self) -> float:
        return self.kernel_seconds / max(1, sum(calls for calls, _, _ in self.kernels.values()))


class Workshop:
    """Folders: the checkout, where inputs and programs are made, and stand-ins for headers that nothing is used of."""

    def __init__(self, checkout: Path, work: Path) -> None:
        self.checkout, self.work = checkout, work
        self.stand_ins = work / "include"
        (self.stand_ins / "GL").mkdir(parents=True, exist_ok=True)
        for name in ("glew.h", "glut.h"):
            (self.stand_ins / "GL" / name).touch()
        self.watch = work / "watch.so"
        command = ["gcc", "-O2", "-shared", "-fPIC", str(HERE / "watch.c"), "-o", str(self.watch), "-ldl"]
        subprocess.run(command, check=True)

    def options(self, program: Program) -> BuildOptions:
        """What nvcc would be told, with absolute paths: the program runs elsewhere than it is built."""
        folder = self.checkout / program.cuda.folder
        flags = [f"-I{folder / f[2:]}" if f.startswith("-I") else f for f in program.cuda.flags]
        given = ["-O3", f"-I{self.stand_ins}", *flags, *(str(folder / s) for s in program.cuda.sources)]
        return read_options([*given, "-o", str(self.work / "bin" / program.name)])

    def build_cuda(self, program: Program, *, ahead: bool = False) -> float:
        """Builds the program; how long that took. Code is made when it runs, or ``ahead`` for launches seen before."""
        (self.work / "bin").mkdir(exist_ok=True)
        self._make_libraries(program.cuda)
        start = time.perf_counter()
        try:
            build_program(self.options(program), ahead=ahead)
        except Error as error:
            raise Failed(f"does not build: {error}".splitlines()[0][:160]) from None
        return time.perf_counter() - start

    def _make_libraries(self, version: Version) -> None:
        """Libraries that a program brings with it, by their own makefiles."""
        for source in version.sources:
            library = self.checkout / version.folder / source
            if library.suffix == ".a" and not library.exists():
                subprocess.run(["make", "all"], cwd=library.parent, capture_output=True, check=False)

    def build_openmp(self, program: Program) -> None:
        assert program.openmp is not None
        self._make_libraries(program.openmp)
        to, version = self.work / "bin" / f"{program.name}-openmp", program.openmp
        compiler = list(GCC) if version.sources[0].endswith(".c") else ["g++", *GCC[1:]]
        command = [*compiler, *version.flags, *version.sources, "-o", str(to), "-lm"]
        done = subprocess.run(command, cwd=self.checkout / version.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            told = [line for line in done.stderr.splitlines() if "error" in line]
            raise Failed(f"OpenMP version does not build: {(told or [''])[0][:120]}")

    def run(self, program: Program, way: str, threads: int) -> Outcome:
        """Runs a program in a folder of its own, as deep as its own in the checkout.

        ``way``: ``fast`` makes code while it runs; ``plain`` and ``built`` use what is in the executable; ``openmp``.
        """
        version = program.openmp if way == "openmp" else program.cuda
        assert version is not None
        folder = self.work.joinpath(
            way, *Path(version.folder).parts[1:]
        )  # as deep: some look for ../../data themselves
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*version.files, "times", "copies"):
            (folder / name).unlink(missing_ok=True)
        (folder / "times").touch()
        environment = {
            **os.environ, "OMP_NUM_THREADS": str(threads), "WEFT_NUM_THREADS": str(threads),
            "LD_PRELOAD": str(self.watch),
            ("RODINIA_TIMES" if way == "openmp" else "WEFT_CUDA_TIMES"): str(folder / "times"),
            "WEFT_CUDA_COPIES": str(folder / "copies"),
        }  # fmt: skip
        units = self.options(program).units if way == "fast" else {}
        binary = self.work / "bin" / (f"{program.name}-openmp" if way == "openmp" else program.name)
        arguments = [a.replace("../../data", str(self.work / "data")) for a in version.arguments]
        start = time.perf_counter()
        with (folder / "stdout").open("w+") as output:
            try:
                code, refused = run_program(
                    binary, arguments, units, environment, folder=folder, output=output, seconds=SECONDS
                )
            except subprocess.TimeoutExpired:
                raise Failed(f"{way}: ran longer than {SECONDS} s") from None
        wall = time.perf_counter() - start
        printed = (folder / "stdout").read_text(errors="replace")
        if code != 0:
            raise Failed(f"{way}: exit code {code}: {(printed.strip().splitlines() or [''])[-1][:100]}")
        return _outcome(version, folder, wall, printed, refused)


def _outcome(version: Version, folder: Path, wall: float, printed: str, refused: Mapping[str, str]) -> Outcome:
    lines = [line for line in printed.splitlines() if version.lines and re.search(version.lines, line)]
    texts = [(folder / name).read_text(errors="replace") for name in version.files if (folder / name).exists()]
    kernels: dict[str, tuple[int, int, float]] = {}
    for line in (folder / "times").read_text().splitlines():
        name, calls, plain, took = line.split()
        kernels[name] = (int(calls), int(plain), float(took))
    seconds = sum(took for _, _, took in kernels.values())
    return Outcome(seconds, wall, "\n".join([*lines, *texts]), folder / "copies", kernels, refused)
