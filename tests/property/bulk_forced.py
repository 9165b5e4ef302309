"""Decisions of the automatic scheduler forced in bulk: ``python tests/property/bulk_forced.py --mode gpu``.

    --mode cpu|gpu|polyhedral                which scheduler
    --seed 1 --count 50000 --seconds 3600    cases 1, 2, 3 ... until either limit
    --points 300000                          how many iterations a program has at most, about
    --name matmul                            one program of ``forced/formulas.weft`` alone
    --failures DIR                           one text for each fault: what happened, and all to see it again
    --jobs 2                                 as many processes side by side

In the end a table says in how many schedules each threshold was asked for, each plan listed, each step taken and each
decision made; thresholds and primitives that none reached are told apart.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections import Counter
from pathlib import Path

from bulk_worker import Ended, Run, add_options, say

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "forced"), str(HERE), str(HERE.parents[1])]

#: Cases a process runs before another takes over, and seconds after which a silent one is hung.
BATCH, PATIENCE = 100, 300


def main() -> int:
    options = read_options()
    failures = Path(options.failures)
    if options.worker:
        work(options, failures)
        return 0
    failures.mkdir(parents=True, exist_ok=True)
    arguments = ["--mode", options.mode, "--points", str(options.points)]
    arguments += ["--name", options.name] if options.name else []
    run = Run(options, BATCH, arguments, lambda ended: tell_death(failures, ended))
    print(report(run.total, options.mode))
    print(run.repeats())
    return 1 if run.faults else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "forced_failures")
    parser.add_argument("--mode", choices=["cpu", "gpu", "polyhedral"], default="cpu")
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--name")
    return parser.parse_args()


def tell_death(failures: Path, ended: Ended) -> None:
    text = f"the process ended with status {ended.status}\n{ended.said}\n"
    (failures / f"forced_{ended.seed}_crash.txt").write_text(text, encoding="utf-8")


def work(options: argparse.Namespace, failures: Path) -> None:
    """Runs the cases one by one, saying before each which it is and after each what it counted."""
    from forced_case import run_case

    start = time.time()
    for seed in range(options.seed, options.seed + options.count):
        if time.time() - start > options.seconds:
            break
        faulthandler.dump_traceback_later(PATIENCE, exit=True)
        say({"seed": seed})
        found = run_case(seed, options.mode, options.points, options.name)
        is_fault = found.kind in ("wrong", "error")
        if is_fault:
            text = f"{found.kind}: {found.why}\n"
            (failures / f"forced_{options.mode}_{seed}.txt").write_text(text, encoding="utf-8")
        say({"seed": seed, "cases": 1, "faults": int(is_fault), found.kind: 1, **dict.fromkeys(found.taken, 1)})
    faulthandler.cancel_dump_traceback_later()


def report(total: Counter[str], mode: str) -> str:
    """In how many schedules each decision was taken, and what none reached."""
    from forced_case import LISTED
    from forced_thresholds import thresholds

    from weft.schedules.rewrite import PRIMITIVES

    lines = [", ".join(f"{total[kind]} {kind}" for kind in ("cases", "right", "wrong", "error", "dropped"))]
    known = {f"threshold {name}" for name in thresholds(LISTED[mode])} | {f"step {name}" for name in PRIMITIVES}
    for kind in ("threshold ", "plan ", "step ", "decision "):
        seen = Counter({what: n for what, n in total.items() if what.startswith(kind)})
        lines += [f"{n:8} {what}" for what, n in seen.most_common()]
    return "\n".join([*lines, *(f"    none {what}" for what in sorted(known - total.keys()))])


if __name__ == "__main__":
    sys.exit(main())
