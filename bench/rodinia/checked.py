"""``python -m bench.rodinia.checked CHECKOUT [--only bfs nw] [--seconds 120] [--work FOLDER]``.

Runs Rodinia's CUDA programs as `weft cuda check` does and prints what is found: these programs are taken as right, so
what is printed is looked at one by one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from pathlib import Path

from bench.rodinia.build import SECONDS, Workshop
from bench.rodinia.inputs import write_inputs
from bench.rodinia.programs import PROGRAMS, Program
from weft.from_cuda.check_program import read_findings, watching
from weft.from_cuda.program import build_program
from weft.ir.errors import Error
from weft.sanitizer.findings import Finding


def check(shop: Workshop, program: Program, limit: float) -> tuple[list[Finding], float]:
    """What is found in a program, and how long it ran."""
    options = shop.options(program)
    options.watched, options.output = True, shop.work / f"{program.name}-watched"
    build_program(options, ahead=False)
    folder = shop.work.joinpath("watched", *Path(program.cuda.folder).parts[1:])
    folder.mkdir(parents=True, exist_ok=True)
    found = folder / "findings"
    found.unlink(missing_ok=True)
    environment = {**os.environ, **watching(found)}
    arguments = [a.replace("../../data", str(shop.work / "data")) for a in program.cuda.arguments]
    start = time.perf_counter()
    with (folder / "stdout").open("w") as output:
        subprocess.run([str(options.output), *arguments], cwd=folder, env=environment, timeout=limit,
                       stdout=output, stderr=output, check=False)  # fmt: skip
    seconds = time.perf_counter() - start
    return read_findings(found, options.output), seconds


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rodinia.checked", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=SECONDS, help="a program that runs longer is left out")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "weft-rodinia")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    write_inputs(options.work / "data", options.checkout)
    shop = Workshop(options.checkout.resolve(), options.work.resolve())
    for program in PROGRAMS:
        if options.only and program.name not in options.only:
            continue
        try:
            found, seconds = check(shop, program, options.seconds)
        except (Error, subprocess.TimeoutExpired) as error:
            print(f"{program.name:22} {str(error).splitlines()[0][:150]}", flush=True)
            continue
        print(f"{program.name:22} {len(found)} findings in {seconds:.1f} s", flush=True)
        for one in found:
            print("    " + str(one).replace("\n", "\n    "), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
