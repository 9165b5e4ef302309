"""Walks through programs see all of them."""

from __future__ import annotations

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Compare, Load, Var, idx
from weft.ir.nesting import statements_in
from weft.ir.stmt import Alloc, For, If, Let, Seq, Store
from weft.ir.visit import loads, recently, stores, walk


def test_a_walk_through_more_nodes_than_are_kept_misses_none() -> None:
    memory = Buffer("memory", dt.index, (idx(8),))
    stores = [Store(memory, (idx(n % 8),), idx(n)) for n in range(9_000)]
    nodes = list(walk(Seq(tuple(stores))))
    assert sum(isinstance(n, Store) for n in nodes) == 9_000
    assert len(nodes) == 1 + 3 * 9_000


def test_statements_of_one_kind_come_in_the_order_of_a_walk() -> None:
    memory = Buffer("memory", dt.index, (idx(8),))
    store = Store(memory, (idx(0),), idx(1))
    test = If(Compare("<", Var("i"), idx(3)), store, For(Var("k"), idx(0), idx(2), "unroll", store))
    program = Seq((For(Var("i"), idx(0), idx(8), "serial", test), For(Var("j"), idx(0), idx(8), "serial", store)))
    for kind in (For, If, Store, Seq, Let):
        assert statements_in(program, kind) == [n for n in walk(program) if isinstance(n, kind)]
    assert [loop.var.name for loop in statements_in(program, For)] == ["i", "k", "j"]


def test_loads_and_stores_come_in_the_order_of_a_walk() -> None:
    a, b = (Buffer(name, dt.index, (idx(8),)) for name in "ab")
    i = Var("i")
    inner = Store(b, (Load(a, (i,)),), Load(a, (i + 1,)) + Load(b, (i,)))
    loop = For(i, idx(0), Load(a, (idx(2),)), "serial", Alloc(a, Seq((inner, inner))))
    program = Seq((Store(a, (idx(0),), idx(1)), loop))
    assert loads(program) == [n for n in walk(program) if isinstance(n, Load)]
    assert stores(program) == [n for n in walk(program) if isinstance(n, Store)]


def test_recent_answers_are_by_identity() -> None:
    asked: list[tuple[list[int], list[int]]] = []

    @recently(2)
    def total(a: list[int], b: list[int]) -> int:
        asked.append((a, b))
        return sum(a) + sum(b)

    one, other = [1], [1]
    assert [total(one, other), total(one, other), total(other, one)] == [2, 2, 2]
    assert len(asked) == 2
    assert [total(one, one), total(one, other)] == [2, 2]  # the first ones had to go
    assert len(asked) == 4
