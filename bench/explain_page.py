"""docs/explain.md: what the scheduler says of five workloads, and where the processor is seen to spend its time.

The profile is taken by `perf record -e cpu-clock`, which samples where the program is; each sample in our machine code
belongs to a loop, found by its backward jump. ``python -m bench.explain_page --write`` makes the page.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import weft
from bench.field.workloads import standard_workloads

ROOT = Path(__file__).resolve().parents[1]
CHOSEN = ("matmul 1024x1024x1024", "conv 3x3 /1 d1 128->128 @28x28", "softmax 4096x1024", "attention 1x12x512x64",
          "blur 3x3 2048x3072")  # fmt: skip
SECONDS = 3.0
#: Loops that took less than this part of the samples are not told.
LEAST_SHARE = 0.05


def explained(name: str) -> list[str]:
    """The section of one workload: the scheduler's words, then the measured time and the profile."""
    workload = next(w for w in standard_workloads() if w.name == name)
    family, inputs, numbers = workload.family, workload.inputs(), workload.numbers()
    local = weft.define((ROOT / "bench/field/programs.weft").read_text(encoding="utf-8")).defs
    op: Any = local.get(family.definition) or getattr(weft.ops, family.definition)
    if family.constants:
        op = op.bind(**{c: inputs[c] for c in family.constants})
    arguments = [inputs[a.name] if a.dims is not None else numbers[a.name] for a in family.arguments]
    arguments = [a for a, d in zip(arguments, family.arguments) if d.name not in family.constants]
    told = op.explain(*arguments)
    out = op(*arguments)
    median = measured_seconds(op, arguments, out)
    loops = profile(op, arguments, out)
    return [
        f"## {name}", "", "```", op.show("tensor").strip(), "```", "", "```", told.strip(), "```", "",
        f"Measured: {median * 1e3:.3g} ms. Where the samples fell:", "", *loops, "",
    ]  # fmt: skip


def measured_seconds(op: Any, arguments: list[Any], out: Any) -> float:
    times = []
    end = time.perf_counter() + SECONDS / 2
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        op(*arguments, out=out)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def profile(op: Any, arguments: list[Any], out: Any) -> list[str]:
    """A line for each loop of the machine code in which the processor was seen often."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "perf.data"
        command = [
            "perf",
            "record",
            "-q",
            "-e",
            "cpu-clock",
            "-F",
            "2000",
            "-o",
            str(data),
            "-p",
            str(ctypes.CDLL(None).getpid()),
        ]
        recorder = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            op(*arguments, out=out)
        recorder.send_signal(2)
        recorder.wait()
        text = subprocess.run(["perf", "script", "-i", str(data), "-F", "ip"], capture_output=True, text=True).stdout
        codes = [mapped_code(special.loaded.address) for special in op._known.values()]
        lines = [line for start, code in codes for line in disassemble(code, start, Path(folder) / "code.bin")]
    samples = collections.Counter(int(word, 16) for word in text.split())
    return describe_loops(samples, lines)


def mapped_code(address: int) -> tuple[int, bytes]:
    """The mapping our machine code is in."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(part, 16) for part in line.split()[0].split("-"))
        if low <= address < high:
            return low, ctypes.string_at(low, high - low)
    raise LookupError(hex(address))


def disassemble(code: bytes, start: int, file: Path) -> list[tuple[int, str]]:
    file.write_bytes(code)
    command = [
        "objdump",
        "-D",
        "-b",
        "binary",
        "-m",
        "i386:x86-64",
        f"--adjust-vma={start}",
        "--no-show-raw-insn",
        str(file),
    ]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"^\s*([0-9a-f]+):\s+(.*)$", text, re.MULTILINE)
    return [(int(at, 16), what.strip()) for at, what in found]


def describe_loops(samples: collections.Counter[int], lines: list[tuple[int, str]]) -> list[str]:
    loops = []
    for at, what in lines:
        jump = re.match(r"j\w+\s+0x([0-9a-f]+)", what)
        if jump and int(jump[1], 16) < at:
            loops.append((int(jump[1], 16), at))
    total = sum(samples.values())
    share: collections.Counter[tuple[int, int]] = collections.Counter()
    for address, count in samples.items():
        around = [x for x in loops if x[0] <= address <= x[1]]
        if around:
            share[min(around, key=lambda x: x[1] - x[0])] += count
    told = []
    for (low, high), count in share.most_common(6):
        if count >= LEAST_SHARE * total:
            told.append(f"- {count / total:.0%} in a loop of {describe_mix([w for a, w in lines if low <= a <= high])}")
    rest = 1 - sum(c for _, c in share.most_common(6) if c >= LEAST_SHARE * total) / max(1, total)
    return [*told, f"- {rest:.0%} elsewhere: shorter loops, calls, Python, the system"]


def describe_mix(instructions: list[str]) -> str:
    """How many instructions, and the kinds that are most of them."""
    kinds = collections.Counter(what.split()[0] for what in instructions if what)
    most = ", ".join(f"{count} `{kind}`" for kind, count in kinds.most_common(5))
    return f"{len(instructions)} instructions: {most}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/explain.md")
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    weft.set_num_threads(options.threads)
    lines = ["# Five schedules explained, and the profiles that confirm them", ""]
    lines += [f"Made by `python -m bench.explain_page --write` on {options.threads} thread.", ""]
    for name in CHOSEN:
        lines += explained(name)
    text = "\n".join(lines)
    print(text)
    if options.write:
        (ROOT / "docs/explain.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
