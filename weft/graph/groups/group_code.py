"""Machine code of groups: each text once, from the artifact store or compiled, several at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from weft.graph.graph import shape_of
from weft.graph.groups.compile_group import Kernel, Prepared
from weft.graph.groups.in_place import in_place
from weft.graph.groups.open_sizes import OpenSizes
from weft.graph.groups.progress import Progress
from weft.graph.groups.workers import EARLY, Workers
from weft.graph.run.processor import Processor
from weft.graph.watch import WATCHER
from weft.ir.errors import TargetError
from weft.ir.expr import Expr
from weft.ir.stmt import Kernel as LoopKernel
from weft.operators.scheduling import Scheduling
from weft.operators.signature import Signature
from weft.operators.specialization import (
    LoadedArtifact,
    Specialization,
    artifact_of,
    bind_loaded,
    code_key,
    load_artifact,
    prepare_constants,
)
from weft.operators.stages import Build, build
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import describe
from weft.runtime.executor import Executor
from weft.runtime.pause_collector import collector_paused
from weft.runtime.store import Artifact, default_store
from weft.runtime.threads import get_num_threads, set_num_threads
from weft.target.description import MachineDescription
from weft.tensor.program import TensorProgram
from weft.version import blake2b

T = TypeVar("T")
R = TypeVar("R")


class Task(NamedTuple):
    """All that the code of a group depends on, as a process of its own needs it; ``signature`` has constants too."""

    program: TensorProgram
    signature: Signature
    constants: frozenset[str]
    how: Scheduling
    machine: MachineDescription
    threads: int
    estimate: Callable[[LoopKernel, bool], tuple[float, str]]
    misaligned: frozenset[str]
    symbolic: frozenset[str] = frozenset()
    #: strides that follow from sizes that are left open
    strides: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    #: expected seconds beyond which no code is wanted
    limit: float = math.inf

    def build(self, *, is_open: bool = False) -> Build:
        """The stages of its code, with sizes left open or for those at hand."""
        given = self.program, self.signature, self.machine, True, self.how
        if not is_open:
            return build(*given, constants=self.constants)
        return build(*given, symbolic=self.symbolic, strides=dict(self.strides), constants=self.constants)


@collector_paused()
def compile_task(task: Task) -> Artifact:
    """Machine code, with what the time model expects of it; where sizes are open, for those at hand. Beyond the limit,
    what is expected alone."""
    if task.threads != get_num_threads():  # in a worker
        set_num_threads(task.threads)
    made = task.build(is_open=bool(task.symbolic))
    separated = made.separated()
    known = task.build().separated() if task.symbolic else separated
    seconds, bound = task.estimate(known.main, made.fast)
    if seconds > task.limit:
        return Artifact({"expected": seconds}, {})  # goes through a pipe, as the empty blobs of others do not
    artifact = artifact_of(made, separated, task.symbolic, task.misaligned)
    found = {"expected": seconds, "bound": bound, "in place": list(in_place(separated.main))}
    return artifact._replace(metadata={**artifact.metadata, **found})


def _written_out(program: TensorProgram) -> float:
    """Grows with how much of a kernel is written out, and so with how long it takes to compile: blocks of the largest
    products of few steps go through many tiles, which are. What takes longest is begun first."""
    sums = [s for s in program.statements if s.reduce_axes]
    depths = [math.prod(shape_of([a.hi for a in s.reduce_axes])) for s in sums]
    points = [math.prod(shape_of([a.hi for a in s.axes])) for s in sums]
    return max((n / d**2 for n, d in zip(points, depths)), default=0.0)


@dataclass(eq=False)
class _Packed:
    """What code made of constants, with addresses; it lives as long as a kernel that reads it."""

    arrays: list[tuple[Any, int]]


@dataclass
class GroupCode:
    """The code of all groups of one graph; a group that was refused once is refused again without a try."""

    processor: Processor
    title: str
    open_sizes: OpenSizes
    _artifacts: dict[str, Artifact] = field(default_factory=dict)
    _refused: dict[str, Exception] = field(default_factory=dict)
    #: expected seconds of what takes so long that there is no code of it
    _too_slow: dict[str, float] = field(default_factory=dict)
    _loaded: dict[str, LoadedArtifact] = field(default_factory=dict)
    _keys: dict[tuple[str, str, frozenset[str]], str] = field(default_factory=dict)
    #: processes beside this one, once there was enough to do for them; they stay until `close`
    _workers: Workers[Any, Any] | None = None

    def close(self) -> None:
        """Ends the processes that compile beside this one."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None

    def run_all(
        self, tasks: Sequence[tuple[str, T]], fn: Callable[[T], R], meanwhile: Sequence[Callable[[], object]] = ()
    ) -> Iterator[tuple[str, R | Exception]]:
        """Each task's key with what ``fn`` gives, several at a time; this process does ``meanwhile``, too."""
        worth_it = self.processor.tasks_for_workers
        workers = EARLY.get() or self._workers
        if workers is None:
            workers = Workers[Any, Any](len(tasks), worth_it)
            self._workers = workers if len(tasks) >= worth_it else None
        return workers.run(tasks, fn, meanwhile)

    def begin(self, groups: Iterable[Prepared]) -> None:
        """Has processes compile the code of groups that may be asked for later, where there are processes."""
        workers = EARLY.get() or self._workers
        if workers is not None:
            missing = {key: g for g in groups if not self._find(key := self.key(g))}
            workers.begin([(key, self._task(g)) for key, g in missing.items()], compile_task)

    @property
    def is_busy(self) -> bool:
        """Whether there is code that no process has begun with."""
        workers = EARLY.get() or self._workers
        return workers is not None and workers.is_busy

    def prepare(
        self,
        groups: Iterable[Prepared],
        limits: Mapping[tuple[str, str], float] = MappingProxyType({}),
        meanwhile: Sequence[Callable[[], object]] = (),
        each: Callable[[], object] | None = None,
    ) -> None:
        """Finds or compiles the code of all ``groups``; refusals are told when it is asked for. There need be no code
        of those, by their keys, that are expected to take longer than ``limits`` say; ``meanwhile`` is done beside, and
        ``each`` whenever one more is compiled."""
        wanted = list(groups)
        self._prepare(wanted, limits, meanwhile, each)
        self._prepare([g.closed for g in wanted if g.closed is not None and self.key(g) in self._refused])

    def _prepare(
        self,
        groups: Iterable[Prepared],
        limits: Mapping[tuple[str, str], float] = MappingProxyType({}),
        meanwhile: Sequence[Callable[[], object]] = (),
        each: Callable[[], object] | None = None,
    ) -> None:
        distinct = {self.key(g): g for g in groups}
        missing = {key: g for key, g in distinct.items() if not self._find(key)}
        if not missing:
            return
        tasks = [(key, self._task(g)._replace(limit=limits.get(g.key, math.inf))) for key, g in missing.items()]
        tasks.sort(key=lambda task: -_written_out(task[1].program))
        with Progress(f"weft: compiling {self.title}", len(tasks)) as progress:
            for key, made in self.run_all(tasks, compile_task, meanwhile):
                if isinstance(made, Artifact) and not made.blobs:
                    self._too_slow[key] = made.metadata["expected"]
                elif isinstance(made, Artifact):
                    default_store().put(key, made)
                    self._artifacts[key] = made
                    if missing[key].sizes:
                        self.open_sizes.artifacts[key] = made
                else:
                    self._refused[key] = made
                progress.step()
                if each is not None:
                    each()

    def key(self, group: Prepared) -> str:
        known = *group.key, group.misaligned
        if known not in self._keys:
            machine, processor = self.processor.machine, self.processor.key
            self._keys[known] = code_key("group", machine, group.misaligned, *group.key, processor)
        return self._keys[known]

    def expected(self, group: Prepared) -> float:
        """Seconds, by the time model; nothing is compiled for it."""
        group = self._possible(group)
        key = self.key(group)
        if key in self._too_slow:
            return self._too_slow[key]
        if self._find(key):
            return float(self._artifact(key, group).metadata["expected"])
        task = self._task(group)
        made = task.build()
        return task.estimate(made.separated().main, made.fast)[0]

    def is_too_slow(self, group: Prepared) -> bool:
        """Whether there is no code of it, because it was expected to take longer than the limit."""
        return self.key(group) in self._too_slow

    def is_ready(self, group: Prepared) -> bool:
        """Whether `prepare` is done with it."""
        key = self.key(self._possible(group))
        return key in self._too_slow or key in self._artifacts or key in self._refused

    def load(self, group: Prepared) -> Kernel:
        """The kernel, with the constants of just this group packed."""
        group = self._possible(group)
        key, executor = self.key(group), self.processor.executor
        if key not in self._loaded:
            try:
                self._loaded[key] = self._load(key, group)
            except (TargetError, KeyError, TypeError, ValueError):  # written by something else under our key
                default_store().remove(key)
                self._artifacts.pop(key, None)  # it may be refused, which is told again
                self._loaded[key] = self._load(key, group)
        facts = self._loaded[key].facts
        special, packed = self._bind(key, group, executor)
        sizes = dict(group.sizes)
        fixed = (*special.fixed, *(sizes[name] for name, _ in special.params if name in sizes))
        keeps = (packed, *(array for name, array in zip(group.definition.bound, group.keeps) if name in facts["kept"]))
        expected, plan = (facts["expected"], facts["bound"]), group.definition.how.plan
        tensors = dict(zip((name for name, _ in special.params), group.tensors))
        shared = tuple((tensors[output], tensors[given]) for output, given in facts["in place"] if given in tensors)
        made = Kernel(group.program, special, group.tensors, fixed, keeps, *expected, plan, bool(group.sizes), shared)
        if (watcher := WATCHER.get()) is not None:
            watcher.loaded(made, self._task(group).build())
        return made

    def _possible(self, group: Prepared) -> Prepared:
        """``group``, or the same for its very sizes where no schedule leaves them open."""
        is_refused = group.closed is not None and self.key(group) in self._refused
        return group.closed if is_refused and group.closed is not None else group

    def _bind(self, key: str, group: Prepared, executor: Executor) -> tuple[Specialization, _Packed | None]:
        """Constants packed; what packs the same constants alike, for other sizes of the model, has done so already."""
        loaded, definition = self._loaded[key], group.definition
        if loaded.once is None:
            return bind_loaded(loaded, definition, executor), None
        bound = [v for v in definition.bound.values() if isinstance(v, ArgumentInfo)]
        parts = tuple((v.pointer - describe(array).pointer, v.shape) for v, array in zip(bound, group.keeps))
        code = blake2b(self._artifacts[key].blobs["prepare"]).digest()
        (packed,) = self.open_sizes.values.find(
            (code, parts, str(loaded.facts["prepare"])),
            group.keeps,
            lambda: [_Packed(prepare_constants(loaded, definition, executor))],
        )
        return bind_loaded(loaded, definition, executor, prepared=packed.arrays), packed

    def _load(self, key: str, group: Prepared) -> LoadedArtifact:
        artifact = self._artifact(key, group)
        return load_artifact(artifact, group.definition.interface, group.signature, self.processor.executor)

    def _artifact(self, key: str, group: Prepared) -> Artifact:
        if not self._find(key):
            self._prepare([group])
        if key in self._refused:
            raise self._refused[key]
        return self._artifacts[key]

    def _find(self, key: str) -> bool:
        if key in self._artifacts or key in self._refused:
            return True
        kept = self.open_sizes.artifacts.get(key) or default_store().get(key)
        if kept is None or "in place" not in kept.metadata:
            return False
        self._artifacts[key] = kept
        return True

    def _task(self, group: Prepared) -> Task:
        definition, processor = group.definition, self.processor
        whole, constants = definition.complete(group.signature), frozenset(definition.bound)
        made_for = definition.how, processor.machine, get_num_threads(), processor.estimate()
        symbolic = frozenset(name for name, _ in group.sizes)
        return Task(definition.program, whole, constants, *made_for, group.misaligned, symbolic, group.strides)
