"""Which CPU code is generated for: the host's, found without LLVM, or a named one.

``WEFT_TARGET=x86-64-avx2`` overrides the host. Names: the keys of `NAMED`. ``WEFT_MACHINE`` names a JSON file with
figures of the machine (`weft machine --json` writes one).
"""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.ir.errors import TargetError
from weft.target.cpu.host_facts import USUAL, HostFacts, read_cpuinfo, read_host_facts

if TYPE_CHECKING:
    from weft.ir.memory import MemoryScope
    from weft.target.cpu.machine_model import MachineModel


@dataclass(frozen=True, slots=True)
class Machine:
    """All that code and schedules for a CPU depend on; ``cpu`` and ``features`` are LLVM's names.

    ``facts`` are what the system says of its cores and caches, ``figures`` a model of it that was given or measured,
    as JSON; without one, usual figures are assumed.
    """

    name: str
    triple: str
    cpu: str
    features: tuple[str, ...] = ()
    vector_bits: int = 128
    has_fma: bool = False
    has_rounding: bool = False  # floor, ceil, trunc, rint as instructions (SSE4.1, NEON)
    has_float16: bool = False  # conversions between float16 and float32 (F16C, AArch64)
    has_masks: bool = False  # loads and stores of some lanes of any type as one instruction (AVX-512)
    facts: HostFacts = USUAL
    figures: str = ""
    target: str = "cpu"  # what makes code for it

    @property
    def is_x86(self) -> bool:
        return self.triple.startswith("x86_64")

    @property
    def key(self) -> str:
        """A text that changes whenever the generated code or its schedule could: part of every cache key."""
        return "|".join(map(str, astuple(self)))

    @property
    def model(self) -> MachineModel:
        """What code costs on it."""
        from weft.target.cpu.machine_model import model_of  # a start from kept code does without

        return model_of(self)

    @property
    def caches(self) -> dict[str, int]:
        """Bytes by cache level, nearest first."""
        return self.model.caches

    @property
    def cores(self) -> int:
        """Cores that may be used."""
        return self.model.cores

    @property
    def scopes(self) -> Mapping[str, MemoryScope]:
        """The memories that buffers may be in: all of them are caches and memory of the host."""
        from weft.ir.memory import PLAIN_SCOPES, SCOPES

        return {name: SCOPES[name] for name in PLAIN_SCOPES}

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
    return replace(NAMED[name], facts=read_host_facts())


def host_machine() -> Machine:
    """The machine code is generated for by default: ``WEFT_TARGET`` or this host, with the figures that are given."""
    machine, path = named_machine(os.environ.get("WEFT_TARGET") or "host"), os.environ.get("WEFT_MACHINE")
    return replace(machine, figures=_read_figures(path)) if path else machine


def _read_figures(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise TargetError(f"cannot read the machine description {path}", why=why) from None


@functools.cache
def _detect_host() -> Machine:
    arch = platform.machine().lower()
    if arch in ("aarch64", "arm64"):
        return replace(NAMED["aarch64"], facts=read_host_facts())
    if arch not in ("x86_64", "amd64"):
        raise TargetError(
            f"no code generator for this CPU, `{arch}`",
            why="x86-64 and AArch64 are supported",
            help="set WEFT_TARGET to one of them to look at generated code",
        )
    flags = _host_flags()
    if "amx_tile" in flags and not request_tiles():
        flags = frozenset(f for f in flags if not f.startswith("amx"))
    return replace(machine_with_flags(flags), facts=read_host_facts())


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


def _host_flags() -> frozenset[str]:
    flags = read_cpuinfo().get("flags")
    if flags is not None:
        return frozenset(flags.split())
    from weft.target.cpu.llvm import host_features

    return host_features()
