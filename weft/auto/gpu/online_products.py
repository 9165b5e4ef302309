"""Attention on a GPU: two products, between which scores stay in registers, in one pass over the keys (`online`).

What comes out, outermost first::

    block: batches, tiles of 128 rows
      queries of the tile in shared memory
      tiles of keys                                 keys and values copied to shared memory some tiles ahead
        scores: queries times keys                  by warp groups of 64 rows each
        formula of each score, extremum of each row, weights, totals; sums so far rescaled
        sums: weights, from registers, times values
      what is done with sums and totals, stored

A thread has two rows in part, as instructions of warp groups spread them; the rest of a row is with three others.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.auto.gpu.contraction import cooperate
from weft.auto.gpu.contraction_digits import BLOCK, COLUMNS, GROUP_ROWS, HALF, PAIR, split_names
from weft.auto.gpu.contraction_tiles import ROWS as WARP_ROWS
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.online_chain import INSTRUCTIONS, Chain, find_matrices, loops_of, make_chain
from weft.auto.stages import Stage, StageAccess
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.schedules.find import find_buffer
from weft.schedules.layouts import LETTERS
from weft.target.cuda.rates import RESERVED_SHARED

#: Rows of a block: two warp groups.
ROWS = 2 * GROUP_ROWS
#: Keys of a tile, most first; tiles of keys and values under way, the most and the least.
KEYS, STAGES = (128, 64), (3, 2)
#: Words of a thread for scores of a tile, weights as operands, and sums: of 240 so many are for addresses and the like.
MOST_WORDS = 184
#: The fewest rows and keys that are worth tiles.
FEWEST = 32
#: Steps of the depth of an instruction.
STEP = 16


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """``rows`` of a block, ``keys`` of a tile, of which ``stages`` are in shared memory."""

    rows: int
    keys: int
    stages: int

    @property
    def way(self) -> str:
        return "two products in one pass"

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.keys} keys at a time, {self.stages} tiles of them"


def online_plans(draft: GpuDraft, stage: Stage) -> list[OnlinePlan]:
    """As many keys at a time, and as many tiles of them, as there are registers and shared memory for."""
    found = find_matrices(draft, stage) if draft.machine.has("wgmma") else None
    if found is None:
        return []
    product, values = found
    depth, width = _size(product.distinct_reads[0]), _size(values)
    plans = (OnlinePlan(ROWS, keys, stages) for keys in KEYS for stages in STAGES)
    problems = {plan: _why_not(draft, depth, width, plan) for plan in plans}
    fit = [plan for plan, why in problems.items() if why is None]
    if not fit:
        draft.decide("fallback", stage.name, "not in one pass with products", [*problems.values()][-1] or "")
    return fit[:1]


def _why_not(draft: GpuDraft, depth: int, width: int, plan: OnlinePlan) -> str | None:
    words = plan.keys // 2 + plan.keys // 4 + width // 2
    if words > MOST_WORDS or max(depth, width) > 4 * BLOCK:
        return f"rows of {depth} and {width} elements leave no registers for scores"
    if _shared_bytes(depth, width, plan) + RESERVED_SHARED > draft.machine.shared_per_block:
        return f"{plan.stages} tiles of {plan.keys} keys and values do not fit shared memory"
    return None


def apply_online(draft: GpuDraft, name: str, plan: OnlinePlan) -> None:
    chain = make_chain(draft, name)
    _check_size(draft, chain)
    made = _Made(draft, chain, plan)
    made.join()
    made.place()
    made.spread()
    made.multiply()
    draft.scheduled |= {str(b) for b in draft.s.blocks() if draft.stage(str(b)).is_inside}
    draft.decide("fusion", chain.sums, f"in one pass with `{chain.scores}` and `{chain.extremum}`",
                 "sums are rescaled where the extremum grows; scores never leave registers")  # fmt: skip
    draft.decide("tiling", chain.sums, str(plan), f"{plan.rows // GROUP_ROWS} warp groups")


def _check_size(draft: GpuDraft, chain: Chain) -> None:
    rows, keys = _counts(draft, chain)
    if min(rows, keys) < FEWEST:
        raise ScheduleError(f"{rows} rows and {keys} keys are too few for tiles")


def _counts(draft: GpuDraft, chain: Chain) -> tuple[int, int]:
    shape = draft.stage(chain.scores).write.buffer.shape
    rows, keys = (int(shape[d].value) for d in (chain.rows, chain.keys))  # type: ignore[attr-defined]
    return rows, keys


def _size(access: StageAccess) -> int:
    """Elements of a row, in whole blocks."""
    return -(-int(access.buffer.shape[-1].value) // BLOCK) * BLOCK  # type: ignore[attr-defined]


def _shared_bytes(depth: int, width: int, plan: OnlinePlan) -> int:
    return 2 * (plan.rows * depth + plan.stages * plan.keys * (depth + width) + plan.rows * plan.keys) + 2048


class _Made:
    """The nest under way."""

    def __init__(self, draft: GpuDraft, chain: Chain, plan: OnlinePlan) -> None:
        self.draft, self.s, self.c, self.plan = draft, draft.s, chain, plan
        self.outer: tuple[str, ...] = ()
        self.key = ""
        # The dimension of sums that rows are in.
        row = loops_of(draft, chain.sums, chain.weight)[chain.rows]
        self.row = loops_of(draft, chain.sums, chain.sums).index(row)

    # One nest of all

    def join(self) -> None:
        """The loops of all blocks over batches and tiles as one, and in it one pass over the keys."""
        c, s = self.c, self.s
        heads = {name: self._tile(name) for name in (*c.blocks, c.result)}
        for name in (c.extremum, *c.totals, c.sums):
            s.decompose_reduction(name, at=heads[name][-1])
        mine, (*outer, self.key) = c.extremum, heads[c.extremum]
        for name in (*c.blocks[1:], c.result):
            for own, other in zip(outer, heads[name]):
                s.fuse_loops(own, other)
        self.outer = tuple(outer)
        online = [str(b) for b in s.online(*(heads[name][-1] for name in c.blocks))]
        count = 3
        self.of_rows = [*online[:count], *(online[count + n] for n in range(len(c.totals)))]
        self.rescaled = online[count + len(c.totals)]
        finished = online[count + len(c.totals) + 1 :]
        self.finished_rows, self.finished = finished[:-1], finished[-1]
        assert mine == c.extremum

    def _tile(self, name: str) -> tuple[str, ...]:
        """Loops over batches, tiles of rows and, for what goes through keys, tiles of these, before all others."""
        c, s, draft = self.c, self.s, self.draft
        is_result = name == c.result
        loops = loops_of(draft, name, c.sums if is_result else c.formula if name in c.blocks[:2] else c.weight)
        all_loops = [str(x) for x in s.loops(name)]
        if is_result:
            row = loops[self.row]
            batch = [x for d, x in enumerate(loops) if d not in (self.row, c.columns)]
            keys: tuple[str, ...] = ()
        else:
            row = loops[c.rows]
            batch = [x for d, x in enumerate(loops) if d not in (c.rows, c.keys)]
            keys = split_names(s, loops[c.keys], self.plan.keys)
        tiles, inner = split_names(s, row, self.plan.rows)
        rest = [x for x in all_loops if x not in (*loops, *batch)]
        columns = [loops[c.columns]] if is_result else rest
        s.reorder(*batch, tiles, *keys[:1], inner, *columns, *keys[1:])
        return (*batch, tiles, *keys[:1])

    # Storage

    def place(self) -> None:
        c, s = self.c, self.s
        for name in (c.formula, c.scores):
            s.compute_at(name, self.key)
        for name in (c.extremum, *c.totals, c.sums):
            s.store_at(self._buffer(name), self.outer[-1])
        s.store_at(self._buffer(c.weight), self.key)
        rank = find_buffer(s.kernel, self._buffer(c.weight)).rank
        order = " ".join([*(LETTERS[d] for d in range(rank) if d not in (c.rows, c.keys)),
                          LETTERS[c.rows], LETTERS[c.keys]])  # fmt: skip
        made = s.pack(self._buffer(c.weight), order, at=self.key, scope="shared", pad=True, readers=[c.sums])
        self.packed, operand = str(made[0]), str(made[1])
        s.narrow(operand, c.dtype)

    def _buffer(self, name: str) -> str:
        return self.draft.stage(name).write.buffer.name

    def _inner(self, name: str, *, in_keys: bool = True) -> list[str]:
        """The loops of a block in a tile of rows, or in one of keys."""
        return [str(x) for x in self.s.loops(name)][len(self.outer) + in_keys :]

    # Threads

    def _rows(self, loop: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Threads through rows, and what a thread has of them."""
        group, loop = split_names(self.s, loop, GROUP_ROWS)
        warp, loop = split_names(self.s, loop, WARP_ROWS)
        half, lane = split_names(self.s, loop, HALF)
        return (group, warp, lane), (half,)

    def _columns(self, loop: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        block, loop = split_names(self.s, loop, BLOCK)
        tile, loop = split_names(self.s, loop, COLUMNS)
        pair, odd = split_names(self.s, loop, PAIR)
        return (pair,), (block, tile, odd)

    def _bind(self, threads: tuple[str, ...], own: tuple[str, ...], *, vector: bool = False) -> None:
        for loop in threads:
            self.s.bind(loop, "thread")
        for loop in own[:-1] if vector else own:
            self.s.unroll(loop)
        if vector:
            self.s.vectorize(own[-1])

    def spread(self) -> None:
        """All that is done with scores, extrema and sums, by the threads that have them."""
        c = self.c
        for name in self.of_rows:
            self._spread_rows(name)
        for name in (*(f"{n}_init" for n in (c.extremum, *c.totals)), *self.finished_rows):
            self._spread_rows(name, in_keys=False)
        for name in (c.formula, c.weight, self.rescaled):
            self._spread_tile(name)
        self._spread_tile(self.packed, vector=True)
        for name in (f"{c.sums}_init", self.finished):
            self._spread_tile(name, in_keys=False)
        self._spread_tile(c.result, in_keys=False, vector=True)
        for name in (c.extremum, *c.totals):
            self._reduce(name)

    def _spread_rows(self, name: str, *, in_keys: bool = True) -> None:
        threads, own = self._rows(self._inner(name, in_keys=in_keys)[-1])
        self.s.reorder(*threads, *own)
        self._bind(threads, own)

    def _spread_tile(self, name: str, *, in_keys: bool = True, vector: bool = False) -> None:
        rows, columns = self._inner(name, in_keys=in_keys)[-2:]
        (down, half), (across, own) = self._rows(rows), self._columns(columns)
        self.s.reorder(*down, *across, *half, *own)
        self._bind((*down, *across), (*half, *own), vector=vector)

    def _reduce(self, name: str) -> None:
        """What a thread has of a row first, then what the four that have one bring together."""
        s = self.s
        rows, keys = self._inner(name)[-2:]
        (down, half), (across, own) = self._rows(rows), self._columns(keys)
        s.reorder(*across, *down, *half, *own)
        before = {str(b) for b in s.blocks()}
        axis = find_buffer(s.kernel, self._buffer(name)).rank
        update, _ = map(str, s.rfactor(across[0], axis=axis, at=self.key))
        s.reorder(*down, *across, *half, *own)
        self._bind((*down, *across), (*half, *own))
        (start,) = {str(b) for b in s.blocks()} - before - {update}
        group, warp, lane, *others = self._inner(start)
        pair = next(x for x in others if x.startswith(across[0]))
        (mine,) = [x for x in others if x != pair]
        s.reorder(group, warp, lane, pair, mine)
        self._bind((group, warp, lane, pair), (mine,))
        *threads, mine, _ = self._inner(name)
        self._bind(tuple(threads), (mine,))

    # Products

    def multiply(self) -> None:
        c, s, plan = self.c, self.s, self.plan
        scores = self._product(c.scores, cut=True)
        sums = self._product(c.sums, cut=False)
        queries = self._stage(c.queries, c.scores, at=self.outer[-1])
        tiles = [self._stage(c.keyed, c.scores, at=self.key), self._stage(c.values, c.sums, at=self.key)]
        self._run_beyond()
        threads = plan.rows // GROUP_ROWS * 128
        for (load, storage), depth in ((queries, 0), *((t, 1) for t in tiles)):
            cooperate(self.draft, load, storage, len(self.outer) + depth, threads, written_out=True)
        for loop in self.outer:
            s.bind(loop, "block")
        for loop in (scores, sums):
            s.tensorize(loop, INSTRUCTIONS[c.dtype])
        s.pipeline(*(storage for _, storage in tiles), stages=plan.stages)

    def _product(self, name: str, *, cut: bool) -> str:
        """The loops of a product as those of an instruction; the outermost of these."""
        s, draft = self.s, self.draft
        rows, columns, deep = self._product_loops(name)
        (down, half), (across, own) = self._rows(rows), self._columns(columns)
        pieces: tuple[str, ...] = ()
        if cut:
            piece, deep = split_names(s, deep, BLOCK)
            pieces = (piece,)
        steps, step = split_names(s, deep, STEP)
        s.reorder(*pieces, *down, *across, steps, *half, *own, step)
        if cut:
            start = str(s.decompose_reduction(name, at=pieces[0]))
            loops = self._inner(start)
            self._bind(tuple(loops[:4]), tuple(loops[4:]))
            s.unroll(pieces[0])
        for loop in (*down, *across):
            s.bind(loop, "thread")
        assert draft.stage(name) is not None
        return steps

    def _product_loops(self, name: str) -> tuple[str, str, str]:
        if name == self.c.sums:
            rows, columns, deep = self._inner(name)[-3:]
            return rows, columns, deep
        stage = self.draft.stage(name)
        own = {d: next(n for n, k in row.items() if k) for d, row in enumerate(stage.write.rows or ()) if row}
        rows, columns = (stage.loop_of(own[d]) for d in (self.c.rows, self.c.keys))
        return rows, columns, stage.loop_of(stage.reductions[0].name)

    def _stage(self, access: StageAccess, reader: str, at: str) -> tuple[str, str]:
        """What a tile reads of a matrix, in rows of shared memory as instructions read them."""
        rank, stage = access.buffer.rank, self.draft.stage(reader)
        last, c = rank - 1, self.c
        own = next(a for a in stage.reads if a.buffer.name == access.buffer.name)
        names = [next((n for n, k in row.items() if k), "") for row in own.rows or ()]
        if access is c.queries:
            wanted = {n for n, k in (stage.write.rows or ())[c.rows].items() if k}
        elif access is c.keyed:
            wanted = {n for n, k in (stage.write.rows or ())[c.keys].items() if k}
        else:
            wanted = {i.name for i in stage.reductions}
        deep = next((d for d, n in enumerate(names) if n in wanted), None)
        if deep is None or deep == last:
            raise ScheduleError(f"rows of `{access.buffer.name}` lie across memory")
        others = [LETTERS[d] for d in range(rank) if d not in (deep, last)]
        along = LETTERS[last]
        order = " ".join([*others, f"{along}/{BLOCK}", LETTERS[deep], f"{along}%{BLOCK}"])
        load, storage = self.s.pack(access.buffer.name, order, at=at, scope="shared", pad=True, readers=[reader])
        return str(load), str(storage)

    def _run_beyond(self) -> None:
        """Tiles that are not full are computed as if they were."""
        for name in (f"{self.c.scores}_init", self.c.scores, f"{self.c.sums}_init", self.c.sums):
            self.draft.attempt(self.s.pad, name)


ONLINE: Strategy[GpuDraft] = Strategy("two products in one pass", online_plans, apply_online)


def take_online(draft: GpuDraft) -> None:
    """All of them, before formulas are put into other stages."""
    for name in [s.name for s in draft.stages]:
        if name in draft.stages and name not in draft.scheduled:
            ONLINE.schedule(draft, name)
