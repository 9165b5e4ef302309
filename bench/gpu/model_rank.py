"""Does the time model rank GPU schedules? Expected against measured times of random plans, and of its own candidates.

    python -m bench.gpu.model_rank --save ranks.json
    python -m bench.gpu.model_rank --only softmax --draws 20

Plans of every strategy are drawn at random from all legal ones, built in many processes, and timed on the GPU with
arguments beyond the second cache. Then, for each workload of `bench.gpu`, what the model chose against the other plans
that it thought best and some more. With ``--save`` all of it is kept: schedules (as traces), times, what was expected.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.gpu.measure import ROTATED
from bench.gpu.rank_build import Built, Job, build_schedule
from bench.gpu.rank_cases import all_cases, rank_cases, usual_cases
from bench.gpu.workloads import Workload
from bench.ranks import spearman

#: Random plans for each case, plans after the best, and random ones, of each workload of the table.
DRAWS, NEXT_BEST, OTHERS = 9, 5, 4
#: Seconds of calls that one time is taken over, how often, and the most calls.
SPAN, ROUNDS, MOST_CALLS = 0.002, 5, 64
#: How far a choice may be from the best of its list to be as good.
CLOSE = 1.05


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu.model_rank", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="cases whose names contain one of these")
    parser.add_argument("--draws", type=int, default=DRAWS, help="random plans for each case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", help="write all samples, as JSON")
    options = parser.parse_args(arguments)
    import torch

    if not torch.cuda.is_available():
        print("there is no GPU", file=sys.stderr)
        return 2
    cases = all_cases() if options.only else usual_cases()
    chosen = [n for n, c in enumerate(cases) if not options.only or any(part in c.name for part in options.only)]
    samples = list(measure_all(torch, cases, chosen, options.draws, options.seed))
    print("\n".join(summary(samples, len(rank_cases()))))
    if options.save:
        Path(options.save).write_text(json.dumps(samples), encoding="utf-8")
    return 0


def jobs_of(case: int, arguments: Sequence[Any], is_random: bool, draws: int, seed: int) -> list[Job]:
    shapes = tuple(tuple(a.shape) if hasattr(a, "shape") else a for a in arguments)
    if is_random:
        return [Job(case, shapes, "drawn", seed * 1000 + n) for n in range(draws)]
    best = [*(Job(case, shapes, "ranked", n) for n in range(NEXT_BEST + 1)), Job(case, shapes, "listed", 0)]
    return [*best, *(Job(case, shapes, "drawn", seed * 1000 + n) for n in range(OTHERS))]


def measure_all(
    torch: Any, cases: Sequence[Workload], chosen: Sequence[int], draws: int, seed: int
) -> Iterator[dict[str, Any]]:
    """A sample of each schedule; building goes on while those before are measured."""
    from weft.runtime.cuda_device import find_device

    device = find_device(0)
    small = len(rank_cases())
    os.environ["WEFT_CUDA_ARCH"] = device.machine.arch  # so that processes that build do not start the GPU
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        waiting = []
        for n in chosen:
            jobs = jobs_of(n, cases[n].make(torch), n < small, draws, seed)
            waiting.append((n, [pool.submit(build_schedule, job, device.machine) for job in jobs]))
        for n, futures in waiting:
            start = time.perf_counter()
            built = [b for f in futures if isinstance(b := f.result(), Built)]
            for failure in (f.result() for f in futures if not isinstance(f.result(), Built)):
                print(f"{cases[n].name}: {failure}", file=sys.stderr)
            yield from _measured(torch, device, cases[n], built, "drawn" if n < small else "table")
            print(f"{cases[n].name}: {time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def _measured(torch: Any, device: Any, case: Workload, built: Sequence[Built], group: str) -> Iterator[dict[str, Any]]:
    sets, first = None, None
    seen: set[str] = set()
    for b in built:
        if b.trace in seen:
            continue
        seen.add(b.trace)
        sets = sets or _argument_sets(torch, case, b)
        try:
            seconds, registers = _time(torch, device, b, sets)
        except Exception as problem:  # the others still count
            print(f"{case.name}: {b.plans}: {problem}", file=sys.stderr, flush=True)
            continue
        results = [t.float() for t, p in zip(sets[0], b.parameters) if p[3]]
        first = first or [r.clone() for r in results]
        yield {
            "case": case.name, "group": case.group, "of": group, "how": b.job.how, "number": b.job.number,
            "shapes": b.job.shapes, "plans": b.plans, "trace": b.trace, "expected": b.expected, "bound": b.bound,
            "measured": seconds, "registers": registers, "shared": b.shared, "candidates": b.candidates,
            "difference": max(_difference(r, f) for r, f in zip(results, first)),
        }  # fmt: skip


def _difference(one: Any, other: Any) -> float:
    return float((one - other).norm() / other.norm().clamp_min(1e-30))


def _argument_sets(torch: Any, case: Workload, built: Built) -> list[list[Any]]:
    """Arrays for every parameter, several times, so that the second cache has none of them when they come again."""
    size = sum(math.prod(shape) * width for _, shape, width, _ in built.parameters)
    sets = []
    for _ in range(min(15, ROTATED // max(1, size)) + 1):
        inputs = iter([a for a in case.make(torch) if hasattr(a, "shape")])
        sets.append(
            [
                torch.empty(shape, device="cuda", dtype=getattr(torch, dtype)) if is_output else next(inputs)
                for dtype, shape, _, is_output in built.parameters
            ]
        )
    return sets


def _time(torch: Any, device: Any, built: Built, sets: Sequence[Sequence[Any]]) -> tuple[float, list[int]]:
    """Median seconds of a call, launched by a graph so that the host does not count, and registers of each kernel."""
    from weft.runtime.cuda_program import LoadedProgram
    from weft.target.cuda.program import program_from_json

    loaded = LoadedProgram(program_from_json(built.program), device, [(p, None) for p in built.names], "rank")
    values = [[t.data_ptr() for t in one] for one in sets]
    plan = loaded.plan(values[0])
    scratch = torch.empty(max(1, plan.scratch_bytes), device="cuda", dtype=torch.uint8)

    def run(count: int) -> None:
        stream = torch.cuda.current_stream().cuda_stream
        for n in range(count):
            loaded.start(plan, values[n % len(values)], stream, scratch.data_ptr())

    run(1)
    once = _span(torch, lambda: run(2)) / 2
    count = max(2, min(MOST_CALLS, round(SPAN / max(once, 1e-6))))
    run(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(count)
    graph.replay()
    times = [_span(torch, graph.replay) / count for _ in range(ROUNDS if once < 0.01 else 2)]
    return statistics.median(times), [_registers(f) for f in loaded.functions.values()]


def _registers(function: int) -> int:
    """Of a thread, as the assembler chose."""
    from weft.runtime.cuda_driver import ask, driver

    attribute = driver().CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS
    return int(ask("cuFuncGetAttribute", attribute, driver().CUfunction(function)))


def _span(torch: Any, run: Any) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) * 1e-3


def summary(samples: Sequence[dict[str, Any]], small: int) -> list[str]:
    """Rank correlations over all and within each case, then how good the model's choices are."""
    drawn = [s for s in samples if s["of"] == "drawn"]
    lines = []
    if len(drawn) > 2:
        lines.append(f"{len(drawn)} random plans: rank correlation {_rank(drawn):.3f}")
        for group in dict.fromkeys(s["group"] for s in drawn):
            own = [s for s in drawn if s["group"] == group]
            within = [
                _rank(some)
                for case in dict.fromkeys(s["case"] for s in own)
                if len(some := [s for s in own if s["case"] == case]) > 3
            ]
            errors = sorted(s["expected"] / s["measured"] for s in own)
            tenths = ", ".join(f"{errors[round(q * (len(errors) - 1))]:.2f}" for q in (0.1, 0.5, 0.9))
            each = f"{statistics.mean(within):.2f}, least {min(within):.2f}" if within else "-"
            lines.append(
                f"  {group:16} {len(own):4} plans: {_rank(own):.3f}; within a size {each}; expected / measured {tenths}"
            )
    return [*lines, *_choices(samples)]


def _rank(samples: Sequence[dict[str, Any]]) -> float:
    return float(spearman([s["expected"] for s in samples], [s["measured"] for s in samples]))


def _choices(samples: Sequence[dict[str, Any]]) -> list[str]:
    table = [s for s in samples if s["of"] == "table"]
    lines, good, total = [], 0, 0
    for case in dict.fromkeys(s["case"] for s in table):
        own = [s for s in table if s["case"] == case]
        choice = next((s for s in own if (s["how"], s["number"]) == ("ranked", 0)), None)
        if choice is None:
            continue
        best = min(own, key=lambda s: s["measured"])
        share = choice["measured"] / best["measured"]
        good, total = good + (share <= CLOSE), total + 1
        wrong = max(s["difference"] for s in own)
        times = [(s["measured"] * 1e6, s["expected"] * 1e6) for s in (choice, best)]
        text = "; ".join(f"{how} {t:8.1f} us, expected {e:8.1f}" for how, (t, e) in zip(("chosen", "best"), times))
        lines.append(f"  {case:28} {text} ({share:.2f}, {len(own)} of {choice['candidates']} plans)")
        lines += [f"      better: {best['plans']}"] if share > CLOSE else []
        lines += [f"      RESULTS DIFFER by {wrong:.2g}"] if wrong > 2e-2 else []
    if total:
        lines.insert(0, f"choices within 5 % of the best of their lists: {good} of {total}")
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
