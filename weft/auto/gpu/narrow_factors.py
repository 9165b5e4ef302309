"""Sums of floats times elements of 16-bit matrices, as products of 16-bit matrices.

Weights of attention that is not in one pass with its products, and whatever else is a formula of sums of products of
16-bit elements and is multiplied with such again: rounded to their type (`narrow`), as they are in one pass too, so
that matrix instructions take both. What others read of the formula, they read of one of their own (`recompute`).
Formulas of other numbers keep all of their bits: nothing in the program says that fewer would do.
"""

from __future__ import annotations

from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.online_chain import INSTRUCTIONS, narrow_loads, uses
from weft.auto.stages import Stage

#: Steps that are worth a matrix instruction.
LEAST_DEPTH = 16


def narrow_factors(draft: GpuDraft) -> None:
    """All temporaries of the program that are such factors."""
    if not draft.is_fast or not draft.machine.has("bf16 mma"):
        return
    for name in [s.name for s in draft.stages if s.op == "=" and not s.is_inside]:
        if name in draft.stages and name not in draft.scheduled:
            draft.attempt(_narrow, draft, draft.stage(name))


def _narrow(draft: GpuDraft, made: Stage) -> None:
    readers = draft.stages.consumers(made)
    products = [r for r in readers if _is_product(r, made.write.buffer.name)]
    types = {x.buffer.dtype.name for r in products for x in narrow_loads(r)}
    if len(types) != 1 or made.write.buffer.dtype.name != "float32" or not _is_of_products(draft, made):
        return
    name, (dtype,) = made.write.buffer.name, types
    if len(products) < len(readers) or draft.stages.is_output(made):
        name = str(draft.s.recompute(made.name, *(r.name for r in products))[1])
    draft.s.narrow(name, dtype)
    draft.decide("storage", made.name, f"kept as {dtype} for {', '.join(f'`{r.name}`' for r in products)}",
                 "matrix instructions take it with elements of that type")  # fmt: skip


def _is_of_products(draft: GpuDraft, made: Stage) -> bool:
    """Whether ``made`` is computed from sums of products of two 16-bit elements, whatever was done to these since."""
    seen, left = {made.name}, [made]
    while left:
        for s in draft.stages.producers(left.pop()):
            if s.op == "+" and len(narrow_loads(s)) > 1:
                return True
            if s.name not in seen:
                seen.add(s.name)
                left.append(s)
    return False


def _is_product(s: Stage, factor: str) -> bool:
    """Whether ``s`` sums elements of ``factor`` times those of a 16-bit matrix, each of which has rows of its own."""
    narrow = [x for x in narrow_loads(s) if x.buffer.dtype.name in INSTRUCTIONS]
    reads = [a for a in s.distinct_reads if a.buffer.name == factor]
    if s.op != "+" or len(s.distinct_reads) != 2 or len(narrow) != 1 or len(reads) != 1 or s.is_inside:
        return False
    deep = max((r.count for r in s.reductions), default=0)
    alone = [i for i in s.spatial if reads[0].uses(i.name) != uses(narrow[0], i.name) and i.count > 1]
    return deep >= LEAST_DEPTH and len({reads[0].uses(i.name) for i in alone}) == 2
