"""`k.tune(...)`: versions of a user's kernel on a GPU, compared with the original's results, timed in turns, kept."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.from_cuda.coarsen import Version, check_version
from weft.from_cuda.launch import Dim3
from weft.from_cuda.unit import Node, Unit
from weft.ir.errors import Error
from weft.ir.numpy_dtypes import to_numpy
from weft.runtime.argument import ArgumentInfo
from weft.runtime.cuda_driver import ask
from weft.runtime.store import Artifact, default_store

#: Every version is timed so many times, in turns; a launch shorter than the clock's steps is repeated.
_ROUNDS, _SECONDS = 9, 2e-3
#: What a version must win to be taken: less is noise.
_WINS = 1.02
ORIGINAL = Version()
VERSIONS = (
    ORIGINAL, Version(restrict=True),
    *(Version(blocks=b, restrict=r) for b in (2, 4, 8) for r in (False, True)),
    *(Version(threads=t, restrict=r) for t in (2, 4) for r in (False, True)),
)  # fmt: skip

Array = npt.NDArray[Any]
#: Launches a version on arguments; nothing waits for it.
Run = Callable[[Version, Sequence[bytes]], None]


@dataclass(slots=True)
class Tuned:
    """What tuning showed: seconds of each version that is the same kernel, and why others are not tried."""

    name: str
    best: Version = ORIGINAL
    seconds: dict[Version, float] = field(default_factory=dict)
    refused: dict[Version, str] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        return self.seconds[ORIGINAL] / self.seconds[self.best]

    def __str__(self) -> str:
        rows = [f"`{self.name}`: {self.best} is taken, {self.speedup:.2f} times as fast as written"]
        for version, seconds in sorted(self.seconds.items(), key=lambda item: item[1]):
            rows.append(f"  {1e6 * seconds:10.2f} us  {version}")
        rows += [f"  {'not tried':>13}  {version}: {why}" for version, why in self.refused.items()]
        return "\n".join(rows)


def legal_versions(
    unit: Unit, function: Node, grid: Dim3, block: Dim3, *, overlap: bool
) -> Iterator[tuple[Version, str]]:
    """All versions, each with why it is not tried for such launches, or nothing."""
    for version in VERSIONS:
        reasons = check_version(unit, function, version)
        if version.blocks > grid[0]:
            reasons.append(f"a launch has {grid[0]} blocks")
        if block[0] % version.threads or block[0] // version.threads * block[1] * block[2] < 32:
            reasons.append(f"a block has {block[0]} threads in a row")
        if version.restrict and overlap:
            reasons.append("arguments overlap")
        yield version, "; ".join(dict.fromkeys(reasons))


def tune(
    name: str,
    versions: Sequence[tuple[Version, str]],
    arrays: Sequence[ArgumentInfo],
    raw: Sequence[bytes],
    pointers: Sequence[tuple[int, int]],
    run: Run,
) -> Tuned:
    """Times the versions that may be tried on copies of the arrays, each only if it computes what the original does."""
    report = Tuned(name, refused={v: why for v, why in versions if why})
    with _Copies(arrays, raw, pointers) as copies:
        right = None
        tried = []
        for version in (v for v, why in versions if not why):
            copies.restore()
            try:
                run(version, copies.raw)
                ask("cuCtxSynchronize")
            except Error as error:
                if version == ORIGINAL:
                    raise
                report.refused[version] = str(error).splitlines()[0]
                continue
            results = copies.read()
            right = results if right is None else right
            if _is_same(right, results):
                tried.append(version)
            else:
                report.refused[version] = "its results differ from the original's"
        report.seconds = _time(tried, lambda version: run(version, copies.raw))
    fastest = min(report.seconds, key=lambda v: report.seconds[v])
    if report.seconds[ORIGINAL] > _WINS * report.seconds[fastest]:
        report.best = fastest
    return report


def keep_choice(key: str, best: Version) -> None:
    default_store().put(key, Artifact({"kind": "cuda tune", "version": [best.blocks, best.threads, best.restrict]}, {}))


def kept_choice(key: str) -> Version:
    """What was chosen before, or the original."""
    kept = default_store().get(key)
    return ORIGINAL if kept is None else Version(*kept.metadata["version"])


def _is_same(right: Sequence[Array], results: Sequence[Array]) -> bool:
    """Equal, or as near as sums by atomics in another order are."""
    for a, b in zip(right, results):
        if np.array_equal(a.view(np.uint8), b.view(np.uint8)):
            continue
        if a.dtype.kind in "iub":
            return False
        if not np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-4, atol=1e-5, equal_nan=True):
            return False
    return True


def _time(versions: Sequence[Version], run: Callable[[Version], None]) -> dict[Version, float]:
    """Median seconds of a launch, all versions in turns."""
    counts: dict[Version, int] = {}
    for version in versions:
        once = _seconds(lambda: run(version), 3)  # noqa: B023
        counts[version] = max(3, min(1000, int(_SECONDS / max(once, 1e-7))))
    samples: dict[Version, list[float]] = {v: [] for v in versions}
    for _ in range(_ROUNDS):
        for version in versions:
            samples[version].append(_seconds(lambda: run(version), counts[version]))  # noqa: B023
    return {v: statistics.median(s) for v, s in samples.items()}


def _seconds(launch: Callable[[], None], count: int) -> float:
    begin, end = (ask("cuEventCreate", 0) for _ in range(2))
    try:
        ask("cuEventRecord", begin, 0)
        for _ in range(count):
            launch()
        ask("cuEventRecord", end, 0)
        ask("cuEventSynchronize", end)
        return float(ask("cuEventElapsedTime", begin, end)) / 1e3 / count
    finally:
        ask("cuEventDestroy", begin)
        ask("cuEventDestroy", end)


class _Copies:
    """Copies of a launch's arrays: one to work on, one to begin again from; arguments that point to the former."""

    def __init__(
        self, arrays: Sequence[ArgumentInfo], raw: Sequence[bytes], pointers: Sequence[tuple[int, int]]
    ) -> None:
        self.arrays = arrays
        self.extents = [a.extent for a in arrays]
        self._memory: list[tuple[int, int]] = []
        self._given, self._pointers = raw, pointers
        self.raw: list[bytes] = []

    def __enter__(self) -> _Copies:
        ask("cuCtxSynchronize")
        for low, high in self.extents:
            pair = tuple(int(ask("cuMemAlloc", max(high - low, 1))) for _ in range(2))
            self._memory.append((pair[0], pair[1]))
            if high > low:
                ask("cuMemcpyDtoD", pair[1], low, high - low)
        self.raw = [self._moved(number, value) for number, value in enumerate(self._given)]
        return self

    def __exit__(self, *_: object) -> None:
        for pair in self._memory:
            for at in pair:
                ask("cuMemFree", at)

    def _moved(self, number: int, value: bytes) -> bytes:
        """An argument whose pointers lead to the copies."""
        made = bytearray(value)
        for _, offset in (p for p in self._pointers if p[0] == number):
            pointer = int.from_bytes(made[offset : offset + 8], "little")
            for (low, high), (work, _) in zip(self.extents, self._memory):
                if low <= pointer < max(high, low + 1):
                    made[offset : offset + 8] = (work + pointer - low).to_bytes(8, "little")
                    break
        return bytes(made)

    def restore(self) -> None:
        for (low, high), (work, kept) in zip(self.extents, self._memory):
            if high > low:
                ask("cuMemcpyDtoD", work, kept, high - low)

    def read(self) -> list[Array]:
        found = []
        for array, (low, high), (work, _) in zip(self.arrays, self.extents, self._memory):
            host = np.empty(high - low, np.uint8)
            if high > low:
                ask("cuMemcpyDtoH", host.ctypes.data, work, high - low)
            found.append(host.view(to_numpy(array.dtype)))
        return found
