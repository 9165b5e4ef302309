"""The random tests with fresh seeds, for a given time: ``python tests/soak.py --seconds 600``, or ``make soak``.

    --seconds 600      how long; half of it for the random tests of the suite, half for programs in bulk
    --jobs 2           how many processes
    --seed 7           the first seed, which is drawn where none is given; the next rounds take the next ones
    --rounds 1         no more rounds of the random tests than this
    --tests PATH ...   other tests than those of the suite, and nothing in bulk

Each failure is told with its seed and a command that repeats it; the exit status is 1 if there were any. Of programs
in bulk, `.soak` has the text of each too.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent
BULK = {
    "bulk_schedules.py": [[]],
    "bulk_primitives.py": [[]],
    "bulk_forced.py": [["--mode", mode] for mode in ("cpu", "gpu", "polyhedral")],
    "bulk_gpu_programs.py": [["--kind", kind] for kind in ("barriers", "forks", "schedules", "auto")],
}
#: Where programs in bulk leave the text of each failure.
FAILURES = TESTS.parent / ".soak"
#: Seconds that one test may go on after the time is up.
PATIENCE = 900


def main() -> int:
    options = read_options()
    start = time.time()
    share = 1.0 if options.tests else 0.5
    faults = soak_tests(options, until=start + share * options.seconds)
    if not options.tests:
        faults += soak_in_bulk(options, until=start + options.seconds)
    print(f"\n{len(faults)} failures" + (", to repeat them:" if faults else ""))
    print(*faults, sep="\n")
    return 1 if faults else 0


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("--rounds", type=int, default=2**31)
    parser.add_argument("--tests", nargs="*", default=[])
    return parser.parse_args()


def soak_tests(options: argparse.Namespace, until: float) -> list[str]:
    """Rounds of all random tests; the commands that repeat failures."""
    faults: list[str] = []
    for seed in range(options.seed, options.seed + options.rounds):
        if time.time() >= until:
            break
        command = [sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"]
        command += ["-n", str(options.jobs), "--seed", str(seed), "--until", str(until)]
        faults += tell_round(f"seed {seed}", [*command, *(options.tests or [str(TESTS)])], until)
    return faults


def tell_round(name: str, command: list[str], until: float) -> list[str]:
    """Prints the end of what a round says; the commands in it that repeat failures."""
    print(f"--- {name}, {max(until - time.time(), 0):.0f} seconds left", flush=True)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=TESTS.parent, timeout=until - time.time() + PATIENCE
        )
    except subprocess.TimeoutExpired:
        return [f"{' '.join(command)}  # did not end"]
    print("\n".join(done.stdout.splitlines()[-400:]) if done.returncode else done.stdout.splitlines()[-1], flush=True)
    repeats = re.findall(r"^\S+ -m pytest --seed .*$|^\S+ \S*bulk_\w+\.py --seed .*$", done.stdout, re.MULTILINE)
    if done.returncode in (0, 5) or repeats:  # 5: no test started before the time was up
        return repeats
    return [f"{' '.join(command)}  # exit status {done.returncode}: {done.stderr[-2000:]}"]


def soak_in_bulk(options: argparse.Namespace, until: float) -> list[str]:
    """Programs in bulk, each kind for an equal part of the time left."""
    kinds = [(script, arguments) for script, each in BULK.items() for arguments in each]
    faults: list[str] = []
    for at, (script, arguments) in enumerate(kinds):
        seconds = max((until - time.time()) / (len(kinds) - at), 1)
        command = [sys.executable, str(TESTS / "property" / script), "--seed", str(options.seed), *arguments]
        command += ["--count", str(10**9), "--seconds", f"{seconds:.0f}", "--jobs", str(options.jobs)]
        command += ["--failures", str(FAILURES)]
        faults += tell_round(" ".join((script, *arguments)), command, time.time() + seconds)
    return faults


if __name__ == "__main__":
    sys.exit(main())
