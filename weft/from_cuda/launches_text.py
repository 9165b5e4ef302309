"""Launches as they are written: nvcc takes spaces between their brackets, clang does not."""

from __future__ import annotations

import re

_SPACED = re.compile(r"(?<!operator)<<([ \t\n]*)<(?!<)((?:[^;<>]|->|(?<=[^<>])[<>](?=[^<>]))*?)>>([ \t\n]*)>(?=\s*\()")


def join_brackets(text: str) -> str:
    """``text`` with the brackets of launches joined, as nvcc takes them; lines keep their numbers."""
    return _SPACED.sub(r"<<<\1\2>>>\3", text)
