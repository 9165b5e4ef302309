"""What the operating system says of this host's processor: its name, cores, frequency and caches.

Only files are read, in a third of a millisecond, since every start does it: what schedules depend on is part of the
key of kept machine code. What a system does not say is left out, and the caller assumes it.
"""

from __future__ import annotations

import functools
import os
import re
from typing import NamedTuple

_CPU = "/sys/devices/system/cpu"


class CacheFacts(NamedTuple):
    """A data cache of the first core; ``shared_by`` counts hardware threads."""

    level: int
    size: int
    ways: int
    line: int
    shared_by: int


class HostFacts(NamedTuple):
    """0, None or nothing where the system does not say."""

    vendor: str = ""
    family: int = 0
    name: str = ""
    megahertz: float | None = None
    cores: int = 0
    threads: int = 0
    caches: tuple[CacheFacts, ...] = ()


#: What is assumed of a machine that is not this host, and where the system lists no caches.
USUAL = HostFacts(
    cores=8,
    threads=8,
    caches=(CacheFacts(1, 32 << 10, 8, 64, 1), CacheFacts(2, 1 << 20, 8, 64, 1), CacheFacts(3, 32 << 20, 16, 64, 8)),
)


@functools.cache
def read_host_facts() -> HostFacts:
    """The host, as Linux describes it."""
    about = read_cpuinfo()
    family = about.get("cpu family", "")
    return HostFacts(
        vendor=about.get("vendor_id", ""),
        family=int(family) if family.isdigit() else 0,
        name=about.get("model name", ""),
        megahertz=_megahertz(about),
        cores=_usable_cores(),
        threads=_usable_threads(),
        caches=tuple(read_caches(f"{_CPU}/cpu0/cache")),
    )


@functools.cache
def read_cpuinfo() -> dict[str, str]:
    """The first processor's lines of /proc/cpuinfo."""
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, colon, value = line.partition(":")
                if not colon:
                    break
                fields[key.strip()] = value.strip()
    except OSError:
        pass
    return fields


def _megahertz(about: dict[str, str]) -> float | None:
    """The highest frequency where the system gives it, else what the processor's name or a virtual machine says.

    In hundreds: it must be the same at each start, or kept machine code would not be found again.
    """
    highest = _number(f"{_CPU}/cpu0/cpufreq/cpuinfo_max_freq")
    if highest:
        return round(highest / 1e5) * 100.0
    named = re.search(r"@ ([\d.]+)GHz", about.get("model name", ""))
    try:
        return round(float(named[1]) * 10 if named else float(about["cpu MHz"]) / 100) * 100.0
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
    siblings = (_text(f"{_CPU}/cpu{n}/topology/core_cpus_list") or str(n) for n in usable)
    return len(set(siblings))


def read_caches(folder: str) -> list[CacheFacts]:
    """The caches that hold data, nearest first."""
    caches = []
    try:
        names = sorted(name for name in os.listdir(folder) if name.startswith("index"))
    except OSError:
        return []
    for index in (f"{folder}/{name}" for name in names):
        size = _text(f"{index}/size")
        if _text(f"{index}/type") == "Instruction" or not size.endswith("K") or not size[:-1].isdigit():
            continue
        level, ways, line = (_number(f"{index}/{n}") for n in ("level", "ways_of_associativity", "coherency_line_size"))
        shared = count_listed(_text(f"{index}/shared_cpu_list"))
        caches.append(CacheFacts(level, int(size[:-1]) << 10, ways or 8, line or 64, max(1, shared)))
    return sorted(caches, key=lambda c: c.level)


def count_listed(text: str) -> int:
    """How many numbers a list such as ``0-3,8`` names."""
    count = 0
    for entry in filter(None, text.split(",")):
        first, dash, last = entry.partition("-")
        if first.isdigit() and (not dash or last.isdigit()):
            count += int(last) - int(first) + 1 if dash else 1
    return count


def _text(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return os.read(handle, 4096).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(handle)


def _number(path: str) -> int:
    text = _text(path)
    return int(text) if text.isdigit() else 0
