"""``python -m bench.rodinia.polybench CHECKOUT [--only GEMM LU] [--dataset SMALL]``: PolyBench-GPU's CUDA programs.

Each runs its kernels and its own loop nest on the CPU and counts the results that differ. Times are what a program
prints: its kernels here, and its loop nest, one thread of clang's.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path

from bench.rodinia.build import Failed
from weft.from_cuda.nvcc_options import BuildOptions, read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.serve import run_program
from weft.ir.errors import Error

SECONDS = 120


def run_one(source: Path, options: BuildOptions) -> tuple[float, float]:
    """Seconds of kernels and of the loop nest; raises `Failed`."""
    assert options.output is not None
    units = options.units
    times = options.output.with_suffix(".times")
    with options.output.with_suffix(".txt").open("w+") as output:
        environment = {**os.environ, "WEFT_CUDA_TIMES": str(times)}
        try:
            code, refused = run_program(options.output, [], units, environment, output=output, seconds=SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed(f"ran longer than {SECONDS} s") from None
        output.seek(0)
        printed = output.read()
    if code != 0:
        raise Failed(f"exit code {code}: {(printed.strip().splitlines() or [''])[-1][:100]}")
    wrong = re.search(r"Threshold of [\d.]+ Percent: (\d+)", printed)
    if wrong is None or wrong.group(1) != "0":
        raise Failed(f"{wrong.group(1) if wrong else 'unknown many'} results differ")
    if refused:
        raise Failed(f"thread by thread: {next(iter(refused.values())).splitlines()[0]}")
    kernels = sum(float(line.split()[-1]) for line in times.read_text().splitlines())
    nest = re.search(r"CPU Time in seconds:\s*([\d.]+)", printed)
    return kernels, float(nest.group(1)) if nest else math.nan


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rodinia.polybench", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--dataset", default="SMALL")
    options = parser.parse_args()
    ratios = []
    with tempfile.TemporaryDirectory(prefix="weft-polybench-") as folder:
        for program in sorted((options.checkout / "CUDA").iterdir()):
            sources = sorted(program.glob("*.cu"))
            if not sources or (options.only and program.name not in options.only):
                continue
            given = ["-O3", f"-D{options.dataset}_DATASET", str(sources[0]), "-o", str(Path(folder) / program.name)]
            build = read_options(given)
            try:
                build_program(build, ahead=False)
                kernels, nest = run_one(sources[0], build)
            except (Failed, Error) as failure:
                print(f"{program.name:10} WRONG  {str(failure).splitlines()[0]}", flush=True)
                continue
            ratios += [] if math.isnan(nest) else [nest / kernels]
            print(f"{program.name:10} right  {1e3 * kernels:8.3f} ms, loops {1e3 * nest:8.3f} ms", flush=True)
    if ratios:
        mean = math.exp(sum(math.log(max(r, 1e-3)) for r in ratios) / len(ratios))
        print(f"{len(ratios)} right, geomean {mean:.2f} times the program's own loops")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
