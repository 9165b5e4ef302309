"""What was found by measuring: the schedule that a record says is faster than the automatic one, for the same program,
sizes, machine, threads and compiler. It is looked up where code for a kind of call is made, never in a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from weft.ir.errors import ScheduleError
from weft.operators.definition import Definition
from weft.operators.signature import Signature
from weft.runtime.records import Measurement, Task, default_records
from weft.runtime.store import Artifact, default_store
from weft.target import target_of
from weft.version import blake2b, cache_key

if TYPE_CHECKING:
    from weft.target.description import MachineDescription

T = TypeVar("T")


def task_of(definition: Definition, whole: Signature, machine: MachineDescription) -> Task:
    """What calls of the ``whole`` signature are to the records."""
    from weft.runtime.threads import get_num_threads

    made_by = cache_key("records", target_of(machine).toolchain())
    return Task(program_digest(definition), sizes_text(whole), _short(machine.key), get_num_threads(), made_by)


def sizes_text(whole: Signature) -> str:
    """Layouts of arguments, and of outputs only where they are not as fresh ones are."""
    return whole._replace(outputs=tuple((n, x) for n, x in whole.outputs if not x.is_dense)).key


def program_digest(definition: Definition) -> str:
    """What a definition says, however its text is laid out, and under which numerics; it is found out once."""
    key = cache_key("program digest", definition.key)
    kept = default_store().get(key)
    if kept is not None and isinstance(kept.metadata.get("digest"), str):
        return str(kept.metadata["digest"])
    from weft.tensor.printer import print_program

    text = "\n".join([definition.how.numerics, *sorted(definition.bound), print_program(definition.program)])
    digest = _short(text)
    default_store().put(key, Artifact({"digest": digest}))
    return digest


def _short(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def find_record(
    definition: Definition, whole: Signature, machine: MachineDescription, sizes: Mapping[str, int] | frozenset[str]
) -> Measurement | None:
    """The record that calls of the ``whole`` signature are compiled by; ``sizes`` are those that code leaves open."""
    if definition.how.how != "auto" or definition.how.plan or sizes or target_of(machine).device != "cpu":
        return None
    records = default_records()
    if not records.is_there:
        return None
    return records.best(task_of(definition, whole, machine))


def by_record(
    definition: Definition,
    whole: Signature | None,
    machine: MachineDescription,
    sizes: Mapping[str, int] | frozenset[str],
    use: Callable[[Definition], T],
) -> T:
    """``use`` of ``definition`` scheduled by its record where there is one, else of itself. A record whose trace does
    not apply is followed no more."""
    found = None if whole is None else find_record(definition, whole, machine, sizes)
    if found is not None:
        try:
            return use(definition.scheduled(definition.how._replace(how=found.trace)))
        except ScheduleError as error:
            why = f"its trace does not apply: {error.why or error.what}"
            default_records().add(Measurement(found.task, found.trace, "automatic", why=why, name=found.name))
    return use(definition)
