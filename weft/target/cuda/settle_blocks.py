"""A product in a loop whose rings the copy engine fills, whose sums are used up in each iteration.

Such are sums of blocks of a depth that are multiplied by factors of each block and added up. What the products do not
wait for comes before they are started, so that it is there when they are done::

    load what is not made of the sums
    await the turn; start the products, from nothing
    factors, made of what was loaded
    wait for the products; release the turn
    what is done with the sums

Some iterations are written out one after another, with storage of their own for every second one: each but the first
is started before the one before it is waited for.

Under fast numerics ``S += P * a * b`` is ``S += P * (a * b)`` where ``a`` and ``b`` stay the same for many elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Expr, Load, idx
from weft.ir.nesting import around, sequence
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Barrier, For, Stmt, Store, hint
from weft.ir.visit import free_vars, loads, mentions, replace_buffers, stores, substitute
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.matrix_work import is_zeros
from weft.target.cuda.overlap_products import Started, from_nothing, is_hint, taken_out
from weft.target.cuda.persist_blocks import bulk_copies

#: Factors of a thread that are kept while products run, at most.
MOST_KEPT = 8
#: Iterations that are written out one after another; and of those that write sums to memory, each of which is long: as
#: quick, and compiled in half the time.
TOGETHER, TOGETHER_LONG = (4, 2), (2,)


def settled(s: For, start: Callable[[Stmt], Started | None], fresh: Callable[[str], str], *, fast: bool) -> Stmt | None:
    """``s`` as above; None where it is no such loop. ``start`` tells what products a statement is."""
    allocs, parts = taken_out(s.body)
    if not parts or not is_hint(parts[-1], "turn_release"):
        return None
    products = [(n, found) for n, part in enumerate(parts[:-1]) if (found := start(part)) is not None]
    if len(products) != 1:
        return None
    (at, (product, begin)), *_ = products
    sums = product.sums.buffer.name
    own = [n for n in parts[:at] if sums in mentions(n).stored]
    fills = [n for n in parts[:at] if n not in own]
    rest = parts[at + 1 : -1]
    if not own or not all(map(is_zeros, own)) or any(isinstance(n, Barrier) for n in rest) or not rest:
        return None
    hoist = _Hoist(sums, fresh, fast)
    early, meanwhile, late = hoist.cut(rest)
    rings = {n.buffer.name for part in fills for copy in bulk_copies(part) for n in stores(copy)}
    waits = [n for n in fills if is_hint(n, "turn_await")]
    if not waits or any(_touches(n, rings) for n in (*early, *meanwhile)):
        return None
    release = [parts[-1]]
    ends = (late, release) if any(_touches(n, rings) for n in late) else (release, late)
    begins = [*(n for n in fills if n not in waits), *early, *waits, *from_nothing(begin)]
    groups = (constant_extent(begin) or 1) if isinstance(begin, For) else 1
    buffers = [*(a.buffer for a in allocs), *hoist.kept]
    done = [hint("hold", product.sums), *ends[0], *ends[1]]
    is_long = any(n.buffer.scope != "register" for part in late for n in stores(part))
    together = TOGETHER_LONG if is_long else TOGETHER
    return _Turns(s, begins, meanwhile, done, groups, buffers, fresh, together).loop()


@dataclass(frozen=True)
class _Turns:
    """Iterations of ``loop_``: what each ``begins``, ``groups`` of products among it, what it does ``meanwhile``, and
    what it ``ends`` with when these are done; as many ``together`` as the first number says that there are. Storage of
    its own, ``buffers``, it has twice, so that one may begin before another ends."""

    loop_: For
    begins: Sequence[Stmt]
    meanwhile: Sequence[Stmt]
    ends: Sequence[Stmt]
    groups: int
    buffers: Sequence[Buffer]
    fresh: Callable[[str], str]
    together: Sequence[int]

    def loop(self) -> Stmt:
        """Some iterations at a time, of which each but the first begins before the one before it ends."""
        s, count = self.loop_, constant_extent(self.loop_)
        together = next((n for n in self.together if count and count >= n), 1)
        others = {b: replace(b, name=self.fresh(b.name)) for b in self.buffers} if together > 1 else {}
        if together == 1 or count is None or s.lo != idx(0):
            return replace(s, body=self.within(self.several(s.var, 1, {}), {}))
        body = self.within(self.several(s.var * together, together, others), others)
        rest = count % together
        last = [self.within(self.several(idx(count - rest), rest, others), others)] if rest else []
        return sequence([replace(s, hi=idx(count // together), body=body), *last])

    def within(self, body: Stmt, others: Mapping[Buffer, Buffer]) -> Stmt:
        for buffer in (*self.buffers, *others.values()):
            body = Alloc(buffer, body)
        return body

    def several(self, first: Expr, count: int, others: Mapping[Buffer, Buffer]) -> Stmt:
        parts = [*self.at(first, 0, self.begins, others)]
        for n in range(count):
            ahead = n + 1 < count
            parts += self.at(first, n + 1, self.begins, others) if ahead else []
            parts += self.at(first, n, self.meanwhile, others)
            parts += [hint("products_wait", idx(self.groups if ahead else 0)), *self.at(first, n, self.ends, others)]
        return sequence(parts)

    def at(self, first: Expr, n: int, parts: Sequence[Stmt], others: Mapping[Buffer, Buffer]) -> list[Stmt]:
        """``parts`` of iteration ``n`` of several, in storage of every second one."""
        values = {self.loop_.var: first + n}
        moved = [simplify(substitute(part, values)) for part in parts]
        return [replace_buffers(part, others) for part in moved] if n % 2 else moved


def _touches(s: Stmt, names: set[str]) -> bool:
    held = mentions(s)
    return not names.isdisjoint(held.loaded | held.stored | held.addressed)


@dataclass
class _Hoist:
    """What is done with ``sums``, apart from what is not made of them, which is ``kept`` until these are there."""

    sums: str
    fresh: Callable[[str], str]
    fast: bool
    kept: list[Buffer] = field(default_factory=list)

    def cut(self, parts: Sequence[Stmt]) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
        """What may come before the products, while they run, and what has to wait for them."""
        early, meanwhile, late, waiting = list[Stmt](), list[Stmt](), list[Stmt](), {self.sums}
        for part in parts:
            if _touches(part, waiting):
                loaded, made, rest = self.factors(part)
                early += loaded
                meanwhile += made
                late.append(rest)
                waiting |= mentions(part).stored
            else:
                early.append(part)
        return early, meanwhile, late

    def factors(self, s: Stmt) -> tuple[list[Stmt], list[Stmt], Stmt]:
        """``s`` with factors of many elements loaded, and made of what was loaded, before; if it is a nest that adds
        products of sums to others."""
        loops, inner = list[For](), s
        while isinstance(inner, For) and constant_extent(inner):
            loops.append(inner)
            inner = inner.body
        value = inner.value if isinstance(inner, Store) else None
        if not self.fast or not isinstance(inner, Store) or not isinstance(value, Binary) or value.op != "+":
            return [], [], s
        added = [e for e in (value.left, value.right) if self.sums in {n.buffer.name for n in loads(e)}]
        others = [e for e in (value.left, value.right) if e not in added]
        if len(added) != 1 or len(others) != 1 or not added[0].dtype.is_float:
            return [], [], s
        loaded, made, term = self.product(added[0], {x.var.name: x for x in loops}, inner.buffer.name)
        return loaded, made, around(loops, replace(inner, value=Binary("+", others[0], term)))

    def product(self, e: Expr, loops: Mapping[str, For], target: str) -> tuple[list[Stmt], list[Stmt], Expr]:
        every = list(_factors(e))
        own = [f for f in every if {self.sums, target} & {n.buffer.name for n in loads(f)}]
        groups: dict[frozenset[str], list[Expr]] = {}
        for f in sorted((f for f in every if f not in own), key=lambda f: -len(loops.keys() & free_vars(f).keys())):
            used = frozenset(loops.keys() & free_vars(f).keys())
            groups.setdefault(next((g for g in groups if used <= g), used), []).append(f)
        loaded, made = list[Stmt](), list[Stmt]()
        for names, factors in groups.items():
            through = [loop for name, loop in loops.items() if name in names]
            if prod(constant_extent(x) or 0 for x in through) <= MOST_KEPT:
                there = [self.keep(loops, f, loaded) if _is_from_memory(f) else f for f in factors]
                factors[:] = there if len(there) == 1 else [self.keep(loops, _product(there), made)]
        return loaded, made, _product([*own, *(f for factors in groups.values() for f in factors)])

    def keep(self, loops: Mapping[str, For], value: Expr, made: list[Stmt]) -> Expr:
        """``value`` in registers, for all iterations of the loops that it depends on."""
        through = [loop for name, loop in loops.items() if name in free_vars(value)]
        places = tuple(x.var for x in through) or (idx(0),)
        shape = tuple(x.hi for x in through) or (idx(1),)
        buffer = Buffer(self.fresh("factor"), value.dtype, shape, scope="register")
        self.kept.append(buffer)
        made.append(around(through, Store(buffer, places, value)))
        return Load(buffer, places)


def _is_from_memory(e: Expr) -> bool:
    return any(n.buffer.scope == "global" for n in loads(e))


def _product(factors: Sequence[Expr]) -> Expr:
    return reduce(lambda a, b: Binary("*", a, b), factors)


def _factors(e: Expr) -> list[Expr]:
    """What is multiplied in ``e``."""
    if isinstance(e, Binary) and e.op == "*" and e.dtype.is_float:
        return [*_factors(e.left), *_factors(e.right)]
    return [e]
