"""Print what schedules take this machine for, and where each figure comes from.

weft machine
weft machine --measure
weft machine --json > machine.json      (then WEFT_MACHINE=machine.json uses it)
"""

from __future__ import annotations

import argparse

from weft.runtime.machine_model import machine_model, measured_model
from weft.target.cpu.machine_model import Level, MachineModel


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measure", action="store_true", help="measure this host (takes a second) and keep the result")
    parser.add_argument("--json", action="store_true", help="as JSON, for WEFT_MACHINE")


def main(options: argparse.Namespace) -> int:
    model = measured_model() if options.measure else machine_model()
    print(model.to_json() if options.json else describe_model(model), end="")
    return 0


def describe_model(model: MachineModel) -> str:
    """A table of the core's figures, then one of the caches and memory."""
    core = [
        ("cores", f"{model.cores}, {model.threads} threads", "threads"),
        ("frequency", f"{model.frequency / 1e9:.2f} GHz", "frequency"),
        ("vectors", f"{model.vector_bits} bits, {model.vector_registers} registers", "vector_bits"),
        ("multiply-adds", f"{model.fma_units:g} vectors a cycle, {model.fma_latency:g} cycles each", "fma_units"),
        ("loads", f"{model.load_units:g} vectors a cycle", "load_units"),
        ("stores", f"{model.store_units:g} vectors a cycle", "store_units"),
        ("instructions", f"{model.issue_width:g} a cycle", "issue_width"),
        ("peak of a core", f"{model.peak / 1e9:.0f} GFLOP/s in float32", "fma_units"),
        ("parallel loop", f"{model.parallel_start * 1e6:.1f} us to start", "parallel_start"),
        ("past the caches", f"{_rate(model.stream)} written by one core", "stream"),
    ]
    rows = [[name, value, model.source(key)] for name, value, key in core]
    heading = ["", "size", "usable", "ways", "cores", "one core reads", "writes", "all read", "write", ""]
    levels = [heading, *(_level_row(model, level) for level in model.levels)]
    return "\n".join([model.name, *_aligned(rows), "", *_aligned(levels)]) + "\n"


def _level_row(model: MachineModel, level: Level) -> list[str]:
    sizes = [_size(level.size), _size(level.usable)]
    rates = [_rate(r) for r in (level.read, level.write, level.read_all, level.write_all)]
    where = [f"rates {model.source(f'{level.name}.read')}"]
    if level.size:
        where.insert(0, f"size {model.source(level.name)}")
    return [level.name, *sizes, str(level.ways or ""), str(level.shared_by), *rates, ", ".join(where)]


def _size(count: int) -> str:
    return f"{count >> 10} KiB" if 0 < count < 1 << 20 else f"{count >> 20} MiB" if count else ""


def _rate(bytes_a_second: float) -> str:
    return f"{bytes_a_second / 1e9:.3g} GB/s"


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
