"""Print what schedules take this machine for, and where each figure comes from.

weft machine
weft machine --measure
weft machine --json > machine.json      (then WEFT_MACHINE=machine.json uses it)
weft machine --target cuda              (the GPU here, that of WEFT_CUDA_ARCH, or a usual one)
"""

from __future__ import annotations

import argparse
from dataclasses import fields

from weft.report.tables import aligned, format_size
from weft.runtime.machine_model import machine_model, measured_model
from weft.target.cpu.machine_model import Level, MachineModel
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.rates import MEASURED, rates_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measure", action="store_true", help="measure this host (takes a second) and keep the result")
    parser.add_argument("--json", action="store_true", help="as JSON, for WEFT_MACHINE")
    parser.add_argument("--target", choices=("cpu", "cuda"), default="cpu", help="the host, or the GPU")


def main(options: argparse.Namespace) -> int:
    if options.target == "cuda":
        from weft.runtime.cuda_device import default_machine

        print(describe_gpu(default_machine()), end="")
        return 0
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
    return "\n".join([model.name, *aligned(rows), "", *aligned(levels)]) + "\n"


def describe_gpu(machine: GpuMachine) -> str:
    """What the GPU says of itself or its data sheet does, then the rates that its architecture has."""
    device = [
        ("multiprocessors", f"{machine.sms}, {machine.clock / 1e9:.2f} GHz"),
        ("threads", f"{machine.max_threads_per_sm} a multiprocessor, {machine.max_threads_per_block} a block"),
        ("registers", f"{machine.registers_per_sm} a multiprocessor, {machine.max_registers_per_thread} a thread"),
        (
            "shared memory",
            f"{format_size(machine.shared_per_sm)} a multiprocessor, {format_size(machine.shared_per_block)} a block",
        ),
        ("second cache", format_size(machine.l2_bytes)),
        ("memory", _rate(machine.bandwidth)),
    ]
    rates = rates_of(machine.capability)
    rows = [[name, value, "device or data sheet"] for name, value in device]
    for field in fields(rates):
        source = "measured on one H200" if field.name in MEASURED else "architecture"
        rows.append([field.name.replace("_", " "), f"{getattr(rates, field.name):g}", source])
    return "\n".join([f"{machine.name} ({machine.arch})", *aligned(rows)]) + "\n"


def _level_row(model: MachineModel, level: Level) -> list[str]:
    sizes = [format_size(level.size), format_size(level.usable)]
    rates = [_rate(r) for r in (level.read, level.write, level.read_all, level.write_all)]
    where = [f"rates {model.source(f'{level.name}.read')}"]
    if level.size:
        where.insert(0, f"size {model.source(level.name)}")
    return [level.name, *sizes, str(level.ways or ""), str(level.shared_by), *rates, ", ".join(where)]


def _rate(bytes_a_second: float) -> str:
    return f"{bytes_a_second / 1e9:.3g} GB/s"
