"""Which GPU code is generated for, and what a schedule must keep to on it.

The runtime fills a `GpuMachine` from the device it finds. Where there is none, `gpu_for_arch` gives a
usual machine of each architecture, so that code can be made, read and built without a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass

from weft.ir.errors import TargetError, did_you_mean
from weft.ir.memory import PLAIN_SCOPES, SCOPES, MemoryScope

#: Threads that run in step.
WARP = 32
#: The most blocks along x, y and z of a grid.
MAX_GRID = (2**31 - 1, 65535, 65535)
#: The most threads along x, y and z of a block.
MAX_BLOCK = (1024, 1024, 64)
#: Shared memory a kernel gets without asking for more.
DEFAULT_SHARED = 48 << 10

#: What a machine has, and from which compute capability on.
_FEATURES = {
    "fp16 atomics": 70,
    "fp16 mma": 70,
    "ldmatrix": 75,
    "bf16": 80,
    "bf16 mma": 80,
    "tf32 mma": 80,
    "int8 mma": 80,
    "fp8 mma": 89,
    "cp.async": 80,
    "redux": 80,
    "bf16 atomics": 90,
    "tma": 90,
    "cluster": 90,
    "dependent launch": 90,
}
#: What machines of one compute capability alone have, by instructions that later ones dropped.
_FEATURES_OF_ONE = {"wgmma": 90}


@dataclass(frozen=True, slots=True)
class GpuMachine:
    """A GPU: ``arch`` is NVRTC's name of what code is made for, ``shared_per_block`` the most a kernel may ask for."""

    name: str
    arch: str
    sms: int
    max_threads_per_sm: int
    shared_per_block: int
    shared_per_sm: int
    l2_bytes: int
    bandwidth: float  # bytes a second between memory and chip
    clock: float  # cycles a second
    registers_per_sm: int = 65536
    max_threads_per_block: int = 1024
    max_registers_per_thread: int = 255
    max_blocks_per_sm: int = 32

    @property
    def caches(self) -> Mapping[str, int]:
        """Bytes by cache level: of the one that all multiprocessors share."""
        return {"L2": self.l2_bytes}

    @property
    def scopes(self) -> Mapping[str, MemoryScope]:
        """The memories that buffers may be in."""
        shared = SCOPES["shared"]._replace(size=self.shared_per_block, rate=self.bandwidth)
        register = SCOPES["register"]._replace(size=4 * self.max_registers_per_thread)
        return {name: SCOPES[name] for name in PLAIN_SCOPES} | {"shared": shared, "register": register}

    @property
    def target(self) -> str:
        """What makes code for it."""
        return "cuda"

    @property
    def capability(self) -> int:
        """The compute capability times ten: 90 for ``sm_90`` and ``sm_90a``."""
        return int("".join(c for c in self.arch if c.isdigit()))

    @property
    def code_arch(self) -> str:
        """What NVRTC makes code for: with the instructions that only this architecture has, where it has any."""
        own = self.capability in _FEATURES_OF_ONE.values() and self.arch[-1].isdigit()
        return f"{self.arch}a" if own else self.arch

    @property
    def key(self) -> str:
        """A text that changes whenever the generated code or its schedule could: part of every cache key."""
        return "|".join(map(str, astuple(self)))

    def lanes(self, bits: int) -> int:
        """How many elements of ``bits`` bits one access of a thread takes at most."""
        return max(1, 128 // bits)

    def has(self, feature: str) -> bool:
        """Whether the GPU has ``feature``, such as ``"bf16 mma"`` or ``"cp.async"``."""
        if feature in _FEATURES_OF_ONE:
            return self.capability == _FEATURES_OF_ONE[feature]
        if feature not in _FEATURES:
            candidates = (*_FEATURES, *_FEATURES_OF_ONE)
            raise TargetError(
                f"unknown GPU feature `{feature}`",
                help=did_you_mean(feature, candidates) or f"use one of: {', '.join(candidates)}",
            )
        return self.capability >= _FEATURES[feature]


def _usual(
    name: str, arch: str, sms: int, threads: int, shared_kib: int, l2_mib: int, gbs: int, mhz: int
) -> GpuMachine:
    # One KiB of an SM's shared memory is the system's from sm_80 on.
    reserved = 1 if int(arch[3:]) >= 80 else 0
    return GpuMachine(
        name=name,
        arch=arch,
        sms=sms,
        max_threads_per_sm=threads,
        shared_per_block=(shared_kib - reserved) << 10,
        shared_per_sm=shared_kib << 10,
        l2_bytes=l2_mib << 20,
        bandwidth=gbs * 1e9,
        clock=mhz * 1e6,
    )


#: A usual machine of each architecture, as its data sheet describes it.
KNOWN: dict[str, GpuMachine] = {
    m.arch: m
    for m in (
        _usual("V100", "sm_70", 80, 2048, 96, 6, 900, 1530),
        _usual("T4", "sm_75", 40, 1024, 64, 4, 320, 1590),
        _usual("A100", "sm_80", 108, 2048, 164, 40, 2039, 1410),
        _usual("A40", "sm_86", 84, 1536, 100, 6, 696, 1740),
        _usual("Orin", "sm_87", 16, 1536, 164, 4, 204, 1300),
        _usual("L40S", "sm_89", 142, 1536, 100, 96, 864, 2520),
        _usual("H200", "sm_90", 132, 2048, 228, 50, 4800, 1980),
        _usual("B200", "sm_100", 148, 2048, 228, 126, 8000, 1965),
        _usual("B300", "sm_103", 148, 2048, 228, 126, 8000, 1920),
        _usual("RTX 5090", "sm_120", 170, 1536, 100, 96, 1792, 2410),
        _usual("GB10", "sm_121", 48, 1536, 100, 24, 273, 2400),
    )
}


def gpu_for_arch(arch: str) -> GpuMachine:
    """A usual GPU of architecture ``arch``, such as ``"sm_90"``."""
    if arch not in KNOWN:
        raise TargetError(
            f"unknown GPU architecture `{arch}`",
            why="it is not one that Weft generates code for",
            help=f"use one of: {', '.join(KNOWN)}",
        )
    return KNOWN[arch]
