"""Whether two runs computed the same: numbers in texts, and bytes that came back from a device."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)")


def numbers_of(text: str) -> np.ndarray:
    return np.array([float(n) for n in _NUMBER.findall(text)])


def differ(first: np.ndarray, second: np.ndarray, tolerance: float) -> str | None:
    """What is different, or None; ``tolerance`` is relative to the larger of two numbers and to the typical one."""
    if first.shape != second.shape:
        return f"{first.size} and {second.size} numbers"
    if first.size == 0:
        return "no numbers"
    with np.errstate(all="ignore"):
        typical = np.nanmean(np.abs(first[np.isfinite(first)])) if np.isfinite(first).any() else 0.0
        apart = np.abs(first - second) > tolerance * (np.maximum(np.abs(first), np.abs(second)) + 0.1 * typical)
    apart |= np.isnan(first) != np.isnan(second)
    if not apart.any():
        return None
    at = int(np.argmax(apart))
    return f"{int(apart.sum())} of {first.size} numbers, the first {first[at]:.7g} and {second[at]:.7g}"


def differ_in_bytes(first: Path, second: Path, tolerance: float) -> str | None:
    """Copies from a device: words that are the same, or close as floats of 32 or 64 bits."""
    one, two = first.read_bytes(), second.read_bytes()
    if len(one) != len(two):
        return f"{len(one)} and {len(two)} bytes came back"
    if one == two:
        return None
    size = len(one) // 8 * 8
    told: str | None = "a few bytes"
    for kind in (np.float32, np.float64) if size else ():
        with np.errstate(all="ignore"):  # words that are no floats
            both = [np.frombuffer(data[:size], kind).astype(float) for data in (one, two)]
        told = differ(both[0], both[1], tolerance)
        if told is None:
            return None
    return told
