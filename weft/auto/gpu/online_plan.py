"""Attention on a GPU: how many rows, keys and tiles of these a block has, and whether keys are in parts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from weft.auto.gpu.contraction_digits import BLOCK, GROUP_ROWS
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.online_chain import FEW_ROWS, Chain, find_matrices
from weft.auto.stages import Stage
from weft.ir.buffer import Buffer
from weft.ir.errors import ScheduleError
from weft.ir.expr import idx
from weft.target.cuda.rates import RESERVED_SHARED

#: Rows of a block: two warp groups.
ROWS = 2 * GROUP_ROWS
#: Keys of a tile, most first; tiles of keys and values under way, the most and the least.
KEYS, STAGES = (128, 64), (3, 2)
#: Words of a thread for scores of a tile, weights as operands, and sums: of 240 so many are for addresses and the like.
MOST_WORDS = 184


@dataclass(frozen=True, slots=True)
class OnlinePlan:
    """``rows`` of a block, ``keys`` of a tile, of which ``stages`` are in shared memory."""

    rows: int
    keys: int
    stages: int

    @property
    def way(self) -> str:
        return f"two products in one pass, {self.keys} keys at a time"

    def __str__(self) -> str:
        return f"{self.rows} rows, {self.keys} keys at a time, {self.stages} tiles of them"


def online_plans(draft: GpuDraft, stage: Stage) -> list[OnlinePlan]:
    """As many tiles of keys as there are registers and shared memory for, large ones first."""
    found = find_matrices(draft, stage) if draft.machine.has("wgmma") else None
    if found is None:
        return []
    product, values = found
    if values.shape[-1] == idx(1):
        draft.decide("fallback", stage.name, "not in one pass with products", "values of one column are no matrix")
        return []
    depth, width = width_of(product.distinct_reads[0].buffer), width_of(values)
    plans = (OnlinePlan(ROWS, keys, stages) for keys in KEYS for stages in STAGES)
    count = stage.reductions[0].count
    problems = {plan: why_not(draft, depth, width, count, plan) for plan in plans}
    fit = [plan for plan, why in problems.items() if why is None]
    if not fit:
        draft.decide("fallback", stage.name, "not in one pass with products", [*problems.values()][-1] or "")
    return [next(plan for plan in fit if plan.keys == keys) for keys in dict.fromkeys(plan.keys for plan in fit)]


def why_not(draft: GpuDraft, depth: int, width: int, count: int, plan: OnlinePlan) -> str | None:
    if plan.keys > KEYS[-1] and count <= plan.keys:
        return f"{count} keys are one tile, beside which nothing runs"
    words = plan.keys // 2 + plan.keys // 4 + width // 2
    if words > MOST_WORDS or max(depth, width) > 4 * BLOCK:
        return f"rows of {depth} and {width} elements leave no registers for scores"
    if _shared_bytes(depth, width, count, plan) + RESERVED_SHARED > draft.machine.shared_per_block:
        return f"{plan.stages} tiles of {plan.keys} keys and values do not fit shared memory"
    return None


def part_size(draft: GpuDraft, chain: Chain, plan: OnlinePlan) -> int | None:
    """The keys of a part, whole tiles, where all of them for few rows would be too few blocks; None where they stay
    together.

    A tile of keys that is never full would have all storage of the pass in shared memory, and no room for it.
    """
    rows, keys = counts_of(draft, chain)
    if rows < 2 or keys < plan.keys:
        raise ScheduleError(f"{rows} rows and {keys} keys are too few for tiles")
    blocks = prod(i.count for i in draft.stage(chain.scores).spatial) // (rows * keys)
    wanted = min(keys // plan.keys, draft.machine.sms // blocks) if rows < FEW_ROWS else 1
    parts = next((n for n in range(wanted, 1, -1) if keys % (n * plan.keys) == 0), 1)
    return keys // parts if parts > 1 else None


def counts_of(draft: GpuDraft, chain: Chain) -> tuple[int, int]:
    """Of rows and, all of them or in a part, of keys."""
    stage = draft.stage(chain.scores)
    return stage.by_name[chain.row_iterator].count, chain.part or stage.by_name[chain.key_iterator].count


def width_of(buffer: Buffer) -> int:
    """Elements of a row, in whole blocks."""
    return -(-int(buffer.shape[-1].value) // BLOCK) * BLOCK  # type: ignore[attr-defined]


def _shared_bytes(depth: int, width: int, count: int, plan: OnlinePlan) -> int:
    """Of queries, keys and values, of weights where there is but one tile; the rest is for reductions and the like."""
    weights = plan.rows * plan.keys if count <= plan.keys else 0
    return 2 * (plan.rows * depth + plan.stages * plan.keys * (depth + width) + weights) + 2048
