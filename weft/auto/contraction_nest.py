"""The loops of a contraction by the part they have in its nest."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Nest:
    """The loops of a contraction while it is scheduled, by the part they have; outermost first in each."""

    batch: list[str] = field(default_factory=list)
    panel: list[str] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    rows: list[str] = field(default_factory=list)
    reductions: list[str] = field(default_factory=list)
    unrolled: list[str] = field(default_factory=list)
    lanes: str = ""
    #: How often each loop runs, about.
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def outer(self) -> list[str]:
        """The loops around a tile of sums."""
        return [*self.batch, *self.panel, *self.pieces, *self.rows]

    @property
    def order(self) -> list[str]:
        return [*self.outer, *self.reductions, *self.unrolled, self.lanes]
