"""Machine code for one signature: made by compiling, or found in the artifact store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from weft.ir.dtype import DType, parse_dtype
from weft.ir.errors import TargetError
from weft.operators.definition import Definition
from weft.operators.interface import Interface, place_of
from weft.operators.scheduling import DEFAULT, Scheduling, thread_key
from weft.operators.signature import Layout, Signature, dense_strides
from weft.runtime import fastcall
from weft.runtime.fastcall import ArgumentRule, ConstantValue, ScalarType, TensorLayout
from weft.runtime.kernel import LoadedKernel, load_kernel
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.llvm import llvm_version
from weft.version import cache_key

if TYPE_CHECKING:
    from weft.tensor.program import TensorProgram


class OutputLayout(NamedTuple):
    """An output of a specialization; ``fill`` is what a fresh one starts from where the kernel reads it."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    fill: int | float | bool | None


class Specialization(NamedTuple):
    """A loaded kernel and what a call of it needs to know; ``fast`` is the same for the fast call."""

    signature: Signature
    kernel: LoadedKernel
    outputs: tuple[OutputLayout, ...]
    fast: fastcall.Specialization


def find_specialization(definition: Definition, signature: Signature, checks: bool) -> Specialization:
    """From the store where it is there and loads, else compiled."""
    machine = host_machine()
    key = cache_key(
        "kernel", definition.key, signature.key, str(checks), machine.key, llvm_version(), thread_key(definition.how)
    )
    store = default_store()
    kept = store.get(key)
    if kept is not None:
        try:
            return load_specialization(kept, signature, definition.interface)
        except (TargetError, KeyError, TypeError, ValueError):
            store.remove(key)  # written by something else under our key: compile anew
    made = compile_artifact(definition.program, signature, machine, checks, definition.how)
    store.put(key, made)
    return load_specialization(made, signature, definition.interface)


def compile_artifact(
    program: TensorProgram, signature: Signature, machine: Machine, checks: bool, how: Scheduling = DEFAULT
) -> Artifact:
    from weft.operators.describe import output_records, releases_gil
    from weft.operators.stages import build

    made = build(program, signature, machine, checks, how)
    compiled = made.compiled()
    metadata = {
        "entry": compiled.entry,
        "scalars": [None if p in made.program.inputs else p.dtype.name for p in made.program.params],
        "messages": [site.message for site in compiled.sites],
        "release_gil": releases_gil(made.program),
        "places": [place_of(site.span) for site in compiled.sites],
        "outputs": output_records(made.program),
    }
    return Artifact(metadata, {"object": compiled.object})


def load_specialization(artifact: Artifact, signature: Signature, interface: Interface) -> Specialization:
    facts = artifact.metadata
    outputs = tuple(_output_layout(record) for record in facts["outputs"])
    scalars = [None if name is None else _dtype(name) for name in facts["scalars"]] + [None] * len(outputs)
    spans = [interface.span(place) for place in facts["places"]]
    kernel = load_kernel(artifact.blobs["object"], facts["entry"], scalars, facts["messages"], spans)
    fast = _fast_specialization(kernel, interface, signature, outputs, facts["release_gil"])
    return Specialization(signature, kernel, outputs, fast)


def _fast_specialization(
    kernel: LoadedKernel,
    interface: Interface,
    signature: Signature,
    outputs: tuple[OutputLayout, ...],
    release_gil: bool,
) -> fastcall.Specialization:
    layouts, constants = dict(signature.tensors), dict(signature.constants)
    given = dict(signature.outputs)
    rules: list[ArgumentRule] = []
    slots: list[int | None] = []
    taken = 0
    for p in interface.params:
        if p.name in constants:
            rules.append(ConstantValue(constants[p.name]))
            slots.append(None)
            continue
        rules.append(_tensor_rule(layouts[p.name]) if p.name in layouts else ScalarType(_dtype(p.dtype)))
        slots.append(taken)
        taken += 1
    return fastcall.Specialization(
        kernel,
        tuple(rules),
        tuple(slots),
        tuple(_tensor_rule(given[o.name]) if o.name in given else _fresh_rule(o) for o in outputs),
        tuple(range(taken, taken + len(outputs))),
        release_gil=release_gil,
        allocates=not given and all(o.fill is None for o in outputs) and not any(o.needed for o in interface.outputs),
    )


def _tensor_rule(layout: Layout) -> TensorLayout:
    return TensorLayout(_dtype(layout.dtype), layout.shape, layout.strides)


def _fresh_rule(output: OutputLayout) -> TensorLayout:
    return TensorLayout(output.dtype, output.shape, dense_strides(output.shape))


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
