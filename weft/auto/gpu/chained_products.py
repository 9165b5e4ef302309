"""Two products one after the other, as layers of few neurons have them: what is between stays in registers.

The tiles and threads are those of attention (`online_products`), in which elements of the first product are scores and
the formula of each is a weight; nothing is reduced along rows here, and nothing rescaled. A block has its rows of the
first product some columns at a time, and adds what these give to all of its sums of the second one::

    block: batches, tiles of 128 rows
      rows of the tile in shared memory
      tiles of columns of the first product        both matrices copied to shared memory some tiles ahead
        first product; formula of each element; second product, from registers
      what is done with sums, stored

Taken where that is expected to be sooner than one after the other: many rows, and matrices that are narrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from weft.auto.gpu.contraction import contraction_plans, contraction_prices
from weft.auto.gpu.contraction_digits import BLOCK
from weft.auto.gpu.draft import WIDEST, GpuDraft
from weft.auto.gpu.launch_time import LaunchWork, launch_time
from weft.auto.gpu.online_chain import Chain, find_pair, make_pair
from weft.auto.gpu.online_plan import ROWS, STAGES, OnlinePlan, why_not
from weft.auto.gpu.online_products import OnePass
from weft.auto.stages import Stage, buffer_bytes
from weft.auto.strategy import Strategy
from weft.ir.errors import ScheduleError
from weft.target.cuda.machine import WARP
from weft.target.cuda.rates import L1_BYTES, rates_of

#: Instructions of a thread for an element between the products or a result. Cycles besides products where they were
#: timed: of a turn; of a tile for each step of its depth, each of its columns, and so many of both.
BETWEEN, TURN, STEP, COLUMN, BOTH = 12, 1400, 18, 15, 20
#: Times of the model that are closer than this are taken for the same: then what needs less memory is better, of which
#: the model knows too little for narrow products.
ALIKE = 1.06


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of ``batches`` of ``rows``: elements between the products, depth of the first and columns of the second one."""

    batches: int
    rows: int
    hidden: int
    deep: int
    width: int


def pair_plans(draft: GpuDraft, stage: Stage) -> list[OnlinePlan]:
    """Many tiles ahead first; none where both products take less one after the other."""
    if not draft.machine.has("wgmma") or find_pair(draft, stage) is None:
        return []
    try:
        chain = make_pair(draft, stage.name)
    except ScheduleError as refusal:
        draft.decide("fallback", stage.name, "not together with the product before", refusal.why or refusal.what)
        return []
    sizes = _sizes(draft, chain)
    if sizes.rows < ROWS or any(n % BLOCK for n in (sizes.hidden, sizes.width)) or sizes.deep % WIDEST:
        return []
    plans = (OnlinePlan(ROWS, BLOCK, stages) for stages in STAGES)
    prices = {
        plan: pair_seconds(draft, chain, sizes, plan)
        for plan in plans
        if why_not(draft, -(-sizes.deep // BLOCK) * BLOCK, sizes.width, sizes.hidden, plan) is None
    }
    together, apart = min(prices.values(), default=0.0), _apart(draft, (chain.scores, chain.sums))
    if prices and together >= ALIKE * apart:
        why = f"{apart * 1e3:.3g} ms one after the other, {together * 1e3:.3g} together"
        draft.decide("fusion", stage.name, f"not together with `{chain.scores}`", why)
    draft.expected[stage.name] = {**prices}
    return [plan for plan in prices if prices[plan] < ALIKE * apart]


def _sizes(draft: GpuDraft, chain: Chain) -> Sizes:
    first, second = draft.stage(chain.scores), draft.stage(chain.sums)
    counts = [first.by_name[i].count for i in chain.of_scores]
    rows, hidden = counts[chain.rows], counts[chain.keys]
    batches = prod(counts) // max(1, rows * hidden)
    width = prod(i.count for i in second.spatial) // max(1, rows * batches)
    return Sizes(batches, rows, hidden, first.reductions[0].count, width)


def _apart(draft: GpuDraft, products: tuple[str, ...]) -> float:
    """What the best plans of both take."""
    found = 0.0
    for stage in map(draft.stage, products):
        plans = contraction_plans(draft, stage)
        found += min(map(contraction_prices(draft, stage), plans), default=0.0)
    return found


def pair_seconds(draft: GpuDraft, chain: Chain, n: Sizes, plan: OnlinePlan) -> float:
    """One launch: a multiprocessor has one tile of rows after another, and in it turns, of which little overlaps; the
    matrices come from the second cache for each tile."""
    rates, size = rates_of(draft.machine.capability), chain.queries.buffer.dtype.itemsize
    stored = draft.stage(chain.result).write.buffer.dtype.itemsize
    blocks, turns = n.batches * ceil(n.rows / plan.rows), n.hidden // plan.keys
    moved = size * (plan.rows * n.deep + n.hidden * (n.deep + n.width)) + stored * plan.rows * n.width
    matrix = plan.rows * n.hidden * (n.deep + n.width) / rates.wgmma
    matrices = sum(buffer_bytes(x.buffer) for x in (chain.queries, chain.keyed, chain.values))
    work = LaunchWork(
        blocks=blocks,
        threads=2 * plan.rows + 4 * WARP,
        registers=draft.machine.registers_per_sm // (2 * plan.rows + 4 * WARP),
        shared=size * (plan.rows * n.deep + plan.stages * plan.keys * (n.deep + n.width)),
        dram=matrices + stored * n.batches * n.rows * n.width,
        l2=blocks * moved * rates.l2_bytes / rates.fetched_bytes,
        issued=plan.rows * (n.hidden + n.width) * BETWEEN / WARP,
        lsu=moved / (L1_BYTES * rates.shared_share),
        matrix=matrix,
        chain=matrix + turns * TURN + n.deep * STEP + n.width * COLUMN + n.deep * n.width / BOTH,
    )
    return launch_time(work, draft.machine).seconds


class PairPass(OnePass):
    """The nest under way."""

    def join(self) -> None:
        """The loops of all blocks over batches and tiles as one, and in it one pass over the first one's columns."""
        c, s = self.c, self.s
        heads = {name: self.tile(name) for name in (c.scores, c.weight, c.sums, c.result)}
        *outer, key = heads[c.scores]
        for name in (c.weight, c.sums, c.result):
            for own, other in zip(outer, heads[name]):
                s.fuse_loops(own, other)
        for name in (c.weight, c.sums):
            s.fuse_loops(key, heads[name][-1])
        s.decompose_reduction(c.sums, at=key)
        self.outer, self.key = tuple(outer), key


def apply_pair(draft: GpuDraft, name: str, plan: OnlinePlan) -> None:
    chain = make_pair(draft, name)
    PairPass(draft, chain, plan).make()
    what = f"together with `{chain.scores}` and `{chain.weight}`, which stay in registers"
    draft.decide("fusion", chain.sums, what, str(plan))


PAIRS: Strategy[GpuDraft] = Strategy(
    "two products together", pair_plans, apply_pair, lambda draft, stage: draft.expected[stage.name].__getitem__
)


def take_pairs(draft: GpuDraft) -> None:
    """All of them, before each product gets a launch of its own."""
    for name in [s.name for s in draft.stages]:
        if name in draft.stages and name not in draft.scheduled:
            PAIRS.schedule(draft, name)
