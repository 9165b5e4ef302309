"""What compiling costs, stage by stage: the schedules of ``examples/schedules``, and every operator of the library.

    python -m bench.compile_time [--only NAME ...] [--repeats 3] [--fresh]

Milliseconds, the least of some repetitions; stages in time of the processor, which other work disturbs less.
``first`` is what a user waits for, on the clock: from the definition (and the steps of its schedule) to the first
result, less the time of a second one. LLVM is loaded before. ``--fresh`` measures ``first`` in a process of its own
for each row, imports of Weft and LLVM included.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.schedules import ROOT

STAGES = ("lower", "schedule", "passes", "emit", "parse", "optimize", "codegen", "load")
Shapes = tuple[tuple[int, ...], ...]


@dataclass
class Row:
    """An operator to be made and called with arrays; without them it is compiled for symbolic sizes."""

    name: str
    make: Callable[[], Any]
    arrays: Callable[[], tuple[Any, ...]] | None = None


def schedule_rows() -> Iterator[Row]:
    """The works of `bench.schedules`."""
    import blur
    import matmul
    import rows

    from bench.schedule_shapes import SIZES

    for m, k, n in SIZES:
        yield _row(f"matmul {m}x{k}x{n}", matmul.schedule_matmul, (m, n, k), ((m, k), (k, n)))
    for side in "AB":
        make = functools.partial(matmul.schedule_matmul, transposed=side)
        yield _row(f"matmul 1024, {side} transposed", make, (1024,) * 3, ((1024, 1024),) * 2)
    yield _row("batched matmul", matmul.schedule_batched_matmul, (12, 128, 128, 64), ((12, 128, 64), (12, 64, 128)))
    yield from _convolution_rows()
    for schedule in blur.SCHEDULES:
        yield _row(f"blur, {schedule.__name__}", functools.partial(_blur, schedule), (2048, 3072), ((2048, 3072),))
    x, b = (4096, 1024), (1024,)
    row_works: dict[str, Shapes] = {"softmax": (x,), "layer_norm": (x, b, b), "bias_gelu": (x, b)}
    for name, shapes in {**row_works, "sum_rows": (x,), "sum_columns": (x,), "transpose": ((4096, 4096),)}.items():
        m, n = shapes[0]
        yield _row(name, getattr(rows, f"schedule_{name}"), (m, n), shapes)
    yield from _narrow_rows()


def _convolution_rows() -> Iterator[Row]:
    import convolution

    from bench.schedule_shapes import CONVOLUTIONS

    for c, size, f, k, pad, step in CONVOLUTIONS:
        image, packed = (1, c, size, size), (f // convolution.CHANNELS, c, k, k, convolution.CHANNELS)
        make = functools.partial(convolution.schedule_conv2d, image, packed, pad, step)
        arrays = functools.partial(_ones, (image, packed), pad, step)
        yield Row(f"conv {k}x{k}/{step} {c}->{f} @{size}", make, arrays)
    image, kernel = (1, 32, 112, 112), (32, 3, 3)
    make = functools.partial(convolution.schedule_depthwise, image, kernel, 1)
    yield Row("depthwise 3x3 32 @112", make, functools.partial(_ones, (image, kernel), 1))


def _narrow_rows() -> Iterator[Row]:
    import ml_dtypes
    import narrow
    import numpy as np

    square = (1024, 1024)
    by_bytes, by_bfloat16 = narrow.schedule_matmul_bytes, narrow.schedule_matmul_bfloat16
    half = np.dtype(ml_dtypes.bfloat16)
    yield Row(
        "uint8 x int8 1024",
        functools.partial(by_bytes, 1024, 1024, 1024),
        lambda: (np.ones(square, np.uint8), np.ones(square, np.int8)),
    )
    yield Row(
        "bfloat16 1024",
        functools.partial(by_bfloat16, 1024, 1024, 1024),
        lambda: (np.ones(square, half), np.ones(square, half)),
    )


def _row(name: str, schedule: Callable[..., Any], sizes: tuple[int, ...], shapes: Shapes) -> Row:
    return Row(name, functools.partial(schedule, *sizes), functools.partial(_ones, shapes))


def _ones(shapes: Shapes, *scalars: int) -> tuple[Any, ...]:
    import numpy as np

    return (*(np.ones(shape, np.float32) for shape in shapes), *scalars)


def _blur(schedule: Callable[[Any], None], height: int, width: int) -> Any:
    import blur

    import weft

    s = weft.schedule(weft.define(blur.BLUR), A=(height, width), numerics="fast")
    schedule(s)
    return s.build()


def operator_rows() -> Iterator[Row]:
    """The library, unscheduled, with symbolic sizes, in both widths."""
    import weft
    from weft.ops.library import names

    for dtype in ("float32", "float64"):
        for name in names():
            yield Row(f"{name} {dtype}", functools.partial(weft.ops.get, name, dtype))


def stage_times(row: Row) -> dict[str, float]:
    """Milliseconds of every stage, and the instructions of the LLVM text under ``lines``."""
    from weft.operators.scheduling import apply_scheduling
    from weft.operators.signature import bind_arguments, check_call
    from weft.operators.stages import build
    from weft.runtime.kernel import load_kernel
    from weft.schedules.finished import forget_finished
    from weft.schedules.schedule import Schedule
    from weft.target.cpu.emit import assert_sites, emit_module, entry_name
    from weft.target.cpu.host import host_machine
    from weft.target.cpu.llvm import emit_object, optimize_llvm, parse_llvm
    from weft.target.cpu.lower import lower_kernel

    op, machine, times = row.make(), host_machine(), {}
    signature = None
    if row.arrays is not None:
        signature = check_call(op.interface, bind_arguments(op.interface, row.arrays(), {}), None).signature
    program = op.program

    def timed(stage: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        done = work()
        times[stage] = (time.process_time() - start) * 1e3
        return done

    made = build(program, signature, machine, True, op._definition.how)
    kernel = timed("lower", lambda: made.loops(made.how.form)[0])
    if made.how.how != "naive":
        schedule = Schedule(kernel, numerics=made.how.numerics, machine=machine, sizes=made.sizes)
        forget_finished()
        timed("schedule", lambda: apply_scheduling(schedule, made.how, machine))
        kernel = schedule.kernel
    final = timed("passes", lambda: lower_kernel(kernel, machine, fast=made.fast))
    text = timed("emit", lambda: emit_module(final, machine, assert_sites(kernel), contract=made.fast))
    module = timed("parse", lambda: parse_llvm(text, machine))
    timed("optimize", lambda: optimize_llvm(module, machine))
    code = timed("codegen", lambda: emit_object(module, machine))
    params = [None] * len(kernel.params)
    timed("load", lambda: load_kernel(code, entry_name(kernel), params))
    return {**times, "lines": float(text.count("\n"))}


def first_result(row: Row) -> float:
    """Milliseconds from definition to result, the run of the kernel itself taken off."""
    assert row.arrays is not None
    arrays = row.arrays()
    start = time.perf_counter()
    op = row.make()
    op(*arrays)
    took = time.perf_counter() - start
    again = []
    for _ in range(3):
        start = time.perf_counter()
        op(*arrays)
        again.append(time.perf_counter() - start)
    return (took - min(again)) * 1e3


def measure(row: Row, repeats: int) -> dict[str, float]:
    runs = [stage_times(row) for _ in range(repeats)]
    best = {stage: min(run[stage] for run in runs) for stage in runs[0]}
    if row.arrays is not None:
        best["first"] = min(first_result(row) for _ in range(repeats))
    return best


def report(title: str, rows: list[Row], repeats: int) -> None:
    print(f"{title:<32}" + "".join(f"{s:>9}" for s in (*STAGES, "sum", "first", "lines")))
    totals: list[dict[str, float]] = []
    for row in rows:
        found = measure(row, repeats)
        found["sum"] = sum(found.get(stage, 0.0) for stage in STAGES)
        totals.append(found)
        print(_line(row.name, found), flush=True)
    if totals:
        summaries: dict[str, Callable[[list[float]], float]] = {"median": statistics.median, "worst": max}
        for name, of in summaries.items():
            known = {k: [t[k] for t in totals if k in t] for k in (*STAGES, "sum", "first", "lines")}
            print(_line(name, {k: of(v) for k, v in known.items() if v}))
    print()


def _line(name: str, found: dict[str, float]) -> str:
    shown = [f"{found[k]:>9.1f}" if k in found else " " * 9 for k in (*STAGES, "sum", "first")]
    return f"{name:<32}{''.join(shown)}{found['lines']:>9.0f}"


def report_fresh(rows: list[Row]) -> None:
    """Each row in a process of its own."""
    times = []
    for row in rows:
        code = [sys.executable, "-m", "bench.compile_time", "--first", row.name]
        done = subprocess.run(code, capture_output=True, text=True, check=True, cwd=ROOT)
        times.append(float(done.stdout))
        print(f"{row.name:<32}{times[-1]:>9.1f}", flush=True)
    print(f"{'median, worst':<32}{statistics.median(times):>9.1f}{max(times):>9.1f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="rows whose names contain one of these")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fresh", action="store_true", help="a process for each row")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ["WEFT_CACHE"] = "off"

    def chosen(rows: Iterator[Row]) -> list[Row]:
        return [row for row in rows if not options.only or any(part in row.name for part in options.only)]

    if options.first is not None:
        print(next(first_result(row) for row in schedule_rows() if row.name == options.first))
        return 0
    if options.fresh:
        report_fresh(chosen(schedule_rows()))
        return 0
    report("examples/schedules", chosen(schedule_rows()), options.repeats)
    report("weft/ops", chosen(operator_rows()), options.repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
