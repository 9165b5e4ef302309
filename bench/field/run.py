"""A whole run as data: what was measured, where, with which versions; it goes to JSON and back."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.field.conductor import Row


@dataclass
class Run:
    machine: str
    load: float
    versions: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    random_seed: int | None = None
    clock: str = "wall"
    quick: bool = False
    minutes: float = 0.0
    rows: list[Row] = field(default_factory=list)

    def save(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        data = {**asdict(self), "rows": [row.to_json() for row in self.rows]}
        path.write_text(json.dumps(data, indent=1) + "\n")

    @staticmethod
    def load_from(path: Path) -> Run:
        data: dict[str, Any] = json.loads(path.read_text())
        return Run(**{**data, "rows": [Row.from_json(row) for row in data["rows"]]})


def describe_machine() -> str:
    """The processor in words, with what matters of it here."""
    facts = dict.fromkeys(("model name", "flags"), "")
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in facts:
            facts[name.strip()] = value.strip()
    flags = facts["flags"].split()
    features = [f for f in ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if f in flags]
    cores = len(os.sched_getaffinity(0))
    model = facts["model name"] or platform.processor()
    caches = ", ".join(_caches())
    return f"{cores} cores of {model} ({', '.join(features)}; {caches}), {_memory_gib():.0f} GiB, {platform.system()}"


def _caches() -> list[str]:
    """The sizes of the first core's caches."""
    found = []
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        if kind != "Instruction":
            found.append(f"L{level} {size}")
    return found


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
