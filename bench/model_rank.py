"""Does the time model put schedules in the right order? Predicted against measured time of random legal schedules.

    python -m bench model_rank
    python -m bench.model_rank --only matmul --count 50 --save ranks.json

For each of matmul, convolution, softmax and blur, some sizes of each: random tiles, loop orders, vector axes, caching,
packing and fusion, by public primitives; what is refused is left out. The rank correlation (Spearman) of the model's
times with measured ones, and the schedules it is most wrong about.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import weft
from bench.ranks import spearman
from bench.schedule_recipes import RECIPES, SIZES, definition
from weft.auto.estimate import estimate
from weft.ir.errors import Error
from weft.ir.expr import Const, Var
from weft.ir.stmt import For, Kernel
from weft.runtime.kernel import load_kernel
from weft.runtime.machine_model import machine_model
from weft.runtime.threads import set_num_threads
from weft.target.cpu.lower import compile_kernel

#: Statements after unrolling up to which a schedule is compiled.
MOST_COPIES = 400
#: Seconds that one is measured for, at least so many runs, unless they take too long.
PATIENCE, FEWEST_RUNS, LONGEST = 0.02, 5, 1.0
BAR = 0.8


@dataclass
class Sample:
    """One schedule: what the model says and what the clock said, in seconds."""

    work: str
    shapes: dict[str, tuple[int, ...]]
    trace: str
    predicted: float
    bound: str
    measured: float

    @property
    def error(self) -> float:
        """How often the predicted time is too long; below 1, too short."""
        return self.predicted / self.measured


def samples(work: str, count: int, seed: int, threads: int) -> Iterator[Sample]:
    """``count`` different schedules of ``work``, spread evenly over its sizes."""
    rng = random.Random(f"{work} {seed}")
    model, seen = machine_model(), set()
    # One thread's own time says the same on a busy machine; several threads only have the clock on the wall.
    clock = time.thread_time if threads == 1 else time.perf_counter
    done = tries = 0
    while done < count and tries < 20 * count:
        shapes = SIZES[work][tries % len(SIZES[work])]
        tries += 1
        s = weft.schedule(definition(work), numerics="fast", **shapes)
        RECIPES[work](s, rng)
        key = f"{shapes} {s.trace}"
        if key in seen or copies(s.kernel) > MOST_COPIES:
            continue
        seen.add(key)
        try:
            measured = measure(s.kernel, clock)
        except Error as error:
            print(f"not compiled: {error}\n{s.trace}", file=sys.stderr)
            continue
        guess = estimate(s.kernel, model, threads)
        done += 1
        yield Sample(work, shapes, str(s.trace), guess.seconds, guess.bound, measured)


def copies(kernel: Kernel) -> int:
    """The most copies of a statement that unrolling makes."""

    def most(node: object, times: int) -> int:
        if (
            isinstance(node, For)
            and node.kind == "unroll"
            and isinstance(node.hi, Const)
            and isinstance(node.lo, Const)
        ):
            times *= int(node.hi.value) - int(node.lo.value)
        inner = [getattr(node, name) for name in ("body", "then", "otherwise") if hasattr(node, name)]
        parts = [p for i in inner for p in (i if isinstance(i, tuple) else (i,)) if p is not None]
        return max([times, *(most(p, times) for p in parts)])

    return most(kernel.body, 1)


def aligned(shape: Sequence[int]) -> np.ndarray:
    """Random numbers that start on a line of the cache."""
    size = math.prod(shape)
    room = np.empty(size + 16, np.float32)
    start = -room.ctypes.data % 64 // 4
    found = room[start : start + size].reshape(shape)
    found[...] = np.random.default_rng(0).random(shape, np.float32)
    return found


def measure(kernel: Kernel, clock: Callable[[], float]) -> float:
    """The best time of some calls, in seconds."""
    made = compile_kernel(kernel, fast=True)
    loaded = load_kernel(made.object, made.entry, [p.type if isinstance(p, Var) else None for p in kernel.params])
    arrays = [aligned([int(n.value) for n in b.shape if isinstance(n, Const)]) for b in kernel.buffers]
    addresses = [a.ctypes.data for a in arrays]
    best, spent, runs = math.inf, 0.0, 0
    while spent < PATIENCE or (runs < FEWEST_RUNS and spent < LONGEST):
        start = clock()
        loaded.run(addresses)
        took = clock() - start
        best, spent, runs = min(best, took), spent + took, runs + 1
    return best


def summary(found: Sequence[Sample]) -> list[str]:
    """A line for each work and size, one for each work, one for all."""
    lines = [f"{'':<34} {'schedules':>9} {'rank':>6}  {'predicted / measured, tenths':>28}  slowest / fastest"]
    for work in dict.fromkeys(s.work for s in found):
        own = [s for s in found if s.work == work]
        for shapes in SIZES[work]:
            part = [s for s in own if tuple(map(tuple, s.shapes.values())) == tuple(shapes.values())]
            if len(part) > 2:
                lines.append(_line(f"  {work} " + " ".join("x".join(map(str, v)) for v in shapes.values()), part))
        lines.append(_line(work, own))
    return [*lines, _line("all", found)]


def _line(name: str, found: Sequence[Sample]) -> str:
    errors = np.quantile([s.error for s in found], [0.1, 0.5, 0.9])
    spread = max(s.measured for s in found) / min(s.measured for s in found)
    rank = spearman([s.predicted for s in found], [s.measured for s in found])
    tenths = " ".join(f"{e:8.2f}" for e in errors)
    return f"{name:<34} {len(found):>9} {rank:>6.3f}  {tenths:>28}  {spread:.0f}"


def outliers(found: Iterable[Sample], count: int) -> list[Sample]:
    """Those the model is most wrong about, after its usual error on their work."""
    found = list(found)
    usual = {w: float(np.median([s.error for s in found if s.work == w])) for w in {s.work for s in found}}
    return sorted(found, key=lambda s: -abs(math.log(s.error / usual[s.work])))[:count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=list(RECIPES))
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--outliers", type=int, default=3)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    set_num_threads(options.threads)
    found = [s for work in options.only for s in samples(work, options.count, options.seed, options.threads)]
    if options.save:
        options.save.write_text(json.dumps([asdict(s) for s in found], indent=1) + "\n")
    for s in outliers(found, options.outliers):
        print(f"{s.work} {s.shapes}: predicted {s.predicted * 1e3:.3f} ms ({s.bound}), measured {s.measured * 1e3:.3f}")
        print("    " + s.trace.strip().replace("\n", "\n    "))
    print("\n".join(summary(found)))
    worst = min(spearman([s.predicted for s in own], [s.measured for s in own]) for own in _by_work(found))
    return 0 if worst >= BAR else 1


def _by_work(found: Sequence[Sample]) -> list[list[Sample]]:
    return [[s for s in found if s.work == work] for work in dict.fromkeys(s.work for s in found)]


if __name__ == "__main__":
    sys.exit(main())
