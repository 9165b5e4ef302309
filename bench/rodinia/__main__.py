"""``python -m bench.rodinia CHECKOUT [--only bfs nw] [--threads 1 2] [--timed-only] [--work FOLDER] [--reasons]``.

Builds the CUDA programs of a checkout of Rodinia 3.1, runs them, and checks them twice: what came back from the device
with whole-grid code against threads run one by one, and the program's results against its OpenMP version's, its own
check or a reference of ours. Times are those of kernels: launches on our side, parallel regions on OpenMP's, the best
of three runs in turns.
"""

from __future__ import annotations

import argparse
import math
import re
import tempfile
from dataclasses import replace
from pathlib import Path

from bench.rodinia.build import Failed, Outcome, Workshop
from bench.rodinia.compare import differ, differ_in_bytes, numbers_of
from bench.rodinia.inputs import write_inputs
from bench.rodinia.programs import PROGRAMS, Program
from bench.rodinia.references import REFERENCES

RUNS = 3
#: Sums that are added in another order differ by more than one operation does.
TOLERANCE = 2e-4


def check(shop: Workshop, program: Program) -> tuple[str, Outcome]:
    """Raises `Failed` where results are wrong; what they were compared with, and the run with fast code."""
    plain = shop.run(program, "plain", 1)  # one thread: sums by atomics in one order
    fast = shop.run(program, "fast", 1)
    told = differ_in_bytes(plain.copies, fast.copies, TOLERANCE) if plain.copies.exists() else None
    if told:
        raise Failed(f"kernels differ from threads one by one: {told}")
    if program.name in REFERENCES:
        told = REFERENCES[program.name](shop.work / "data", fast)
        if told:
            raise Failed(f"differs from a reference of ours: {told}")
        return "a reference of ours", fast
    if program.own_check:
        if not re.search(program.own_check, fast.results):
            raise Failed("the program's own check fails")
        return "its own check", fast
    if program.cpu_arguments:
        version = replace(program.cuda, arguments=tuple(program.cpu_arguments.split()))
        _compare("its own computation on the CPU", shop.run(replace(program, cuda=version), "plain", 1), fast, 0.0)
        return "its own computation on the CPU", fast
    if program.openmp is None or program.tolerance is None:
        return f"threads one by one only: {program.why}", fast
    shop.build_openmp(program)
    _compare("OpenMP", shop.run(program, "openmp", 1), fast, program.tolerance)  # on two threads some have races
    return f"OpenMP, within {program.tolerance:g}", fast


def _compare(with_what: str, reference: Outcome, fast: Outcome, tolerance: float) -> None:
    told = differ(numbers_of(reference.results), numbers_of(fast.results), tolerance)
    if told:
        raise Failed(f"differs from {with_what}: {told}")


def ratio(shop: Workshop, program: Program, threads: int) -> tuple[float, float, float] | None:
    """Seconds of kernels here and of OpenMP's regions, and how many times faster we are."""
    if program.openmp is None:
        return None
    ours, theirs = [], []
    for _ in range(RUNS):
        for way, taken in (("built", ours), ("openmp", theirs)):
            run = shop.run(program, way, threads)
            taken.append(run.seconds_of_a_launch if program.by_launch else run.kernel_seconds)
    return min(ours), min(theirs), min(theirs) / min(ours)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.rodinia", description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--threads", nargs="*", type=int, default=[])
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir()) / "weft-rodinia")
    parser.add_argument("--timed-only", action="store_true", help="time what an earlier run has built, check nothing")
    parser.add_argument("--reasons", action="store_true", help="why kernels run thread by thread")
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    write_inputs(options.work / "data", options.checkout)
    shop = Workshop(options.checkout.resolve(), options.work.resolve())
    ratios: dict[int, list[float]] = {t: [] for t in options.threads}
    right = 0
    if not options.timed_only:
        print("| program | results | compared with | kernels as whole grids | built in |\n|---|---|---|---|---|")
    for program in PROGRAMS:
        if options.only and program.name not in options.only:
            continue
        if not options.timed_only:
            right += _report(shop, program, options.reasons)
        if options.threads:
            _time(shop, program, options.threads, ratios)
    for threads, found in ratios.items():
        if found:
            mean = math.exp(sum(map(math.log, found)) / len(found))
            print(f"{threads} threads: geomean {mean:.2f}, least {min(found):.2f}, of {len(found)} programs")
    if not options.timed_only:
        print(f"{right} programs right")
    return 0


def _report(shop: Workshop, program: Program, reasons: bool) -> int:
    try:
        built = shop.build_cuda(program)
        try:
            compared, fast = check(shop, program)
        finally:  # what is timed later is the whole grid's code, whatever it computes
            shop.build_cuda(program, ahead=True)
        if program.openmp is not None:
            shop.build_openmp(program)
    except Failed as failure:
        print(f"| {program.name} | wrong | {failure} | | |", flush=True)
        return 0
    whole = sum(calls > plain for calls, plain, _ in fast.kernels.values())
    print(f"| {program.name} | right | {compared} | {whole} of {len(fast.kernels)} | {built:.1f} s |", flush=True)
    for kernel, why in fast.refused.items() if reasons else ():
        print(f"    {kernel}: {why.splitlines()[0]}", flush=True)
    return 1


def _time(shop: Workshop, program: Program, threads: list[int], ratios: dict[int, list[float]]) -> None:
    row = f"{program.name:22}"
    for count in threads:
        try:
            found = ratio(shop, program, count)
        except (Failed, OSError) as failure:
            row += f"  {failure}"
            break
        if found and found[0] > 0 and found[1] > 0:
            ratios[count].append(found[2])
            row += f"  {count} threads: {1e3 * found[0]:9.4g} ms, OpenMP {1e3 * found[1]:9.4g} ms, {found[2]:6.2f}x"
    print(row, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
