"""What the time model expects of a program by itself, on row-major tensors, before anything is decided about it."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn

from weft.graph.graph import dense_strides, shape_of
from weft.graph.run.processor import Processor
from weft.ir.stmt import Kernel as LoopKernel
from weft.operators.definition import ProgramDefinition
from weft.operators.scheduling import Scheduling
from weft.operators.signature import Layout, Signature
from weft.operators.stages import build
from weft.runtime.store import Artifact, default_store
from weft.runtime.threads import get_num_threads, set_num_threads
from weft.target.description import MachineDescription
from weft.tensor.program import TensorProgram
from weft.version import cache_key

#: Asked before a program is priced, while a graph is compiled: what the same model at other sizes knows of it.
#: Takes the program and what else the price depends on, and what prices it.
REMEMBER: ContextVar[Callable[[TensorProgram, str, Callable[[], float]], float]] = ContextVar(
    "REMEMBER", default=lambda _program, _facts, price: price()
)
#: Runs many tasks, by their keys, at once, while a graph is compiled; None where there is nothing that could.
RunAll = Callable[[Sequence[tuple[str, "PriceTask"]], Callable[["PriceTask"], float]], Iterator[tuple[str, Any]]]
RUN_ALL: ContextVar[RunAll | None] = ContextVar("RUN_ALL", default=None)


class PriceTask(NamedTuple):
    """All that a price depends on, as a process of its own needs it."""

    program: TensorProgram
    constants: frozenset[str]
    machine: MachineDescription
    threads: int
    estimate: Callable[[LoopKernel, bool], tuple[float, str]]

    @property
    def definition(self) -> ProgramDefinition:
        return ProgramDefinition(self.program, Scheduling("auto", "fast"))

    @property
    def signature(self) -> Signature:
        shapes = [(b.name, b.dtype.name, shape_of(b.shape)) for b in self.program.inputs]
        return Signature(tuple((n, Layout(dtype, shape, dense_strides(shape))) for n, dtype, shape in shapes), (), ())

    def key(self, processor: Processor) -> str:
        parts = self.definition.key, self.signature.key, ",".join(sorted(self.constants))
        return cache_key("price", *parts, processor.key)


def run_task(task: PriceTask) -> float:
    """The seconds that a task asks for."""
    if task.threads != get_num_threads():  # in a worker
        set_num_threads(task.threads)
    whole = task.definition.complete(task.signature)
    made = build(task.program, whole, task.machine, True, task.definition.how, constants=task.constants)
    return task.estimate(made.separated().main, made.fast)[0]


def price_program(processor: Processor, program: TensorProgram, constants: frozenset[str]) -> float:
    """Seconds, where the inputs named ``constants`` are packed before; as this process or one before found it."""
    return REMEMBER.get()(program, _facts(processor, constants), lambda: _price(processor, program, constants))


def price_all(processor: Processor, wanted: Iterable[tuple[TensorProgram, frozenset[str]]]) -> None:
    """Finds the prices of many programs at once, so that asking for each takes no time; refusals are told then."""
    run_all = RUN_ALL.get()
    tasks = {} if run_all is None else {t.key(processor): t for t in _unknown(processor, wanted)}
    missing = [(key, task) for key, task in tasks.items() if _kept(key) is None]
    for key, seconds in run_all(missing, run_task) if run_all is not None and missing else ():
        if isinstance(seconds, float):
            default_store().put(key, Artifact({"expected": seconds}))
            task = tasks[key]
            REMEMBER.get()(task.program, _facts(processor, task.constants), functools.partial(float, seconds))


def _unknown(processor: Processor, wanted: Iterable[tuple[TensorProgram, frozenset[str]]]) -> Iterator[PriceTask]:
    """Those that the same model at other sizes does not know."""
    for program, constants in dict.fromkeys(wanted):
        try:
            REMEMBER.get()(program, _facts(processor, constants), _not_known)
        except _NotKnown:
            yield _task(processor, program, constants)


class _NotKnown(Exception):
    pass


def _not_known() -> NoReturn:
    raise _NotKnown


def _facts(processor: Processor, constants: frozenset[str]) -> str:
    return f"{sorted(constants)} {processor.key}"


def _task(processor: Processor, program: TensorProgram, constants: frozenset[str]) -> PriceTask:
    return PriceTask(program, constants, processor.machine, get_num_threads(), processor.estimate())


def _price(processor: Processor, program: TensorProgram, constants: frozenset[str]) -> float:
    task = _task(processor, program, constants)
    key = task.key(processor)
    seconds = _kept(key)
    if seconds is None:
        seconds = run_task(task)
        default_store().put(key, Artifact({"expected": seconds}))
    return seconds


def _kept(key: str) -> float | None:
    kept = default_store().get(key)
    with contextlib.suppress(KeyError, TypeError, ValueError):  # of something else under our key
        return None if kept is None else float(kept.metadata["expected"])
    return None
