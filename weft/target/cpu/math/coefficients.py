"""Polynomial coefficients: numbers that bench/fit_polynomials.py finds and writes to coefficients.txt."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def _table() -> dict[str, tuple[float, ...]]:
    """All of them: a line that is not indented names those below it, and tells the error."""
    rows: dict[str, tuple[float, ...]] = {}
    name = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            rows[name] += tuple(map(float, line.split()))
        elif not line.startswith("#"):
            name = line.split()[0]
            rows[name] = ()
    return rows


def fitted(name: str) -> tuple[float, ...]:
    """The coefficients called ``name``, constant term first."""
    return _table()[name]
