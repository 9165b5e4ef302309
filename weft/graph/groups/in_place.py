"""Which outputs of a scheduled group may lie in the memory of an input that nobody reads after it.

    Y[i, j] = max(sum[i, j] + X[i, j], 0)        Y may be where X was

An element of such an output is stored once, in a statement that alone reads the input, and of that only the element in
the same place. So whatever order loops, threads and registers give the elements, one is read before it is overwritten:
what is stored depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.ir.buffer import Buffer
from weft.ir.nesting import statements_in
from weft.ir.stmt import Block, Kernel, Store
from weft.ir.visit import loads, stores


def in_place(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """Outputs with an input each whose memory they may take over, by the names of parameters.

    A schedule runs each instance of a block once, but for temporaries that it computes again; so a block that only
    sets its elements stores each once.
    """
    read = loads(kernel.body)
    written = stores(kernel.body)
    sets = {id(s) for block in statements_in(kernel, Block) if _only_sets(block) for s in stores(block)}
    for output in kernel.buffers:
        into = [s for s in written if s.buffer == output]
        if len(into) != 1 or id(into[0]) not in sets or any(load.buffer == output for load in read):
            continue
        (store,) = into
        assert isinstance(store, Store)
        there = loads(store.value)
        for given in kernel.buffers:
            everywhere = [load for load in read if load.buffer == given]
            here = [load for load in there if load.buffer == given and load.indices == store.indices]
            if here and len(here) == len(everywhere) and _lie_alike(given, output):
                yield output.name, given.name


def _only_sets(block: Block) -> bool:
    is_once = block.init is None and all(i.kind == "spatial" for i in block.iters)
    return is_once and isinstance(block.body, Store)


def _lie_alike(one: Buffer, other: Buffer) -> bool:
    same_places = (one.shape, one.element_strides()) == (other.shape, other.element_strides())
    return same_places and one.dtype == other.dtype
