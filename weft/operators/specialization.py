"""Machine code for one signature: made by compiling, or found in the artifact store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.ir.dtype import DType, parse_dtype
from weft.ir.errors import TargetError
from weft.ir.span import Source, Span
from weft.operators.definition import Definition
from weft.operators.interface import Place, place_of
from weft.operators.signature import Signature
from weft.runtime.kernel import LoadedKernel, load_kernel
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.llvm import llvm_version
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.tensor.program import TensorProgram


@dataclass(frozen=True, slots=True)
class OutputLayout:
    """An output of a specialization; ``fill`` is what a fresh one starts from where the kernel reads it."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    fill: int | float | bool | None


@dataclass(frozen=True, slots=True)
class Specialization:
    """A loaded kernel and what a call of it needs to know; ``places`` locates each of its asserts."""

    signature: Signature
    kernel: LoadedKernel
    outputs: tuple[OutputLayout, ...]
    places: tuple[Span | None, ...]


def find_specialization(definition: Definition, signature: Signature, checks: bool) -> Specialization:
    """From the store where it is there and loads, else compiled."""
    machine = host_machine()
    key = cache_key("kernel", definition.key, signature.key, str(checks), machine.key, llvm_version())
    store = default_store()
    kept = store.get(key)
    if kept is not None:
        try:
            return load_specialization(kept, signature, definition.source)
        except (TargetError, KeyError, TypeError, ValueError):
            store.remove(key)  # written by something else under our key: compile anew
    made = compile_artifact(definition.program, signature, machine, checks)
    store.put(key, made)
    return load_specialization(made, signature, definition.source)


def compile_artifact(program: TensorProgram, signature: Signature, machine: Machine, checks: bool) -> Artifact:
    from weft.operators.describe import output_records
    from weft.operators.stages import build

    made = build(program, signature, machine, checks)
    compiled = made.compiled()
    metadata = {
        "entry": compiled.entry,
        "scalars": [None if p in made.program.inputs else p.dtype.name for p in made.program.params],
        "messages": [site.message for site in compiled.sites],
        "places": [place_of(site.span) for site in compiled.sites],
        "outputs": output_records(made.program),
    }
    return Artifact(metadata, {"object": compiled.object})


def load_specialization(artifact: Artifact, signature: Signature, source: Source) -> Specialization:
    facts = artifact.metadata
    outputs = tuple(_output_layout(record) for record in facts["outputs"])
    scalars = [None if name is None else _dtype(name) for name in facts["scalars"]] + [None] * len(outputs)
    kernel = load_kernel(artifact.blobs["object"], facts["entry"], scalars, facts["messages"])
    return Specialization(signature, kernel, outputs, tuple(_span(p, source) for p in facts["places"]))


def _output_layout(record: dict[str, Any]) -> OutputLayout:
    fill = record["fill"]
    return OutputLayout(
        record["name"], _dtype(record["dtype"]), tuple(record["shape"]), float(fill) if isinstance(fill, str) else fill
    )


def _dtype(name: str) -> DType:
    found = parse_dtype(name)
    if found is None:
        raise ValueError(name)
    return found


def _span(place: Place | None, source: Source) -> Span | None:
    return None if place is None else Span(source, *place)
