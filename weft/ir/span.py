"""Where in a user's source a node came from."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Source:
    """A text that programs are read from: a file, a string given to ``define``, a Python file."""

    name: str
    text: str = field(repr=False)

    def line(self, number: int) -> str:
        """Line ``number`` (1-based), or an empty string past the end."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source on one line; columns are 1-based and ``end`` is exclusive."""

    source: Source
    line: int
    column: int
    end: int

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}"
