"""``python -m bench.rodinia.polybench CHECKOUT [--only GEMM LU] [--threads 1 2]``: PolyBench-GPU's CUDA programs.

Each runs its kernels and its own loop nest on the CPU and counts the results that differ. Times are those in kernels,
and those that the same program of PolyBench's OpenMP versions prints (gcc, the same sizes and type), the best of two
runs in turns. DOITGEN is left out: it calls a function that nothing declares, which no C++ compiler takes.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.rodinia.build import GCC, Failed
from weft.from_cuda.nvcc_options import BuildOptions, read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.serve import run_program
from weft.ir.errors import Error

SECONDS = 120
RUNS = 2
_KERNELS, _SOLVERS = "linear-algebra/kernels", "linear-algebra/solvers"
#: The OpenMP version of each program, and the sizes that both are built for.
PROGRAMS: Mapping[str, tuple[str, str]] = {
    "2DCONV": ("stencils/convolution-2d", "NI=2048 NJ=2048"),
    "2MM": (f"{_KERNELS}/2mm", "NI=512 NJ=512 NK=512 NL=512"),
    "3DCONV": ("stencils/convolution-3d", "NI=192 NJ=192 NK=192"),
    "3MM": (f"{_KERNELS}/3mm", "NI=512 NJ=512 NK=512 NL=512 NM=512"),
    "ADI": ("stencils/adi", "TSTEPS=10 N=512"),
    "ATAX": (f"{_KERNELS}/atax", "NX=2048 NY=2048"),
    "BICG": (f"{_KERNELS}/bicg", "NX=2048 NY=2048"),
    "CORR": ("datamining/correlation", "M=512 N=512"),
    "COVAR": ("datamining/covariance", "M=512 N=512"),
    "FDTD-2D": ("stencils/fdtd-2d", "TMAX=20 NX=1024 NY=1024"),
    "GEMM": (f"{_KERNELS}/gemm", "NI=512 NJ=512 NK=512"),
    "GEMVER": (f"{_KERNELS}/gemver", "N=2048"),
    "GESUMMV": (f"{_KERNELS}/gesummv", "N=2048"),
    "GRAMSCHM": (f"{_SOLVERS}/gramschmidt", "NI=512 NJ=512"),
    "JACOBI1D": ("stencils/jacobi-1d-imper", "TSTEPS=1000 N=4096"),
    "JACOBI2D": ("stencils/jacobi-2d-imper", "TSTEPS=20 N=1000"),
    "LU": (f"{_SOLVERS}/lu", "N=512"),
    "MVT": (f"{_KERNELS}/mvt", "N=2048"),
    "SYR2K": (f"{_KERNELS}/syr2k", "NI=512 NJ=512"),
    "SYRK": (f"{_KERNELS}/syrk", "NI=512 NJ=512"),
}
#: ADI divides by numbers close to zero: two results differ by more than its threshold from its own loops where products
#: and sums are rounded once, thread by thread as well.
FLAGS = {"ADI": ("-fmad=false",)}


def run_one(options: BuildOptions, threads: int) -> float:
    """Seconds of kernels; raises `Failed`."""
    assert options.output is not None
    times = options.output.with_suffix(".times")
    with options.output.with_suffix(".txt").open("w+") as output:
        environment = {**os.environ, "WEFT_CUDA_TIMES": str(times), "WEFT_NUM_THREADS": str(threads)}
        try:
            code, refused = run_program(options.output, [], options.units, environment, output=output, seconds=SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"ran longer than {SECONDS} s") from None
        output.seek(0)
        printed = output.read()
    if code != 0:
        raise Failed(f"exit code {code}: {(printed.strip().splitlines() or [''])[-1][:100]}")
    wrong = re.search(r"(?:Threshold of [\d.]+ Percent|Number of misses): (\d+)", printed)
    if wrong is None or wrong.group(1) != "0":
        raise Failed(f"{wrong.group(1) if wrong else 'unknown many'} results differ")
    if refused:
        raise Failed(f"thread by thread: {next(iter(refused.values())).splitlines()[0]}")
    return sum(float(line.split()[-1]) for line in times.read_text().splitlines())


def build_openmp(folder: Path, sizes: list[str], to: Path) -> None:
    """The OpenMP version: floats, as in CUDA's."""
    utilities = next(p for p in folder.parents if p.name == "OpenMP") / "utilities"
    floats = ["-DDATA_TYPE=float", '-DDATA_PRINTF_MODIFIER="%f "', "-DPOLYBENCH_TIME"]
    source = next(folder.glob("*.c"))
    command = [
        *GCC,
        *floats,
        *sizes,
        f"-I{utilities}",
        str(source),
        str(utilities / "polybench.c"),
        "-o",
        str(to),
        "-lm",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"OpenMP version does not build: {done.stderr.strip().splitlines()[-1][:100]}")


def openmp_seconds(program: Path, threads: int) -> float:
    """What the program says, NaN where it crashes or says nothing."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run([str(program)], env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
    return float(done.stdout.split()[0]) if done.returncode == 0 and done.stdout else math.nan


def sizes_of(name: str) -> list[str]:
    return [f"-D{size}" for size in PROGRAMS[name][1].split()]


def options_of(checkout: Path, name: str, folder: Path) -> BuildOptions:
    """What nvcc would be told."""
    of_program = checkout / "CUDA" / name  # in PolyBench-ACC, its successor, where OpenMP's version is
    (source,) = (of_program if of_program.exists() else checkout / "CUDA" / PROGRAMS[name][0]).glob("*.cu")
    # Headers have sizes of their own unless N is defined.
    sizes = sizes_of(name)
    own = sizes if any(size.startswith("-DN=") for size in sizes) else [*sizes, "-DN=1"]
    common = f"-I{checkout / 'CUDA' / 'utilities'}"
    return read_options(["-O3", common, *own, *FLAGS.get(name, ()), str(source), "-o", str(folder / name)])


def compare(checkout: Path, name: str, folder: Path, threads: list[int]) -> list[float]:
    """Prints the row of a program; how many times faster than OpenMP it is, for each number of threads."""
    options = options_of(checkout, name, folder)
    build_program(options, ahead=False)
    reference = folder / f"{name}-openmp"
    build_openmp(checkout / "OpenMP" / PROGRAMS[name][0], sizes_of(name), reference)
    run_one(options, 1)  # makes the code
    row, ratios = f"{name:10} right", []
    for count in threads:
        runs = [(run_one(options, count), openmp_seconds(reference, count)) for _ in range(RUNS)]
        ours, theirs = (min(seconds) for seconds in zip(*runs))
        ratios.append(theirs / ours)
        row += f"  {count} threads: {1e3 * ours:8.2f} ms, OpenMP {1e3 * theirs:8.2f} ms, {theirs / ours:6.2f}x"
    print(row, flush=True)
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rodinia.polybench", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--threads", nargs="*", type=int, default=[1])
    options = parser.parse_args()
    found: list[list[float]] = []
    with tempfile.TemporaryDirectory(prefix="weft-polybench-") as folder:
        for name in options.only or PROGRAMS:
            try:
                found.append(compare(options.checkout, name, Path(folder), options.threads))
            except (Failed, Error) as failure:
                print(f"{name:10} WRONG  {str(failure).splitlines()[0]}", flush=True)
    for count, all_ratios in zip(options.threads, zip(*found)):
        ratios = [r for r in all_ratios if not math.isnan(r)]
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{count} threads: {len(found)} right, geomean {mean:.2f}, least {min(ratios):.2f}, of {len(ratios)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
