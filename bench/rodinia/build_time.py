"""``python -m bench.rodinia.build_time CHECKOUT [--polybench CHECKOUT] [--only bfs GEMM] [--work FOLDER]``.

How long the kernels of Rodinia and PolyBench-GPU take to become machine code, for each launch that the programs make:
from clang's tree on, in seconds of the processor, which others' work disturbs less. Reading a source (clang, and its
tree to Python) comes before, once for all its kernels, and is a column of its own. Launches are those that earlier
runs asked for; a program that was not run before is run once.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from weft.from_cuda.deep import deep_recursion

from bench.rodinia import polybench
from bench.rodinia.build import Failed, Workshop
from bench.rodinia.inputs import write_inputs
from bench.rodinia.programs import PROGRAMS, Program
from weft.from_cuda.grid_code import compile_grid, read_source, template_use
from weft.from_cuda.kept_launches import known_launches
from weft.from_cuda.nvcc_options import BuildOptions
from weft.from_cuda.program import build_program
from weft.ir.errors import Error
from weft.runtime.pause_collector import collector_paused


def rodinia(shop: Workshop, program: Program) -> BuildOptions:
    options = shop.options(program)
    if not any(known_launches(unit) for unit in options.units):
        shop.build_cuda(program)
        shop.run(program, "fast", 1)
    return options


def of_polybench(checkout: Path, name: str, folder: Path) -> BuildOptions:
    options = polybench.options_of(checkout, name, folder)
    if not any(known_launches(unit) for unit in options.units):
        build_program(options, ahead=False)
        polybench.run_one(options, 1)
    return options


def times(options: BuildOptions) -> Iterator[tuple[str, str, float, float]]:
    """Kernel, launch, seconds that its source took to be read, seconds from there to machine code."""
    for unit, (file, flags) in options.units.items():
        launches = known_launches(unit)
        if not launches:
            continue
        start = time.perf_counter()  # clang is a process of its own
        uses = [use for use in map(template_use, launches) if use is not None]
        read = read_source(file, flags, uses)
        reading = time.perf_counter() - start
        for kernel, keys in launches.items():
            for key in keys:
                start = time.process_time()
                try:
                    with collector_paused(), deep_recursion():
                        compile_grid(read, kernel, key, flags)
                except (Error, KeyError):  # runs thread by thread
                    continue
                yield kernel, key, reading, time.process_time() - start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rodinia.build_time", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--polybench", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "weft-rodinia")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    write_inputs(options.work / "data", options.checkout)
    shop = Workshop(options.checkout.resolve(), options.work.resolve())
    jobs: dict[str, Callable[[], BuildOptions]] = {p.name: partial(rodinia, shop, p) for p in PROGRAMS}
    for name in polybench.PROGRAMS if options.polybench else ():
        jobs[name] = partial(of_polybench, options.polybench.resolve(), name, options.work)
    found: list[float] = []
    for name, prepare in jobs.items():
        if options.only and name not in options.only:
            continue
        try:
            for kernel, key, reading, seconds in times(prepare()):
                print(
                    f"{name:22} {seconds:6.2f} s  (source read in {reading:5.2f} s)  {kernel[:60]}  {key}", flush=True
                )
                found.append(seconds)
        except Failed as failure:
            print(f"{name:22} {failure}", flush=True)
    if found:
        print(f"{len(found)} kernels: median {statistics.median(found):.2f} s, worst {max(found):.2f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
