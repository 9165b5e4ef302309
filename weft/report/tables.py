"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of equally many texts as lines, their columns below each other."""
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  " + "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]


def format_size(count: int) -> str:
    """Bytes of a memory; nothing where there is none."""
    return f"{count >> 10} KiB" if 0 < count < 1 << 20 else f"{count >> 20} MiB" if count else ""
