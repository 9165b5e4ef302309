"""Tiles of a product whose rows are a box: of pixels of some images, for a convolution as an implicit product.

An operand with several iterators of its own (``X[n, 2*h + p - 1, 2*w + q - 1, c]`` has n, h and w) gives a tile as many
of each as come out even, instead of a long row along one of them. What a piece of the depth reads of the operand is
then a box of memory for each tap, which the copy engine fetches: zeros outside, every second element for stride 2.
The lowered matrix is never in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.auto.gpu.contraction_digits import split_names
from weft.auto.gpu.contraction_product import Product, Side
from weft.auto.gpu.draft import GpuDraft
from weft.schedules.layouts import LETTERS
from weft.schedules.schedule import Schedule


def open_operand(draft: GpuDraft, product: Product) -> tuple[Product, list[str]]:
    """Where reads of the boxed operand ask whether an element is there, or leave some out, a copy in which they need
    not: laid out so that the elements of a tap are side by side.

    It is never made: the block that would make it is to be written into those that fill tiles (`compute_inline`).
    """
    side = product.boxed
    if side is None or not side.sizes or not side.is_opened:
        return product, []
    words = []
    for d in range(side.access.buffer.rank):
        step = side.step_of(d)
        words += [LETTERS[d]] if step == 1 else [f"{LETTERS[d]}/{step}", f"{LETTERS[d]}%{step}"]
    buffer, layout, readers = side.access.buffer.name, " ".join(words), [product.stage.name]
    if side.access.guarded:
        copy, storage = map(str, draft.s.surround(buffer, readers=readers, layout=layout))
    else:
        copy, storage = map(str, draft.s.pack(buffer, layout, pad=True, readers=readers))
    return product.with_side(replace(side, storage=storage)), [copy]


def box_layout(side: Side) -> str:
    """The tile in shared memory: rows of the box in order, in terms of what `open_operand` made."""
    letters, first = list[str](), 0
    before = []
    for d in range(side.access.buffer.rank):
        letters.append(LETTERS[first])
        count = 2 if side.storage is not None and side.step_of(d) != 1 else 1
        before += list(LETTERS[first + 1 : first + count])  # which of the steps: that of the tap
        first += count
    tiled = [side.dimension_of(i) for i in side.box]
    before += [letters[d] for d in range(len(letters)) if d not in (*tiled, side.deep)]
    words = []
    for d, i, n in zip(tiled, side.box, side.sizes):
        if i.count < n:  # what a tile has more than there is are zeros
            before.append(f"{letters[d]}/{n}")
        words.append(letters[d] if i.count >= n else f"{letters[d]}%{n}")
    return " ".join([*before, *words, letters[side.deep]])


def split_loops(s: Schedule, loops: Sequence[str], sizes: Sequence[int]) -> tuple[list[str], list[str]]:
    """``loops`` along what is tiled, as loops over tiles of ``sizes`` and through one."""
    pairs = [split_names(s, loop, n) for loop, n in zip(loops, sizes)]
    return [outer for outer, _ in pairs], [inner for _, inner in pairs]
