"""Random GPU programs in bulk, each batch in a process that may die: ``python tests/property/bulk_gpu_programs.py``.

--seed 1 --count 20000 --seconds 3600    programs 1, 2, 3 ... until either limit
--failures DIR                           one text for each fault: what happened, and the program
--cuda                                   also written as CUDA C++ and built by NVRTC
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1])]
#: Programs a process checks before another takes over.
BATCH = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--failures", default="gpu_program_failures")
    parser.add_argument("--cuda", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    Path(options.failures).mkdir(parents=True, exist_ok=True)
    if options.worker:
        work(options)
        return 0
    total = run(options)
    print(", ".join(f"{count} {what}" for what, count in sorted(total.items())))
    return 1 if total["faults"] else 0


def run(options: argparse.Namespace) -> Counter[str]:
    """Batches, each in a process of its own; one that dies is a fault of the program it was at."""
    total: Counter[str] = Counter()
    start, seed, end = time.time(), options.seed, options.seed + options.count
    while seed < end and time.time() - start < options.seconds:
        seed = run_batch(options, seed, min(BATCH, end - seed), total)
        print(f"up to seed {seed}: {dict(total)}", flush=True)
    return total


def run_batch(options: argparse.Namespace, seed: int, count: int, total: Counter[str]) -> int:
    command = [sys.executable, __file__, "--worker", "--seed", str(seed), "--count", str(count)]
    command += ["--failures", options.failures, *(["--cuda"] if options.cuda else [])]
    at = seed
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            found = json.loads(line)
            at = found.pop("seed")
            total.update(found)
    if process.returncode != 0:
        total["faults"] += 1
        (Path(options.failures) / f"{at}_crash.txt").write_text(f"the process ended with {process.returncode}\n")
    return at + 1


def work(options: argparse.Namespace) -> None:
    for seed in range(options.seed, options.seed + options.count):
        print(json.dumps({"seed": seed}), flush=True)
        print(json.dumps({"seed": seed, check(seed, options): 1}), flush=True)


def check(seed: int, options: argparse.Namespace) -> str:
    from check_gpu_program import check_cuda_text, check_gpu_program
    from gpu_programs import random_gpu_kernel

    from weft.ir.printer import print_kernel

    try:
        found = check_gpu_program(seed)
        if options.cuda and found == "checked":
            check_cuda_text(seed, compile_it=True)
    except Exception as error:
        said = "".join(traceback.format_exception(error))[-20000:]
        text = f"{said}\n--- program\n{print_kernel(random_gpu_kernel(seed))}\n"
        (Path(options.failures) / f"{seed}.txt").write_text(text, encoding="utf-8")
        return "faults"
    return found


if __name__ == "__main__":
    sys.exit(main())
