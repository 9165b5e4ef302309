"""Room for functions of Python that call one another deeply: as if whoever called us stood at the top of a program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

#: Kernels of a thousand statements nest as deeply, since a variable is bound for all that follows it.
_FRAMES = 20_000
#: The limits asked for by those who are inside now, in any thread, and what was the limit before them.
_asked: list[int] = []
_usual = [sys.getrecursionlimit()]


@contextmanager
def deep_recursion(frames: int = _FRAMES) -> Iterator[None]:
    """Lets functions of Python call one another more deeply than usual."""
    if not _asked:
        _usual[0] = sys.getrecursionlimit()
    _asked.append(frames)
    sys.setrecursionlimit(max(_usual[0], *_asked))
    try:
        yield
    finally:
        _asked.remove(frames)
        sys.setrecursionlimit(max(_usual[0], *_asked) if _asked else _usual[0])


@contextmanager
def usual_recursion() -> Iterator[None]:
    """As many calls in one another as at the top of a program, however deep the caller stands."""
    depth, frame = 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    with deep_recursion((sys.getrecursionlimit() if not _asked else _usual[0]) + depth):
        yield
