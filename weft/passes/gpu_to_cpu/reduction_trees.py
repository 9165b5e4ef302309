"""Trees of combined values, over elements that one statement stores, and the code that computes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr, Load, idx
from weft.ir.stmt import Stmt, Store
from weft.passes.analysis.combined_values import UNKNOWN, Values, apply_operator
from weft.passes.analysis.followed import Home
from weft.passes.gpu_to_cpu.combine_lanes import Cube, LaneWriter, sums

#: Parts that a tree may have which are not combined as vectors, elements that results may be of, and results that are
#: computed each by itself.
_MOST_PARTS, _MOST_LEAVES, _MOST_ALONE = 64, 4096, 32


@dataclass(slots=True)
class Forest:
    """The trees that values are, down to values that have a home."""

    values: Values
    homes: Mapping[int, Home]
    _statements: dict[tuple[str, int], int | None] = field(default_factory=dict)
    _leaves: dict[int, dict[int, int]] = field(default_factory=dict)

    def family(self, wanted: npt.NDArray[np.int64]) -> Family | None:
        """The reductions that threads have the results of."""
        roots = tuple(dict.fromkeys(wanted.tolist()))
        ops = {self.values[root].op for root in roots}
        op = ops.pop() if len(ops) == 1 else None
        if op is None:
            return None
        trees = [self.values.plain(op, root) for root in roots]
        statements = {self.statement(op, tree) for tree in trees}
        statement = statements.pop() if len(statements) == 1 else None
        if statement is None:
            return None
        sizes = [len(self.leaves(op, tree)) for tree in trees]
        distinct = {element for tree in trees for element in self.leaves(op, tree)}
        if sum(sizes) > _MOST_LEAVES or sum(sizes) > 2 * len(distinct):
            return None
        return Family(self, op, statement, roots, min(sizes))

    def statement(self, op: str, number: int) -> int | None:
        """The statement that stores all that ``number`` is combined from; None where there is no single one."""
        waiting = [number]
        while waiting:
            v = waiting[-1]
            below = [n for n in self.operands(op, v) if (op, n) not in self._statements]
            if below:
                waiting += below
                continue
            waiting.pop()
            found = {self._statements[op, n] for n in self.operands(op, v)}
            single = found.pop() if len(found) == 1 else None
            home = self.homes.get(v)
            self._statements[op, v] = single if single is not None else None if home is None else home.statement
        return self._statements[op, number]

    def operands(self, op: str, number: int) -> tuple[int, ...]:
        v = self.values[number]
        return (v.left, v.right) if v.op == op and v.right != UNKNOWN and not v.with_neutral else ()

    def parts(self, op: str, number: int) -> tuple[int, ...]:
        """The two values that ``number`` is combined from, where all in them is stored by one statement."""
        found = self.operands(op, number)
        statements = {self.statement(op, n) for n in found}
        return found if len(statements) == 1 and None not in statements else ()

    def leaves(self, op: str, number: int) -> dict[int, int]:
        """The elements that ``number`` is combined from, and what is in them."""
        known = self._leaves.get(number)
        if known is not None:
            return known
        found: dict[int, int] = {}
        waiting = [number]
        while waiting:
            v = waiting.pop()
            parts = self.parts(op, v)
            if not parts:
                found[self.homes[v].element] = v
            waiting += parts
        self._leaves[number] = found
        return found

    def cube(self, op: str, number: int, any_order: bool) -> Cube | None:
        """The cube of elements that ``number`` combines, and in which order of bits."""
        leaves = self.leaves(op, number)
        first, size = min(leaves), len(leaves)
        if size & (size - 1):
            return None
        bits = [e - first for e in leaves if (e - first).bit_count() == 1]
        if 1 << len(bits) != size or {first + offset for offset in sums(bits)} != leaves.keys():
            return None
        if any_order:
            return Cube(first, tuple(sorted(bits)))
        order = self.order(op, number)
        now = {element - first: v for element, v in leaves.items()}
        for bit in reversed(order):
            now = {
                at: self.values.tree(op, v, now[at + bit]) for at, v in now.items() if at + bit in now and not at & bit
            }
        return Cube(first, order) if now == {0: number} and set(order) == set(bits) else None

    def order(self, op: str, number: int) -> tuple[int, ...]:
        """How far apart the halves are that are combined, from ``number`` down to the lowest element."""
        order: list[int] = []
        while parts := self.parts(op, number):
            low, high = sorted(parts, key=lambda v: min(self.leaves(op, v)))
            order.append(min(self.leaves(op, high)) - min(self.leaves(op, low)))
            number = low
        return tuple(order)


@dataclass(frozen=True, slots=True)
class Family:
    """Reductions by ``op`` of what ``statement`` stores: ``roots`` are their results, each of ``size`` or more."""

    forest: Forest
    op: str
    statement: int
    roots: tuple[int, ...]
    size: int

    def write(self, writer: LaneWriter, into: Buffer) -> list[Stmt] | None:
        """Statements that store all results; None where the trees are of no form that is quick to compute."""
        values, any_order = self.forest.values, not writer.source.dtype.is_float
        trees = [values.plain(self.op, root) for root in self.roots]
        marked = [values[root].with_neutral for root in self.roots]
        cubes = [self.forest.cube(self.op, tree, any_order) for tree in trees]
        together = _together(cubes) if len(set(marked)) == 1 else None
        if together is not None:
            cube, slots = together
            return writer.store(cube, into, slots, marked[0])
        if len(trees) > _MOST_ALONE:
            return None
        stores: list[Stmt] = []
        for slot, (tree, mark) in enumerate(zip(trees, marked)):
            pieces = _Pieces(self.forest, self.op, any_order)
            if not pieces.fit(tree):
                return None
            value = pieces.write(tree, writer)
            stores.append(Store(into, (idx(slot),), writer.with_neutral(value) if mark else value))
        return stores


def _together(cubes: list[Cube | None]) -> tuple[Cube, dict[int, int]] | None:
    """All cubes as one that keeps the bits in which they differ, and the number of each result by its offset."""
    known = [cube for cube in cubes if cube is not None]
    if len(known) < len(cubes) or len({cube.order for cube in known}) > 1:
        return None
    order, first = known[0].order, min(cube.first for cube in known)
    slots = {cube.first - first: n for n, cube in enumerate(known)}
    kept = sorted(offset for offset in slots if offset.bit_count() == 1)
    if set(sums(kept)) != slots.keys() or not set(kept).isdisjoint(order):
        return None
    return Cube(first, order, tuple(kept)), slots


@dataclass(slots=True)
class _Pieces:
    """A tree of another form: its cubes are combined as vectors, the rest one by one."""

    forest: Forest
    op: str
    any_order: bool
    cubes: dict[int, Cube | None] = field(default_factory=dict)

    def fit(self, number: int) -> bool:
        waiting = [number]
        while waiting and len(self.cubes) <= 2 * _MOST_PARTS:
            v = waiting.pop()
            self.cubes[v] = cube = self.forest.cube(self.op, v, self.any_order)
            if cube is None:
                waiting += self.forest.parts(self.op, v)
        return not waiting

    def write(self, number: int, writer: LaneWriter) -> Expr:
        cube = self.cubes[number]
        if cube is not None and cube.order:
            return writer.single(cube)
        parts = self.forest.parts(self.op, number)
        if not parts:
            return Load(writer.source, (idx(self.forest.homes[number].element),))
        one, other = (self.write(part, writer) for part in parts)
        return apply_operator(self.op, one, other)
