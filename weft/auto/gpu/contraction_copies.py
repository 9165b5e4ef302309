"""Operands of a product copied in a launch before: with zeros around them, or where the copy engine can fetch them."""

from __future__ import annotations

from weft.auto.gpu.contraction_product import read_product
from weft.auto.gpu.draft import GpuDraft
from weft.target.cuda.read_boxes import rows_apart


def surround_operands(draft: GpuDraft, name: str) -> list[str]:
    """Operands that are zero outside get zeros around them, in a launch before: the blocks that copy them so."""
    copies = []
    for buffer in dict.fromkeys(a.buffer.name for a in draft.stage(name).reads if a.guarded):
        copies.append(str(draft.s.surround(buffer, readers=[name])[0]))
        draft.decide("packing", name, f"`{buffer}` with zeros around it", "no test for every element that is read")
    return copies


def move_apart(draft: GpuDraft, name: str) -> list[str]:
    """Operands whose rows begin anywhere get copies that the copy engine can fetch: the blocks that copy them so."""
    copies, product = [], read_product(draft.stage(name))
    for buffer in () if product is None else product.moved_apart(draft.machine):
        copy, storage = draft.s.cache_read(buffer.name, readers=[name])
        if elements := rows_apart(buffer):
            draft.s.pad_rows(storage, elements, strided=True)
        copies.append(str(copy))
        draft.decide("packing", name, f"a copy of `{buffer.name}` whose rows begin at multiples of 16 bytes",
                     "then the copy engine can fetch it")  # fmt: skip
    return copies
