"""Products in a loop whose rings the copy engine fills, of which the last uses what is made of the others' sums.

While the last product of an iteration (the second, where there are two) runs, what is done with the first's sums in the
next one is done, so the first products of that one are started before::

    first product of iteration 0; wait for it; what is done with its sums, and with those of the second product
    for each iteration n but the last:
      await turn n + 1 and start the first product of n + 1
      start the second product of n; wait for the first product of n + 1, and release what only that needed of a tile
      what is done with the first's sums in n + 1
      wait for the second product of n, and release its turn; what is done with its sums in n + 1
    second product of the last iteration; wait for it, and release its turn

The first product and what starts its sums depend on nothing else in the loop, so that they may be an iteration ahead.
No product is under way from one iteration to the next: the assembler would wait for it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.expr import Const, Expr, idx
from weft.ir.nesting import flat, sequence, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Barrier, Evaluate, For, If, Stmt, Tensorized, hint
from weft.ir.visit import Mentions, free_names, mentions, stores, substitute
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.matrix_work import is_zeros
from weft.target.cuda.persist_blocks import bulk_copies
from weft.target.cuda.read_products import GroupProducts

#: Turns of a ring so that one is fetched while the products of two iterations use others.
LEAST_TURNS = 3

#: The products that a statement is, with the statement that starts them.
Started = tuple[GroupProducts, Stmt]


@dataclass(frozen=True)
class _Parts:
    """The body of an iteration: ``fills`` of its turn and the wait for it, ``first`` product with the start of its
    sums, what is done with these (``between``), what is done with the sums of the second (``after``), and what is
    released in the last of them."""

    fills: list[Stmt]
    first: list[Stmt]
    between: list[Stmt]
    after: list[Stmt]
    releases: list[Stmt]


def overlapped(s: For, start: Callable[[Stmt], Started | None]) -> Stmt | None:
    """``s`` as above; None where it is no such loop. ``start`` tells what products a statement is."""
    allocs, parts = taken_out(s.body)
    if not parts or not is_hint(parts[-1], "turn_release") or not isinstance(parts[-1], Evaluate):
        return None
    products = {n: found for n, part in enumerate(parts[:-1]) if (found := start(part)) is not None}
    if len(products) < 2 or max(products) != len(parts) - 2 or _turns(parts) < LEAST_TURNS:
        return None
    *firsts, (_, (second, start_second)) = sorted(products.items())
    made_here = frozenset[str]().union(*(mentions(n).stored for n in parts if not bulk_copies(n)))
    sums = {first.sums.buffer.name: n for n, (first, _) in firsts}
    cut = _cut(parts[:-2], sums, second)
    if (
        cut is None
        or second.a.buffer.name not in made_here
        or any(x.a.buffer.name in made_here for _, (x, _) in firsts)
    ):
        return None
    number, *rings = parts[-1].call.args
    begin, starts = list(cut.fills), list[Stmt]()
    for _, (first, start_first) in firsts:
        own = [n for n in cut.first if first.sums.buffer.name in mentions(n).stored]
        if all(map(is_zeros, own)):
            begin += from_nothing(start_first)
            continue
        is_same = not any(mentions(n).loaded or s.var.name in free_names(n) for n in own)
        # Held, or constants would be put there just before the product needs them.
        starts += [*own, hint("hold", first.sums)] if is_same else []
        begin += [*(() if is_same else own), hint("hold", first.sums), start_first]
    kept = [a for a in allocs if a.buffer.name not in sums]
    start_all = (starts, begin, [hint("hold", second.sums), start_second])
    ahead = [first for _, (first, _) in firsts]
    made = _turned(s, kept, cut, start_all, (ahead, second), hint("turn_release", number, *rings))
    for first in ahead:
        made = Alloc(first.sums.buffer, made)
    return made


def _turned(
    s: For,
    allocs: Sequence[Alloc],
    cut: _Parts,
    starts: tuple[Sequence[Stmt], Sequence[Stmt], Sequence[Stmt]],
    products: tuple[Sequence[GroupProducts], GroupProducts],
    release: Stmt,
) -> Stmt:
    """The iterations one after another, each with the first products of the next; what the sums of these start with,
    where it is the same in all, is put there at the end of one, beside all else."""
    (values, begin, multiplied), (firsts, second) = starts, products
    holds = [hint("hold", first.sums) for first in firsts]

    def within(*body: Stmt) -> Stmt:
        """What is made anew in each iteration need not be kept from one to the next."""
        inner = sequence(body)
        for alloc in reversed(allocs):
            inner = replace(alloc, body=inner)
        return inner

    def at(n: Expr, *body: Stmt) -> list[Stmt]:
        return [simplify(substitute(part, {s.var: n})) for part in body]

    # Waited for once more, though it is there: the assembler moves no wait for products up across that. Masks make
    # tiles short, where that costs more than it gives.
    again = [n for n in cut.fills if is_hint(n, "turn_await") and constant_extent(s) is not None]
    last, following = simplify(s.hi - 1), s.var + 1
    body = [*at(following, *begin), *multiplied, hint("products_wait", idx(1)), *holds,
            *at(following, *cut.releases, *cut.between, *again), *_settled(second, 0), release,
            *at(following, *cut.after), *values]  # fmt: skip
    first = [*values, *begin, hint("products_wait", idx(0)), *holds, *cut.releases, *cut.between, *cut.after, *values]
    return sequence([
        *at(s.lo, within(*first)),
        replace(s, hi=last, body=within(*body)), *at(last, *multiplied, *_settled(second, 0), release),
    ])  # fmt: skip


def from_nothing(start: Stmt) -> list[Stmt]:
    """``start`` where sums begin: the first instruction need not have what is in them."""
    first = simplify(substitute(start.body, {start.var: start.lo})) if isinstance(start, For) else start
    assert isinstance(first, Evaluate)
    begin = replace(first, call=replace(first.call, name=first.call.name.removesuffix("_start") + "_begin"))
    rest = [replace(start, lo=simplify(start.lo + 1))] if isinstance(start, For) else []
    return [begin, *rest]


def _settled(products: GroupProducts, pending: int) -> list[Stmt]:
    return [hint("products_wait", idx(pending)), hint("hold", products.sums)]


def taken_out(s: Stmt) -> tuple[list[Alloc], list[Stmt]]:
    """The storage of an iteration, and its statements one after another."""
    allocs: list[Alloc] = []
    parts: list[Stmt] = []
    for part in flat(s):
        if isinstance(part, Alloc):
            inner, own = taken_out(part.body)
            allocs += [part, *inner]
            parts += own
        else:
            parts.append(part)
    return allocs, parts


def _turns(parts: Sequence[Stmt]) -> int:
    rings = [n.buffer for part in parts for copy in bulk_copies(part) for n in stores(copy)]
    return min((int(b.shape[0].value) for b in rings if isinstance(b.shape[0], Const)), default=0)


def _cut(parts: Sequence[Stmt], sums: Mapping[str, int], second: GroupProducts) -> _Parts | None:
    """The parts of an iteration but for the second product; ``sums`` tells the places of the first ones."""
    of_second = {second.sums.buffer.name, second.a.buffer.name}
    found = _Parts([], [], [], [], [])
    for n, part in enumerate(parts):
        held = mentions(part)
        if n in sums.values():
            continue
        if bulk_copies(part) or is_hint(part, "turn_claim", "turn_await"):
            found.fills.append(part)
        elif isinstance(part, If) and all(is_hint(inner, "turn_release") for inner in flat(part.then)):
            found.releases.append(part)
        elif len(held.stored) == 1 and not held.loaded - held.stored and n < max(sums.get(x, -1) for x in held.stored):
            found.first.append(part)
        elif found.after or held.stored & of_second:
            found.after.append(part)
        elif not (isinstance(part, Barrier) or is_hint(part, "publish")):
            found.between.append(part)
    touched = [_touched(mentions(n)) for n in found.after]
    waits = [n for n in found.after if isinstance(n, Barrier) and n.scope == "block"]
    return None if waits or any(not names.isdisjoint(sums) for names in touched) else found


def _touched(held: Mentions) -> frozenset[str]:
    return held.loaded | held.stored | held.addressed


def is_hint(s: Stmt, *names: str) -> bool:
    return isinstance(s, Evaluate) and s.call.name in names


def is_product(s: Stmt) -> Tensorized | None:
    """The nest of a product that ``s`` is, or that its loop through pieces repeats."""
    inner = strip(s.body) if isinstance(s, For) else s
    return inner if isinstance(inner, Tensorized) else None
