"""Buffers that a part of a program only updates, so that the updates may be made in a copy and added in the end."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.stmt import Seq, Stmt
from weft.ir.visit import mentions, rewrite


def is_used_besides(s: Stmt, name: str, updates: Sequence[Stmt]) -> bool:
    """Whether ``s`` reads, writes or hands out the buffer ``name`` in other statements than ``updates``."""
    rest = mentions(rewrite(s, lambda n: Seq(()) if any(n is update for update in updates) else None))
    return name in rest.loaded | rest.stored | rest.reached
