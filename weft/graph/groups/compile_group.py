"""A group as machine code: its program through the same scheduling, store and loader as any operator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from weft.graph.graph import Edge, Graph, dense_strides, shape_of
from weft.graph.groups.choose import multiplications
from weft.graph.groups.group_program import GroupProgram
from weft.graph.groups.layout import canonical
from weft.graph.groups.merge_axes import merge_axes, reshaped_layout
from weft.graph.groups.split_axes import split_axes
from weft.graph.groups.storage import Storage
from weft.graph.run.arrays import Arrays
from weft.ir.buffer import Buffer
from weft.ir.expr import Expr
from weft.operators.bind import BoundDefinition
from weft.operators.definition import Definition, ProgramDefinition
from weft.operators.scheduling import Scheduling
from weft.operators.signature import Layout, Signature
from weft.operators.specialization import Specialization
from weft.runtime.argument import ArgumentInfo
from weft.runtime.arrays import describe
from weft.tensor.program import TensorProgram

#: Bytes of a constant from which on a second copy matters.
STREAMED = 1 << 16


@dataclass(frozen=True)
class Kernel:
    """Code of a group: the tensors that calls give it, then those it makes, in the order of its slots.

    ``fixed`` are the values of its last slots; ``keeps`` is memory that must live as long as it.
    """

    program: GroupProgram
    code: Specialization
    tensors: tuple[str, ...]
    fixed: tuple[int | float, ...]
    keeps: tuple[Any, ...]
    #: seconds, by the time model, and what takes most of them
    expected: float
    bound: str
    #: of schedules, where it is not the time model's first choice; and whether code is for many sizes
    plan: str = ""
    is_open: bool = False
    #: outputs that may take over the memory of an input which nobody reads later, and that input
    in_place: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Prepared:
    """A group before it is compiled: what machine code depends on."""

    program: GroupProgram
    definition: Definition
    signature: Signature
    tensors: tuple[str, ...]
    keeps: tuple[Any, ...]
    #: parameters that begin where accesses of several elements at once must not, on a GPU
    misaligned: frozenset[str] = frozenset()
    #: sizes that code leaves open, and what they are here
    sizes: tuple[tuple[str, int], ...] = ()
    #: how strides of tensors that are not dense follow from these
    strides: tuple[tuple[str, tuple[Expr, ...]], ...] = ()
    #: the same without open sizes, in case there is no code with them
    closed: Prepared | None = None

    @cached_property
    def key(self) -> tuple[str, str]:
        """What its code depends on."""
        layouts = self.signature.key
        if self.sizes:  # shapes are in the text of the program
            layouts = "; ".join(f"{name} strides {', '.join(map(str, own))}" for name, own in self.strides)
        return self.definition.key, layouts + "".join(f";{name} anywhere" for name in sorted(self.misaligned))

    def by_plan(self, plan: str) -> Prepared:
        """The same group by another plan than the time model's first choice."""
        closed = None if self.closed is None else self.closed.by_plan(plan)
        definition = self.definition.scheduled(self.definition.how._replace(plan=plan))
        return replace(self, definition=definition, closed=closed)


def prepare_group(graph: Graph, storage: Storage, program: GroupProgram, arrays: Arrays) -> Prepared:
    """``program`` with the constants it reads bound, so that packing and what depends on them alone is done once."""
    if arrays.processor.merges_axes:
        program = _with_axes_alike(graph, storage, program)
    names = dict(zip((b.name for b in program.program.params), program.inputs))
    buffers = {b.name: b for b in (*program.program.inputs, *program.program.outputs)}
    bound: dict[str, ArgumentInfo] = {}
    keeps: list[Any] = []
    for buffer, name in names.items():
        constant = storage.constant(name)
        if constant is not None and not is_streamed(graph, program.program, graph.edges[name], arrays):
            info, kept = _constant(graph, storage, name, graph.constants[constant], arrays)
            shape = shape_of(buffers[buffer].shape)
            bound[buffer] = info._replace(shape=shape, strides=dense_strides(shape))
            keeps.append(kept)
    definition: Definition = ProgramDefinition(program.program, Scheduling("auto", graph.numerics))
    if bound:
        definition = BoundDefinition(definition, dict(bound))
    open_inputs = [(b, n) for b, n in names.items() if b not in bound]
    tensors = tuple((b, _layout(graph, storage, n, buffers[b])) for b, n in open_inputs)
    made = [(b.name, _layout(graph, storage, n, b)) for b, n in zip(program.program.outputs, program.outputs)]
    is_plain = all(layout.strides == dense_strides(layout.shape) for _, layout in made)
    signature = Signature(tensors, (), () if is_plain else tuple(made))
    slots = (*(n for _, n in open_inputs), *program.outputs)
    params = {**dict(open_inputs), **{b.name: n for b, n in zip(program.program.outputs, program.outputs)}}
    offsets = {b: _offset(graph, storage, n) for b, n in params.items()} | {b: v.pointer for b, v in bound.items()}
    misaligned = frozenset(b for b, offset in offsets.items() if offset % arrays.processor.executor.code_alignment)
    return Prepared(program, definition, signature, slots, tuple(keeps), misaligned)


def is_streamed(graph: Graph, program: TensorProgram, constant: Edge, arrays: Arrays) -> bool:
    """Whether each element of a constant is used once in a call and comes from memory, since between two calls more is
    read than caches hold: read where it is, it takes as long as packed, and is there once."""
    is_used_once = constant.nbytes >= STREAMED and 0 < multiplications(program) <= constant.count
    return is_used_once and _constant_bytes(graph) > arrays.processor.cached_bytes


def _constant_bytes(graph: Graph) -> int:
    return sum(graph.edges[name].nbytes for name in graph.constants if name in graph.edges)


def _offset(graph: Graph, storage: Storage, name: str) -> int:
    """Bytes from where a tensor's memory begins to its own first element."""
    found = storage.find(name)
    assert found is not None
    return found.layout.offset * graph.edges[name].dtype.itemsize


def _constant(graph: Graph, storage: Storage, name: str, array: Any, arrays: Arrays) -> tuple[ArgumentInfo, Any]:
    """A constant as kernels see it; dense, so that only one that is not is copied."""
    edge = graph.edges[name]
    dense = dense_strides(edge.shape)
    info = describe(array)
    is_part = name not in graph.constants
    if (
        not is_part
        and info.strides != dense
        and any(n > 1 and s != d for n, s, d in zip(info.shape, info.strides, dense))
    ):
        array = arrays.arranged(array, edge, dense)
        info = describe(array)
    pointer = info.pointer + _offset(graph, storage, name)
    return info._replace(shape=edge.shape, strides=dense, pointer=pointer), array


def _with_axes_alike(graph: Graph, storage: Storage, program: GroupProgram) -> GroupProgram:
    """Dimensions that are walked by one axis here and by two there walked alike, and axes of sums merged."""
    split = split_axes(program.program)
    given = zip((*split.inputs, *split.outputs), (*program.inputs, *program.outputs))
    strides = {b.name: _layout(graph, storage, name, b).strides for b, name in given if storage.constant(name) is None}
    return replace(program, program=merge_axes(split, strides))


def _layout(graph: Graph, storage: Storage, name: str, buffer: Buffer) -> Layout:
    """As programs of groups have the tensor in ``buffer``: its axes in the order of memory, some merged."""
    found, edge = storage.find(name), graph.edges[name]
    assert found is not None
    shape, strides = edge.shape, found.layout.strides
    if edge.order is not None:
        shape, strides = (tuple(of[d] for d in edge.order) for of in (shape, strides))
        strides = canonical(shape, strides)
    return Layout(edge.dtype.name, *reshaped_layout(shape, strides, shape_of(buffer.shape)))
