"""From a graph to something one can run: constants, groups, kernels, memory.

A group whose program no schedule or code generator takes is taken apart, and a fragment that even alone is refused
becomes a call of the framework: the partition learns from what was refused.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextvars import copy_context
from dataclasses import asdict, replace
from types import MappingProxyType

from weft.graph.compiled import Compiled
from weft.graph.constants import Constants, constants_among, packing_order, passing_constants, run_library, spent_after
from weft.graph.graph import Fragment, Graph, Node, Opaque
from weft.graph.groups.choose import Choice
from weft.graph.groups.choose_windows import WindowChooser
from weft.graph.groups.compile_group import Kernel, Prepared, is_streamed, prepare_group
from weft.graph.groups.group_code import GroupCode
from weft.graph.groups.group_program import group_program
from weft.graph.groups.layout import constant_of
from weft.graph.groups.mapping import kind_of
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.groups.partition import Group, WindowEdge
from weft.graph.groups.price_program import REMEMBER, RUN_ALL
from weft.graph.groups.progress import Progress
from weft.graph.groups.split_axes import split_axes
from weft.graph.groups.storage import Storage
from weft.graph.groups.take_turns import Sampler, take_turns
from weft.graph.report import Report
from weft.graph.rewrites.fold_constants import fold_constants, makers
from weft.graph.rewrites.library_epilogues import LibraryCall, epilogue_of, with_call, with_constants, without_unread
from weft.graph.rewrites.simplify import simplify, with_copied_parts
from weft.graph.run.arrays import Arrays, NumpyArrays
from weft.graph.run.segments import Step
from weft.ir.faults import collecting, refused
from weft.ir.numerics import is_fast
from weft.runtime.paged_file import page_out
from weft.runtime.store import Artifact, default_store
from weft.version import cache_key

#: A group, its one product or convolution that a library has too, and what its code depends on.
_Product = tuple[Group, Fragment, Prepared]


class _Refused(Exception):
    """A group that cannot be compiled, and why."""

    def __init__(self, group: Group, error: Exception) -> None:
        super().__init__(str(error))
        self.group, self.error = group, error


def compile_graph(graph: Graph, arrays: Arrays | None = None, sizes: OpenSizes | None = None) -> Compiled:
    """``graph`` for arrays of the framework that ``arrays`` speaks for, numpy unless said.

    ``sizes`` is what other graphs of the same model, for other sizes, were compiled with.
    """
    with collecting() as faults, Progress(f"weft: choosing kernels of {graph.name}"):
        compiled = _Compilation(graph, arrays or NumpyArrays(), sizes or OpenSizes()).compile()
        compiled.report.faults = faults
    return compiled


class _Compilation:
    def __init__(self, graph: Graph, arrays: Arrays, sizes: OpenSizes) -> None:
        self.arrays, self.processor, self.sizes = arrays, arrays.processor, sizes
        #: constants of the model, and the nodes that others are made of them by
        self.given, self.made = graph.constants, list[Node]()
        self.copies: dict[str, str] = {}
        sizes.begin([graph.edges[name].shape for name in graph.inputs])
        self.code = GroupCode(self.processor, graph.name, sizes)
        views = [n for n in graph.nodes if isinstance(n, Fragment) and kind_of(n.program) == "view"]
        self.report = Report(operators=len(graph.nodes) - len(views))
        context = copy_context()
        context.run(REMEMBER.set, sizes.price)
        context.run(RUN_ALL.set, self.code.run_all)
        try:
            with self.report.spending("rewrites"):
                self.graph = context.run(simplify, graph, arrays, self._fold)
            page_out()  # what constants were computed of
        except BaseException:
            self.code.close()
            raise
        #: fragments that join no group, because a group with them was refused
        self.alone: frozenset[str] = frozenset()
        #: windows that are read in the kernel that makes what they are of
        self.windows: frozenset[WindowEdge] = frozenset()
        self._decided: tuple[Graph, frozenset[str], Storage] | None = None
        #: other plans than the time model's first choice that a measurement found better, by the keys of groups
        self.plans: dict[tuple[str, str], str] = {}

    def _fold(self, graph: Graph) -> Graph:
        library = functools.partial(run_library, self.arrays)
        folded = fold_constants(graph, library, self.arrays.own, self.sizes.values)
        self.made += [node for node in makers(graph, folded.constants) if node not in self.made]
        return folded

    def compile(self) -> Compiled:
        try:
            if self.processor.joins_windows:
                self._join_windows()
            self._choose_libraries()
            self.graph = with_copied_parts(self.graph, self.arrays)
            while True:
                try:
                    return self._compile_all()
                except _Refused as found:
                    self._take_apart(found)
        finally:
            self.code.close()

    def _storage(self) -> Storage:
        """Of the graph as it is now; decided again only where something changed."""
        if self._decided is None or self._decided[0] is not self.graph or self._decided[1] != self.alone:
            self._decided = self.graph, self.alone, self._decide_storage(self.windows)
        return self._decided[2]

    def _decide_storage(self, windows: frozenset[WindowEdge]) -> Storage:
        return self._storage_of(self.graph, windows)

    def _storage_of(self, graph: Graph, windows: frozenset[WindowEdge]) -> Storage:
        processor = self.processor
        return Storage(graph, self.alone, processor.takes_pieces, windows, processor.writes_in_joins)

    def _join_windows(self) -> None:
        """Products and the windows that are read of their results become one kernel where that is faster."""

        def prepare(storage: Storage, group: Group) -> Prepared:
            return self._prepare(storage, group, storage.outputs(group))

        with self.report.spending("measuring"):
            chooser = WindowChooser(self._storage(), self._decide_storage, prepare, self.code)
            self.windows = chooser.choose()
        self._decided = None

    def _compile_all(self) -> Compiled:
        storage = self._storage()
        self.report.groups, self.report.calls = [], []
        prepared = self._prepare_all(storage)
        self._prepare_code(p for p in prepared.values() if isinstance(p, Prepared))
        storage, constants = self._with_passing_constants(storage)
        kernels = self._load_all(storage, prepared, constants)
        steps: list[Step] = []
        for item in storage.partition.items:
            if isinstance(item, Opaque):
                self.report.calls.append(item)
                steps.append(item)
            elif (kernel := kernels.get(id(item))) is not None:
                if (core := _core(item)) is not None and core.name in self.sizes.choices:
                    self.report.choices[kernel.program.program] = self.sizes.choices[core.name]
                self.report.groups.append((item, kernel))
                steps.append(kernel)
        executable = self.processor.executable(self.graph, storage, steps, self.arrays)
        executable.arenas = self.sizes.arenas
        return Compiled(executable, self.report, tuple(self.made), self.copies)

    def _load_all(
        self, storage: Storage, prepared: dict[int, Prepared | Exception], constants: Constants
    ) -> dict[int, Kernel]:
        """Kernels by the ids of their groups, those of large constants first; what no other reads goes at once."""
        items = storage.partition.items
        read = [self._constants_of(storage, item, prepared.get(id(item))) for item in items]
        order = packing_order(read, self.graph.edges)
        kernels: dict[int, Kernel] = {}
        for place, spent in zip(order, spent_after([*(read[place] for place in order), {*self.graph.results}])):
            item = items[place]
            if isinstance(item, Group) and id(item) in prepared:
                kernel = kernels[id(item)] = self._load(item, prepared.pop(id(item)))
                constants.forget(spent.difference(map(storage.constant, kernel.tensors)))
        return kernels

    def _with_passing_constants(self, storage: Storage) -> tuple[Storage, Constants]:
        constants = passing_constants(self.graph, self.given, self.made, self.arrays, self.sizes.values)
        self.graph = replace(self.graph, constants=constants)
        self._decided = self.graph, self.alone, storage.over(self.graph)
        return self._decided[2], constants

    def _constants_of(self, storage: Storage, item: Group | Opaque, prepared: Prepared | Exception | None) -> set[str]:
        if isinstance(prepared, Prepared):
            return constants_among(prepared.program.inputs, storage, self.graph.constants)
        return constants_among(item.inputs, storage, self.graph.constants) if isinstance(item, Opaque) else set()

    def _load(self, group: Group, prepared: Prepared | Exception) -> Kernel:
        try:
            if isinstance(prepared, Exception):
                raise prepared
            with self.report.spending("loading"):
                return self.code.load(prepared)
        except Exception as error:
            raise _Refused(group, error) from error

    def _prepare_all(self, storage: Storage) -> dict[int, Prepared | Exception]:
        """The groups whose results somebody reads, by their ids, or why there can be no code of one."""
        made: dict[int, Prepared | Exception] = {}
        for item in storage.partition.items:
            if isinstance(item, Group) and (outputs := storage.outputs(item)):
                try:
                    made[id(item)] = self._prepare(storage, item, outputs)
                except Exception as error:
                    made[id(item)] = error
        return made

    def _prepare_code(
        self,
        groups: Iterable[Prepared],
        limits: Mapping[tuple[str, str], float] = MappingProxyType({}),
        meanwhile: Sequence[Callable[[], object]] = (),
        each: Callable[[], object] | None = None,
    ) -> None:
        with self.report.spending("code"):
            self.code.prepare(groups, limits, meanwhile, each)

    def _prepare(self, storage: Storage, group: Group, outputs: list[str]) -> Prepared:
        prepared = self.sizes.opened(group, self._prepare_closed(storage, group, outputs))
        plan = self.plans.get(prepared.key)
        return prepared if plan is None else prepared.by_plan(plan)

    def _prepare_closed(self, storage: Storage, group: Group, outputs: list[str]) -> Prepared:
        """For the sizes at hand, by the usual plan."""
        program = group_program(storage.graph, group.members, outputs, storage.source, group.name)
        if group.has_windows:
            program = replace(program, program=split_axes(program.program))
        return prepare_group(storage.graph, storage, program, self.arrays)

    def _take_apart(self, found: _Refused) -> None:
        members, why = found.group.members, refused(found.error)
        if len(members) > 1:
            self.report.notes.append(f"{found.group.name} was taken apart: {why}")
            self.alone |= {m.name for m in members}
        elif members[0].library is not None:
            self.graph = with_call(self.graph, members, members[0].library, f"no schedule: {why}")
        else:
            raise found.error

    def _choose_libraries(self) -> None:
        """Products and convolutions that the library does faster become calls of it."""
        storage = self._storage()
        if self._choose_as_before(storage):
            return
        prepared = self._prepare_all(storage)
        if self.processor.measures_most:
            self._prepare_code(p for p in prepared.values() if isinstance(p, Prepared))
        both = [(i, c, p) for i in storage.partition.items if (c := _core(i)) and (p := prepared.get(id(i)))]
        groups = [(i, c, p) for i, c, p in both if isinstance(i, Group) and isinstance(p, Prepared)]
        known = {p.key: kept for _, _, p in groups if (kept := self._kept_choice(p)) is not None}
        missing = {p.key: (i, c, p) for i, c, p in groups if p.key not in known}
        candidates = {key: self.processor.candidates(p, c) for key, (_, c, p) in missing.items()}
        ways = [(way, c) for key, (_, c, _) in missing.items() for way in candidates[key]]
        cores = {id(p) for _, _, p in groups}
        rest = [p for p in prepared.values() if isinstance(p, Prepared) and id(p) not in cores]
        limits = {way.key: self.processor.too_slow(c.program) for way, c in ways if not self._is_streamed(c)}
        first = functools.partial(self._call_once, storage, [(i, c) for i, c, _ in missing.values()])
        beside = functools.partial(self._begin_beside, storage, groups, missing.values())
        left = dict(missing)

        def choose(is_last: bool = False) -> None:
            """Of those groups that have all their code by now, or of all."""
            for key in [key for key in left if is_last or all(map(self.code.is_ready, candidates[key]))]:
                try:
                    known[key] = self._choice(storage, *left.pop(key))
                except Exception as error:
                    refused(error)

        # All at once, so that no process waits; and what is compiled is measured while others still compile.
        self._prepare_code([*(way for way, _ in ways), *rest], limits, [first, beside], choose)
        choose(is_last=True)
        for item, core, group in groups:
            if group.key not in known:
                continue  # compiling it will say what is wrong
            choice = self.sizes.choices[core.name] = known[group.key]
            self.report.choices[group.program.program] = choice
            if not choice.is_ours:
                self._take_library(item, core, storage.outputs(item), choice)
            elif choice.plan:
                self.plans[group.key] = choice.plan
        self.graph = without_unread(self.graph)

    def _begin_beside(self, storage: Storage, groups: Sequence[_Product], missing: Iterable[_Product]) -> None:
        """Where a library takes a product and leaves the formulas behind it over, these go into other kernels. Those
        around products take longest to compile, and are begun before it is measured who is quicker."""
        known = {_names(item) for item in storage.partition.items if isinstance(item, Group)}
        for group, core, prepared in missing:
            calls = self._library_calls(group, core, storage.outputs(group))
            if len(group.members) == 1 or not calls or any(call.whole for call in calls):
                continue
            if not self.code.is_busy:
                return
            try:
                same = [item for item in groups if item[2].key == prepared.key]
                self.code.begin(self._products_beside(storage, same, known))
            except Exception as error:  # which comes again where it matters
                refused(error)

    def _products_beside(
        self, storage: Storage, taken: Sequence[_Product], known: Set[tuple[str, ...]]
    ) -> list[Prepared]:
        """The groups around products that are not among ``known``, if libraries take others."""
        graph = self.graph
        for group, core, _ in taken:
            graph = with_call(graph, [core], self._library_calls(group, core, storage.outputs(group))[0].call, "")
        other = self._storage_of(graph, self.windows)
        new = [i for i in other.partition.items if isinstance(i, Group) and _core(i) and _names(i) not in known]
        return [self._prepare_closed(other, i, outputs) for i in new if (outputs := other.outputs(i))]

    def _choose_as_before(self, storage: Storage) -> bool:
        """Takes what was chosen for another size of the model, where all was."""
        groups = [(item, core) for item in storage.partition.items if (core := _core(item)) is not None]
        chosen = [self.sizes.choices.get(core.name) for _, core in groups]
        if not groups or any(choice is None or choice.plan for choice in chosen):
            return False
        for (item, core), choice in zip(groups, chosen):
            if isinstance(item, Group) and choice is not None and not choice.is_ours:
                self._take_library(item, core, storage.outputs(item), choice)
        self.graph = without_unread(self.graph)
        return True

    def _take_library(self, group: Group, core: Fragment, outputs: list[str], choice: Choice) -> None:
        calls = self._library_calls(group, core, outputs)
        taken = calls[min(choice.call, len(calls) - 1)]
        graph, call = with_constants(self.graph, taken, self.arrays)
        self.copies |= {new: old for old, new in zip(taken.call.refs(), call.refs()) if new != old}
        self.made += [Opaque(name, pack, (name,)) for name, pack in taken.packed]
        members = group.members if taken.whole else [core]
        self.graph = with_call(graph, members, call, f"the library is faster: {choice}")

    def _library_calls(self, group: Group, core: Fragment, outputs: list[str]) -> list[LibraryCall]:
        """What libraries offer for ``core`` of a group, its own call first, or for all of the group."""
        assert core.library is not None
        own = [LibraryCall(core.library, False)]
        if not is_fast(self.graph.numerics) or self._is_streamed(core):
            return own
        others = self.arrays.other_calls(self.graph, core, epilogue_of(self.graph, group.members, core, outputs))
        return others if any(o.packed for o in others) else [*own, *others]  # to pack once is never slower

    def _is_streamed(self, core: Fragment) -> bool:
        weights = [self.graph.edges[name] for name in core.inputs if constant_of(self.graph, name)]
        return any(is_streamed(self.graph, core.program, w, self.arrays) for w in weights)

    def _choice_key(self, prepared: Prepared) -> str:
        return cache_key("choice", *prepared.key, type(self.arrays).__name__, self.processor.key)

    def _kept_choice(self, prepared: Prepared) -> Choice | None:
        """As this process or one before decided."""
        kept = default_store().get(self._choice_key(prepared))
        with contextlib.suppress(TypeError):
            return None if kept is None else Choice(**kept.metadata)
        return None

    def _choice(self, storage: Storage, group: Group, core: Fragment, prepared: Prepared) -> Choice:
        """By the time model where that is clear, else by measuring all candidates; it is kept."""
        processor = self.processor
        calls = self._library_calls(group, core, storage.outputs(group))
        ways = processor.candidates(prepared, core)
        expected = Choice(self._expected(ways), processor.library_seconds(core.program))
        is_clear = processor.is_clear(expected, core.program) and not self._is_streamed(
            core
        )  # which the time model knows badly
        made = expected
        if calls and not (is_clear and (expected.is_ours or len(calls) == 1)):
            with self.report.spending("measuring"):
                made = self._measured(storage, group, core, [] if is_clear else ways, calls)
            made = replace(made, ours=expected.ours) if is_clear else made
        default_store().put(self._choice_key(prepared), Artifact(asdict(made)))
        return made

    def _rest_seconds(self, storage: Storage, group: Group, core: Fragment) -> float:
        """What the formulas of a group take as a kernel of their own, behind the library's call."""
        if len(group.members) == 1:
            return 0.0
        least = self.processor.epilogue_seconds(core.program)
        if not self.processor.measures_most:  # a launch and its traffic: to schedule it takes longer than to choose
            return least
        members = [m for m in group.members if m is not core]
        outputs = [name for name in storage.outputs(group) if name not in core.outputs]
        try:
            program = group_program(self.graph, members, outputs, storage.source, "rest")
            return max(least, self.code.expected(prepare_group(self.graph, storage, program, self.arrays)))
        except Exception as error:
            refused(error)
            return least

    def _copy_seconds(self, storage: Storage, core: Fragment, results: Sequence[str | None]) -> float:
        """What it takes to copy a library's results to where kernels of ours would write them."""
        found = [storage.find(name) for name in results if name is not None]
        is_elsewhere = any(at is not None and at.root != at.source for at in found)
        return self.processor.epilogue_seconds(core.program) if is_elsewhere else 0.0

    def _expected(self, ways: list[Prepared]) -> float:
        """Seconds by the usual plan; without a way there is none."""
        try:
            return self.code.expected(ways[0]) if ways else math.inf
        except Exception as error:
            refused(error)
            return math.inf

    def _measured(
        self,
        storage: Storage,
        group: Group,
        core: Fragment,
        ways: list[Prepared],
        calls: list[LibraryCall],
    ) -> Choice:
        """All candidates timed in turns: our kernel by each plan, and calls, the rest on top where these do less
        than the group; that takes long to say, so it is asked only where it decides."""
        results = [(group.members[-1] if c.whole else core).outputs for c in calls]
        plans, samplers = [], []  # type: list[str], list[Sampler]
        for way in ways:
            if self.code.is_too_slow(way):
                continue
            try:
                sampler = self.processor.measure_kernel(self.graph, storage, self.code.load(way))
            except Exception as error:  # a plan that is refused is none
                refused(error)
                continue
            samplers.append(functools.partial(_sample, sampler, refused))
            plans.append(way.definition.how.plan)
        times = take_turns([*samplers, *map(self._call_sampler, calls, results)], self.processor.turns)
        ours, plan = min(zip(times, plans), default=(math.inf, ""))
        theirs = [t + self._copy_seconds(storage, core, r) for t, r in zip(times[len(plans) :], results)]
        least = min([ours, *(t for t, c in zip(theirs, calls) if c.whole)])
        theirs = [
            t if c.whole or t >= least else t + self._rest_seconds(storage, group, core) for t, c in zip(theirs, calls)
        ]
        return Choice(ours, min(theirs), "measured", theirs.index(min(theirs)), plan)

    def _call_once(self, storage: Storage, groups: Sequence[tuple[Group, Fragment]]) -> None:
        """What libraries set up at a first call takes longer than the calls that are measured."""
        calls = [call for item, core in groups for call in self._library_calls(item, core, storage.outputs(item))]
        with contextlib.suppress(Exception):
            self.processor.call_once([with_constants(self.graph, c, self.arrays) for c in calls], self.arrays)

    def _call_sampler(self, candidate: LibraryCall, names: Sequence[str | None]) -> Sampler:
        try:
            graph, call = with_constants(self.graph, candidate, self.arrays)
            return functools.partial(_sample, self.processor.measure_call(graph, call, names, self.arrays))
        except Exception:  # a library that has no such kernel says so only when called
            return lambda: math.inf


def _sample(sampler: Sampler, tell: Callable[[Exception], object] | None = None) -> float:
    """Seconds; infinite for a candidate that fails, which is told where it is ours."""
    try:
        return sampler()
    except Exception as error:
        if tell is not None:
            tell(error)
        return math.inf


def _names(group: Group) -> tuple[str, ...]:
    return tuple(member.name for member in group.members)


def _core(item: Group | Opaque) -> Fragment | None:
    """The one product or convolution of a group, if the library has it too."""
    if not isinstance(item, Group) or item.kind != "contraction":
        return None
    found = [m for m in item.members if kind_of(m.program) == "contraction"]
    is_single = len(found) == 1 and found[0].library is not None
    return found[0] if is_single else None
