"""Machine code for one signature on one device: made by compiling, or found in the artifact store, then loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir.dtype import SCALAR_TYPES, DType
from weft.operators.definition import Definition
from weft.operators.dynamic import dynamic_sizes, general_key
from weft.operators.interface import Interface, place_of
from weft.operators.scheduling import thread_key
from weft.operators.signature import Signature
from weft.operators.tuned import by_record
from weft.runtime.argument import ArgumentInfo
from weft.runtime.executor import ALIGNMENT, About, Executor, slot_value
from weft.runtime.pause_collector import collector_paused
from weft.runtime.store import Artifact, default_store
from weft.target import target_of
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.ir.buffer import Buffer
    from weft.ir.remark import Remark
    from weft.ir.stmt import Kernel
    from weft.operators.stages import Build
    from weft.passes.plain.separate_constants import Separated
    from weft.target.description import Code, MachineDescription


class OutputLayout(NamedTuple):
    """An output of a specialization; ``fill`` is what a fresh one starts from where the kernel reads it."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    fill: int | float | bool | None


class Specialization(NamedTuple):
    """Loaded code and what a call of it needs to know; ``params`` has a name, and a type for a number.

    ``fixed`` are the values of its last parameters, ``prepared`` memory among them that was filled once.
    ``release_gil``: it runs long enough, on the host, to let other Python threads run meanwhile.
    """

    signature: Signature
    loaded: Any
    params: tuple[tuple[str, DType | None], ...]
    outputs: tuple[OutputLayout, ...] = ()
    fixed: tuple[int | float, ...] = ()
    prepared: tuple[Any, ...] = ()
    release_gil: bool = False
    #: what shows at the sizes of these calls and is perhaps not meant
    remarks: tuple[Remark, ...] = ()


def find_specialization(
    definition: Definition,
    signature: Signature,
    checks: bool,
    machine: MachineDescription,
    executor: Executor,
    misaligned: frozenset[str] = frozenset(),
) -> Specialization:
    """From the store where it is there and loads, else compiled; ``misaligned`` arrays begin where code must know."""
    whole = definition.complete(signature)
    sizes = dynamic_sizes(definition.whole_interface, whole, definition.dynamic)

    def find(definition: Definition) -> Specialization:
        parts = (definition.key, general_key(definition.whole_interface, whole, sizes), str(checks))

        def make() -> Artifact:
            return compile_artifact(definition, whole, machine, checks, frozenset(sizes), misaligned)

        def load(artifact: Artifact) -> Specialization:
            return load_specialization(artifact, definition, signature, sizes, executor)

        threads = thread_key(definition.how) if executor.name == "cpu" else ""
        return find_code(code_key("kernel", machine, misaligned, *parts, threads), make, load)

    return by_record(definition, whole, machine, sizes, find)


def code_key(what: str, machine: MachineDescription, misaligned: frozenset[str], *parts: str) -> str:
    """The key of machine code: ``parts``, and what all code depends on."""
    toolchain = target_of(machine).toolchain()
    return cache_key(what, *parts, machine.key, ",".join(sorted(misaligned)), toolchain)


def find_code(key: str, make: Callable[[], Artifact], load: Callable[[Artifact], Specialization]) -> Specialization:
    store = default_store()
    kept = store.get(key)
    if kept is not None:
        try:
            return load(kept)
        except Exception:  # whatever something else wrote under our key, it is compiled anew
            store.remove(key)
    made = make()
    store.put(key, made)
    return load(made)


@collector_paused()
def compile_artifact(
    definition: Definition,
    signature: Signature,
    machine: MachineDescription,
    checks: bool,
    symbolic: frozenset[str],
    misaligned: frozenset[str],
) -> Artifact:
    """Machine code for ``signature``, for all values of the sizes in ``symbolic``."""
    from weft.operators.stages import build, remark_facts

    constants = frozenset(definition.bound)
    made = build(definition.program, signature, machine, checks, definition.how, symbolic=symbolic, constants=constants)
    artifact = artifact_of(made, made.separated(), symbolic, misaligned)
    remarks = {} if symbolic else remark_facts(definition.program, signature)  # else for each call's sizes, when loaded
    return artifact._replace(metadata={**artifact.metadata, **remarks})


def artifact_of(
    made: Build, separated: Separated, symbolic: frozenset[str] = frozenset(), misaligned: frozenset[str] = frozenset()
) -> Artifact:
    """Machine code of what ``made`` was separated into."""
    from weft.operators.describe import describe_program

    main = compile_record(separated.main, made.machine, fast=made.fast, misaligned=misaligned)
    metadata = {**main.metadata, "kept": separated.kept, **({} if symbolic else describe_program(made.program))}
    if separated.prepare is None:
        return Artifact(metadata, main.blobs)
    first = compile_record(separated.prepare, made.machine, fast=made.fast, misaligned=misaligned)
    metadata["prepare"] = {
        **first.metadata,
        "inputs": [p.name for p in separated.prepare.params if p.name in made.constants],
        "bytes": [buffer_bytes(b) for b in separated.prepared],
    }
    return Artifact(metadata, {**main.blobs, "prepare": first.blobs["code"]})


def compile_record(kernel: Kernel, machine: MachineDescription, *, fast: bool, misaligned: frozenset[str]) -> Artifact:
    """Machine code of ``kernel``, and what loading it needs to know, as plain data."""
    code: Code = target_of(machine).compile(kernel, machine, fast=fast, aligned=alignments(kernel, misaligned))
    metadata = {
        "code": dict(code.facts),
        "params": [[p.name, p.dtype.name if p in kernel.scalars else None] for p in kernel.params],
        "messages": [site.message for site in code.sites],
        "places": [place_of(site.span) for site in code.sites],
    }
    return Artifact(metadata, {"code": code.blob})


def alignments(kernel: Kernel, misaligned: frozenset[str]) -> dict[str, int]:
    """To how many bytes the array of each parameter is aligned, on a GPU."""
    return {b.name: b.dtype.itemsize if b.name in misaligned else ALIGNMENT for b in kernel.buffers}


def buffer_bytes(buffer: Buffer) -> int:
    """How much memory a buffer of fixed size takes."""
    pairs = zip(buffer.shape, buffer.element_strides())
    reach = sum((int(n.value) - 1) * int(s.value) for n, s in pairs)  # type: ignore[attr-defined,misc]
    return (reach + 1) * buffer.dtype.itemsize


def load_record(
    facts: Mapping[str, Any], blob: bytes, executor: Executor, signature: Signature, owner: str, interface: Interface
) -> Specialization:
    """What `compile_record` wrote down, in memory."""
    params = tuple((name, None if dtype is None else SCALAR_TYPES[dtype]) for name, dtype in facts["params"])
    spans = [interface.span(place and tuple(place)) for place in facts["places"]]
    loaded = executor.load(facts["code"], blob, params, About(owner, facts["messages"], spans))
    return Specialization(signature, loaded, params)


class LoadedArtifact(NamedTuple):
    """Code in memory before it is given the values that all calls have in common; ``once`` prepares from these."""

    facts: Mapping[str, Any]
    main: Specialization
    once: Specialization | None


def load_artifact(artifact: Artifact, interface: Interface, signature: Signature, executor: Executor) -> LoadedArtifact:
    facts, blobs = artifact.metadata, artifact.blobs
    main = load_record(facts, blobs["code"], executor, signature, interface.name, interface)
    if "prepare" not in facts:
        return LoadedArtifact(facts, main, None)
    owner, nothing = f"{interface.name} (once)", Signature((), (), ())
    once = load_record(facts["prepare"], blobs["prepare"], executor, nothing, owner, interface)
    return LoadedArtifact(facts, main, once)


def bind_loaded(
    loaded: LoadedArtifact,
    definition: Definition,
    executor: Executor,
    sizes: Mapping[str, int] = MappingProxyType({}),
    prepared: Sequence[tuple[Any, int]] | None = None,
) -> Specialization:
    """Code with the values that ``definition`` binds, and ``sizes`` for those that it leaves open; ``prepared`` is what
    `prepare_constants` made of these values before."""
    facts = loaded.facts
    if prepared is None:
        prepared = prepare_constants(loaded, definition, executor)
    fixed = (*_bound_values(definition, facts["kept"]), *(a for _, a in prepared), *sizes.values())
    return loaded.main._replace(fixed=fixed, prepared=tuple(array for array, _ in prepared))


def load_specialization(
    artifact: Artifact, definition: Definition, signature: Signature, sizes: Mapping[str, int], executor: Executor
) -> Specialization:
    """Machine code in memory, for calls of ``signature``; ``sizes`` are those that the code leaves open."""
    facts = artifact.metadata
    if sizes:
        from weft.operators.stages import specialized_facts

        facts = dict(facts) | specialized_facts(definition.program, definition.complete(signature))
    outputs = tuple(output_layout(record) for record in facts["outputs"])
    loaded = load_artifact(artifact, definition.interface, signature, executor)
    interface, constants = definition.interface, {name for name, _ in signature.constants}
    check_parameters(loaded.main, [p.name for p in interface.params if p.name not in constants], interface)
    bound = bind_loaded(loaded, definition, executor, sizes)
    remarks = interface.remarks_from_json(facts["remarks"])
    return bound._replace(outputs=outputs, release_gil=facts["release_gil"], remarks=remarks)


def check_parameters(loaded: Specialization, given: Sequence[str], interface: Interface) -> None:
    """That code takes what a call gives it: it may be of something else."""
    expected = [*given, *(o.name for o in interface.outputs)]
    found = [name for name, _ in loaded.params[: len(expected)]]
    if found != expected:
        raise ValueError(f"code for {found}, not for {expected}")


def _bound_values(definition: Definition, names: Sequence[str]) -> list[int | float]:
    return [slot_value(definition.bound[name]) for name in names]


def prepare_constants(loaded: LoadedArtifact, definition: Definition, executor: Executor) -> list[tuple[Any, int]]:
    """What is made once from bound values: memory that must stay, and its addresses."""
    if loaded.once is None:
        return []
    facts = loaded.facts["prepare"]
    inputs = _bound_values(definition, facts["inputs"])
    arrays = [v for v in definition.bound.values() if isinstance(v, ArgumentInfo)]
    return executor.prepare(loaded.once.loaded, inputs, facts["bytes"], arrays)


def output_layout(record: dict[str, Any]) -> OutputLayout:
    fill = record["fill"]
    dtype, shape = SCALAR_TYPES[record["dtype"]], tuple(record["shape"])
    return OutputLayout(record["name"], dtype, shape, float(fill) if isinstance(fill, str) else fill)
