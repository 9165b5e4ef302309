"""Products of formulas of products in one launch (`score_groups`): scores are made tile by tile, in registers.

What comes out, outermost first::

    block: batches, tiles of 128 rows
      left matrices of scores, their rows of the tile in shared memory
      tiles of columns of the scores                right matrices copied to shared memory some tiles ahead
        scores: one product after another           by warp groups of 64 rows each
        formulas of their elements, weights
        sums: weights, from registers, times matrices that are in shared memory already or come along
      what is done with sums, stored

Tiles of which masks leave nothing are left out. Where the sums of a group do not fit registers together, each has a
launch of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.auto.gpu.contraction_digits import BLOCK, GROUP_ROWS, split_names
from weft.auto.gpu.contraction_operands import cooperate
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.online_chain import (
    INSTRUCTIONS,
    iterators,
    loads_of,
    loops_of,
    part_of,
    uses,
)
from weft.auto.gpu.online_plan import width_of
from weft.auto.gpu.score_groups import Group, find_groups, is_weighed, make_groups, part_sums
from weft.auto.gpu.tile_pass import TilePass, layout_words
from weft.ir.buffer import Buffer
from weft.ir.errors import ScheduleError
from weft.ir.expr import Load, Var
from weft.ir.visit import free_vars, loads
from weft.schedules.find import find_buffer, find_loop
from weft.schedules.layouts import LETTERS
from weft.target.cuda.rates import RESERVED_SHARED
from weft.target.cuda.read_boxes import FETCHED, why_not_fetched
from weft.target.cuda.swizzle import ROW

#: Rows of a block, columns of scores in a tile, and tiles of these under way, the most first.
ROWS, KEYS, STAGES = (2 * GROUP_ROWS, GROUP_ROWS), (128, 64), (4, 3, 2)
#: Words of a thread for scores of a tile, weights as operands, and sums: of 240 so many are for addresses and the like.
MOST_WORDS = 224
NO_GROUPS = "no sums share scores"
#: Why sums of one axis are not in one launch, though some of them might be.
NO_ROOM = ("scores and sums do not fit registers", "two tiles do not fit shared memory")


@dataclass(frozen=True, slots=True)
class ScorePlan:
    """``rows`` of a block, ``keys`` of a tile, of which ``stages`` are in shared memory."""

    rows: int
    keys: int
    stages: int

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.keys} columns of scores at a time, {self.stages} tiles of them"


def words_of(group: Group, keys: int) -> int:
    """Words of a thread for scores, weights as operands and sums."""
    weights = {x.weight for x in group.sums}
    widths = sum(width_of(x.values.buffer) for x in group.sums)
    return keys // 2 * len(group.scores) + keys // 4 * len(weights) + widths // 2


def choose_plan(draft: GpuDraft, group: Group) -> ScorePlan | str:
    """As many columns as there are registers for and shared memory for three tiles of them, so that products of the
    next are started before those of one end, or for two; else why there are none."""
    lefts, rights = ([width_of(x.buffer) for x in found] for found in _matrices(group))
    if max((*lefts, *rights)) > 4 * BLOCK:
        return "rows of more than 256 elements leave no registers for scores"
    fit = [keys for keys in KEYS if words_of(group, keys) <= MOST_WORDS]
    if not fit:
        return NO_ROOM[0]
    plans = [ScorePlan(ROWS[0], keys, stages) for keys in fit for stages in STAGES[:-1]]
    plans += [ScorePlan(rows, keys, STAGES[-1]) for rows in ROWS for keys in fit]
    for plan in plans:
        size = 2 * (plan.rows * sum(lefts) + plan.stages * plan.keys * sum(rights)) + 2048
        if size + RESERVED_SHARED <= draft.machine.shared_per_block:
            return plan
    return NO_ROOM[1]


def _matrices(group: Group) -> tuple[list[Load], list[Load]]:
    """Those a tile has rows of, and those that its columns go through, each buffer (or part of one) once."""
    lefts = {_matrix(x.left): x.left for x in group.scores}
    rights = {_matrix(x): x for x in (*(x.right for x in group.scores), *(x.values for x in group.sums))}
    if lefts.keys() & rights.keys():
        both, _ = next(iter(lefts.keys() & rights.keys()))
        raise ScheduleError(f"`{both.name}` is read by rows and by columns of scores")
    return list(lefts.values()), list(rights.values())


def _matrix(x: Load) -> tuple[Buffer, tuple[int, int] | None]:
    return x.buffer, part_of(x)


class ScorePass(TilePass):
    """The nest under way."""

    def __init__(self, draft: GpuDraft, group: Group, plan: ScorePlan) -> None:
        super().__init__(draft)
        self.g, self.plan = group, plan
        first = draft.stage(group.scores[0].name)
        own = iterators(draft, first.name, first.name)
        self.counts = tuple(first.by_name[own[d]].count for d in (group.rows, group.keys))
        self.weights = list(dict.fromkeys(x.weight for x in group.sums))
        self.lefts, self.rights = _matrices(group)
        # The iterators of products that go through the rows, and through the columns, of a tile of scores.
        self.tiled = {x.name: [iterators(draft, x.name, x.name)[d] for d in (group.rows, group.keys)]
                      for x in group.scores}  # fmt: skip
        self.tiled |= {x.name: ["", draft.stage(x.name).reductions[0].name] for x in group.sums}
        self.vectors = self._vectors(group.keys, group.rows)
        self.row_vectors = self._vectors(group.rows, group.keys) if self.is_uneven else {}
        self.widths = {x.name: draft.stage(x.name).by_name[iterators(draft, x.name, x.name)[x.column]].count
                       for x in group.sums}  # fmt: skip

    def _vectors(self, along: int, other: int) -> dict[Buffer, list[str]]:
        """What formulas read that goes along one dimension of scores and not the other, and which formulas do."""
        found: dict[Buffer, list[str]] = {}
        for name in self.g.formulas:
            own = iterators(self.draft, name, name)
            reads = list(dict.fromkeys(loads(self.draft.stage(name).block.body)))
            for x in reads:
                is_alone = [y.buffer for y in reads].count(x.buffer) == 1  # others would be fetched along with it
                is_along = bool(x.indices) and x.indices[-1] == Var(own[along]) and not uses(x, own[other])
                if is_alone and is_along and why_not_fetched(x.buffer, FETCHED[-1:]) is None:
                    found.setdefault(x.buffer, []).append(name)
        return found

    # One nest of all

    def join(self) -> None:
        """The loops of all blocks over batches and tiles as one, and in it one over the columns of scores."""
        g, s = self.g, self.s
        self.gather(g.blocks)
        heads = {name: self.tile(name) for name in g.blocks}
        first, *others = g.blocks
        *outer, key = heads[first]
        results = [x.result for x in g.sums]
        for name in others:
            for own, other in zip(outer, heads[name]):
                s.fuse_loops(own, other)
            if name not in results:
                s.fuse_loops(key, heads[name][-1])
        self.outer, self.key = tuple(outer), key
        for x in g.sums:
            s.decompose_reduction(x.name, at=key)

    def tile(self, name: str) -> tuple[str, ...]:
        """Loops over batches, tiles of rows and, for what goes through columns of scores, tiles of these, first."""
        g, s, draft = self.g, self.s, self.draft
        result = next((x for x in g.sums if x.result == name), None)
        summed = next((x for x in g.sums if x.name == name), None)
        read = result.name if result is not None else summed.weight if summed is not None else name
        loops, all_loops = loops_of(draft, name, read), [str(x) for x in s.loops(name)]
        row = loops[g.rows if result is None else result.row]
        key = loops[g.keys] if result is None else None
        column = loops[result.column] if result is not None else None
        batch = [x for x in loops if x not in (row, key, column)]
        rest = [x for x in all_loops if x not in loops]  # the depth of scores, columns of sums
        tiles, inner = split_names(s, row, self.plan.rows)
        if key is None:
            s.reorder(*batch, tiles, inner, str(column))
            return (*batch, tiles)
        keys, own = split_names(s, key, self.plan.keys)
        last = [*rest, own] if summed is not None else [own, *rest]
        s.reorder(*batch, tiles, keys, inner, *last)
        return (*batch, tiles, keys)

    # Storage

    def place(self) -> None:
        g, s = self.g, self.s
        for x in g.sums:
            s.store_at(self._buffer(x.name), self.outer[-1])
        for name in (*(x.name for x in g.scores), *g.formulas):
            s.store_at(self._buffer(name), self.key)
        self.draft.attempt(s.skip_masked, self.key)
        bounds = find_loop(s.kernel, self.key)
        if self.outer[-1] in {*free_vars(bounds.lo), *free_vars(bounds.hi)} and len(self.outer) > 1:
            *others, tiles = self.outer  # tiles with as much to do follow one another
            s.reorder(tiles, *others)
            self.outer = (tiles, *others)
        self.packed = [self._pack(weight) for weight in self.weights]
        self._fold()
        for score in g.scores:
            s.decompose_reduction(score.name, at=self._inner(score.name)[0])
        self.held = [self._stage(x, self.outer[-1], is_left=True) for x in self.lefts]
        self.tiles = [self._stage(x, self.key, is_left=False) for x in self.rights]
        for buffer, readers in self.vectors.items():
            self.draft.attempt(self._stage_vector, buffer, readers, self.key, ROW // buffer.dtype.itemsize)
        for buffer, readers in self.row_vectors.items():  # beyond an edge there is nothing to read
            self.draft.attempt(self._stage_vector, buffer, readers, self.outer[-1], self.plan.rows)
        # What is cut into blocks runs beyond its end as a whole.
        self.pieces = {x.name: split_names(s, self._inner(x.name)[-1], BLOCK)[0] for x in g.scores}
        self.cut = {name: split_names(s, self._inner(name, in_keys=name == x.name)[1], BLOCK)
                    for x in g.sums for name in (x.name, f"{x.name}_init")}  # fmt: skip
        self._run_beyond()

    def _pack(self, weight: str) -> str:
        """``weight`` as an operand; the block that makes it one."""
        g, s = self.g, self.s
        rank = find_buffer(s.kernel, self._buffer(weight)).rank
        sizes = zip((g.rows, g.keys), self.counts, (self.plan.rows, self.plan.keys))
        tile = [word for dimension, count, size in sizes for word in layout_words(dimension, count, size)]
        order = " ".join([*(LETTERS[d] for d in range(rank) if d not in (g.rows, g.keys)), *tile])
        readers = [x.name for x in g.sums if x.weight == weight]
        made, operand = s.pack(self._buffer(weight), order, at=self.key, scope="shared", pad=True, readers=readers)
        if find_buffer(s.kernel, str(operand)).dtype.name != g.dtype:
            s.narrow(operand, g.dtype)
        return str(made)

    @property
    def is_uneven(self) -> bool:
        return any(n % tile for n, tile in zip(self.counts, (self.plan.rows, self.plan.keys)))

    def _fold(self) -> None:
        """Storage as large as tiles, so that these may run beyond an edge."""
        g, plan = self.g, self.plan
        if not self.is_uneven and not any(n % BLOCK for n in self.widths.values()):
            return
        tile = {g.rows: plan.rows, g.keys: plan.keys}
        folded = {self._buffer(name): tile for name in (*(x.name for x in g.scores), *g.formulas)}
        for x in g.sums:
            folded[self._buffer(x.name)] = {x.row: plan.rows, x.column: -(-self.widths[x.name] // BLOCK) * BLOCK}
        for name, sizes in folded.items():
            self.draft.fold(name, [(d, sizes.get(d, 1)) for d in range(find_buffer(self.s.kernel, name).rank)])

    def _stage(self, access: Load, at: str, *, is_left: bool) -> tuple[str, str]:
        """What a tile reads of a matrix, in rows of shared memory as instructions read them, for all that read it."""
        g, buffer, rank = self.g, access.buffer, access.buffer.rank
        reads = [(x.name, y) for x in g.scores for y in (x.left, x.right)] + [(x.name, x.values) for x in g.sums]
        readers = list(dict.fromkeys(name for name, y in reads if _matrix(y) == _matrix(access)))
        tiled = self.tiled[readers[0]][0 if is_left else 1]
        own = loads_of(self.draft.stage(readers[0]), access)
        rows = [d for d, i in enumerate(own.indices[:-1]) if i == Var(tiled)]
        if len(rows) != 1:
            raise ScheduleError(f"rows of `{buffer.name}` are not those of `{readers[0]}`")
        tile = self.plan.rows if is_left else self.plan.keys
        others = [LETTERS[d] for d in range(rank) if d not in (rows[0], rank - 1)]
        words = layout_words(rows[0], int(buffer.shape[rows[0]].value), tile)  # type: ignore[attr-defined]
        if is_left and not others:  # what a tile has one of comes first: the copy engine's turns
            letter = LETTERS[rows[0]]
            others, words = [f"{letter}/{tile}"], [f"{letter}%{tile}"]
        along = LETTERS[rank - 1]
        order = " ".join([*others, f"{along}/{BLOCK}", *words, f"{along}%{BLOCK}"])
        load, storage = self.s.pack(
            buffer.name, order, at=at, scope="shared", pad=True, readers=readers, part=part_of(access)
        )
        return str(load), str(storage)

    def _stage_vector(self, buffer: Buffer, readers: list[str], at: str, row: int) -> None:
        """What formulas read of a vector in a tile, in rows of shared memory: fetched with it along its columns."""
        *others, along = list(LETTERS[: buffer.rank])
        order = " ".join([*others, f"{along}/{row}", f"{along}%{row}"])
        load, storage = self.s.pack(buffer.name, order, at=at, scope="shared", pad=True, readers=readers)
        (self.tiles if at == self.key else self.held).append((str(load), str(storage)))

    def _run_beyond(self) -> None:
        """Tiles that are not full are computed as if they were."""
        products = [n for name in self.g.products for n in (f"{name}_init", name)]
        for name in (*products, *(self.g.formulas if self.is_uneven else ())):
            self.draft.attempt(self.s.pad, name)

    # Threads and products

    def spread(self) -> None:
        """All that is done with scores and sums, by the threads that have them."""
        g = self.g
        for score in g.scores:
            self._spread_tile(f"{score.name}_init")
        for name in (*g.formulas, *self.packed):
            self._spread_tile(name, vector=True)
        for x in g.sums:
            self._spread_tile(f"{x.name}_init", in_keys=False)
            self._spread_tile(x.result, in_keys=False, vector=True)

    def multiply(self) -> None:
        g, s, plan = self.g, self.s, self.plan
        loops = [self._product(x.name, (self.pieces[x.name],)) for x in g.scores]
        loops += [self._product(x.name) for x in g.sums]
        threads = plan.rows // GROUP_ROWS * 128
        for depth, made in enumerate((self.held, self.tiles)):
            for load, storage in made:
                cooperate(self.draft, load, storage, len(self.outer) + depth, threads, written_out=True)
        s.run_as("block", *self.outer)
        for loop in loops:
            s.tensorize(loop, INSTRUCTIONS[g.dtype])
        s.pipeline(*(storage for _, storage in self.tiles), stages=plan.stages)


def take_scores(draft: GpuDraft) -> None:
    """All such groups of the program, or none of them."""
    if not draft.machine.has("wgmma"):
        return
    refusal = draft.attempt(_take, draft)
    if refusal is not None and refusal.what != NO_GROUPS:
        weighed = (s.name for s in draft.stages if is_weighed(draft, s))
        draft.decide(
            "fallback",
            next(weighed, draft.s.kernel.name),
            "not in one pass with products before",
            refusal.why or refusal.what,
        )


def _take(draft: GpuDraft) -> None:
    part_sums(draft)
    found = find_groups(draft)
    if not found:
        raise ScheduleError(NO_GROUPS)
    alone = [[name] for group in found for name in group]
    refusal = draft.attempt(_apply, draft, found)
    if refusal is not None and refusal.what in NO_ROOM and len(alone) > len(found):  # there may be for each by itself
        refusal = draft.attempt(_apply, draft, alone)
    if refusal is not None:
        raise refusal


def _apply(draft: GpuDraft, found: Sequence[Sequence[str]]) -> None:
    for group in make_groups(draft, found):
        plan = choose_plan(draft, group)
        if isinstance(plan, str):
            raise ScheduleError(plan)
        if any(n < size for n, size in zip(ScorePass(draft, group, plan).counts, (2, plan.keys))):
            raise ScheduleError("rows or columns of scores are too few for tiles")
        ScorePass(draft, group, plan).make()
        scores = " and ".join(f"`{x.name}`" for x in group.scores)
        for x in group.sums:
            draft.decide("fusion", x.name, f"in one launch with {scores}", "scores never leave registers")
        draft.decide("tiling", group.sums[0].name, str(plan), f"{plan.rows // GROUP_ROWS} warp groups")
