"""Windows that are read of what a product has made, channel by channel: where both may be one kernel.

A depthwise convolution reads of each channel a window of pixels, and of no other channel any. So some channels of what
is in between can be made, read and forgotten before the next ones are begun; it never leaves a near cache. Such pairs
are found by their subscripts; whether one kernel is quicker than two, others say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.graph.graph import Fragment, Graph
from weft.graph.groups.group_program import group_program
from weft.graph.groups.mapping import kind_of
from weft.graph.groups.partition import Group, Item, Partition, WindowEdge
from weft.graph.groups.storage import Storage
from weft.ir.expr import Const, Load, Var
from weft.ir.visit import loads
from weft.tensor.program import Statement

#: Values of an axis that both have to themselves, at least: some vectors.
FEWEST_SHARED = 16


@dataclass(frozen=True)
class WindowPair:
    """``first`` makes the tensor of ``edge``, whose windows ``second`` reads; nobody else reads it."""

    first: Group
    second: Group
    edge: WindowEdge


def find_pairs(storage: Storage, least_bytes: float) -> list[WindowPair]:
    """Pairs of groups with at least so many bytes in between, no group in two of them."""
    partition, taken, found = storage.partition, set[int](), list[WindowPair]()
    for item in partition.items:
        for pair in _pairs_of(storage, item):
            edge = storage.graph.edges[pair.edge[0]]
            if edge.nbytes >= least_bytes and not taken & {id(pair.first), id(pair.second)}:
                taken |= {id(pair.first), id(pair.second)}
                found.append(pair)
    return found


def _pairs_of(storage: Storage, item: Item) -> Iterator[WindowPair]:
    """Those in which ``item`` reads the windows."""
    node = _only_product(item)
    if node is None or not isinstance(item, Group):
        return
    for name, source in storage.partition.sources(node):
        if not isinstance(source, Group) or source is item or _only_product(source) is None:
            continue
        is_private = storage.outputs(source) == [name] and _is_private(storage.partition, name, item)
        if is_private and _shares_channels(storage.graph, storage, node, name):
            yield WindowPair(source, item, (name, node.name))


def _only_product(item: Item) -> Fragment | None:
    """The one contraction of a group."""
    if not isinstance(item, Group) or item.kind != "contraction":
        return None
    found = [m for m in item.members if kind_of(m.program) == "contraction"]
    return found[0] if len(found) == 1 else None


def _is_private(partition: Partition, name: str, reader: Group) -> bool:
    maker = partition.graph.producers[name]
    return isinstance(maker, Fragment) and partition.is_read_by(maker, reader)


def _shares_channels(graph: Graph, storage: Storage, node: Fragment, name: str) -> bool:
    """Whether ``node`` reads windows of ``name`` along some axes, and along one only where its own result is."""
    program = group_program(graph, [node], list(node.outputs), storage.source, node.name)
    given = dict(zip(program.inputs, program.program.inputs))
    if (buffer := given.get(_read_as(storage, node, name))) is None:
        return False
    read = [(s, load) for s in program.program.statements for load in loads(s.value) if load.buffer == buffer]
    return bool(read) and all(_is_window_by_channel(s, load) for s, load in read)


def _read_as(storage: Storage, node: Fragment, name: str) -> str:
    """The input of ``node`` that is ``name`` or a view in its memory."""
    found = (given for given in node.inputs if (at := storage.find(given)) is not None and at.source == name)
    return next(found, "")


def _is_window_by_channel(s: Statement, load: Load) -> bool:
    """Whether no dimension is gone through by the sum alone, and one by an axis of the result alone."""
    summed = {a.var.name for a in s.reduce_axes}
    sizes = {a.var.name: int(a.hi.value) for a in s.axes if isinstance(a.hi, Const)}
    plain = [i.name for i in load.indices if isinstance(i, Var)]
    if not summed or any(name in summed and sizes.get(name, 2) > 1 for name in plain):
        return False
    return any(name not in summed and sizes.get(name, 0) >= FEWEST_SHARED for name in plain)
