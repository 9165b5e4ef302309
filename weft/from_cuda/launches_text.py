"""Launches as they are written: nvcc takes spaces between their brackets, clang does not."""

from __future__ import annotations

import re

from weft.from_cuda.ptx_text import translate_ptx
from weft.from_cuda.tiles_text import name_int_tiles

_SPACED = re.compile(r"(?<!operator)<<([ \t\n]*)<(?!<)((?:[^;<>]|->|(?<=[^<>])[<>](?=[^<>]))*?)>>([ \t\n]*)>(?=\s*\()")


def as_clang_reads(text: str) -> str:
    """A source as nvcc takes it, for clang and a CPU: launches' brackets joined, int tiles named, common PTX as C++."""
    return translate_ptx(name_int_tiles(join_brackets(text)))


def join_brackets(text: str) -> str:
    """``text`` with the brackets of launches joined, as nvcc takes them; lines keep their numbers."""
    return _SPACED.sub(r"<<<\1\2>>>\3", text)
