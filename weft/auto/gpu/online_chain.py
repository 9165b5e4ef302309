"""Two products with an extremum and sums of exponentials between them: attention, however its formulas are written.

Told by how stages are connected, never by name: a product of 16-bit matrices; formulas of its elements and their
positions; their extremum along one axis; sums along that axis of what depends on the extremum by a factor, one of them
the product with another 16-bit matrix; and a formula of those.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.auto.gpu.draft import GpuDraft
from weft.auto.stages import Stage, StageAccess
from weft.ir.errors import ScheduleError

#: The types of matrices, by what instructions of warp groups are called.
INSTRUCTIONS = {"bfloat16": "wgmma_bf16", "float16": "wgmma_f16"}


@dataclass(frozen=True)
class Chain:
    """Blocks by what they compute: ``scores`` of queries and keys, the ``formula`` of each, their ``extremum``, its
    ``weight``, the ``totals`` of weights, the weighted ``sums`` of values, and what is made of them in the end
    (``result``). ``rows``, ``keys`` and ``columns`` are dimensions of scores (the last: of sums)."""

    scores: str
    formula: str
    extremum: str
    weight: str
    totals: tuple[str, ...]
    sums: str
    result: str
    queries: StageAccess
    keyed: StageAccess
    values: StageAccess
    rows: int
    keys: int
    columns: int

    @property
    def blocks(self) -> tuple[str, ...]:
        return (self.extremum, self.weight, *self.totals, self.sums)

    @property
    def dtype(self) -> str:
        return self.queries.buffer.dtype.name


def find_matrices(draft: GpuDraft, extremum: Stage) -> tuple[Stage, StageAccess] | None:
    """The product whose elements ``extremum`` is of, and what sums that depend on it are with; None where it is no
    such chain."""
    if extremum.op != "max" or len(extremum.reductions) != 1 or extremum.is_inside or not draft.is_fast:
        return None
    above = [s for s in _connected(draft, extremum, down=False) if _is_product(s)]
    below = [a for s in _connected(draft, extremum, down=True) if s.op == "+" for a in _narrow_reads(s)]
    return (above[0], below[0]) if above and below else None


def _connected(draft: GpuDraft, stage: Stage, *, down: bool) -> list[Stage]:
    """Stages that use ``stage``, or that it uses, by way of formulas."""
    found: list[Stage] = []
    waiting = [stage]
    while waiting:
        s = waiting.pop()
        for n in draft.stages.consumers(s) if down else draft.stages.producers(s):
            if n not in found and n is not stage:
                found.append(n)
                waiting += [n] if n.op == "=" else []
    return found


def _narrow_reads(s: Stage) -> list[StageAccess]:
    return [a for a in s.distinct_reads if a.buffer.dtype.name in INSTRUCTIONS]


def _is_product(s: Stage) -> bool:
    return s.op == "+" and len(s.reductions) == 1 and len(s.distinct_reads) == len(_narrow_reads(s)) == 2


def make_chain(draft: GpuDraft, name: str) -> Chain:
    """The chain around extremum ``name``, with one stage each for the formula of scores and for weights."""
    found = find_matrices(draft, draft.stage(name))
    assert found is not None
    scores = found[0].name
    _inline_formulas(draft, scores)
    extremum = draft.stage(name)
    sums = [s for s in draft.stages.consumers(extremum) if s.op == "+"]
    (product,) = [s for s in sums if _narrow_reads(s)] or (None,)
    totals = tuple(s.name for s in sums if not _narrow_reads(s))
    others = [s for s in draft.stages.consumers(draft.stage(scores)) if s.name not in (name, *(x.name for x in sums))]
    if product is None or not totals or others:
        raise ScheduleError(f"sums that depend on `{name}` are not those of weights and of weighted values")
    chain = _read(draft, scores, name, totals, product.name)
    order = [_iterator(draft, chain.extremum, chain.scores, d) for d in range(_rank(draft, scores))]
    formula = _part(draft, name, order)
    order = [_iterator(draft, totals[0], formula, d) for d in range(_rank(draft, scores))]
    weight = _part(draft, totals[0], order)
    return replace(chain, formula=formula, weight=weight)


def _part(draft: GpuDraft, name: str, order: list[str]) -> str:
    """What block ``name`` reduces as a stage of its own, which all that use it read."""
    return str(draft.s.precompute(name, *order)[0])


def _inline_formulas(draft: GpuDraft, scores: str) -> None:
    """Formulas of scores written out where they are used, results aside."""
    for s in _connected(draft, draft.stage(scores), down=True):
        if s.op == "=" and not draft.stages.is_output(s):
            draft.s.compute_inline(s.name)


def _rank(draft: GpuDraft, name: str) -> int:
    return draft.stage(name).write.buffer.rank


def _read(draft: GpuDraft, scores: str, extremum: str, totals: tuple[str, ...], sums: str) -> Chain:
    """What is multiplied, and along what."""
    first, second = draft.stage(scores), draft.stage(sums)
    (along,) = draft.stage(extremum).reductions
    keys = next(d for d, i in enumerate(_iterators(draft, extremum, scores)) if i == along.name)
    own = _iterators(draft, scores, scores)
    keyed = [a for a in first.distinct_reads if a.uses(own[keys])]
    queries = [a for a in first.distinct_reads if not a.uses(own[keys])]
    values = _narrow_reads(second)
    if len(keyed) != 1 or len(queries) != 1 or len(values) != 1 or not values[0].uses(second.reductions[0].name):
        raise ScheduleError(f"`{scores}` and `{sums}` are no products with keys and values")
    alone = [d for d in range(len(own)) if queries[0].uses(own[d]) and not keyed[0].uses(own[d])]
    rows = max(alone, key=lambda d: first.by_name[own[d]].count, default=None)
    target = _iterators(draft, sums, sums)
    mine = [d for d, i in enumerate(target) if values[0].stride(i) == 1 and i not in _iterators(draft, sums, scores)]
    depth = first.reductions[0].name
    if rows is None or not mine or queries[0].stride(depth) != 1 or keyed[0].stride(depth) != 1:
        raise ScheduleError(f"elements of what `{scores}` and `{sums}` multiply do not lie side by side along the sums")
    readers = [s for s in draft.stages.consumers(second) if s.op == "="]
    inside = {scores, extremum, *totals, sums, *(s.name for s in readers)}
    users = [r for n in (extremum, *totals, sums) for r in draft.stages.consumers(draft.stage(n))]
    if len(readers) != 1 or any(r.name not in inside for r in users) or not _types_agree(queries, keyed, values):
        raise ScheduleError(f"what is made of `{sums}` is not one formula, or types of matrices differ")
    return Chain(scores, "", extremum, "", totals, sums, readers[0].name, queries[0], keyed[0], values[0], rows, keys,
                 mine[0])  # fmt: skip


def _types_agree(*accesses: list[StageAccess]) -> bool:
    return len({a.buffer.dtype for found in accesses for a in found}) == 1


def _iterators(draft: GpuDraft, name: str, of: str) -> list[str]:
    """The iterator of block ``name`` in each dimension of what block ``of`` computes."""
    stage, buffer = draft.stage(name), draft.stage(of).write.buffer.name
    access = next(a for a in stage.accesses if a.buffer.name == buffer)
    found = [[n for n, c in row.items() if c] for row in access.rows or ()]
    if not found or any(len(names) != 1 for names in found):
        raise ScheduleError(f"`{name}` uses elements of `{buffer}` elsewhere than one of each row and key")
    return [names[0] for names in found]


def _iterator(draft: GpuDraft, name: str, of: str, dimension: int) -> str:
    return _iterators(draft, name, of)[dimension]


def loops_of(draft: GpuDraft, name: str, of: str) -> list[str]:
    """The loop of block ``name`` through each dimension of what block ``of`` computes."""
    return [draft.stage(name).loop_of(i) for i in _iterators(draft, name, of)]
