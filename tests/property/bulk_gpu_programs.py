"""Random GPU programs in bulk, in processes that may die: ``python tests/property/bulk_gpu_programs.py``.

--seed 1 --count 20000 --seconds 3600    programs 1, 2, 3 ... until either limit
--kind barriers                          barriers, forks (thread loops one after another), schedules (random ones,
                                         of random programs), auto (automatic ones); products, blocks, layers,
                                         convolutions, attentions, gradients: these against float64
--jobs 8                                 as many processes side by side
--failures DIR                           one text for each fault: what happened, and the program
--cuda                                   also written as CUDA C++ and built by NVRTC
--device                                 also run on the GPU
--no-cpu                                 not compiled for the CPU
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bulk_worker import Ended, Run, add_options, say

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]

#: Programs a process checks before another takes over, and seconds after which one program is hung.
BATCH, PATIENCE = 400, 60
MATRIX_WORK = ("products", "blocks", "layers", "convolutions", "attentions", "gradients")
KINDS = ("barriers", "forks", "schedules", "auto", *MATRIX_WORK)


def main() -> int:
    options = read_options()
    Path(options.failures).mkdir(parents=True, exist_ok=True)
    if options.worker:
        work(options)
        return 0
    flags = [f"--{name.replace('_', '-')}" for name in ("cuda", "device", "no_cpu") if getattr(options, name)]
    run = Run(options, BATCH, ["--kind", options.kind, *flags], lambda ended: tell_death(options, ended))
    print(", ".join(f"{count} {what}" for what, count in sorted(run.total.items())))
    print(run.repeats())
    return 1 if run.faults else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "gpu_program_failures")
    parser.add_argument("--kind", choices=KINDS, default="barriers")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--no-cpu", action="store_true")
    return parser.parse_args()


def tell_death(options: argparse.Namespace, ended: Ended) -> None:
    kind = options.kind
    text = f"the process ended with {ended.status}\n{ended.said[-20000:]}\n{program_text(kind, ended.seed)}\n"
    (Path(options.failures) / f"{kind}_{ended.seed}.txt").write_text(text, encoding="utf-8")


def work(options: argparse.Namespace) -> None:
    """Checks one program after another, saying before each which it is and after each what came of it.

    Where the GPU is lost to this process, it ends.
    """
    start = time.time()
    for seed in range(options.seed, options.seed + options.count):
        if time.time() - start > options.seconds:
            return
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        say({"seed": seed})
        outcome = check(seed, options)
        say({"seed": seed, outcome: 1})
        if outcome == "faults" and options.device and is_gpu_lost():
            break
    faulthandler.cancel_dump_traceback_later()


def is_gpu_lost() -> bool:
    import weft

    try:
        weft.cuda.synchronize()
    except weft.Error:
        return True
    return False


def check(seed: int, options: argparse.Namespace) -> str:
    wanted = {"cpu": not options.no_cpu, "nvrtc": options.cuda, "device": options.device}
    try:
        return checker(options.kind)(seed, [place for place in wanted if wanted[place]])
    except Exception as error:
        said = "".join(traceback.format_exception(error))[-20000:]
        text = f"{said}\n{program_text(options.kind, seed)}\n"
        (Path(options.failures) / f"{options.kind}_{seed}.txt").write_text(text, encoding="utf-8")
        return "faults"


def checker(kind: str) -> Callable[[int, Any], str]:
    """Checks the program of a seed in places."""
    if kind in ("barriers", "forks"):
        from check_gpu_program import check_fork_join_program, check_gpu_program

        return check_gpu_program if kind == "barriers" else check_fork_join_program
    if kind in MATRIX_WORK:
        from check_matrix_program import DRAWN, check_matrix_program

        return lambda seed, places: check_matrix_program(DRAWN[kind](seed), places)
    from check_gpu_schedule import check_automatic_schedule, check_random_schedule

    return check_random_schedule if kind == "schedules" else check_automatic_schedule


def program_text(kind: str, seed: int) -> str:
    return f"--- program\n{writer(kind)(seed)}"


def writer(kind: str) -> Callable[[int], str]:
    """Gives the text of the program of a seed."""
    if kind == "forks":
        from fork_join_programs import fork_join_program

        return fork_join_program
    if kind == "barriers":
        from gpu_programs import random_gpu_kernel

        from weft.ir.printer import print_kernel

        return lambda seed: print_kernel(random_gpu_kernel(seed))
    if kind in MATRIX_WORK:
        from check_matrix_program import DRAWN

        return lambda seed: DRAWN[kind](seed).text
    from check_gpu_schedule import automatic_text, schedule_text

    return schedule_text if kind == "schedules" else automatic_text


if __name__ == "__main__":
    sys.exit(main())
