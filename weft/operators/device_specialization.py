"""Machine code for one signature on a GPU: made by compiling, or found in the artifact store, then loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from weft.ir import dtype as dt
from weft.ir.dtype import SCALAR_TYPES, DType
from weft.ir.stmt import Kernel
from weft.operators.alignment import alignments
from weft.operators.definition import Definition
from weft.operators.dynamic import dynamic_sizes, general_key
from weft.operators.interface import place_of
from weft.operators.pause_collector import collector_paused
from weft.operators.signature import Signature
from weft.operators.specialization import OutputLayout, buffer_bytes, output_layout
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import allocate
from weft.runtime.cuda_arrays import address_of, main_framework, stream_getter
from weft.runtime.cuda_device import Device
from weft.runtime.cuda_driver import ask
from weft.runtime.cuda_program import LoadedProgram, fits_slot
from weft.runtime.store import Artifact, default_store
from weft.target.cuda.machine import GpuMachine
from weft.target.cuda.program import CudaProgram, program_from_json
from weft.target.cuda.toolchain import toolchain_key
from weft.version import cache_key


class DeviceSpecialization(NamedTuple):
    """A loaded program and what a call of it needs to know.

    ``fixed`` are the values of its last parameters, ``prepared`` arrays among them that were filled once.
    """

    signature: Signature
    program: LoadedProgram
    outputs: tuple[OutputLayout, ...]
    fixed: tuple[int | float, ...] = ()
    prepared: tuple[Any, ...] = ()


def find_device_specialization(
    definition: Definition, signature: Signature, checks: bool, device: Device, misaligned: frozenset[str]
) -> DeviceSpecialization:
    """From the store where it is there and loads, else compiled; ``misaligned`` are arrays not at 16 bytes."""
    whole = definition.complete(signature)
    sizes = dynamic_sizes(definition.whole_interface, whole, definition.dynamic)
    parts = (definition.key, general_key(definition.whole_interface, whole, sizes), str(checks), device.machine.key)
    key = cache_key("cuda", *parts, ",".join(sorted(misaligned)), toolchain_key())
    store = default_store()
    kept = store.get(key)
    if kept is not None:
        try:
            return _load(kept, definition, signature, sizes, device)
        except (KeyError, TypeError, ValueError):
            store.remove(key)  # written by something else under our key: compile anew
    made = compile_device_artifact(definition, whole, device.machine, checks, frozenset(sizes), misaligned)
    store.put(key, made)
    return _load(made, definition, signature, sizes, device)


@collector_paused()
def compile_device_artifact(
    definition: Definition,
    signature: Signature,
    machine: GpuMachine,
    checks: bool,
    symbolic: frozenset[str],
    misaligned: frozenset[str],
) -> Artifact:
    """Machine code for ``signature``, for all values of the sizes in ``symbolic``."""
    from weft.operators.describe import describe_program
    from weft.operators.stages import build
    from weft.target.cuda.lower import compile_kernel

    constants = frozenset(definition.bound)
    made = build(definition.program, signature, machine, checks, definition.how, symbolic=symbolic, constants=constants)
    separated = made.separated()

    def compiled(kernel: Kernel) -> CudaProgram:
        return compile_kernel(kernel, machine, fast=made.fast, aligned=alignments(kernel, misaligned))

    main = compiled(separated.main)
    metadata = _facts(separated.main, main) | {"kept": separated.kept}
    metadata |= {} if symbolic else describe_program(made.program)
    blobs = {"cubin": main.cubin}
    if separated.prepare is not None:
        first = compiled(separated.prepare)
        metadata["prepare"] = _facts(separated.prepare, first) | {
            "inputs": [p.name for p in separated.prepare.params if p.name in constants],
            "bytes": [buffer_bytes(b) for b in separated.prepared],
        }
        blobs["prepare"] = first.cubin
    return Artifact(metadata, blobs)


def _facts(kernel: Kernel, program: CudaProgram) -> dict[str, Any]:
    """A program as plain data, but for its machine code."""
    return {
        "program": replace(program, cubin=b"").to_json(),
        "params": [[p.name, p.dtype.name if p in kernel.scalars else None] for p in kernel.params],
        "places": assert_places(kernel),
    }


def assert_places(kernel: Kernel) -> list[Any]:
    """Where each assert of ``kernel`` stands, in the order in which they are numbered."""
    from weft.ir.asserts import assert_sites

    return [place_of(site.span) for site in assert_sites(kernel)]


def load_program(
    facts: Mapping[str, Any], cubin: bytes, device: Device, owner: str, definition: Definition | None = None
) -> LoadedProgram:
    """A program on ``device`` from what `_facts` wrote down."""
    program = replace(program_from_json(facts["program"]), cubin=cubin)
    params = [(name, None if dtype is None else SCALAR_TYPES[dtype]) for name, dtype in facts["params"]]
    places = facts["places"] if len(facts["places"]) == len(program.sites) else []
    interface = None if definition is None else definition.interface
    spans = [] if interface is None else [interface.span(place and tuple(place)) for place in places]
    return LoadedProgram(program, device, params, owner, spans)


def _load(
    artifact: Artifact, definition: Definition, signature: Signature, sizes: Mapping[str, int], device: Device
) -> DeviceSpecialization:
    facts = artifact.metadata
    if sizes:
        from weft.operators.stages import specialized_facts

        facts = dict(facts) | specialized_facts(definition.program, definition.complete(signature))
    outputs = tuple(output_layout(record) for record in facts["outputs"])
    name = definition.interface.name
    program = load_program(facts, artifact.blobs["cubin"], device, name, definition)
    prepared = _prepare(artifact, definition, device)
    kept = [_value(definition.bound[name], dtype) for name, dtype in _kept_types(program, facts["kept"])]
    fixed = (*kept, *(pointer for _, pointer in prepared), *sizes.values())
    return DeviceSpecialization(signature, program, outputs, fixed, tuple(array for array, _ in prepared))


def _kept_types(program: LoadedProgram, kept: Sequence[str]) -> list[tuple[str, DType | None]]:
    types = dict(program.params)
    return [(name, types[name]) for name in kept]


def _value(value: Any, dtype: DType | None) -> int | float:
    if isinstance(value, ArgumentInfo):
        return value.pointer
    return value if dtype is None else fits_slot(dtype, value)


def _prepare(artifact: Artifact, definition: Definition, device: Device) -> list[tuple[Any, int]]:
    """What is made once from bound values: arrays, and their addresses."""
    facts = artifact.metadata.get("prepare")
    if facts is None:
        return []
    bound = [v for v in definition.bound.values() if isinstance(v, ArgumentInfo)]
    framework = main_framework(bound)
    arrays = [allocate(framework, dt.uint8, (count,), f"cuda:{device.index}") for count in facts["bytes"]]
    pointers = [address_of(array) for array in arrays]
    program = load_program(facts, artifact.blobs["prepare"], device, f"{definition.interface.name} (once)")
    inputs = [_value(definition.bound[name], dtype) for name, dtype in _kept_types(program, facts["inputs"])]
    values = [*inputs, *pointers]
    plan, stream = program.plan(values), stream_getter(framework)(device.index)
    scratch = allocate(framework, dt.uint8, (plan.scratch_bytes,), f"cuda:{device.index}")
    program.start(plan, values, stream, address_of(scratch))
    ask("cuStreamSynchronize", stream)  # later calls may be on other streams
    return list(zip(arrays, pointers))
