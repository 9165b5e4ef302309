"""From a graph to something one can run: constants, groups, kernels, memory.

A group whose program no schedule or code generator takes is taken apart, and a fragment that even alone is refused
becomes a call of the framework: the partition learns from what was refused.
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from weft.graph.arrays import Arrays, NumpyArrays, resolve
from weft.graph.choose import Choice
from weft.graph.choose_layouts import call_reordered
from weft.graph.compile_group import Kernel, Prepared, prepare_group
from weft.graph.executable import Executable, Step
from weft.graph.fold_constants import fold_constants
from weft.graph.fold_scales import fold_scales
from weft.graph.graph import Fragment, Graph, Node, Opaque
from weft.graph.group_code import REFUSALS, GroupCode
from weft.graph.group_program import group_program
from weft.graph.mapping import kind_of
from weft.graph.move_reshapes import move_reshapes
from weft.graph.partition import Group
from weft.graph.storage import Storage
from weft.ir.errors import Error, InternalError
from weft.ir.numerics import is_fast
from weft.runtime.store import Artifact, default_store
from weft.tensor.program import TensorProgram
from weft.version import cache_key


@dataclass
class Report:
    """What became of a graph, for `explain`."""

    groups: list[tuple[Group, Kernel]] = field(default_factory=list)
    calls: list[Opaque] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    choices: dict[TensorProgram, Choice] = field(default_factory=dict)


@dataclass(frozen=True)
class Compiled:
    executable: Executable
    report: Report


class _Refused(Exception):
    """A group that cannot be compiled, and why."""

    def __init__(self, group: Group, error: Exception) -> None:
        super().__init__(str(error))
        self.group, self.error = group, error


def compile_graph(graph: Graph, arrays: Arrays | None = None) -> Compiled:
    """``graph`` for arrays of the framework that ``arrays`` speaks for, numpy unless said."""
    return _Compilation(graph, arrays or NumpyArrays()).compile()


class _Compilation:
    def __init__(self, graph: Graph, arrays: Arrays) -> None:
        self.arrays, self.processor = arrays, arrays.processor
        self.graph = self._simplified(graph)
        self.report = Report()
        self.code = GroupCode(self.processor, graph.name)
        #: fragments that join no group, because a group with them was refused
        self.alone: frozenset[str] = frozenset()

    def _simplified(self, graph: Graph) -> Graph:
        graph = fold_constants(graph, self._run_library, self.arrays.own)
        if is_fast(graph.numerics):
            graph = fold_constants(fold_scales(graph), self._run_library, self.arrays.own)
        return self.processor.simplify(move_reshapes(graph))

    def compile(self) -> Compiled:
        self._choose_libraries()
        while True:
            try:
                return self._compile_all()
            except _Refused as refused:
                self._take_apart(refused)

    def _compile_all(self) -> Compiled:
        storage = Storage(self.graph, self.alone)
        self.report.groups, self.report.calls = [], []
        prepared = self._prepare_all(storage)
        self.code.prepare(p for p in prepared.values() if isinstance(p, Prepared))
        steps: list[Step] = []
        for item in storage.partition.items:
            if isinstance(item, Opaque):
                self.report.calls.append(item)
                steps.append(item)
            elif id(item) in prepared:
                kernel = self._load(item, prepared[id(item)])
                self.report.groups.append((item, kernel))
                steps.append(kernel)
        return Compiled(self.processor.executable(self.graph, storage, steps, self.arrays), self.report)

    def _load(self, group: Group, prepared: Prepared | Exception) -> Kernel:
        try:
            if isinstance(prepared, Exception):
                raise prepared
            return self.code.load(prepared)
        except REFUSALS as error:
            raise _Refused(group, error) from error

    def _prepare_all(self, storage: Storage) -> dict[int, Prepared | Exception]:
        """The groups whose results somebody reads, by their ids, or why there can be no code of one."""
        made: dict[int, Prepared | Exception] = {}
        for item in storage.partition.items:
            if isinstance(item, Group) and (outputs := storage.outputs(item)):
                try:
                    made[id(item)] = self._prepare(storage, item, outputs)
                except REFUSALS as error:
                    made[id(item)] = error
        return made

    def _prepare(self, storage: Storage, group: Group, outputs: list[str]) -> Prepared:
        program = group_program(self.graph, group.members, outputs, storage.root, group.name)
        return prepare_group(self.graph, storage, program, self.arrays)

    def _take_apart(self, refused: _Refused) -> None:
        members = refused.group.members
        why = refused.error.what if isinstance(refused.error, Error) else repr(refused.error)
        if len(members) > 1:
            self.report.notes.append(f"{refused.group.name} was taken apart: {why}")
            self.alone |= {m.name for m in members}
        elif members[0].library is not None:
            self.graph = _with_call(self.graph, members[0], f"no schedule: {why}")
        else:
            raise refused.error

    def _run_library(self, node: Fragment, values: dict[str, Any]) -> tuple[Any, ...] | None:
        """The framework's own result for a fragment of constants."""
        if node.library is None or any(name not in values for name in node.library.refs()):
            return None
        args = [resolve(a, self.arrays, values.__getitem__) for a in node.library.args]
        named = {key: resolve(a, self.arrays, values.__getitem__) for key, a in node.library.named}
        made = self.arrays.function(node.library.target)(*args, **named)
        return tuple(made) if isinstance(made, (tuple, list)) else (made,)

    def _choose_libraries(self) -> None:
        """Products and convolutions that the library does faster become calls of it."""
        storage = Storage(self.graph)
        prepared = self._prepare_all(storage)
        if self.processor.measures_most:
            self.code.prepare(p for p in prepared.values() if isinstance(p, Prepared))
        known: dict[tuple[str, str], Choice] = {}
        for item in storage.partition.items:
            group, core = prepared.get(id(item)), _core(item)
            if core is None or not isinstance(item, Group) or not isinstance(group, Prepared):
                continue
            try:
                if group.key not in known:
                    known[group.key] = self._kept_choice(storage, item, core, group)
            except REFUSALS:
                continue  # compiling it will say what is wrong
            choice = self.report.choices[group.program.program] = known[group.key]
            if not choice.is_ours:
                self.graph = _with_call(self.graph, core, f"the library is faster: {choice}")

    def _kept_choice(self, storage: Storage, group: Group, core: Fragment, prepared: Prepared) -> Choice:
        """As this process or one before decided."""
        framework = type(self.arrays).__name__
        key = cache_key("choice", *prepared.key, framework, self.processor.key)
        store = default_store()
        kept = store.get(key)
        if kept is not None:
            with contextlib.suppress(TypeError):
                return Choice(**kept.metadata)
        made = self._choice(storage, group, core, prepared)
        store.put(key, Artifact(asdict(made)))
        return made

    def _choice(self, storage: Storage, group: Group, core: Fragment, prepared: Prepared) -> Choice:
        """By the time model where that is clear, else by measuring both."""
        is_alone = len(group.members) == 1
        processor = self.processor
        expected = Choice(self.code.expected(prepared), processor.library_seconds(core.program))
        if core.library is None or processor.is_clear(expected):
            return expected
        measured = processor.measure_kernel(self.graph, storage, self.code.load(prepared))
        rest = 0.0 if is_alone else processor.epilogue_seconds(core.program)
        theirs = processor.measure_call(self.graph, core.library, self.arrays) + rest
        return Choice(measured, theirs, "measured")


def _core(item: Group | Opaque) -> Fragment | None:
    """The one product or convolution of a group, if the library has it too."""
    if not isinstance(item, Group) or item.kind != "contraction":
        return None
    found = [m for m in item.members if kind_of(m.program) == "contraction"]
    is_single = len(found) == 1 and found[0].library is not None
    return found[0] if is_single else None


def _with_call(graph: Graph, fragment: Fragment, reason: str) -> Graph:
    """``graph`` with a call of the framework in place of ``fragment``."""
    if fragment.library is None:
        raise InternalError(f"`{fragment.name}` has no call to be replaced by")
    edges, calls = call_reordered(graph, fragment, reason)
    nodes: tuple[Node, ...] = tuple(m for n in graph.nodes for m in (calls if n is fragment else [n]))
    return replace(graph, edges={**graph.edges, **edges}, nodes=nodes)
