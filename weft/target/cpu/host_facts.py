"""What the operating system says of this host's processor: its name, cores, frequency and caches.

Only files are read, in about a millisecond; what a system does not say is left out, and the caller assumes it.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from pathlib import Path

_CPU = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True)
class CacheFacts:
    """A data cache of the first core; ``shared_by`` counts hardware threads."""

    level: int
    size: int
    ways: int
    line: int
    shared_by: int


@dataclass(frozen=True, slots=True)
class HostFacts:
    """0, None or nothing where the system does not say."""

    vendor: str = ""
    family: int = 0
    name: str = ""
    megahertz: float | None = None
    cores: int = 0
    threads: int = 0
    caches: tuple[CacheFacts, ...] = ()


@functools.cache
def read_host_facts() -> HostFacts:
    """The host, as Linux describes it."""
    about = _cpuinfo()
    family = about.get("cpu family", "")
    return HostFacts(
        vendor=about.get("vendor_id", ""),
        family=int(family) if family.isdigit() else 0,
        name=about.get("model name", ""),
        megahertz=_megahertz(about),
        cores=_usable_cores(),
        threads=_usable_threads(),
        caches=tuple(read_caches(_CPU / "cpu0" / "cache")),
    )


def _cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if not colon:
                    break
                found[key.strip()] = value.strip()
    except OSError:
        pass
    return found


def _megahertz(about: dict[str, str]) -> float | None:
    """The highest frequency where the system gives it, else what the processor runs at now."""
    highest = _number(_CPU / "cpu0" / "cpufreq" / "cpuinfo_max_freq")
    if highest:
        return highest / 1e3
    try:
        return float(about["cpu MHz"])
    except (KeyError, ValueError):
        return None


def _usable_threads() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return os.cpu_count() or 0


def _usable_cores() -> int:
    """Cores that the hardware threads this process may use belong to."""
    try:
        usable = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return 0
    siblings = (_text(_CPU / f"cpu{n}" / "topology" / "core_cpus_list") or str(n) for n in usable)
    return len(set(siblings))


def read_caches(folder: Path) -> list[CacheFacts]:
    """The caches that hold data, nearest first."""
    found = []
    for index in sorted(folder.glob("index*")):
        size = _text(index / "size")
        if _text(index / "type") == "Instruction" or not size.endswith("K") or not size[:-1].isdigit():
            continue
        level, ways, line = (_number(index / n) for n in ("level", "ways_of_associativity", "coherency_line_size"))
        shared = count_listed(_text(index / "shared_cpu_list"))
        found.append(CacheFacts(level, int(size[:-1]) << 10, ways or 8, line or 64, max(1, shared)))
    return sorted(found, key=lambda c: c.level)


def count_listed(text: str) -> int:
    """How many numbers a list such as ``0-3,8`` names."""
    count = 0
    for part in filter(None, text.split(",")):
        first, dash, last = part.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            count += int(last) - int(first) + 1 if dash else 1
    return count


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0
