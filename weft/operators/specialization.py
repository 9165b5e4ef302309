"""Machine code for one signature: made by compiling, or found in the artifact store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir.dtype import DType, parse_dtype
from weft.ir.errors import TargetError
from weft.operators.definition import BoundValue, Definition
from weft.operators.dynamic import dynamic_sizes, general_key
from weft.operators.fast_specialization import fast_specialization, fixed_bits
from weft.operators.interface import place_of
from weft.operators.pause_collector import collector_paused
from weft.operators.scheduling import thread_key
from weft.operators.signature import Signature
from weft.runtime import fastcall
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import aligned_bytes
from weft.runtime.kernel import LoadedKernel, load_kernel
from weft.runtime.machine_model import local_machine
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import Machine
from weft.target.cpu.llvm import llvm_version
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.ir.buffer import Buffer
    from weft.ir.stmt import Kernel


class OutputLayout(NamedTuple):
    """An output of a specialization; ``fill`` is what a fresh one starts from where the kernel reads it."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    fill: int | float | bool | None


class Specialization(NamedTuple):
    """A loaded kernel and what a call of it needs to know; ``fast`` is the same for the fast call.

    ``fixed`` are the values of its last parameters, ``prepared`` memory among them that was filled once.
    """

    signature: Signature
    kernel: LoadedKernel
    outputs: tuple[OutputLayout, ...]
    fast: fastcall.Specialization
    fixed: tuple[int | float, ...] = ()
    prepared: tuple[Any, ...] = ()


def find_specialization(definition: Definition, signature: Signature, checks: bool) -> Specialization:
    """From the store where it is there and loads, else compiled."""
    whole = definition.complete(signature)
    sizes = dynamic_sizes(definition.whole_interface, whole, definition.dynamic)
    machine = local_machine()
    parts = (definition.key, general_key(definition.whole_interface, whole, sizes), str(checks), machine.key)
    key = cache_key("kernel", *parts, llvm_version(), thread_key(definition.how))
    store = default_store()
    kept = store.get(key)
    if kept is not None:
        try:
            return load_specialization(kept, definition, signature, sizes)
        except (TargetError, KeyError, TypeError, ValueError):
            store.remove(key)  # written by something else under our key: compile anew
    made = compile_artifact(definition, whole, machine, checks, frozenset(sizes))
    store.put(key, made)
    return load_specialization(made, definition, signature, sizes)


@collector_paused()
def compile_artifact(
    definition: Definition, signature: Signature, machine: Machine, checks: bool, symbolic: frozenset[str]
) -> Artifact:
    """Machine code for ``signature``, for all values of the sizes in ``symbolic``."""
    from weft.operators.describe import describe_program
    from weft.operators.stages import build

    constants = frozenset(definition.bound)
    made = build(definition.program, signature, machine, checks, definition.how, symbolic=symbolic, constants=constants)
    separated = made.separated()
    compiled = made.compiled(separated.main)
    metadata = {
        "entry": compiled.entry,
        "scalars": _scalars(separated.main),
        "messages": [site.message for site in compiled.sites],
        "places": [place_of(site.span) for site in compiled.sites],
        "kept": separated.kept,
        **({} if symbolic else describe_program(made.program)),
    }
    if separated.prepare is None:
        return Artifact(metadata, {"object": compiled.object})
    first = made.compiled(separated.prepare)
    metadata["prepare"] = {
        "entry": first.entry,
        "scalars": _scalars(separated.prepare),
        "inputs": [p.name for p in separated.prepare.params if p.name in constants],
        "bytes": [buffer_bytes(b) for b in separated.prepared],
    }
    return Artifact(metadata, {"object": compiled.object, "prepare": first.object})


def _scalars(kernel: Kernel) -> list[str | None]:
    """The type of each parameter that is a number."""
    return [p.dtype.name if p in kernel.scalars else None for p in kernel.params]


def buffer_bytes(buffer: Buffer) -> int:
    """How much memory a buffer of fixed size takes."""
    pairs = zip(buffer.shape, buffer.element_strides())
    reach = sum((int(n.value) - 1) * int(s.value) for n, s in pairs)  # type: ignore[attr-defined,misc]
    return (reach + 1) * buffer.dtype.itemsize


def load_specialization(
    artifact: Artifact, definition: Definition, signature: Signature, sizes: Mapping[str, int]
) -> Specialization:
    """Machine code in memory, for calls of ``signature``; ``sizes`` are those that the code leaves open."""
    facts, interface = artifact.metadata, definition.interface
    if sizes:
        from weft.operators.stages import specialized_facts

        facts = dict(facts) | specialized_facts(definition.program, definition.complete(signature))
    outputs = tuple(output_layout(record) for record in facts["outputs"])
    spans = [interface.span(place) for place in facts["places"]]
    scalars = [None if name is None else _dtype(name) for name in facts["scalars"]]
    kernel = load_kernel(artifact.blobs["object"], facts["entry"], scalars, facts["messages"], spans)
    prepared = _prepare(artifact, definition.bound)
    kept = [_value(definition.bound[name]) for name in facts["kept"]]
    fixed = (*kept, *(memory.ctypes.data for memory in prepared), *sizes.values())
    last = fixed_bits(scalars, fixed)
    fast = fast_specialization(kernel, interface, signature, outputs, last, release_gil=facts["release_gil"])
    return Specialization(signature, kernel, outputs, fast, fixed, prepared)


def _prepare(artifact: Artifact, bound: Mapping[str, BoundValue]) -> tuple[Any, ...]:
    """What is made once from bound values, as memory that must stay."""
    facts = artifact.metadata.get("prepare")
    if facts is None:
        return ()
    memory = tuple(aligned_bytes(count) for count in facts["bytes"])
    scalars = [None if name is None else _dtype(name) for name in facts["scalars"]]
    kernel = load_kernel(artifact.blobs["prepare"], facts["entry"], scalars)
    kernel.run([*(_value(bound[name]) for name in facts["inputs"]), *(m.ctypes.data for m in memory)])
    return memory


def _value(value: BoundValue) -> int | float:
    return value.pointer if isinstance(value, ArgumentInfo) else value


def output_layout(record: dict[str, Any]) -> OutputLayout:
    fill = record["fill"]
    return OutputLayout(
        record["name"], _dtype(record["dtype"]), tuple(record["shape"]), float(fill) if isinstance(fill, str) else fill
    )


def _dtype(name: str) -> DType:
    found = parse_dtype(name)
    if found is None:
        raise ValueError(name)
    return found
