"""Several products in a loop whose rings the copy engine fills: each starts as soon as its operands are there.

Products of warp groups run on their own, one after another. Those whose operands the engine has fetched are started
first; what is done with the sums of one is done while others run, and what it makes is multiplied at once::

    await the turn; start X; start Y
    wait for X; P = formula of X; start U += P B
    wait for Y; Z = formula of P and Y; start W += Z C
    wait for both; release the turn

Statements keep the order that their operands ask for. No product is under way from one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from weft.ir.expr import idx
from weft.ir.nesting import flat, sequence
from weft.ir.stmt import Barrier, For, If, Stmt, hint
from weft.ir.visit import mentions, stores
from weft.passes.analysis.loop_ranges import constant_extent
from weft.passes.analysis.matrix_work import is_zeros
from weft.target.cuda.overlap_products import Started, from_nothing, is_hint, taken_out
from weft.target.cuda.persist_blocks import bulk_copies
from weft.target.cuda.read_products import GroupProducts


@dataclass(frozen=True, eq=False)
class _Part:
    """A statement of an iteration, with all that is to follow it at once; ``first`` are those that come before it.

    Of products: what they are, how they start, and in how many groups of instructions.
    """

    body: tuple[Stmt, ...]
    loaded: frozenset[str]
    stored: frozenset[str]
    first: tuple[_Part, ...]
    products: GroupProducts | None = None
    groups: int = 0

    @property
    def is_fill(self) -> bool:
        return bool(bulk_copies(self.body[0])) or is_hint(self.body[0], "turn_claim", "turn_await")

    @property
    def is_release(self) -> bool:
        s = self.body[0]
        return isinstance(s, If) and all(is_hint(n, "turn_release") for n in flat(s.then))


def started_early(s: For, start: Callable[[Stmt], Started | None]) -> Stmt | None:
    """``s`` as above; None where it is no such loop. ``start`` tells what products a statement is."""
    allocs, parts = taken_out(s.body)
    if not parts or not is_hint(parts[-1], "turn_release"):
        return None
    found = _read(parts[:-1], [start(n) for n in parts[:-1]])
    if found is None or sum(p.products is not None for p in found) < 2 or not _are_used(found):
        return None
    body = sequence([*_Order(found).statements(), parts[-1]])
    for alloc in reversed(allocs):
        body = replace(alloc, body=body)
    return replace(s, body=body)


def _are_used(parts: Sequence[_Part]) -> bool:
    """Whether anything is made of the sums of a product, which could be done while others run."""
    return any(n.products is not None for p in parts if not p.is_release for n in p.first)


def _read(parts: Sequence[Stmt], started: Sequence[Started | None]) -> list[_Part] | None:
    """The parts of an iteration; None where threads store to shared memory what is no left operand in their own
    registers: they would have to meet, and the matrix unit to see it, while products run."""
    operands = {x[0].a.buffer.name for x in started if x is not None and x[0].is_in_lanes}
    found: list[_Part] = []
    for s, products in zip(parts, started):
        if (isinstance(s, Barrier) and s.scope == "block") or is_hint(s, "publish"):
            continue
        if not bulk_copies(s) and {n.buffer.name for n in stores(s) if n.buffer.scope == "shared"} - operands:
            return None
        if isinstance(s, Barrier) and found:
            found[-1] = replace(found[-1], body=(*found[-1].body, s))
            continue
        found.append(_part(s, found, products))
    return found


def _part(s: Stmt, before: list[_Part], started: Started | None) -> _Part:
    held = mentions(s)
    loaded, stored = held.loaded | held.addressed, held.stored
    body: tuple[Stmt, ...] = (s,)
    groups = 0
    if started is not None:
        products, start = started
        groups = (constant_extent(start) or 1) if isinstance(start, For) else 1
        sums = products.sums.buffer.name
        zeros = [p for p in before if p.stored == {sums} and not p.loaded and all(map(is_zeros, p.body))]
        if zeros and not any(sums in p.loaded | p.stored for p in before if p not in zeros):
            before[:] = [p for p in before if p not in zeros]
            body = tuple(from_nothing(start))
        else:
            body = (hint("hold", products.sums), start)
    first = [p for p in before if p.stored & (loaded | stored) or p.loaded & stored]
    rings = [p for p in before if p.is_fill] if started is not None else []
    made = _Part(body, loaded, stored, (), None if started is None else started[0], groups)
    if made.is_release:
        first = [p for p in before if p.products is not None]
    return replace(made, first=(*first, *(p for p in rings if p not in first)))


class _Order:
    """The statements of an iteration under way, and the products that run."""

    def __init__(self, parts: Sequence[_Part]) -> None:
        self.left = list(parts)
        self.running: list[_Part] = []

    def statements(self) -> Iterator[Stmt]:
        while self.left:
            part = self._next()
            self.left.remove(part)
            if part.products is None:
                yield from self._wait(part)
            else:
                self.running.append(part)
            yield from part.body
        yield from self._settled(len(self.running))

    def _next(self) -> _Part:
        """Fills as they come; then the first product that can start, or what the next one waits for."""
        ready = [p for p in self.left if not any(n in self.left for n in p.first)]
        goal = next((p for p in self.left if p.products is not None), None)
        needed = self._needed(goal) if goal is not None else []
        wanted = (
            [p for p in ready if p.is_fill],
            [p for p in ready if p.products is not None],
            [p for p in ready if p.is_release and not any(n in self.running for n in p.first)],
            [p for p in ready if p in needed],
            ready,
        )
        return next(found[0] for found in wanted if found)

    def _needed(self, goal: _Part) -> list[_Part]:
        found: list[_Part] = []
        waiting = [goal]
        while waiting:
            more = [p for p in waiting.pop().first if p in self.left and p not in found]
            found += more
            waiting += more
        return found

    def _wait(self, part: _Part) -> Iterator[Stmt]:
        """Until the products are done whose sums ``part`` uses, or whose operands it changes."""
        used = [n for n, p in enumerate(self.running) if _meet(part, p)]
        yield from self._settled(used[-1] + 1 if used else 0)

    def _settled(self, count: int) -> Iterator[Stmt]:
        """The first ``count`` products that run are done."""
        done, self.running = self.running[:count], self.running[count:]
        if done:
            yield hint("products_wait", idx(sum(p.groups for p in self.running)))
        for part in done:
            assert part.products is not None
            yield hint("hold", part.products.sums)


def _meet(part: _Part, running: _Part) -> bool:
    assert running.products is not None
    operand, sums = running.products.a.buffer.name, running.products.sums.buffer.name
    return operand in part.stored or sums in part.loaded | part.stored or (part.is_release and running in part.first)
