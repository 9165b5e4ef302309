"""From every layout to every other: each rank ends with what the layout says, and bytes follow the ring's counts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from weft.dist.layout import REPLICATED, Layout, Partial, Split, held
from weft.dist.mesh import Mesh
from weft.dist.moves import AllReduce, ReduceScatter, bytes_sent, steps
from weft.dist.ranks import Distributed, Ranks
from weft.ir.buffer import Buffer
from weft.ir.dtype import int32
from weft.ir.errors import ArgumentError
from weft.ir.expr import idx

KINDS: list[Any] = [REPLICATED, Split(0), Split(1), Partial("+")]


@pytest.mark.parametrize("sizes", [(2, 2), (3, 2), (2, 1)])
@pytest.mark.parametrize("shape", [(5, 4), (1, 7), (12, 6)])
def test_all_moves_of_two_axes(sizes: tuple[int, int], shape: tuple[int, int]) -> None:
    mesh, buffer = Mesh(sizes, ("a", "b")), Buffer("x", int32, tuple(map(idx, shape)))
    whole = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape) + 1
    start = Distributed(buffer, Layout((REPLICATED, REPLICATED)), [whole.copy() for _ in range(mesh.count)])
    layouts = [Layout(kinds) for kinds in itertools.product(KINDS, repeat=2)]
    layouts += [Layout((Split(0), REPLICATED), ((0, 1, 2),)), Layout((Split(0), Split(0)), ((0, 1, 0),))]
    for first, second in itertools.product(layouts, repeat=2):
        ranks = Ranks(mesh, {})
        there = ranks.moved(ranks.moved(start, first), second)
        assert there.layout == second
        for rank in range(mesh.count):
            box = held(shape, second, mesh, rank)
            assert there.parts[rank].shape == tuple(hi - lo for lo, hi in box), (first, second)
        back = ranks.moved(there, start.layout)
        for part in back.parts:
            np.testing.assert_array_equal(part, whole, err_msg=f"{first} {second}")


def test_parts_become_pieces_in_one_step() -> None:
    assert steps(Layout((Partial("+"),)), Layout((Split(1),))) == [ReduceScatter(0, "+", 1)]


def test_bytes_of_a_ring() -> None:
    mesh, layout = Mesh((4,), ("a",)), Layout((Partial("+"),))
    assert bytes_sent(AllReduce(0, "+"), (8, 8), 4, layout, mesh) == 2 * 3 * 64
    assert bytes_sent(ReduceScatter(0, "+", 0), (8, 8), 4, layout, mesh) == 3 * 64


def test_mesh_of_no_devices() -> None:
    with pytest.raises(ArgumentError, match="mesh axis b has 0 devices"):
        Mesh((2, 0), ("a", "b"))
