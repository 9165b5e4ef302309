"""Launches besides that of a product: operands copied before, with zeros around them or where the copy engine can fetch
them, and parts of its depth, which are added up afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.auto.gpu.box_loops import partial_sums
from weft.auto.gpu.contraction_digits import split_names
from weft.auto.gpu.contraction_product import Product, Side, read_product
from weft.auto.gpu.draft import GpuDraft
from weft.target.cuda.read_boxes import rows_apart


def surround_operands(draft: GpuDraft, name: str, besides: Sequence[Side]) -> list[str]:
    """Operands that are zero outside get zeros around them, in a launch before: the blocks that copy them so. None are
    needed around what boxes are taken of."""
    copies = []
    boxed = {side.access.buffer.name for side in besides}
    for buffer in dict.fromkeys(a.buffer.name for a in draft.stage(name).reads if a.guarded):
        if buffer in boxed:
            continue
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


def cut_depth(draft: GpuDraft, p: Product, parts: int) -> Product:
    """Where there are too few tiles for all multiprocessors, each sums a part of the depth; these are added up then."""
    s, length = draft.s, -(-p.deep // parts)
    part, depth = split_names(s, p.depth, length)
    others = [x for x in p.stage.loops if x != p.depth]
    s.reorder(part, *others, depth)
    block, sums = partial_sums(draft, p, part)
    draft.decide("parallel", p.stage.name, f"{parts} parts of {length} steps, added up in the end", "few tiles")
    batch = (part, *p.batch)
    return replace(p, depth=depth, deep=length, name=block, sums=sums, batch=batch, batches=p.batches * parts)
