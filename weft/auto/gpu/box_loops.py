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


def turn_operands(draft: GpuDraft, product: Product) -> list[str]:
    """Operands whose depth does not lie along memory get copies in which it does: the blocks that make these, to be
    launches of their own."""
    made = []
    for side in (s for s in product.sides if s.turned):
        layout = " ".join(LETTERS[d] for d in side.turned)
        made.append(str(draft.s.pack(side.access.buffer.name, layout, pad=True, readers=[product.name])[0]))
        what = f"a copy of `{side.access.buffer.name}` in which the depth lies along memory"
        draft.decide("packing", product.name, what, "the copy engine fetches boxes of it")
    return made


def open_operands(draft: GpuDraft, product: Product) -> tuple[Product, list[str]]:
    """Where reads of the boxed operand ask whether an element is there, or leave some out, a copy in which they need
    not: laid out so that the elements of a tap are side by side.

    Such copies are never made: the blocks that would, which are returned, are to be written into those that fill tiles
    (`compute_inline`).
    """
    opened, sides = list[str](), []
    for side in product.sides:
        if side.sizes and side.is_opened:
            steps = [(LETTERS[d], side.step_of(d)) for d in range(side.access.buffer.rank)]
            words = [word for x, n in steps for word in ((x,) if n == 1 else (f"{x}/{n}", f"{x}%{n}"))]
            copy, storage = _copied(draft, side, product.stage.name, " ".join(words))
            opened.append(copy)
            side = replace(side, storage=storage)
        sides.append(side)
    return replace(product, rows=sides[0], columns=sides[1]), opened


def _copied(draft: GpuDraft, side: Side, reader: str, layout: str) -> tuple[str, str]:
    """The block that copies an operand for ``reader``, and the storage."""
    buffer = side.access.buffer.name
    if side.access.guarded:
        copy, storage = draft.s.surround(buffer, readers=[reader], layout=layout)
        return str(copy), str(storage)
    block, storage = draft.s.pack(buffer, layout, pad=True, readers=[reader])
    return str(block), str(storage)


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
