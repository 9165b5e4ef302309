"""What processes of the tuner are told: an operator, the arrays of a call, and how candidates are made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from weft.operators.operator import Operator
from weft.operators.signature import Signature
from weft.operators.specialization import compile_artifact, load_specialization
from weft.runtime.executor import HOST
from weft.runtime.store import Artifact
from weft.tune.guarded import Given


class Outcome(NamedTuple):
    """How a candidate ended (`weft.runtime.records.ENDS`), with the times of its turns and of its opponent's."""

    ended: str
    seconds: tuple[float, ...] = ()
    against: tuple[float, ...] = ()
    why: str = ""


@dataclass(frozen=True)
class Job:
    """``make`` compiles the code of a trace and ``load`` makes something of it to be called as the operator is; other
    ones than `make_code` and `load_code` are for tests of what goes wrong."""

    op: Operator
    signature: Signature
    values: tuple[Any, ...]
    outputs: tuple[Given, ...] | None
    threads: int
    memory: int = 4 << 30
    make: Callable[[Job, str], Any] | None = None
    load: Callable[[Job, Any], Callable[..., Any]] | None = None


def make_code(job: Job, trace: str) -> Artifact:
    """Machine code of a candidate; raises `ScheduleError` where a step of ``trace`` is refused."""
    definition = job.op._definition
    how = definition.how._replace(how=trace)
    machine = HOST.machine(job.op._target_on("cpu"))
    whole = definition.complete(job.signature)
    made = compile_artifact(definition.scheduled(how), whole, machine, job.op._checks, frozenset(), frozenset())
    return Artifact(dict(made.metadata), dict(made.blobs))


def load_code(job: Job, code: Artifact) -> Callable[..., Any]:
    """An operator that runs ``code`` for calls like the one that is tuned, as any other call."""
    definition = job.op._definition
    op = Operator(definition, checks=job.op._checks)
    op._known[job.signature.key] = load_specialization(code, definition, job.signature, {}, HOST)
    return op


#: The trace that does nothing: what it computes is right by the definition of the language.
PLAIN_LOOPS = 'numerics = "strict"\n'
