"""How rows are spread over threads: how many threads a row gets, how many rows a block, what stays in registers.

A short row belongs to one warp or a part of one, and a block has several; a long one to a whole block. Each thread
holds a few pieces of 16 bytes, enough that memory is kept busy, few enough for registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from weft.auto.contraction_plan import is_contraction
from weft.auto.gpu.draft import THREADS, GpuDraft, whole_warps
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.target.cuda.machine import WARP

#: Pieces of 16 bytes a thread usually holds of a row: the more, the fewer threads have to exchange results.
PIECES = 4
#: Pieces of a row that are written out, at most, and how many a thread asks for at a time of rows that pass through.
WRITTEN_OUT, AHEAD = 16, 4
#: Registers a thread uses besides those for rows, how many are few enough for any block, and the most for rows.
OTHER_REGISTERS, FEW_REGISTERS, MOST_REGISTERS = 32, 96, 128
#: Registers for an element that is used again, at least.
WORDS_AGAIN = 1.25


@dataclass(frozen=True, slots=True)
class Row:
    """A stage and those of its iterators that run along a row, outermost first; ``tile`` runs over rows of a block."""

    stage: Stage
    iters: tuple[StageIter, ...]

    @property
    def length(self) -> int:
        return prod(i.count for i in self.iters)

    @property
    def is_reduction(self) -> bool:
        return bool(self.iters) and all(i.is_reduction for i in self.iters)

    @property
    def is_map(self) -> bool:
        return not any(i.is_reduction for i in self.iters)

    def along(self, access: StageAccess) -> bool:
        """Whether ``access`` goes along memory as the row goes on."""
        return bool(self.iters) and access.is_affine and access.stride(self.iters[-1].name) == 1

    def dimension(self, access: StageAccess, name: str) -> int | None:
        """The dimension that ``name``, an iterator, goes through alone, but for iterators that stand still."""
        own = {i.name for i in self.iters}
        used = [d for d, row in enumerate(access.rows or ()) if row.get(name)]
        if len(used) != 1 or access.rows is None:
            return None
        row = access.rows[used[0]]
        return used[0] if row[name] == 1 and sum(n in own or n == name for n, c in row.items() if c) == 1 else None


@dataclass(frozen=True, slots=True)
class RowPlan:
    """``threads`` for each of ``rows`` rows of a block; a thread has ``pieces``, each ``lanes`` elements."""

    threads: int
    rows: int
    lanes: int
    pieces: int
    keeps_rows: bool

    @property
    def way(self) -> str:
        return "rows in registers" if self.keeps_rows else "rows pass through"


@dataclass(frozen=True, slots=True)
class RowsNeeds:
    """What plans for rows that are computed together must keep to.

    There are ``rounds`` of them in all; as many as divide ``divisible`` may share a block. An access of memory takes at
    most ``lanes`` elements; ``kept`` bytes of each element are in registers, where they are used ``again``, and must
    be where stages hand them on (``hands_on``). ``shifted`` is, for rows that start anywhere in memory, their length
    and how many elements an access takes that lies as memory does.
    """

    longest: int
    rounds: int
    divisible: int
    lanes: int
    kept: int
    again: bool
    hands_on: bool
    shifted: tuple[int, int] | None = None

    @property
    def words(self) -> float:
        """Registers for each element a thread keeps: what is used again is at hand as a float32 as well."""
        return max(self.kept / 4, WORDS_AGAIN) if self.again else self.kept / 4


def reads_again(stage: Stage) -> bool:
    """Whether everything it reduces is read again for other results: a contraction, or overlapping windows."""
    long = [i for i in stage.iters if i.extent != 1]
    if is_contraction(stage):
        return not any(all(a.uses(i.name) for i in long) for a in stage.reads)
    summed = [i for i in stage.reductions if i.extent != 1]
    return any(a.subscript_of(i.name) is None for a in stage.reads for i in summed if a.uses(i.name))


def make_row(stage: Stage, fixed: Sequence[str]) -> Row | None:
    """The row of ``stage`` where iterators ``fixed`` stand still; None where it is not one: results of rows of rows."""
    own = [i for i in stage.iters if i.name not in fixed and i.extent != 1]
    leading = max((a for a in stage.accesses if a.is_affine), key=lambda a: sum(a.uses(i.name) for i in own))
    own.sort(key=lambda i: -(leading.stride(i.name) or 0))
    row = Row(stage, tuple(own))
    if any(i.extent is None or not i.exact for i in own) or not (row.is_reduction or row.is_map):
        return None
    return row


def row_plans(draft: GpuDraft, needs: RowsNeeds) -> list[RowPlan]:
    """The usual plan; then other numbers of threads, rows of a block and lanes whose registers suffice."""
    shifted = _plan_shifted(*needs.shifted, needs.kept) if needs.shifted is not None else None
    if shifted is not None:
        return [shifted]
    usual = _usual_plan(draft, needs)
    found: list[RowPlan] = []
    for lanes in (n for n in (needs.lanes, needs.lanes // 2) if n):
        vectors = -(-needs.longest // lanes)
        for threads in _thread_counts(draft, vectors):
            found += [
                RowPlan(threads, rows, lanes, -(-vectors // threads), keeps)
                for rows in _rows_of_a_block(draft, needs, threads)
                for keeps in (True, False)
            ]
    first = [usual] if usual.keeps_rows or not needs.hands_on else []
    return list(dict.fromkeys([*first, *(p for p in found if _is_possible(draft, needs, p))]))


def _thread_counts(draft: GpuDraft, vectors: int) -> list[int]:
    """Parts of a warp that are powers of two, and whole warps, so that a thread has a few vectors."""
    most = draft.machine.max_threads_per_block
    parts = [n for n in (4, 8, 16, 32) if n < 2 * vectors and -(-vectors // n) <= 2 * WRITTEN_OUT]
    whole = [min(most, whole_warps(-(-vectors // pieces))) for pieces in (1, 2, 4, 8, 16)]
    return list(dict.fromkeys([*parts, *whole]))


def _rows_of_a_block(draft: GpuDraft, needs: RowsNeeds, threads: int) -> list[int]:
    if threads > WARP:
        return [1]
    most = min(2 * THREADS // threads, max(1, needs.rounds // draft.machine.sms))
    return [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= most and needs.divisible % n == 0]


def _is_possible(draft: GpuDraft, needs: RowsNeeds, plan: RowPlan) -> bool:
    if not plan.keeps_rows:
        return not needs.hands_on and plan.pieces > AHEAD and plan.rows == 1 and plan.threads > WARP
    if plan.pieces > WRITTEN_OUT or plan.threads * plan.rows > draft.machine.max_threads_per_block:
        return False
    room = draft.machine.registers_per_sm // whole_warps(plan.threads * plan.rows)
    used = OTHER_REGISTERS + plan.pieces * plan.lanes * needs.words
    return used <= min(MOST_REGISTERS, room)


def _plan_shifted(length: int, lanes: int, kept: int) -> RowPlan | None:
    """The plan for rows that start anywhere in memory; None for rows that are short or too long.

    Pieces of ``lanes`` elements lie as memory does (`passes.vectors.shift_rows`): a row may begin and end within one.
    """
    vectors, needed = -(-length // lanes), -(-(length + lanes - 1) // lanes)
    if vectors <= WARP * PIECES:
        return None
    threads = whole_warps(-(-vectors // PIECES))
    while -(-vectors // threads) * threads < needed:
        threads += WARP
    if threads > THREADS or _registers(vectors, threads, lanes, kept) > FEW_REGISTERS:
        return None
    return RowPlan(threads, 1, lanes, -(-vectors // threads), True)


def _usual_plan(draft: GpuDraft, needs: RowsNeeds) -> RowPlan:
    """Where elements are not used ``again``, long rows pass through."""
    lanes, kept = needs.lanes, needs.kept
    vectors = -(-needs.longest // lanes)
    if vectors <= WARP * PIECES:
        threads = min(WARP, 1 << (vectors - 1).bit_length())
        most = max(1, min(THREADS // threads, needs.rounds // (2 * draft.machine.sms)))
        count = next(n for n in range(most, 0, -1) if needs.divisible % n == 0)
        return RowPlan(threads, count, lanes, -(-vectors // threads), True)
    threads = min(THREADS, whole_warps(-(-vectors // PIECES)))
    if not needs.again and vectors > threads * PIECES:
        return RowPlan(threads, 1, lanes, -(-vectors // threads), False)
    while threads < draft.machine.max_threads_per_block and _registers(vectors, threads, lanes, kept) > FEW_REGISTERS:
        threads *= 2
    most_registers = min(MOST_REGISTERS, draft.machine.registers_per_sm // threads)
    if _registers(vectors, threads, lanes, kept) <= most_registers:
        return RowPlan(threads, 1, lanes, -(-vectors // threads), True)
    return RowPlan(THREADS, 1, lanes, -(-vectors // THREADS), False)


def _registers(vectors: int, threads: int, lanes: int, kept: int) -> int:
    """Registers of a thread that holds its part of a row."""
    return OTHER_REGISTERS + -(-vectors // threads) * lanes * kept // 4
