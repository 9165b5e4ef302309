"""From a graph to something one can run: constants, groups, kernels, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.graph.arrays import Arrays, NumpyArrays
from weft.graph.compile_group import Kernel, Prepared, compile_prepared, prepare_group
from weft.graph.executable import Executable, Step
from weft.graph.graph import Call, Fragment, Graph, Opaque
from weft.graph.group_program import group_program
from weft.graph.partition import Group
from weft.graph.storage import Storage
from weft.ir.errors import Error


@dataclass
class Report:
    """What became of a graph, for `explain`."""

    groups: list[tuple[Group, Kernel]] = field(default_factory=list)
    calls: list[Opaque] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Compiled:
    executable: Executable
    report: Report


def compile_graph(graph: Graph, arrays: Arrays | None = None) -> Compiled:
    """``graph`` for arrays of the framework that ``arrays`` speaks for, numpy unless said."""
    return _Compilation(graph, arrays or NumpyArrays()).compile()


class _Compilation:
    def __init__(self, graph: Graph, arrays: Arrays) -> None:
        self.graph, self.arrays = graph, arrays
        self.report = Report()

    def compile(self) -> Compiled:
        storage = Storage(self.graph)
        steps: list[Step] = []
        for item in storage.partition.items:
            if isinstance(item, Opaque):
                self.report.calls.append(item)
                steps.append(item)
            else:
                steps += self._compile_group(storage, item)
        return Compiled(Executable(self.graph, storage, steps, self.arrays), self.report)

    def _compile_group(self, storage: Storage, group: Group) -> list[Step]:
        outputs = storage.outputs(group)
        if not outputs:
            return []
        kernel = compile_prepared(self._prepare(storage, group.members, outputs, group.name))
        self.report.groups.append((group, kernel))
        return [kernel]

    def _prepare(self, storage: Storage, members: list[Fragment], outputs: list[str], name: str) -> Prepared:
        program = group_program(self.graph, members, outputs, storage.root, name)
        return prepare_group(self.graph, storage, program, self.arrays)


__all__ = ["Compiled", "Report", "compile_graph", "Call", "Callable", "Error"]
