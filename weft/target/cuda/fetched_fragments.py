"""Products of a warp whose columns lie in memory: lanes fetch fragments of two steps at once, a piece ahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Call, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Evaluate, For, Let, Stmt
from weft.ir.visit import substitute
from weft.target.cuda.read_products import Products


def moved(place: AddressOf, values: Mapping[Var, Expr]) -> AddressOf:
    """``place`` where variables have ``values``."""
    return replace(place, indices=tuple(simplify(substitute(i, values)) for i in place.indices))


@dataclass(frozen=True, slots=True)
class FetchedFragments:
    """The statements of products: fragments of rows of two steps in ``a``, of columns of a whole piece in ``b``."""

    name: str
    products: Products
    a: Buffer
    b: Buffer
    lane: Var
    column: Var

    def around(self, s: Stmt) -> Stmt:
        return Let(self.lane, self.products.lane, Alloc(self.a, Alloc(self.b, s)))

    @property
    def how(self) -> str:
        """Of the instructions that lanes get fragments by."""
        return "halve" if self.products.is_made else "fetch"

    def fetches(self, values: Mapping[Var, Expr]) -> Iterator[Stmt]:
        """The columns of a piece, that where variables have ``values``."""
        for step in range(self.products.steps // 2):
            yield self.fetch(step, values)

    def fetch(self, step: int, values: Mapping[Var, Expr]) -> Stmt:
        p = self.products
        where = (self._place(self.b, step, idx(0)), moved(p.b.place, values), self.lane)
        return self._call(f"{self.how}_b", *where, *map(idx, (0, p.columns, step, p.b.row, p.b.k)))

    def steps(self, ahead: Mapping[Var, Expr] | None) -> Iterator[Stmt]:
        """The products of a piece; after each step the columns of that step are fetched where variables have the values
        ``ahead``."""
        p = self.products
        for step in range(p.steps // 2):
            for mi in range(p.rows):
                where = (self._place(self.a, 0, idx(mi)), p.a.place, self.lane)
                yield self._call(f"{self.how}_a", *where, *map(idx, (mi, step, p.a.row, p.a.k)))
            yield from (self._multiply(step, mi) for mi in range(p.rows))
            if ahead is not None:
                yield self.fetch(step, ahead)

    def _multiply(self, step: int, mi: int) -> Stmt:
        n = self.products.numbers
        fragments = (self._place(self.a, 0, idx(mi)), self._place(self.b, step, self.column))
        strides = map(idx, (n["c_mi"], n["c_half"], n["c_nj"], n["c_odd"]))
        call = self._call("twice", self.products.sums, *fragments, idx(mi), self.column, *strides)
        return For(self.column, idx(0), idx(self.products.columns), "unroll", call)

    def _place(self, buffer: Buffer, slot: int, number: Expr) -> AddressOf:
        return AddressOf(buffer, (idx(slot), number, idx(0), idx(0)))

    def _call(self, what: str, *args: Expr) -> Stmt:
        return Evaluate(Call(f"{self.name}_{what}", args, dt.index))
