"""What was found, and how it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from weft.ir.errors import ProgramError, render_span
from weft.ir.span import Span

Kind = Literal[
    "race", "out of bounds", "uninitialized", "divergent barrier", "failed assert", "endless loop",
    # of whole programs only
    "use after free", "misaligned", "leak", "API misuse", "crash",
]  # fmt: skip
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Party:
    """Who did what where: ``iteration`` names block and thread indices."""

    action: str
    iteration: str
    span: Span | None = None

    def lines(self) -> list[str]:
        who = f"({self.iteration})" if self.iteration else "the only thread"
        return [*(render_span(self.span) if self.span else []), f"    {who} {self.action}"]


@dataclass(slots=True)
class Finding:
    """One fault: ``count`` says how many threads or pairs of threads show it, those named are the first."""

    kind: Kind
    what: str
    parties: tuple[Party, ...]
    help: str | None = None
    count: int = 1

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.what}"]
        for party in self.parties:
            lines += party.lines()
        if self.count > 1:
            lines.append(f"    and {self.count - 1} more like it")
        if self.help:
            lines.append(f"  help:  {self.help}")
        return "\n".join(lines)


@dataclass(slots=True)
class Report:
    """What a run under watch showed. ``outputs`` are the arrays it computed; those passed in are unchanged.

    >>> report = weft.sanitize(kernel, a, b)
    >>> if not report.ok:
    ...     print(report)
    """

    name: str
    threads: int
    findings: list[Finding] = field(default_factory=list)
    outputs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        return not self.findings

    def __str__(self) -> str:
        ran = f"`{self.name}`: {self.threads:,} thread{'s' * (self.threads != 1)} ran"
        if self.ok:
            return f"{ran}, nothing found"
        count = len(self.findings)
        shown = [str(f) for f in self.findings[:_SHOWN]]
        more = [f"... and {count - _SHOWN} more"] if count > _SHOWN else []
        return "\n\n".join([f"{ran}, {count} finding{'s' * (count != 1)}", *shown, *more])

    def check(self) -> None:
        """Raises where something was found."""
        if not self.ok:
            raise ProgramError(f"`{self.name}` is not correct", notes=[("found", str(f)) for f in self.findings])
