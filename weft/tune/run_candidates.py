"""What a process of the tuner does when asked: compile a candidate, or check and time it (`candidate_process`)."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from weft.ir.errors import Error
from weft.runtime.store import Artifact
from weft.runtime.threads import set_num_threads
from weft.tune.compare import LOOKS, decide, differs
from weft.tune.guarded import Given, Guarded, plain
from weft.tune.job import Job, Outcome, load_code, make_code

#: Seconds that one sample takes at least: enough for the clock, and for what a call costs to matter little.
_SAMPLE = 2e-3
_MOST_CALLS = 10_000


class Turns(NamedTuple):
    """A candidate's code and its opponent's; turns end ``seconds`` after they begin, or after ``most``."""

    code: Any
    against: Any
    seconds: float
    most: int = LOOKS[-1]


@dataclass
class _Here:
    """What this process knows of its job."""

    job: Job
    right: list[np.ndarray[Any, Any]] = field(default_factory=list)
    outputs: tuple[Given, ...] = ()
    opponent: tuple[Any, Callable[[], Any]] | None = None


_here: list[_Here] = []


def begin(job: Job) -> bool:
    """The job of this process; what it takes of memory from here on is limited."""
    set_num_threads(job.threads)
    _limit_memory(job.memory)
    _here[:] = [_Here(job)]
    return True


def compile_candidate(trace: str) -> tuple[Any, Outcome]:
    """Code of ``trace``, or why there is none."""
    job = _here[0].job
    try:
        return (job.make or make_code)(job, trace), Outcome("won")
    except Error as error:
        return None, Outcome("refused", why=" ".join(filter(None, (error.what, error.why))))
    except MemoryError:
        return None, Outcome("memory", why="compiling took more memory than is allowed")
    except Exception as error:
        return None, Outcome("failed", why=f"{type(error).__name__}: {error}")


def compute_reference(code: Any) -> Outcome:
    """What results are right: those of the plain loops."""
    here = _here[0]
    here.outputs = here.job.outputs or _fresh_outputs(code)
    outcome, found = _checked_run(here, code)
    here.right = found
    return outcome


def check_and_time(turns: Turns) -> Outcome:
    """Runs a candidate between guards, compares its results, then times it in turns with its opponent."""
    here = _here[0]
    outcome, found = _checked_run(here, turns.code)
    if outcome.ended != "won":
        return outcome
    for position, (mine, right) in enumerate(zip(found, here.right)):
        if (why := differs(mine, right)) is not None:
            return Outcome("wrong", why=f"output {position}: {why}")
    try:
        return _take_turns(here, turns)
    except MemoryError:
        return Outcome("memory", why="it took more memory than is allowed")


def _checked_run(here: _Here, code: Any) -> tuple[Outcome, list[np.ndarray[Any, Any]]]:
    """One call between guards; its results."""
    job = here.job
    values = [Guarded(v) if isinstance(v, Given) else v for v in job.values]
    outputs = [Guarded(o) for o in here.outputs]
    given = [v.array if isinstance(v, Guarded) else v for v in values]
    try:
        run = (job.load or load_code)(job, code)
        run(*given, out=tuple(o.array for o in outputs))
    except MemoryError:
        return Outcome("memory", why="it took more memory than is allowed"), []
    except Exception as error:
        return Outcome("failed", why=f"{type(error).__name__}: {error}"), []
    if not all(g.is_intact for g in (*outputs, *values) if isinstance(g, Guarded)):
        return Outcome("outside", why="it wrote before the begin of an array"), []
    for value, before in zip(values, job.values):
        if isinstance(value, Guarded) and value.array.tobytes() != plain(before).tobytes():
            return Outcome("outside", why="it wrote to an argument"), []
    return Outcome("won"), [o.array.copy() for o in outputs]


def _fresh_outputs(code: Artifact) -> tuple[Given, ...]:
    """Outputs as a call makes them; where that leaves elements as they are, with values that are no results."""
    from weft.operators.specialization import output_layout
    from weft.runtime.argument import dense_strides

    found = []
    for o in map(output_layout, code.metadata["outputs"]):
        count = math.prod(o.shape)
        from weft.ir.numpy_dtypes import to_numpy

        data = b"\x7f" * (count * o.dtype.itemsize)
        if o.fill is not None:
            data = np.full(count, o.fill, to_numpy(o.dtype)).tobytes()
        elif o.dtype.name == "bool":
            data = b"\x01" * count
        found.append(Given(o.dtype.name, o.shape, dense_strides(o.shape), 0, data))
    return tuple(found)


def _take_turns(here: _Here, turns: Turns) -> Outcome:
    job, end = here.job, time.perf_counter() + turns.seconds
    given = [plain(v) if isinstance(v, Given) else v for v in job.values]
    out = tuple(plain(o) for o in here.outputs)
    load = job.load or load_code
    mine, other = load(job, turns.code), load(job, turns.against)
    begun = time.perf_counter()
    for call in (other, mine, other):  # the first calls of each are not counted
        call(*given, out=out)
        begun, last = time.perf_counter(), begun
    calls = max(1, min(_MOST_CALLS, int(_SAMPLE / max(begun - last, 1e-7))))

    def sample(call: Callable[..., Any]) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call(*given, out=out)
        return (time.perf_counter() - start) / calls

    seconds: list[float] = []
    against: list[float] = []
    verdict = None
    while verdict is None and len(seconds) < turns.most and time.perf_counter() < end:
        if len(seconds) % 2:
            against.append(sample(other))
            seconds.append(sample(mine))
        else:
            seconds.append(sample(mine))
            against.append(sample(other))
        verdict = decide([a / b for a, b in zip(seconds, against)])
    return Outcome(verdict or "undecided", tuple(seconds), tuple(against))


def _limit_memory(more: int) -> None:
    """This process may take so many bytes ``more`` than it has."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + more, now + more))


__all__: Sequence[str] = ["Turns", "begin", "check_and_time", "compile_candidate", "compute_reference"]
