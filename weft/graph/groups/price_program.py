"""What the time model expects of a program by itself, on row-major tensors, before anything is decided about it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from weft.graph.graph import dense_strides, shape_of
from weft.graph.run.processor import Processor
from weft.operators.definition import ProgramDefinition
from weft.operators.scheduling import Scheduling
from weft.operators.signature import Layout, Signature
from weft.operators.stages import build
from weft.runtime.store import Artifact, default_store
from weft.tensor.program import TensorProgram
from weft.version import cache_key

#: Asked before a program is priced, while a graph is compiled: what the same model at other sizes knows of it.
#: Takes the program and what else the price depends on, and what prices it.
REMEMBER: ContextVar[Callable[[TensorProgram, str, Callable[[], float]], float]] = ContextVar(
    "REMEMBER", default=lambda _program, _facts, price: price()
)


def price_program(processor: Processor, program: TensorProgram, constants: frozenset[str]) -> float:
    """Seconds, where the inputs named ``constants`` are packed before; as this process or one before found it."""
    facts = f"{sorted(constants)} {processor.key}"
    return REMEMBER.get()(program, facts, lambda: _price(processor, program, constants))


def _price(processor: Processor, program: TensorProgram, constants: frozenset[str]) -> float:
    shapes = [(b.name, b.dtype.name, shape_of(b.shape)) for b in program.inputs]
    tensors = tuple((name, Layout(dtype, shape, dense_strides(shape))) for name, dtype, shape in shapes)
    definition, signature = ProgramDefinition(program, Scheduling("auto", "fast")), Signature(tensors, (), ())
    key = cache_key("price", definition.key, signature.key, ",".join(sorted(constants)), processor.key)
    store = default_store()
    kept = store.get(key)
    if kept is None or "expected" not in kept.metadata:
        whole = definition.complete(signature)
        made = build(program, whole, processor.machine, True, definition.how, constants=constants)
        kept = Artifact({"expected": processor.estimate()(made.separated().main, made.fast)[0]})
        store.put(key, kept)
    return float(kept.metadata["expected"])
