"""One checkout of Weft against another on a GPU, interleaved: ``python -m bench.gpu.before_after --old ../before``.

Each checkout works in a process of its own, on the workloads that both know; they take turns, workload by workload. A
ratio is time before over time after: above 1, it became faster.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MATMUL = "def f(float32(M,K) A, float32(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


class Side:
    """A checkout at work: one line of JSON is asked, one comes back."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(root), os.environ.get("PYTHONPATH", "")))}
        environment["WEFT_CACHE_DIR"] = tempfile.mkdtemp(prefix="weft-bench-")
        command = [sys.executable, str(Path(__file__).resolve()), "--worker"]
        self.process = subprocess.Popen(
            command, cwd=root, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def ask(self, question: str) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(question, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process for {self.process.args!r} has ended")
        return json.loads(line)


def work() -> None:
    """Answers questions about the checkout that is first on the path: its workloads, then times of the one prepared."""
    import torch

    from bench.gpu import measure
    from bench.gpu.workloads import workloads

    torch.backends.cuda.matmul.allow_tf32 = False
    known = {w.name: w for w in (*workloads(), *products_of_ten_bits())}
    answers, sys.stdout = sys.stdout, sys.stderr
    times: Any = None
    for question in map(str.strip, sys.stdin):
        answer: Any
        if question == "names":
            answer = list(known)
        elif question == "time":
            answer = times()
        else:
            times, answer = prepare(torch, measure, known[question])
        print(json.dumps(answer), file=answers, flush=True)


def products_of_ten_bits() -> list[Any]:
    """Products by matrix instructions of single warps, which the table of the bench has not."""
    import weft
    from bench.gpu.workloads import Workload, normal

    op = lambda: weft.define(MATMUL, numerics="tf32")  # noqa: E731
    return [
        Workload(f"matmul tf32 {n}", "", op, normal((n, n), (n, n), dtype="float32"), lambda t, a, b: a @ b)
        for n in (1000, 1024, 2048, 4096)
    ]


def prepare(torch: Any, measure: Any, workload: Any) -> tuple[Any, Any]:
    """What times one turn of ``workload``, and its error against float64."""
    sets = measure._argument_sets(torch, workload)
    op = workload.op()
    error = measure._error(torch, workload, sets[0], op(*sets[0]))
    count = measure._calls(torch, op, sets)
    return (lambda: measure._span(torch, op, sets, count) / count), error


def race(sides: list[Side], name: str, turns: int) -> tuple[float, float]:
    """Median microseconds of a call, before and after."""
    for side in sides:
        side.ask(name)
    times = [[side.ask("time") for side in sides] for _ in range(turns)]
    before, after = (statistics.median(turn[i] for turn in times) for i in (0, 1))
    return before, after


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.before_after", description=__doc__)
    parser.add_argument("--old", type=Path, help="the checkout to compare with")
    parser.add_argument("--only", nargs="*", default=[], help="workloads whose names contain one of these")
    parser.add_argument("--turns", type=int, default=21)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    sides = [Side(root) for root in (options.old.resolve(), ROOT)]
    both = set(sides[0].ask("names"))
    names = [n for n in sides[1].ask("names") if n in both and (not options.only or any(o in n for o in options.only))]
    ratios = []
    for name in names:
        before, after = race(sides, name, options.turns)
        ratios.append(before / after)
        print(f"{name:<32} {before:9.1f} us {after:9.1f} us  {ratios[-1]:.3f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
