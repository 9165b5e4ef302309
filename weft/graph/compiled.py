"""What becomes of a graph: something that runs, and what is to be told of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.graph.graph import Node
from weft.graph.report import Report
from weft.graph.run.executable import Executable


@dataclass(frozen=True)
class Compiled:
    executable: Executable
    report: Report
    #: fragments and calls that constants were made by, one after another
    made: tuple[Node, ...] = ()
    #: constants that are others in another layout or type, by name
    copies: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether some code is for many sizes."""
        return any(kernel.is_open for _, kernel in self.report.groups)
