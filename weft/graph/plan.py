"""What was decided about a graph, kept on disk: a second process makes the constants, loads code, and runs.

A plan is a compiled graph without values and machine code: the graph as rewrites left it, which fragments its constants
are made by, where tensors are, and the groups. The values are those of the process that loads it.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.graph.compiled import Compiled
from weft.graph.constants import Constants, constants_among, packing_order, run_library, spent_after
from weft.graph.evaluate import as_numpy
from weft.graph.graph import Graph, Node, Opaque, dense_strides
from weft.graph.groups.compile_group import Kernel, prepare_group
from weft.graph.groups.group_code import GroupCode
from weft.graph.groups.group_program import GroupProgram
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.groups.partition import Group
from weft.graph.groups.storage import Storage
from weft.graph.report import Report
from weft.graph.rewrites.fold_constants import ConstantMaker
from weft.graph.run.arrays import Arrays
from weft.runtime.arrays import describe
from weft.runtime.paged_file import page_out
from weft.runtime.store import Artifact, default_store


@dataclass(frozen=True)
class _Step:
    """A kernel to be: its group, and by which plan of schedules."""

    group: Group
    program: GroupProgram
    plan: str


@dataclass(frozen=True)
class Plan:
    """``constants`` of ``graph`` have no values; those among ``given`` are tensors of the front end, by number, the
    others are ``made`` by fragments and calls, one after another, or ``copies`` of others. ``observed`` are digests of
    those whose values the graph was made by."""

    graph: Graph
    given: Mapping[str, int]
    made: tuple[Node, ...]
    copies: Mapping[str, str]
    storage: Storage
    steps: tuple[_Step | Opaque, ...]
    report: Report
    observed: Mapping[int, str]

    def load(self, tensors: Sequence[Any], arrays: Arrays, sizes: OpenSizes) -> Compiled | None:
        """The same with values; None where they are not as it was made for."""
        if any(_digest(tensors[n]) != kept for n, kept in self.observed.items()):
            return None
        known = {name: tensors[n] for name, n in self.given.items()}
        values = ConstantMaker(known, self._makers, functools.partial(run_library, arrays), arrays.own, sizes.values)
        self._constants.make = functools.partial(self._value, values, arrays)
        steps = self._load_steps(values, arrays, sizes)
        self.report.groups = [(s.group, k) for s, k in zip(self.steps, steps) if isinstance(k, Kernel)]  # type: ignore[union-attr]
        executable = arrays.processor.executable(self.graph, self.storage, steps, arrays)
        executable.arenas = sizes.arenas
        return Compiled(executable, self.report, self.made, self.copies)

    @property
    def _constants(self) -> Constants:
        """Which all of the plan shares."""
        assert isinstance(self.graph.constants, Constants)
        return self.graph.constants

    @functools.cached_property
    def _makers(self) -> dict[str, Node]:
        return {name: node for node in self.made for name in node.outputs if name}

    def _load_steps(self, values: ConstantMaker, arrays: Arrays, sizes: OpenSizes) -> list[Kernel | Opaque]:
        """Those of large constants first; one goes once the last kernel that reads it has packed what it needs."""
        code = GroupCode(arrays.processor, self.graph.name, sizes)
        loaded: dict[int, Kernel | Opaque] = {}
        needed = [self._with_sources(self._read_by(step)) for step in self.steps]
        order = packing_order(needed, self.graph.edges)
        try:
            for place, spent in zip(order, spent_after([needed[place] for place in order])):
                step = self.steps[place]
                kept = {name: self._constants[name] for name in self._read_by(step)}
                page_out()  # what these were computed of
                made = step if isinstance(step, Opaque) else code.load(self._prepared(step, arrays, sizes))
                read = kept if isinstance(made, Opaque) else map(self.storage.constant, made.tensors)
                values.forget(spent)
                self._constants.forget(spent.difference(read))
                page_out()
                loaded[place] = made
        finally:
            code.close()
        return [loaded[place] for place in range(len(self.steps))]

    def _read_by(self, step: _Step | Opaque) -> set[str]:
        names = step.inputs if isinstance(step, Opaque) else step.program.inputs
        return constants_among(names, self.storage, self._constants)

    def _with_sources(self, names: Iterable[str]) -> set[str]:
        """Constants with all that they are made of."""
        found: set[str] = set()
        todo = list(names)
        while todo:
            name = todo.pop()
            if name not in found:
                found.add(name)
                todo += [self.copies[name]] if name in self.copies else []
                todo += self._makers[name].inputs if name in self._makers else ()
        return found

    def _value(self, values: ConstantMaker, arrays: Arrays, name: str) -> Any:
        made = values.find(name) if name not in self.copies else self._copy(values, arrays, name)
        if not _is_like(self.graph, name, made):
            raise TypeError(name)  # which makes this no plan for these tensors
        return made

    def _copy(self, values: ConstantMaker, arrays: Arrays, name: str) -> Any:
        edge = self.graph.edges[name]
        made = arrays.empty(edge, edge.strides or dense_strides(edge.shape))
        arrays.copy(made, self._value(values, arrays, self.copies[name]))
        return made

    def _prepared(self, step: _Step, arrays: Arrays, sizes: OpenSizes) -> Any:
        prepared = sizes.opened(step.group, prepare_group(self.graph, self.storage, step.program, arrays))
        return prepared.by_plan(step.plan) if step.plan else prepared


def _is_like(graph: Graph, name: str, value: Any) -> bool:
    if name not in graph.edges:  # packed for a library, which alone can read it
        return True
    edge, info = graph.edges[name], describe(value)
    return (info.dtype, info.shape) == (edge.dtype, edge.shape) and edge.strides in (None, info.strides)


def _digest(values: Any) -> str:
    return hashlib.sha256(as_numpy(values).tobytes()).hexdigest()


def save_plan(key: str, compiled: Compiled, given: Mapping[str, int], observed: Mapping[int, Any]) -> None:
    """Keeps what ``compiled`` is under ``key``; ``given`` are the front end's tensors by the names of constants,
    ``observed`` those whose values were looked at."""
    plan = _plan(compiled, given, {n: _digest(values) for n, values in observed.items()})
    if plan is not None:
        default_store().put(key, Artifact({}, {"plan": pickle.dumps(plan, pickle.HIGHEST_PROTOCOL)}))


def _plan(compiled: Compiled, given: Mapping[str, int], observed: Mapping[int, str]) -> Plan | None:
    """None where some constant is made otherwise, and where code is for other sizes too."""
    executable = compiled.executable
    names = {*given, *compiled.copies, *(name for node in compiled.made for name in node.outputs)}
    kernels = [s for s in executable.steps if isinstance(s, Kernel)]
    constants = Constants(executable.graph.constants)
    if not names.issuperset(constants) or any(k.is_open for k in kernels):
        return None
    graph = replace(executable.graph, constants=constants)
    groups = {id(kernel): group for group, kernel in compiled.report.groups}
    steps = [s if isinstance(s, Opaque) else _Step(groups[id(s)], s.program, s.plan) for s in executable.steps]
    report = replace(compiled.report, groups=[], measured={}, spent={})
    storage = executable.storage.over(graph)
    return Plan(graph, dict(given), compiled.made, compiled.copies, storage, tuple(steps), report, observed)


def load_plan(key: str, tensors: Sequence[Any], arrays: Arrays, sizes: OpenSizes) -> Compiled | None:
    """What was kept under ``key``, with these tensors of the front end; None where there is none that works here."""
    kept = default_store().get(key)
    if kept is None:
        return None
    try:
        plan: Plan = pickle.loads(kept.blobs["plan"])
        return plan.load(tensors, arrays, sizes)
    except Exception:  # whatever there is under our key, the model is compiled anew
        default_store().remove(key)
        return None
