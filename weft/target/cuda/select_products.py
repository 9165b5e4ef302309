"""Matrix instructions in place of the nests they were declared for, statement by statement; and how they overlap.

``mma.sync`` works on fragments in the registers of a warp: they are loaded (``ldmatrix``) a step ahead, so that there
are two of each. A loop through the pieces of a product waits at a barrier until a piece has arrived, starts copies some
pieces ahead, and multiplies. There the barrier of the next iteration comes before the last step of this one, so that
the fragments of the next piece's first step are loaded while that step is computed; copies are started in between::

    barrier, load step 0 of the first piece
    for each piece:
      step 0 .. last - 1:  load the next step; multiply, in between start copies
      last step:           barrier; load step 0 of the next piece; multiply

Columns that lie in memory are fetched from there by each lane, those of a piece while the one before is computed::

    fetch the columns of the first piece
    for each piece:
      barrier, start copies
      each step:  load rows, multiply; fetch the columns of this step of the next piece

``wgmma`` reads shared memory itself and runs on its own, so a piece is started while the one before it is computed.
Where threads copy, a second barrier keeps them from overwriting that one::

    for each piece:
      barrier; start the products of this piece; wait for the piece before; barrier; start copies

Where the copy engine fills the ring there are no barriers, but turns that are awaited and released::

    for each piece:
      wait for the turn; start the products of this piece; wait for the piece before; release its turn

What is read and written between two barriers is the same as before, in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Call, Compare, Const, Expr, Var, idx
from weft.ir.hardware import HARDWARE, Hardware
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import flat, sequence, statements_in
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Barrier, Evaluate, For, If, Kernel, Let, Seq, Stmt, Store, Tensorized, hint
from weft.ir.visit import fact, fresh_name, map_statements, mentions, substitute, used_names, walk
from weft.passes.analysis.loop_ranges import loop_range
from weft.target.cuda.async_copies import Copy, copy_of, find_rings
from weft.target.cuda.fetched_fragments import FetchedFragments, moved
from weft.target.cuda.intrinsics import MMA, WGMMA
from weft.target.cuda.overlap_products import is_product, overlapped
from weft.target.cuda.read_products import GroupProducts, Products, Site, read_groups, read_products
from weft.target.cuda.settle_blocks import settled
from weft.target.cuda.start_early import started_early
from weft.target.cuda.swizzle import find_swizzled


def select_products(kernel: Kernel, *, missing_for: Callable[[Hardware], Sequence[str]], fast: bool = False) -> Kernel:
    """``kernel``, in grid form, with calls of matrix instructions where operands lie as these need them."""
    nests = {n.intrinsic for n in statements_in(kernel, Tensorized)}
    known = frozenset(h.name for h in (*MMA, *WGMMA) if h.name in nests and not missing_for(h))
    if not known:
        return kernel
    sizes = {v.name: Interval(0, None) for b in kernel.buffers for e in b.shape for v in walk(e) if isinstance(v, Var)}
    taken = used_names(kernel)
    site = Site((), sizes, frozenset(), frozenset())
    select = _Select(known, lambda name: fresh_name(name, taken), site, fast=fast)
    return replace(kernel, body=select.stmt(kernel.body))


@dataclass(frozen=True, slots=True)
class _Loop:
    """An iteration: waits and a barrier, statements that only start copies, products."""

    loop: For
    sync: tuple[Stmt, ...]
    copies: tuple[Stmt, ...]
    products: Products | GroupProducts
    name: str


@fact
def _read_before(s: Tensorized) -> list[tuple[Site, Products | GroupProducts | None]]:
    """What was found at each site: several ways to run a loop look at the products in it."""
    return []


@dataclass(frozen=True, slots=True)
class _Select:
    """The selection of ``known`` intrinsics at one place; ``rings`` are filled by copies that run on their own."""

    known: frozenset[str]
    fresh: Callable[[str], str]
    site: Site
    rings: frozenset[str] = frozenset()
    fast: bool = False

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, Tensorized):
            products = self.products(s)
            return s if products is None else self.alone(s.intrinsic, products)
        if isinstance(s, For):
            return self.loop(s)
        inner = self
        if isinstance(s, Let) and s.var.name not in assigned_names(s.body):
            inner = self.knowing(s.var, bounds(s.value, self.site.ranges))
        elif isinstance(s, Alloc) and self.site.threads:
            inner = replace(self, site=replace(self.site, private=self.site.private | {s.buffer.name}))
        return map_statements(s, inner.stmt)

    def knowing(self, var: Var, range: Interval) -> _Select:
        return replace(self, site=replace(self.site, ranges={**self.site.ranges, var.name: range}))

    def making(self, s: Stmt) -> _Select:
        """Where threads have the storage that is made in ``s``."""
        return replace(self, site=replace(self.site, private=self.site.private | mentions(s).allocated))

    def loop(self, s: For) -> Stmt:
        inner = self.knowing(s.var, loop_range(s, self.site.ranges))
        if s.kind == "block" and not self.rings:
            swizzled = find_swizzled(s, self.known)
            s = replace(s, body=_published(s.body)) if swizzled else s
            inner = replace(inner, rings=find_rings(s), site=replace(inner.site, swizzled=swizzled, launch=s))
        elif s.kind == "thread":
            inner = replace(inner, site=replace(inner.site, threads=(*inner.site.threads, s)))
        within = inner.making(s.body)
        bulk = overlapped(s, within.started) or started_early(s, within.started)
        bulk = bulk or inner.bulk_loop(s) or inner.parts_loop(s)
        bulk = bulk or settled(s, within.started, self.fresh, fast=self.fast)
        if bulk is not None:
            return bulk
        found = inner.read_loop(s)
        if found is None:
            return replace(s, body=inner.stmt(s.body))
        if isinstance(found.products, GroupProducts):
            return inner.group_loop(found, found.products)
        if found.products.is_fetched:
            return inner.fetched_loop(found, found.products)
        return inner.mma_loop(found, found.products)

    def products(self, s: Tensorized) -> Products | GroupProducts | None:
        if s.intrinsic not in self.known:
            return None
        before = _read_before(s)
        for site, found in before:
            if site == self.site:
                return found
        hardware = HARDWARE[s.intrinsic]
        found = read_groups(self.site, s, hardware) if hardware in WGMMA else read_products(self.site, s, hardware)
        before.append((self.site, found))
        return found

    def alone(self, name: str, products: Products | GroupProducts) -> Stmt:
        """The products where they stand, done before what follows."""
        if isinstance(products, GroupProducts):
            return sequence([hint("hold", products.sums), _start(name, products), *_settled(products)])
        if products.is_fetched:
            q = self.fetched(name, products)
            return q.around(sequence([*q.fetches({}), *q.steps(None)]))
        p = self.fragments(name, products)
        steps = [s for step in range(products.steps) for s in p.step(step, step + 1 < products.steps)]
        return p.around(sequence([*p.loads(0), *steps]))

    def fragments(self, name: str, products: Products) -> _Fragments:
        dtype, depth = products.a.place.buffer.dtype, 32 // products.a.place.buffer.dtype.itemsize
        a, b = (
            Buffer(self.fresh(n), dtype, (idx(2), idx(count), idx(2), idx(depth)), scope="register")
            for n, count in (("a", products.rows), ("b", (products.columns + 1) // 2 * 2))
        )
        return _Fragments(name, products, a, b, Var(self.fresh("lane")), Var(self.fresh("j")))

    def fetched(self, name: str, products: Products) -> FetchedFragments:
        dtype, depth = products.a.place.buffer.dtype, 64 // products.a.place.buffer.dtype.itemsize
        shapes = (("a", 1, products.rows), ("b", products.steps // 2, products.columns))
        a, b = (
            Buffer(self.fresh(n), dtype, (idx(slots), idx(count), idx(2), idx(depth)), scope="register")
            for n, slots, count in shapes
        )
        return FetchedFragments(name, products, a, b, Var(self.fresh("lane")), Var(self.fresh("j")))

    # Loops through the pieces of a product

    def read_loop(self, s: For) -> _Loop | None:
        """The parts of an iteration; None where it is not such a loop, or how often it runs is not a number."""
        parts = flat(s.body)
        at = next((n for n, part in enumerate(parts) if isinstance(part, Barrier)), None)
        if not self.rings or s.kind != "serial" or at is None or not isinstance(parts[-1], Tensorized):
            return None
        sync, copies, last = parts[: at + 1], parts[at + 1 : -1], parts[-1]
        if not copies or not all(map(_is_sync, sync)) or not all(map(self.only_copies, copies)) or not _runs(s):
            return None
        products = self.products(last)
        if products is None or (isinstance(products, Products) and products.steps % 2):
            return None
        if isinstance(products, GroupProducts):
            places = [products.a, products.b]
        else:
            places = [o.place for o in (products.a, products.b) if o is products.a or not products.is_fetched]
        if not all(_goes_round(place, s.var) for place in places):
            return None
        return _Loop(s, sync, copies, products, last.intrinsic)

    def only_copies(self, s: Stmt) -> bool:
        """Whether ``s`` does nothing but start copies that arrive after a later barrier."""
        if isinstance(s, Evaluate):
            return s.call.name in ("async_fill", "async_commit")
        stores = statements_in(s, Store)
        plain = all(isinstance(n, (Seq, If, For, Let, Store)) for n in walk(s) if isinstance(n, Stmt))
        return plain and bool(stores) and all(self.copy(n) is not None for n in stores)

    def copy(self, s: Store) -> Copy | None:
        return copy_of(s, self.rings, lambda buffer: buffer.name in self.site.private)

    def mma_loop(self, found: _Loop, products: Products) -> Stmt:
        """See above; copies under one condition have it in a variable, so that there need be no branch."""
        var, last = found.loop.var, products.steps - 1
        p = self.fragments(found.name, products)
        conditions: dict[Expr, Var] = {}
        copies = [s for copy in found.copies for s in self.apart(copy, conditions)]
        places = [(step, row) for step in range(last) for row in range(products.rows)]
        after: dict[tuple[int, int], list[Stmt]] = {}
        for n, copy in enumerate(copies):
            after.setdefault(places[n * len(places) // len(copies)], []).append(copy)
        steps = [s for step in range(last) for s in p.step(step, True, after)]
        ahead = [*found.sync, *p.loads(0, {var: var + 1}), *p.step(last, False)]
        body = sequence([*steps, *ahead])
        for condition, name in reversed(conditions.items()):
            body = Let(name, condition, body)
        first = sequence([*p.loads(0, {var: found.loop.lo}), replace(found.loop, body=body)])
        return sequence([*found.sync, p.around(first)])

    def fetched_loop(self, found: _Loop, products: Products) -> Stmt:
        """See above; the last piece, after which there is none to fetch, is done after the loop."""
        loop, last = found.loop, simplify(found.loop.hi - 1)
        p = self.fetched(found.name, products)
        begin = (*found.sync, *found.copies)
        body = sequence([*begin, *p.steps({loop.var: loop.var + 1})])
        final = simplify(substitute(sequence([*begin, *p.steps(None)]), {loop.var: last}), self.site.ranges)
        return p.around(sequence([*p.fetches({loop.var: loop.lo}), replace(loop, hi=last, body=body), final]))

    def apart(self, s: Stmt, conditions: dict[Expr, Var]) -> Iterator[Stmt]:
        """The copies of ``s`` one by one."""
        if not isinstance(s, If) or s.otherwise is not None:
            yield from _written_out(s)
            return
        for part in _written_out(s.then):
            if self.always_copies(part) and s.condition not in conditions:
                conditions[s.condition] = Var(self.fresh("ahead"), dt.bool_)
            yield If(conditions[s.condition] if self.always_copies(part) else s.condition, part)

    def always_copies(self, s: Stmt) -> bool:
        """Whether ``s`` copies what is there everywhere, with no test of its own."""
        store = s.body if isinstance(s, For) and s.kind == "vector" else None
        copy = self.copy(store) if isinstance(store, Store) else None
        return copy is not None and copy.condition is None

    def group_loop(self, found: _Loop, products: GroupProducts) -> Stmt:
        start = _start(found.name, products)
        body = [*found.sync, start, hint("products_wait", idx(1)), Barrier(), *found.copies]
        loop = replace(found.loop, body=sequence(body))
        return sequence([hint("hold", products.sums), loop, *_settled(products)])

    def started(self, s: Stmt) -> tuple[GroupProducts, Stmt] | None:
        """The products of a group that ``s`` is, or its parts are, and the statement that starts them."""
        nest = is_product(s)
        within = self if not isinstance(s, For) else self.knowing(s.var, loop_range(s, self.site.ranges))
        products = None if nest is None else within.products(nest)
        if nest is None or not isinstance(products, GroupProducts) or (isinstance(s, For) and not _runs(s)):
            return None
        start = _start(nest.intrinsic, products)
        return products, replace(s, body=start) if isinstance(s, For) else start

    def parts_loop(self, s: For) -> Stmt | None:
        """A loop that is nothing but parts of a product by a group, which all start before they are waited for."""
        found = self.started(s)
        if found is None:
            return None
        products, start = found
        return sequence([hint("hold", products.sums), start, *_settled(products)])

    def bulk_loop(self, s: For) -> Stmt | None:
        """A loop whose turns the copy engine fills: each is released when its products are done, and those of the next
        one have started; None where ``s`` is no such loop."""
        *parts, release = flat(s.body)
        if not _is_hint(release, "turn_release") or not isinstance(release, Evaluate) or not _runs(s):
            return None
        last = list(takewhile(lambda n: isinstance(n, Tensorized), reversed(parts)))[::-1]
        found = [self.products(n) for n in last if isinstance(n, Tensorized)]
        products = [p for p in found if isinstance(p, GroupProducts)]
        if not products or len(products) < len(found):
            return None
        sums = {p.sums.buffer.name for p in products}
        if any(sums & mentions(n).stored for n in parts[: -len(last)]):
            return None  # what is done with the sums would have to wait for them
        number, *rings = release.call.args
        ends = (number - 1, substitute(number, {s.var: s.hi - 1}))
        before, final = (hint("turn_release", simplify(e), *rings) for e in ends)
        later = If(Compare(">", s.var, s.lo), before)
        names = [n.intrinsic for n in last if isinstance(n, Tensorized)]
        starts = [_start(name, p) for name, p in zip(names, products)]
        body = sequence([*parts[: -len(last)], *starts, hint("products_wait", idx(len(starts))), later])
        holds = [hint("hold", p.sums) for p in products]
        return sequence([*holds, replace(s, body=body), hint("products_wait", idx(0)), *holds, final])


@dataclass(frozen=True, slots=True)
class _Fragments:
    """The statements of products with fragments of two steps in ``a`` and ``b``."""

    name: str
    products: Products
    a: Buffer
    b: Buffer
    lane: Var
    column: Var

    def around(self, s: Stmt) -> Stmt:
        return Let(self.lane, self.products.lane, Alloc(self.a, Alloc(self.b, s)))

    def loads(self, step: int, values: Mapping[Var, Expr] | None = None) -> Iterator[Stmt]:
        """Fragments of a step, where variables have ``values``: of 16 rows each, of 16 columns or the last 8."""
        p, slot = self.products, step % 2
        a, b = (moved(operand.place, values or {}) for operand in (p.a, p.b))
        for mi in range(p.rows):
            where = (self.place(self.a, slot, idx(mi)), a, self.lane)
            yield self.call("load_a", *where, *map(idx, (mi, step, p.a.row, p.a.k)))
        for nj in range(0, p.columns, 2):
            where = (self.place(self.b, slot, idx(nj)), b, self.lane)
            yield self.call("load_b", *where, *map(idx, (nj, min(2, p.columns - nj), step, p.b.row, p.b.k)))

    def step(
        self, step: int, has_next: bool, after: Mapping[tuple[int, int], list[Stmt]] | None = None
    ) -> Iterator[Stmt]:
        """The products of a step, each row with what is to come ``after`` it; the next step is loaded first."""
        if has_next:
            yield from self.loads(step + 1)
        for row in range(self.products.rows):
            yield self.multiply(step, row)
            yield from (after or {}).get((step, row), ())

    def multiply(self, step: int, mi: int) -> Stmt:
        n, slot = self.products.numbers, step % 2
        fragments = (self.place(self.a, slot, idx(mi)), self.place(self.b, slot, self.column))
        strides = map(idx, (n["c_mi"], n["c_half"], n["c_nj"], n["c_odd"]))
        call = self.call("multiply", self.products.sums, *fragments, idx(mi), self.column, *strides)
        return For(self.column, idx(0), idx(self.products.columns), "unroll", call)

    def place(self, buffer: Buffer, slot: int, number: Expr) -> AddressOf:
        return AddressOf(buffer, (idx(slot), number, idx(0), idx(0)))

    def call(self, what: str, *args: Expr) -> Stmt:
        return Evaluate(Call(f"{self.name}_{what}", args, dt.index))


def _published(s: Stmt) -> Stmt:
    """``s`` with what threads stored to shared memory made known to the matrix unit before they meet."""
    if isinstance(s, Barrier) and s.scope == "block":
        return sequence([hint("publish"), s])
    return map_statements(s, _published)


def _start(name: str, p: GroupProducts) -> Stmt:
    names = ("KS", "NB", "a_row", "a_k", "b_block", "b_col", "b_k", "c_half", "c_block", "c_nj", "c_odd", "NJ")
    numbers = (idx(p.numbers[n]) for n in names)
    return Evaluate(Call(f"{name}_start", (p.sums, p.a, p.b, p.lane, *numbers), dt.index))


def _settled(products: GroupProducts) -> list[Stmt]:
    """The sums are there."""
    return [hint("products_wait", idx(0)), hint("hold", products.sums)]


def _is_hint(s: Stmt, name: str) -> bool:
    return isinstance(s, Evaluate) and s.call.name == name


def _is_sync(s: Stmt) -> bool:
    if isinstance(s, Barrier):
        return s.scope == "block"
    return isinstance(s, Evaluate) and s.call.name in ("async_wait", "publish")


def _runs(s: For) -> bool:
    """Whether the number of iterations is a number, so that nothing in the loop can change it."""
    return isinstance(s.lo, Const) and isinstance(s.hi, Const) and s.lo.value < s.hi.value


def _goes_round(place: AddressOf, var: Var) -> bool:
    """Whether piece after piece is in turn after turn of a ring: then the one after the last is storage, too."""
    first = simplify(place.indices[0]) == simplify(var % place.buffer.shape[0])
    return first and not any(n == var for i in place.indices[1:] for n in walk(i))


def _written_out(s: Stmt) -> Iterator[Stmt]:
    """The iterations of loops that are to be unrolled, one by one."""
    for part in flat(s):
        if isinstance(part, For) and part.kind == "unroll" and _runs(part):
            lo, hi = (int(e.value) for e in (part.lo, part.hi) if isinstance(e, Const))
            yield from (simplify(substitute(part.body, {part.var: idx(n)})) for n in range(lo, hi))
        else:
            yield part
