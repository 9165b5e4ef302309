"""``python -m bench.rodinia.samples CHECKOUT [--only scan reduction] [--seconds 60] [--work FOLDER]``.

NVIDIA's cuda-samples: builds what a sample's CMakeLists.txt names, runs it where its data lies and tells what came of
it. Most samples compare their results with a computation on the CPU and end with an exit code or say that they failed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.rodinia.build import Failed
from weft.from_cuda.nvcc_options import BuildOptions, read_options
from weft.from_cuda.program import build_program
from weft.from_cuda.serve import run_program
from weft.ir.errors import Error

#: Samples ask for sizes that keep a GPU busy; these arguments of theirs ask for less.
ARGUMENTS: dict[str, list[str]] = {}
#: A sample that gives up tells so with this exit code (EXIT_WAIVED of its helper header).
WAIVED = 2
_EXECUTABLE = re.compile(r"add_executable\(\s*(\w+)\s+([^)]*)\)")
_FAILURE = re.compile(r"\bfail(ed|ure)?\b|mismatch|incorrect|\bwrong\b", re.IGNORECASE)


@dataclass(frozen=True)
class Sample:
    name: str
    folder: Path
    sources: tuple[str, ...]
    with_openmp: bool

    def options(self, checkout: Path, work: Path) -> BuildOptions:
        given = [
            "-O3",
            "-std=c++17",
            "-rdc=true",
            f"-I{checkout / 'Common'}",
            f"-I{self.folder}",
            f"-I{self.folder / 'inc'}",
        ]
        given += ["-Xcompiler", "-fopenmp"] if self.with_openmp else []
        return read_options([*given, *(str(self.folder / s) for s in self.sources), "-o", str(work / self.name)])


def samples(checkout: Path) -> Iterator[Sample]:
    """What the checkout's CMakeLists.txt files name, but for those of single platforms."""
    for listing in sorted((checkout / "Samples").glob("[0-6]*/*/CMakeLists.txt")):
        for name, sources in _EXECUTABLE.findall(listing.read_text()):
            files = [s for s in sources.split() if s.endswith((".cu", ".cpp", ".c"))]
            yield Sample(name, listing.parent, tuple(files), "OpenMP" in listing.read_text())


def run(sample: Sample, options: BuildOptions, seconds: float) -> tuple[str, int]:
    """What it printed, and how many kernels ran thread by thread; raises `Failed`."""
    assert options.output is not None
    printed = options.output.with_suffix(".txt")
    with printed.open("w+") as output:
        try:
            code, refused = run_program(
                options.output, ARGUMENTS.get(sample.name, []), options.units, dict(os.environ),
                folder=sample.folder, output=output, seconds=seconds,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise Failed(f"ran longer than {seconds:.0f} s") from None
    text = printed.read_text(errors="replace")
    lines = text.strip().splitlines() or [""]
    if code == WAIVED:
        raise Failed(f"gives up: {lines[-1][:120]}")
    # One sample shows an assertion that fails, and checks that it does.
    wrong = next((line for line in lines if _FAILURE.search(line) and "assert" not in line.lower()), "")
    told = wrong or lines[-1]
    if code != 0 or wrong:
        raise Failed(f"exit code {code}: {told.strip()[:120]}")
    return text, len(refused)


def outcome(sample: Sample, checkout: Path, work: Path, seconds: float) -> tuple[str, str]:
    """One word, and what there is to tell."""
    options = sample.options(checkout, work)
    try:
        build_program(options, ahead=False)
    except Error as error:
        return "not built", str(error).splitlines()[0].removeprefix("error: ")[:160]
    start = time.perf_counter()
    try:
        _, refused = run(sample, options, seconds)
    except Failed as failure:
        return "waived" if str(failure).startswith("gives up") else "failed", str(failure)
    by_threads = f", {refused} kernels thread by thread" if refused else ""
    return "passed", f"{time.perf_counter() - start:.1f} s{by_threads}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rodinia.samples", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "weft-samples")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    counts: Counter[str] = Counter()
    for sample in samples(options.checkout.resolve()):
        if not options.only or sample.name in options.only:
            word, told = outcome(sample, options.checkout.resolve(), options.work.resolve(), options.seconds)
            counts[word] += 1
            print(f"{sample.name:32} {word:10} {told}", flush=True)
    print(", ".join(f"{count} {word}" for word, count in counts.items()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
