"""How rows are spread over threads: how many threads a row gets, how many rows a block, what stays in registers.

A short row belongs to one warp or a part of one, and a block has several; a long one to a whole block. Each thread
holds a few pieces of 16 bytes, enough that memory is kept busy, few enough for registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from weft.auto.contraction_plan import is_contraction
from weft.auto.gpu.draft import THREADS, GpuDraft, whole_warps
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.target.cuda.machine import WARP

#: Pieces of 16 bytes a thread holds of a row that one warp has to itself, at most.
WARP_PIECES = 4
#: The same, where a block has a row: the more, the fewer threads have to exchange results; memory is kept busy.
PIECES = 4
#: Registers a thread uses besides those for rows.
OTHER_REGISTERS = 32


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
    def is_warp(self) -> bool:
        return self.threads <= WARP


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


def plan_shifted_rows(draft: GpuDraft, length: int, kept: int, lanes: int) -> RowPlan | None:
    """The plan for rows of ``length`` elements that start anywhere in memory; None for rows that are short or too long.

    Pieces of ``lanes`` elements lie as memory does (`passes.vectors.shift_rows`): a row may begin and end within one.
    """
    vectors, needed = -(-length // lanes), -(-(length + lanes - 1) // lanes)
    if vectors <= WARP * WARP_PIECES:
        return None
    threads = whole_warps(-(-vectors // PIECES))
    while -(-vectors // threads) * threads < needed:
        threads += WARP
    if threads > THREADS or _registers(vectors, threads, lanes, kept) > 96:
        return None
    return RowPlan(threads, 1, lanes, -(-vectors // threads), True)


def plan_rows(
    draft: GpuDraft, rows: Sequence[Row], rounds: int, divisible: int, kept: int, *, lanes: int, again: bool
) -> RowPlan:
    """The plan for ``rows`` that are computed together, ``kept`` bytes of each element of them in registers.

    There are ``rounds`` of them in all; as many as divide ``divisible`` may share a block. An access of memory takes at
    most ``lanes`` elements. Where elements are not used
    ``again``, long rows pass through.
    """
    longest = max(r.length for r in rows)
    lanes = gcd(lanes, *(r.iters[-1].count for r in rows if r.iters))
    vectors = -(-longest // lanes)
    if vectors <= WARP * WARP_PIECES:
        threads = min(WARP, 1 << (vectors - 1).bit_length())
        most = max(1, min(THREADS // threads, rounds // (2 * draft.machine.sms)))
        count = next(n for n in range(most, 0, -1) if divisible % n == 0)
        return RowPlan(threads, count, lanes, -(-vectors // threads), True)
    threads = min(THREADS, whole_warps(-(-vectors // PIECES)))
    if not again and vectors > threads * WARP_PIECES:
        return RowPlan(threads, 1, lanes, -(-vectors // threads), False)
    while threads < draft.machine.max_threads_per_block and _registers(vectors, threads, lanes, kept) > 96:
        threads *= 2
    most_registers = min(128, draft.machine.registers_per_sm // threads)
    if _registers(vectors, threads, lanes, kept) <= most_registers:
        return RowPlan(threads, 1, lanes, -(-vectors // threads), True)
    return RowPlan(THREADS, 1, lanes, -(-vectors // THREADS), False)


def _registers(vectors: int, threads: int, lanes: int, kept: int) -> int:
    """Registers of a thread that holds its part of a row."""
    return OTHER_REGISTERS + -(-vectors // threads) * lanes * kept // 4
