"""Kernels of a thousand statements nest as deeply, since a variable is bound for all that follows it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_FRAMES = 20_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Lets functions of Python call one another more deeply than usual."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
