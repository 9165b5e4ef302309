"""References of ours for programs that have no OpenMP version, or one that tells no results."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from bench.rodinia.build import Outcome
from bench.rodinia.compare import differ, numbers_of

#: What is different, or None; from the folder of inputs and what a run gave.
Reference = Callable[[Path, Outcome], str | None]


def _floats(outcome: Outcome) -> np.ndarray:
    return np.fromfile(outcome.copies, np.float32).astype(float)


def _gaussian(_: Path, outcome: Outcome) -> str | None:
    """The triangle and right-hand side that came back solve the system that the program makes."""
    n = 256
    values = _floats(outcome)
    triangle, right = values[n * n : 2 * n * n].reshape(n, n), values[2 * n * n :]
    matrix = 10 * np.exp(-0.01 * np.abs(np.subtract.outer(np.arange(n), np.arange(n))))
    return differ(np.ones(n), matrix @ np.linalg.solve(np.triu(triangle), right), 1e-3)


def _nearest(data: Path, outcome: Outcome) -> str | None:
    """Distances to the nearest records; the program takes five characters for each coordinate."""
    places = [
        (float(line[28:33]), float(line[33:38]))
        for name in (data / "nn" / "filelist").read_text().split()
        for line in Path(name).read_text().splitlines()
    ]
    away = np.sort(np.hypot(*(np.array(places) - (30, 90)).T))[:5]
    found = np.array([float(line.rpartition("=")[2]) for line in outcome.results.splitlines()])
    return differ(away, found, 1e-4)


def _clusters(data: Path, outcome: Outcome) -> str | None:
    """Every centre is the mean of the points that are nearest to it, to the digits that are printed."""
    points = np.loadtxt(data / "kmeans" / "points")[:, 1:]
    centres = np.array([numbers_of(row.partition(":")[2]) for row in outcome.results.splitlines()])
    nearest = np.argmin(((points[:, None] - centres) ** 2).sum(-1), 1)
    means = np.array([points[nearest == k].mean(0) for k in range(len(centres))])
    return differ(means, centres, 2e-2)


def _training(_: Path, outcome: Outcome) -> str | None:
    """One step of a network whose weights and inputs are the C library's random numbers."""
    n, hidden = 65536, 16
    c = ctypes.CDLL(None)
    c.srand(7)
    drawn = np.array([c.rand() / 0x7FFFFFFF for _ in range((n + 1) * 17 + 17 * 2 + n)], np.float32).astype(float)
    weights, rest = drawn[: (n + 1) * 17].reshape(n + 1, 17), drawn[(n + 1) * 17 :]
    to_output, target, inputs = rest[:34].reshape(17, 2)[:, 1], 0.1, rest[34:]
    sums = (weights[1:, 1:] * inputs[:, None]).sum(0)
    values = _floats(outcome)
    told = differ(sums, values[:n].reshape(-1, hidden).sum(0), 1e-4)
    with np.errstate(over="ignore"):
        units = np.r_[1, 1 / (1 + np.exp(-(sums + weights[0, 1:])))]
    output = 1 / (1 + np.exp(-(to_output * units).sum()))
    delta = units[1:] * (1 - units[1:]) * output * (1 - output) * (target - output) * to_output[1:]
    weights[:, 1:] += 0.3 * delta * np.r_[1, inputs][:, None]
    return told or differ(weights.ravel(), values[n + n + 1 :], 1e-4)


def _lifted(x: np.ndarray) -> np.ndarray:
    """The 5/3 transform of rows: low half, then high half; quotients are cut off, as in C."""
    even, odd = x[:, ::2], x[:, 1::2]
    high = odd - np.trunc((even + np.c_[even[:, 1:], even[:, -1:]]) / 2).astype(int)
    low = even + np.trunc((np.c_[high[:, :1], high[:, :-1]] + high + 2) / 4).astype(int)
    return np.c_[low, high]


def _wavelets(data: Path, outcome: Outcome) -> str | None:
    """Three levels of each colour; which place a coefficient has is the program's own affair, so they are sorted."""
    image = np.frombuffer((data / "dwt2d" / "image.bmp").read_bytes()[: 256 * 256 * 3], np.uint8)
    found = np.fromfile(outcome.copies, np.int32).reshape(3, -1)
    expected = []
    for colour in image.reshape(256, 256, 3).transpose(2, 0, 1).astype(int) - 128:
        bands = colour.copy()
        for side in (256, 128, 64):
            bands[:side, :side] = _lifted(_lifted(bands[:side, :side].T).T)
        expected.append(np.sort(bands.ravel()))
    return differ(np.ravel(expected).astype(float), np.sort(found, 1).ravel().astype(float), 0.0)


REFERENCES: Mapping[str, Reference] = {
    "backprop": _training, "dwt2d": _wavelets, "gaussian": _gaussian, "kmeans": _clusters, "nn": _nearest,
}  # fmt: skip
