"""Blocks that the copy engine works for go from tile to tile, so that it is ahead of them across tiles, too.

    block i in 0:32 { block j in 0:16 {           block b in 0:132 { thread t { for wave in 0:4 {
      thread t {                                    if wave * 132 + b < 512 {
        for k in 0:64 {                               let i = ..., j = ...
          bulk_copy to R[k % 4]                       for k in 0:64 {
          products of R[k % 4]                          turn_claim(n); bulk_copy to R[n % 4]
        }                                               turn_await(n); products of R[n % 4]; turn_release(n)
        ...                                           }
      }                                               ...
    } }                                           } } } }

There are as many blocks as multiprocessors, or two or three for each where tiles are short, and ``n`` counts the turns
of a ring over all tiles: hints say where the engine waits until a turn is free, and products until it is there
(`emit_roles`). What is fetched once for a tile has turns of its own, a tile each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Binary, Cast, Compare, Const, Expr, Load, Var, const, idx
from weft.ir.hardware import BULK_COPY
from weft.ir.interval import Ranges
from weft.ir.nesting import (
    around,
    find_path,
    flat,
    inner_statements,
    perfect_nest,
    replace_in,
    sequence,
    statements,
    strip,
)
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Assign, Barrier, For, If, Kernel, Let, Stmt, Store, Tensorized, hint
from weft.ir.visit import (
    Node,
    fact,
    free_vars,
    fresh_name,
    map_statements,
    mentions,
    rewrite,
    stores,
    substitute,
    used_names,
)
from weft.passes.analysis.loop_ranges import constant_extent, loop_range, runs_at_least_once
from weft.target.cuda.launch_bounds import kept_words

#: Which rings turns are of: those of a loop through pieces, and those of tiles.
PIECES, TILES = idx(0), idx(1)


def persist_blocks(kernel: Kernel, *, cores: int, blocks_a_core: Callable[[int, int, int, int | None], int]) -> Kernel:
    """``kernel``, in grid form, with at most so many ``blocks_a_core`` of ``cores`` in launches with bulk copies."""
    taken = used_names(kernel)

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block":
            return _persisted(s, cores, blocks_a_core, taken) if bulk_copies(s) else s
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


@fact
def bulk_copies(s: Stmt) -> tuple[Tensorized, ...]:
    """What the copy engine does in ``s``."""
    own = (s,) if isinstance(s, Tensorized) and s.intrinsic == BULK_COPY else ()
    return own + tuple(copy for inner in inner_statements(s) for copy in bulk_copies(inner))


def find_bulk_loop(s: Stmt) -> For:
    """The loop each of whose iterations is a turn of the rings that the engine fills."""
    loops = [n for n in statements(s) if isinstance(n, For) and n.kind == "serial" and bulk_copies(n)]
    return next(n for n in loops if any(bulk_copies(part) and not _is_around(part) for part in flat(n.body)))


def _is_around(s: Stmt) -> bool:
    return any(isinstance(n, For) and bulk_copies(n) for n in statements(s))


def held_blocks(body: Stmt, shared: Iterable[Buffer], consumers: int, held: Callable[..., int]) -> int:
    """How many blocks with threads that run ``body`` a multiprocessor is to hold."""
    room = sum(b.byte_count() or 0 for b in shared)
    return held(kept_words(body), consumers, room, constant_extent(find_bulk_loop(body)))


def _persisted(launch: For, cores: int, blocks_a_core: Callable[..., int], taken: set[str]) -> Stmt:
    blocks, s = perfect_nest(launch, "block")
    inner: list[Alloc | Let] = []
    while isinstance(s, (Alloc, Let)):
        inner.append(s)
        s = strip(s.body)
    threads, body = perfect_nest(s, "thread")
    counts = [constant_extent(x) or 0 for x in blocks]
    total = prod(counts)
    own = [x.buffer for x in inner if isinstance(x, Alloc)]
    held = held_blocks(body, own, prod(constant_extent(x) or 0 for x in threads), blocks_a_core)
    count = min(total, cores * held)
    rounds = -(-total // count)
    turn = For(Var(fresh_name("wave", taken)), idx(0), idx(rounds), "serial", body)
    block = replace(launch, var=Var(fresh_name("b", taken)), hi=idx(count))
    place: Expr = block.var
    loop = find_bulk_loop(body)
    more = _grows(loop, blocks)
    if more:  # to and fro, so that no block has the more to do of every round
        place = place + turn.var % 2 * (count - 1 - 2 * block.var)
    number = turn.var * count + place
    # Tiles that have most to do are best done first.
    tile = (total - 1) - number if more > 0 else number
    counter = Var(fresh_name("turned", taken), dt.uint8)
    ranges = {x.var.name: loop_range(x, {}) for x in blocks}
    body, counts_turns = _numbered(turn, body, counter, ranges)
    body = _tile_fetched(turn, body)
    if mentions(body).stored & {s.buffer.name for s in inner if isinstance(s, Alloc)} - _rings(loop):
        body = sequence([body, Barrier()])  # the next tile uses the same memory
    for s in reversed([x for x in inner if isinstance(x, Let)]):
        body = replace(s, body=body)
    for x, n in zip(reversed(blocks), _digits(tile, counts)):
        body = Let(x.var, simplify(n), body)
    body = replace(turn, body=If(Compare("<", number, idx(total)), body))
    body = Let(counter, const(0, dt.uint8), body) if counts_turns else body
    body = around(threads, body)
    for s in reversed([x for x in inner if isinstance(x, Alloc)]):
        body = replace(s, body=body)
    return simplify(replace(block, body=body))


def _grows(loop: For, blocks: Sequence[For]) -> int:
    """Whether ``loop`` runs as often in all blocks (0), more often in later ones (1), or less often (-1)."""
    found = 0
    for x in blocks:
        if x.var.name in {*free_vars(loop.lo), *free_vars(loop.hi)}:
            others: dict[Var, Expr] = {y.var: y.lo for y in blocks if y is not x}
            counts = [
                simplify(substitute(substitute(loop.hi - loop.lo, {x.var: at}), others)) for at in (x.lo, x.hi - 1)
            ]
            first, last = (int(e.value) if isinstance(e, Const) else 0 for e in counts)
            found = found or (-1 if first > last else 1)
    return found


def _digits(number: Expr, counts: Sequence[int]) -> list[Expr]:
    """``number`` taken apart, the last digit first."""
    found = []
    for n, count in enumerate(reversed(counts)):
        found.append(number if n == len(counts) - 1 else number % count)
        number = number // count
    return found


def _rings(s: Stmt) -> frozenset[str]:
    return frozenset(name for copy in bulk_copies(s) for name in mentions(copy).stored)


def _numbered(turn: For, body: Stmt, counter: Var, ranges: Ranges) -> tuple[Stmt, bool]:
    """``body`` with turns counted through all iterations of ``turn``, and hints about them; whether by ``counter``,
    because it depends on the tile how many there are."""
    loop = find_bulk_loop(body)
    rings = _rings(loop)
    around_it = [s for s in find_path(body, loop) or () if isinstance(s, For)]
    number: Expr = turn.var
    for x in around_it:
        number = number * (constant_extent(x) or 0) + x.var
    counts_turns = constant_extent(loop) is None or loop.lo != idx(0)
    if counts_turns:
        number = Cast(dt.index, counter) + (loop.var - loop.lo)
    # Places in the ring and parities of turns begin again after twice the turns of the ring.
    depths = {int(n.buffer.shape[0].value) for copy in bulk_copies(loop) for n in stores(copy)}  # type: ignore[attr-defined]
    total = Cast(dt.uint8, (number - loop.var + loop.hi) % (2 * max(depths)))
    after = [Assign(counter, total)] if counts_turns else []

    def visit(n: Node) -> Node | None:
        if isinstance(n, (Load, Store, AddressOf)) and n.buffer.name in rings:
            return replace(n, indices=(number % n.buffer.shape[0], *n.indices[1:]))
        return None

    fills = [s for s in flat(loop.body) if bulk_copies(s)]
    last = fills[-1]
    parts: list[Stmt] = [hint("turn_claim", number, PIECES)]
    waiting: list[Stmt] = []
    for s in flat(loop.body):
        parts.append(rewrite(s, visit))
        if s is last:
            waiting = [hint("turn_await", number, PIECES)]
        elif waiting and not isinstance(s, Barrier):
            parts[-1:-1], waiting = waiting, []
    made = replace(loop, body=sequence([*parts, hint("turn_release", number, PIECES)]))
    return replace_in(body, loop, sequence([*_tile_released(turn, body, made, ranges), *after])), counts_turns


def _tile_released(turn: For, body: Stmt, loop: For, ranges: Ranges) -> list[Stmt]:
    """``loop``, whose last iteration releases what was fetched once for the tile, as soon as that is used."""
    whole = _rings(body) - _rings(loop)
    if not whole:
        return [loop]
    release = hint("turn_release", turn.var, TILES)
    if not _runs(loop, ranges):
        return [loop, release]
    at_end = If(Compare("==", loop.var, simplify(loop.hi - 1)), release)
    return [replace(loop, body=_after_use(loop.body, whole, at_end))]


def _after_use(s: Stmt, whole: frozenset[str], then: Stmt) -> Stmt:
    """``s`` with ``then`` where it has used ``whole`` rings."""
    parts = list(flat(s))
    last = max(n for n, part in enumerate(parts) if whole & mentions(part).loaded)
    used = parts[last]
    parts[last : last + 1] = (
        [replace(used, body=_after_use(used.body, whole, then))] if isinstance(used, Alloc) else [used, then]
    )
    return sequence(parts)


def _runs(loop: For, ranges: Ranges) -> bool:
    """Whether ``loop`` runs at least once: by its range, or because it says so."""
    ends = (loop.hi.left, loop.hi.right) if isinstance(loop.hi, Binary) and loop.hi.op == "max" else ()
    return runs_at_least_once(loop, ranges) or any(simplify(e - loop.lo) == idx(1) for e in ends)


def _tile_fetched(turn: For, body: Stmt) -> Stmt:
    """``body`` with hints about what is fetched once for a tile: that it is asked for, and waited for."""
    whole = _rings(body) - _rings(find_bulk_loop(body))
    fills = [s for s in statements(body) if isinstance(s, If) and _rings(s) and _rings(s) <= whole]

    def visit(s: Stmt) -> Stmt:
        if not any(s is fill for fill in fills):
            return map_statements(s, visit) if bulk_copies(s) else s
        before = [hint("turn_claim", turn.var, TILES)] if s is fills[0] else []
        return sequence([*before, s, *([hint("turn_await", turn.var, TILES)] if s is fills[-1] else [])])

    return visit(body) if fills else body
