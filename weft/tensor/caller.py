"""The place in a user's Python file that a program being written came from."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from functools import lru_cache
from itertools import islice
from types import FrameType

from weft.ir.span import Source, Span

#: This package, and what runs the end of a ``with`` of ours.
_OURS = (os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep, contextlib.__file__)


def caller_span() -> Span | None:
    """The expression outside this package that is being evaluated (its line, before Python 3.11)."""
    frame = caller_frame()
    if frame is None:
        return None
    source = _source(frame.f_code.co_filename)
    text = source.line(frame.f_lineno)
    start, end = _columns(frame, text)
    return Span(source, frame.f_lineno, start, end)


def caller_frame() -> FrameType | None:
    """The innermost frame outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return frame


def _columns(frame: FrameType, text: str) -> tuple[int, int]:
    line = frame.f_lineno
    positions = getattr(frame.f_code, "co_positions", None)
    if positions is not None:
        found = next(islice(positions(), frame.f_lasti // 2, None), (None, None, None, None))
        first, last, start, end = found
        if first == last == line and start is not None and end is not None:
            # Python counts bytes; carets are drawn under characters.
            encoded = text.encode()
            return len(encoded[:start].decode(errors="ignore")) + 1, len(encoded[:end].decode(errors="ignore")) + 1
    return len(text) - len(text.lstrip()) + 1, len(text.rstrip()) + 1


@lru_cache(maxsize=64)
def _read(path: str, size: int) -> Source:
    return Source(os.path.basename(path), "".join(linecache.getlines(path)))


def _source(path: str) -> Source:
    # Keyed by length too: a notebook cell may be replaced under one name.
    return _read(path, len(linecache.getlines(path)))
