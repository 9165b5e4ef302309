"""Products of the same rows whose results meet in one formula, such as the two of a gated layer.

They are computed together: a tile of the rows is fetched once for all, each product has sums of its own, and the
formula is computed where these are.
"""

from __future__ import annotations

from weft.auto.align import counterparts
from weft.auto.gpu.contraction_instruction import find_instruction
from weft.auto.gpu.contraction_product import Product, read_product
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.epilogue import epilogue_of
from weft.auto.stages import Stage


def find_twins(draft: GpuDraft, product: Product) -> tuple[Product, ...]:
    """The products that may be computed together with ``product``, which comes before them; none where something that
    reads it is not theirs alone, or the copy engine does not bring all operands."""
    reader = epilogue_of(draft, product.stage)
    if reader is None or not _fits(draft, product):
        return ()
    names = [str(s.name) for s in draft.stages]
    later = names[names.index(product.stage.name) + 1 : names.index(reader.name)]
    found = [read_product(draft.stage(name)) for name in later]
    twins = tuple(p for p in found if p is not None and _is_twin(draft, product, p, reader))
    return twins if len(twins) == len(later) else ()


def _fits(draft: GpuDraft, p: Product) -> bool:
    plain = not p.batch and not p.around and p.why_not_fetched(draft.machine) is None
    return plain and find_instruction(draft, p, grouped=True) is not None


def _is_twin(draft: GpuDraft, p: Product, other: Product, reader: Stage) -> bool:
    theirs = epilogue_of(draft, other.stage)
    if theirs is None or theirs.name != reader.name or not _fits(draft, other):
        return False
    pairs = [
        (tuple(counterparts(q.stage, reader).get(s.iterator.name) for s in q.sides), _shape(q), q.rows.buffer)
        for q in (p, other)
    ]
    return pairs[0] == pairs[1] and other.columns.buffer != p.rows.buffer


def _shape(p: Product) -> tuple[object, ...]:
    """What products of the same rows have in common."""
    counts = tuple(s.iterator.count for s in p.sides)
    return *counts, p.deep, p.rows.along_depth, p.rows.dimension, p.rows.deep, p.columns.access.buffer.dtype
