"""Walks through programs see all of them."""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import idx
from weft.ir.stmt import Seq, Store
from weft.ir.visit import walk


def test_a_walk_through_more_nodes_than_are_kept_misses_none() -> None:
    memory = Buffer("memory", dt.index, (idx(8),))
    stores = [Store(memory, (idx(n % 8),), idx(n)) for n in range(9_000)]
    nodes = list(walk(Seq(tuple(stores))))
    assert sum(isinstance(n, Store) for n in nodes) == 9_000
    assert len(nodes) == 1 + 3 * 9_000
