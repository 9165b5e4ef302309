"""Attention on a GPU: two products, between which scores stay in registers, in one pass over the keys (`online`).

What comes out, outermost first::

    block: batches, tiles of 128 rows
      queries of the tile in shared memory
      tiles of keys                                 keys and values copied to shared memory some tiles ahead
        scores: queries times keys                  by warp groups of 64 rows each
        formula of each score, extremum of each row, weights, totals; sums so far rescaled
        sums: weights, from registers, times values
      what is done with sums and totals, stored
"""

from __future__ import annotations

from weft.auto.gpu.contraction_digits import BLOCK, GROUP_ROWS, split_names
from weft.auto.gpu.contraction_operands import cooperate
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.online_chain import (
    INSTRUCTIONS,
    Chain,
    find_matrices,
    iterators,
    loads_of,
    loops_of,
    make_chain,
    part_of,
    split_groups,
)
from weft.auto.gpu.online_plan import OnlinePlan, counts_of, online_plans, part_size
from weft.auto.gpu.tile_pass import TilePass, layout_words
from weft.auto.strategy import Strategy
from weft.ir.affine import linear_form
from weft.ir.errors import ScheduleError
from weft.ir.expr import Expr, Load, Var
from weft.ir.visit import free_vars
from weft.schedules.find import find_buffer, find_loop
from weft.schedules.layouts import LETTERS


def apply_online(draft: GpuDraft, name: str, plan: OnlinePlan) -> None:
    chain = make_chain(draft, name, lambda c: part_size(draft, c, plan))
    OnePass(draft, chain, plan).make()
    if chain.part is not None:
        draft.attempt(_bring_together, draft, name, chain)
    draft.decide("fusion", chain.sums, f"in one pass with `{chain.scores}` and `{chain.extremum}`",
                 "sums are rescaled where the extremum grows; scores never leave registers")  # fmt: skip
    draft.decide("tiling", chain.sums, str(plan), f"{plan.rows // GROUP_ROWS} warp groups")


def _bring_together(draft: GpuDraft, extremum: str, chain: Chain) -> None:
    """What all parts give, in one launch: a thread has a column of a row, and finds what goes with the row itself."""
    s, users = draft.s, draft.stages.consumers
    (*totals, sums) = (users(draft.stage(part))[0].name for part in (*chain.row_results[1:], chain.result))
    result, *others = (r.name for r in users(draft.stage(sums)))
    if others:
        raise ScheduleError(f"more is made of `{sums}` than `{result}`")
    *outer, column, _ = (str(x) for x in s.loops(sums))
    s.reverse_compute_at(result, column)
    for name in (*reversed(totals), extremum):
        s.compute_at(name, column)
    s.store_at(draft.stage(sums).write.buffer.name, column)
    for loop in outer:
        s.bind(loop, "block")
    s.bind(column, "thread")
    draft.decide("fusion", result, f"computed together with what all parts of `{sums}` give", "parts are few")
    draft.scheduled |= {extremum, *totals, sums, result}


class OnePass(TilePass):
    """The nest under way."""

    def __init__(self, draft: GpuDraft, chain: Chain, plan: OnlinePlan) -> None:
        super().__init__(draft)
        self.c, self.plan = chain, plan
        self.counts, self.across = counts_of(draft, chain), iterators(draft, chain.sums, chain.sums)[chain.columns]
        self.width = draft.stage(chain.sums).by_name[self.across].count
        # What `online` makes: of each row, sums that are rescaled, and of what is finished in the end.
        self.of_rows, self.rescaled = list[str](), list[str]()
        self.finished_rows, self.finished = list[str](), list[str]()
        # The iterators of products that go through rows, or keys, of a tile of each matrix.
        self.tiled = {chain.queries: chain.row_iterator, chain.keyed: chain.key_iterator,
                      chain.values: draft.stage(chain.sums).reductions[0].name}  # fmt: skip
        # The dimension of sums that rows are in.
        row = loops_of(draft, chain.sums, chain.weight)[chain.rows]
        self.row = loops_of(draft, chain.sums, chain.sums).index(row)

    # One nest of all

    def join(self) -> None:
        """The loops of all blocks over batches and tiles as one, and in it one pass over the keys."""
        c, s = self.c, self.s
        if c.row_results and c.part is None:
            self.gather((*c.formulas, *c.blocks, *c.row_results, c.result))
        heads = {name: self.tile(name) for name in (*c.formulas, *c.blocks, *c.row_results, c.result)}
        outer = heads[c.scores][:-1]
        for name in (*c.formulas[1:], *c.blocks, *c.row_results, c.result):
            for own, other in zip(outer, heads[name]):
                s.fuse_loops(own, other)
            if name in (*c.formulas[1:], c.extremum):
                s.fuse_loops(heads[c.scores][-1], heads[name][-1])
        self.outer, self.key = outer, heads[c.scores][-1]
        for name in (*c.per_row, c.sums):
            s.decompose_reduction(name, at=self.key if name == c.extremum else heads[name][-1])
        online = [str(b) for b in s.online(self.key, *(heads[name][-1] for name in c.blocks[1:]))]
        key = find_loop(s.kernel, self.key)
        if outer[-1] in free_vars(key.hi) and len(outer) > 1:  # tiles with as much to do follow one another
            s.reorder(outer[-1], *outer[:-1])
            self.outer = (outer[-1], *outer[:-1])
        rescaled = 3 + len(c.totals)
        self.of_rows, self.rescaled = online[:rescaled], online[rescaled : rescaled + 1]
        self.finished_rows, self.finished = online[rescaled + 1 : -1], online[-1:]

    def tile(self, name: str) -> tuple[str, ...]:
        """Loops over batches, tiles of rows and, for what goes through keys, tiles of these, before all others."""
        c, s, draft = self.c, self.s, self.draft
        of_rows = dict(zip(c.row_results, c.row_sources))
        read = of_rows.get(name, c.sums if name == c.result else c.weight)
        read = c.scores if name == c.scores else c.formula if name in (c.formula, *c.per_row[:1], c.weight) else read
        loops = loops_of(draft, name, read)
        all_loops, parts = [str(x) for x in s.loops(name)], list[str]()
        keys: tuple[str, ...] = ()
        if name in (c.result, *of_rows):
            place = self.row if name == c.result else c.rows - (c.keys < c.rows)
            row, last_dimension = loops[place], c.columns if name == c.result else None
            batch = [x for d, x in enumerate(loops) if d not in (place, last_dimension)]
        else:
            shift = name == c.scores and c.part is not None
            row, key = loops[c.rows - shift], loops[c.keys - shift]
            batch = [x for d, x in enumerate(loops) if d not in (c.rows - shift, c.keys - shift)]
            if shift:
                part, key = split_names(s, key, c.part or 1)
                parts = [part]
            keys = split_names(s, key, self.plan.keys)
        tiles, inner = split_names(s, row, self.plan.rows)
        rest = [x for x in all_loops if x not in (*loops, *batch)]
        columns = [loops[c.columns]] if name == c.result else rest
        columns, last = ([*keys[1:], *columns], []) if name == c.scores else (columns, list(keys[1:]))
        s.reorder(*parts, *batch, tiles, *keys[:1], inner, *columns, *last)
        return (*parts, *batch, tiles, *keys[:1])

    # Storage

    def place(self) -> None:
        c, s = self.c, self.s
        for name in (*c.per_row, c.sums):
            s.store_at(self._buffer(name), self.outer[-1])
        for name in (*c.formulas, c.weight):
            s.store_at(self._buffer(name), self.key)
        rank = find_buffer(s.kernel, self._buffer(c.weight)).rank
        counts = zip((c.rows, c.keys), self.counts, (self.plan.rows, self.plan.keys))
        tile = [word for dimension, count, size in counts for word in layout_words(dimension, count, size)]
        order = " ".join([*(LETTERS[d] for d in range(rank) if d not in (c.rows, c.keys)), *tile])
        made = s.pack(self._buffer(c.weight), order, at=self.key, scope="shared", pad=True, readers=[c.sums])
        self.packed, operand = str(made[0]), str(made[1])
        if find_buffer(s.kernel, operand).dtype.name != c.dtype:
            s.narrow(operand, c.dtype)
        self._fold()
        s.decompose_reduction(c.scores, at=self._inner(c.scores)[0])
        self.queries = self._stage(c.queries, c.scores, at=self.outer[-1])
        self.tiles = [self._stage(c.keyed, c.scores, at=self.key), self._stage(c.values, c.sums, at=self.key)]
        # What is cut into blocks runs beyond its end as a whole.
        self.piece, _ = split_names(s, self._inner(c.scores)[-1], BLOCK)
        self.cut = {name: split_names(s, self._inner(name, in_keys=name == c.sums)[1], BLOCK)
                    for name in (c.sums, f"{c.sums}_init")}  # fmt: skip
        self._run_beyond()

    def _fold(self) -> None:
        """Storage as large as tiles, so that these may run beyond an edge."""
        c, plan = self.c, self.plan
        width, deep = self.width, int(c.keyed.buffer.shape[-1].value)  # type: ignore[attr-defined]
        if not self.is_uneven and not (width % BLOCK or deep % BLOCK):
            return
        tile = {c.rows: plan.rows, c.keys: plan.keys}
        folded = {self._buffer(name): tile for name in (*c.formulas, c.weight)}
        if c.part is not None:
            folded[self._buffer(c.scores)] = {d - 1: size for d, size in tile.items()}
        folded[self._buffer(c.sums)] = {self.row: plan.rows, c.columns: -(-width // BLOCK) * BLOCK}
        if self.is_uneven:
            per_row = [self._buffer(name) for name in (*c.per_row, *self.of_rows[:3])]
            rows = c.rows - (c.keys < c.rows)
            folded |= {name: {rows: plan.rows} for name in per_row}
        for name, sizes in folded.items():
            self.draft.fold(name, [(d, sizes.get(d, 1)) for d in range(find_buffer(self.s.kernel, name).rank)])

    @property
    def is_uneven(self) -> bool:
        return any(n % tile for n, tile in zip(self.counts, (self.plan.rows, self.plan.keys)))

    def spread(self) -> None:
        """All that is done with scores, extrema and sums, by the threads that have them."""
        c = self.c
        for name in self.of_rows:
            self._spread_rows(name)
        for name in (*(f"{n}_init" for n in c.per_row), *self.finished_rows):
            self._spread_rows(name, in_keys=False)
        for name in c.row_results:
            self._spread_rows(name, in_keys=False)
        for name in (f"{c.scores}_init", *c.formulas[1:], c.weight, *self.rescaled):
            self._spread_tile(name)
        self._spread_tile(self.packed, vector=True)
        for name in (f"{c.sums}_init", *self.finished):
            self._spread_tile(name, in_keys=False)
        self._spread_tile(c.result, in_keys=False, vector=True)
        for name in c.per_row:
            self._reduce(name)

    def _reduce(self, name: str) -> None:
        """What a thread has of a row first, then what the four that have one bring together."""
        s = self.s
        with s.focus(name):
            rows, keys = self._inner(name)[-2:]
            (down, half), (across, own) = self._rows(rows), self._columns(keys)
            s.reorder(*across, *down, *half, *own)
        before = {str(b) for b in s.blocks()}
        axis = find_buffer(s.kernel, self._buffer(name)).rank
        update, _ = map(str, s.rfactor(across[0], axis=axis, at=self.key))
        with s.focus(update):
            s.reorder(*down, *across, *half, *own)
            self._bind((*down, *across), (*half, *own))
        (start,) = {str(b) for b in s.blocks()} - before - {update}
        with s.focus(start):
            pair = next(x for x in self._inner(start) if x.startswith(across[0]))
            group, warp, lane, mine = (x for x in self._inner(start) if x != pair)
            s.reorder(group, warp, lane, pair, mine)
            self._bind((group, warp, lane, pair), (mine,))
        with s.focus(name):
            *threads, mine, _ = self._inner(name)
            self._bind(tuple(threads), (mine,))

    # Products

    def multiply(self) -> None:
        c, s, plan = self.c, self.s, self.plan
        scores, sums = self._product(c.scores, (self.piece,)), self._product(c.sums)
        threads = plan.rows // GROUP_ROWS * 128
        for (load, storage), depth in ((self.queries, 0), *((t, 1) for t in self.tiles)):
            cooperate(self.draft, load, storage, len(self.outer) + depth, threads, written_out=True)
        s.run_as("block", *self.outer)
        for loop in (scores, sums):
            s.tensorize(loop, INSTRUCTIONS[c.dtype])
        s.pipeline(*(storage for _, storage in self.tiles), stages=plan.stages)

    def _stage(self, access: Load, reader: str, at: str) -> tuple[str, str]:
        """What a tile reads of a matrix, in rows of shared memory as instructions read them."""
        c, rank = self.c, access.buffer.rank
        own = loads_of(self.draft.stage(reader), access)
        tiled = self.tiled[access]
        deep = [d for d, i in enumerate(own.indices[:-1]) if self._is_counted(i, tiled)]
        if own.indices[-1] == Var(tiled):  # its rows are along the sums: all of them are in a tile
            deep = [d for d, i in enumerate(own.indices[:-1]) if i == Var(self.across)]
        if len(deep) != 1:
            raise ScheduleError(f"rows of `{access.buffer.name}` are not those of `{c.scores}`")
        others = [LETTERS[d] for d in range(rank) if d not in (*deep, rank - 1)]
        along = LETTERS[rank - 1]
        tile = self.plan.rows if access is c.queries else self.plan.keys
        tile = 0 if own.indices[-1] == Var(tiled) else tile
        rows = layout_words(deep[0], int(access.buffer.shape[deep[0]].value), tile)  # type: ignore[attr-defined]
        if access is c.queries and not others:  # what a tile has one of comes first: the copy engine's turns
            others, rows = [f"{LETTERS[deep[0]]}/{tile}"], [f"{LETTERS[deep[0]]}%{tile}"]
        order = " ".join([*others, f"{along}/{BLOCK}", *rows, f"{along}%{BLOCK}"])
        part = part_of(access)
        load, storage = self.s.pack(
            access.buffer.name, order, at=at, scope="shared", pad=True, readers=[reader], part=part
        )
        return str(load), str(storage)

    def _is_counted(self, subscript: Expr, iterator: str) -> bool:
        """Whether it is ``iterator``, in the part where there are several."""
        if subscript == Var(iterator):
            return True
        form = linear_form(subscript)
        in_part = len(form.terms) == 2 and form.constant == 0 and form.terms.pop(Var(iterator), 0) == 1
        return in_part and [*form.terms.values()] == [self.c.part]

    def _run_beyond(self) -> None:
        """Tiles that are not full are computed as if they were."""
        c = self.c
        products = (f"{c.scores}_init", c.scores, f"{c.sums}_init", c.sums)
        between = (*(f"{n}_init" for n in c.per_row), *c.formulas[1:], *c.per_row[:1], *self.of_rows[:3], c.weight,
                   *c.per_row[1:])  # fmt: skip
        for name in (*products, *(between if self.is_uneven else ())):
            self.draft.attempt(self.s.pad, name)


ONLINE: Strategy[GpuDraft] = Strategy("two products in one pass", online_plans, apply_online)


def take_online(draft: GpuDraft) -> None:
    """All of them, before formulas are put into other stages."""
    for name in [s.name for s in draft.stages]:
        if name in draft.stages and name not in draft.scheduled:
            found = find_matrices(draft, draft.stage(name))
            if found is not None:
                split_groups(draft, found[0])
                ONLINE.schedule(draft, name)
