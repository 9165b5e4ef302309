"""Which CPU code is generated for: the host's, found without LLVM, or a named one.

``WEFT_TARGET=x86-64-avx2`` overrides the host. Names: the keys of `NAMED`.
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from dataclasses import dataclass, replace
from typing import Any

from weft.ir.errors import TargetError


@dataclass(frozen=True, slots=True)
class Machine:
    """What the code generator needs to know of a CPU; ``cpu`` and ``features`` are LLVM's names."""

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    has_fma: bool = False
    has_rounding: bool = False  # floor, ceil, trunc, rint as instructions (SSE4.1, NEON)
    has_float16: bool = False  # conversions between float16 and float32 (F16C, AArch64)
    has_masks: bool = False  # loads and stores of some lanes of any type as one instruction (AVX-512)

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def key(self) -> str:
        """A text that changes whenever the generated code could: part of every cache key."""
        return "|".join((self.name, self.triple, self.cpu, ",".join(self.features), str(self.vector_bits)))

    @property
    def caches(self) -> dict[str, int]:
        """Bytes by cache level, nearest first: this host's, or usual ones where it does not say."""
        return host_caches()

    @property
    def cores(self) -> int:
        """Cores of this host that may be used."""
        from weft.target.cpu.host_facts import read_host_facts

        return max(1, read_host_facts().cores)

    def has_feature(self, name: str) -> bool:
        """Whether the CPU has what LLVM calls ``name``, beyond its level."""
        return f"+{name}" in self.features

    def lanes(self, bits: int) -> int:
        """How many elements of ``bits`` bits one vector register holds."""
        return max(1, self.vector_bits // bits)


def _x86(name: str, cpu: str, bits: int, **has: Any) -> Machine:
    return replace(Machine(name, _triple("x86_64"), cpu, vector_bits=bits), **has)


def _triple(arch: str) -> str:
    system = platform.system()
    if system == "Darwin":
        return f"{'arm64' if arch == 'aarch64' else arch}-apple-darwin"
    if system == "Windows":
        return f"{arch}-pc-windows-msvc-elf"
    return f"{arch}-unknown-linux-gnu"


_V3 = {"has_fma": True, "has_rounding": True, "has_float16": True}

#: Machines by name, most capable x86-64 first. ``-prefer-256-bit``: we choose the vector width, not LLVM.
NAMED: dict[str, Machine] = {
    m.name: m
    for m in (
        replace(_x86("x86-64-avx512", "x86-64-v4", 512, has_masks=True, **_V3), features=("-prefer-256-bit",)),
        _x86("x86-64-avx2", "x86-64-v3", 256, **_V3),
        _x86("x86-64-sse4", "x86-64-v2", 128, has_rounding=True),
        _x86("x86-64-sse2", "x86-64", 128),
        Machine("aarch64", _triple("aarch64"), "generic", ("+neon",), 128, True, True, True),
    )
}

#: /proc/cpuinfo flags that make up each level, and optional ones with LLVM's name for them.
_LEVELS = {
    "x86-64-avx512": "avx512f avx512bw avx512cd avx512dq avx512vl avx2 fma bmi1 bmi2 f16c movbe abm",
    "x86-64-avx2": "avx2 fma bmi1 bmi2 f16c movbe abm",
    "x86-64-sse4": "ssse3 sse4_1 sse4_2 popcnt cx16",
}
_OPTIONAL = {
    "avx512_bf16": "avx512bf16",
    "avx512_fp16": "avx512fp16",
    "avx512_vnni": "avx512vnni",
    "avx512vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512vbmi2",
    "avx512_bitalg": "avx512bitalg",
    "avx512_vpopcntdq": "avx512vpopcntdq",
    "avx512ifma": "avx512ifma",
    "avx_vnni": "avxvnni",
    "gfni": "gfni",
    "amx_tile": "amx-tile",
    "amx_bf16": "amx-bf16",
    "amx_int8": "amx-int8",
}


def named_machine(name: str) -> Machine:
    """The machine called ``name``; ``host`` is this one."""
    if name in ("host", "native"):
        return _detect_host()
    if name not in NAMED:
        raise TargetError(
            f"unknown CPU target `{name}`",
            why="it is not one of the machines Weft generates code for",
            help=f"use one of: host, {', '.join(NAMED)}",
        )
    return NAMED[name]


def host_machine() -> Machine:
    """The machine code is generated for by default: ``WEFT_TARGET`` or this host."""
    return named_machine(os.environ.get("WEFT_TARGET") or "host")


@functools.cache
def _detect_host() -> Machine:
    arch = platform.machine().lower()
    if arch in ("aarch64", "arm64"):
        return NAMED["aarch64"]
    if arch not in ("x86_64", "amd64"):
        raise TargetError(
            f"no code generator for this CPU, `{arch}`",
            why="x86-64 and AArch64 are supported",
            help="set WEFT_TARGET to one of them to look at generated code",
        )
    flags = _host_flags()
    if "amx_tile" in flags and not request_tiles():
        flags = frozenset(f for f in flags if not f.startswith("amx"))
    return machine_with_flags(flags)


def request_tiles() -> bool:
    """Asks Linux for the use of AMX tile registers in this process; whether it may."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    arch_prctl, request, tile_data = 158, 0x1023, 18
    return bool(ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) == 0)


def machine_with_flags(flags: frozenset[str]) -> Machine:
    """The best x86-64 machine that has ``flags``, named as /proc/cpuinfo names them."""
    for name, needed in _LEVELS.items():
        if flags.issuperset(needed.split()):
            machine = NAMED[name]
            allowed = {f: n for f, n in _OPTIONAL.items() if name == "x86-64-avx512" or "avx512" not in f}
            extra = tuple(f"+{llvm}" for flag, llvm in allowed.items() if flag in flags and name != "x86-64-sse4")
            return replace(machine, features=machine.features + extra)
    return NAMED["x86-64-sse2"]


@functools.cache
def host_caches() -> dict[str, int]:
    """The data caches of the first core, as Linux lists them."""
    from weft.target.cpu.host_facts import read_host_facts

    found = {f"L{cache.level}": cache.size for cache in read_host_facts().caches}
    return found or {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}


def _host_flags() -> frozenset[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    from weft.target.cpu.llvm import host_features

    return host_features()
