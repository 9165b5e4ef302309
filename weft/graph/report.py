"""What compiling a graph did, for `explain`, `profile` and plans on disk."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from weft.graph.graph import Opaque
from weft.graph.groups.choose import Choice
from weft.graph.groups.compile_group import Kernel
from weft.graph.groups.partition import Group
from weft.tensor.program import TensorProgram


@dataclass
class Report:
    """What became of a graph, for `explain`."""

    groups: list[tuple[Group, Kernel]] = field(default_factory=list)
    calls: list[Opaque] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    choices: dict[TensorProgram, Choice] = field(default_factory=dict)
    #: nodes of the graph as the front end made it, views apart
    operators: int = 0
    #: seconds of steps by their ids, where `weft.profile` has measured them
    measured: dict[int, float] = field(default_factory=dict)
    #: errors of Weft itself that compiling found another way around
    faults: list[str] = field(default_factory=list)
    #: seconds of compiling by what they were spent on; tracing is the front end's
    spent: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def spending(self, on: str) -> Iterator[None]:
        """Counts what is done inside, but for what is counted there for itself."""
        before, start = sum(self.spent.values()), time.perf_counter()
        try:
            yield
        finally:
            counted = sum(self.spent.values()) - before
            self.spent[on] = self.spent.get(on, 0.0) + time.perf_counter() - start - counted
