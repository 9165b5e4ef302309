"""``python -m bench.recurrences [--threads 1 2] [--only LSTM] [--device cuda] [--write docs/bench-recurrences.md]``.

Both compute 64 steps on the same arrays, in turns; a figure is the median of all rounds. PyTorch runs without
gradients, on as many threads as Weft; LSTM and GRU are its own layers (oneDNN, cuDNN), the others loops over its
tensors.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import weft
from bench.recurrences.cases import TEXT, Case, cases

PAGE = Path(__file__).parents[2] / "docs" / "bench-recurrences.md"
ROUNDS, SECONDS = 9, 0.03


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recurrences", description=__doc__)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names contain one of these")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--write", nargs="?", const=str(PAGE), help="write the page of results")
    options = parser.parse_args(arguments)
    import torch

    if options.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    chosen = [c for c in cases() if not options.only or any(part in c.name for part in options.only)]
    lines = ["| | threads | Weft | PyTorch | ratio | first result |", "|---|---|---|---|---|---|"]
    for threads in options.threads if options.device == "cpu" else [1]:
        torch.set_num_threads(threads)
        weft.set_num_threads(threads)
        for case in chosen:
            lines.append(_measured(torch, case, options.device, threads))
            print(lines[-1], flush=True)
    if options.write:
        head = (
            f"# Recurrences\n\n`python -m bench.recurrences`, 64 steps, PyTorch {torch.__version__}, {options.device}."
        )
        Path(options.write).write_text("\n".join([head, "", *lines, ""]), encoding="utf-8")
    return 0


def _measured(torch: Any, case: Case, device: str, threads: int) -> str:
    torch.manual_seed(0)
    args, peer = case.make(torch, device)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    with torch.no_grad():
        start = time.perf_counter()
        op = weft.define(TEXT, entry=case.entry)
        found = op(*args)
        wait()
        first = time.perf_counter() - start
        wanted = peer()
        error = (case.pick(found).float() - wanted.float()).abs().max().item()
        assert error < 1e-3, f"{case.name}: off by {error}"
        ours, theirs = _in_turns([lambda: op(*args), peer], wait)
    times = f"{ours * 1e3:.3f} ms | {theirs * 1e3:.3f} ms | {theirs / ours:.2f}"
    return f"| {case.name} | {threads if device == 'cpu' else 'GPU'} | {times} | {first * 1e3:.0f} ms |"


def _in_turns(contenders: list[Callable[[], Any]], wait: Callable[[], None]) -> list[float]:
    """The median of each contender's time for one call, measured in turns so that all meet the same disturbances."""
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(ROUNDS):
        for run, own in zip(contenders, times):
            run()
            wait()
            count, start = 0, time.perf_counter()
            while count == 0 or time.perf_counter() - start < SECONDS:
                run()
                count += 1
            wait()
            own.append((time.perf_counter() - start) / count)
    return [statistics.median(own) for own in times]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
