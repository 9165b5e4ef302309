"""Tiles of a product whose rows are a box: of pixels of some images, for a convolution as an implicit product.

An operand with several iterators of its own (``X[n, 2*h + p - 1, 2*w + q - 1, c]`` has n, h and w) gives a tile as many
of each as come out even, instead of a long row along one of them. What a piece of the depth reads of the operand is
then a box of memory for each tap, which the copy engine fetches: zeros outside, every second element for stride 2.
The lowered matrix is never in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.auto.gpu.contraction_digits import split_names
from weft.auto.gpu.contraction_product import Product, Side
from weft.auto.gpu.draft import GpuDraft
from weft.auto.gpu.grid import as_one
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
        if (side.sizes or side.deep_sizes) and side.is_opened:
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
    """The tile in shared memory: rows of the box in order, in terms of what `open_operands` made."""
    letters, before = _letters(side)
    tiled = [side.dimension_of(i) for i in side.box]
    before += [letters[d] for d in range(len(letters)) if d not in (*tiled, side.deep)]
    words = []
    for d, i, n in zip(tiled, side.box, side.sizes):
        if i.count < n:  # what a tile has more than there is are zeros
            before.append(f"{letters[d]}/{n}")
        words.append(letters[d] if i.count >= n else f"{letters[d]}%{n}")
    return " ".join([*before, *words, letters[side.deep]])


def deep_layout(side: Side, together: int) -> str:
    """A piece of the depth in shared memory: for each so many rows (or columns) ``together`` its box in order."""
    letters, before = _letters(side)
    deep = [side.dimension_of(i) for i in side.deep_box]
    before += [letters[d] for d in range(len(letters)) if d not in (*deep, side.dimension)]
    tiled = letters[side.dimension]
    return " ".join([*before, f"{tiled}/{together}", *(letters[d] for d in deep), f"{tiled}%{together}"])


def _letters(side: Side) -> tuple[list[str], list[str]]:
    """Of each dimension of an operand in what `open_operands` made, and those that say which of the steps: that of the
    tap."""
    letters, taps, first = list[str](), list[str](), 0
    for d in range(side.access.buffer.rank):
        letters.append(LETTERS[first])
        count = 2 if side.storage is not None and side.step_of(d) != 1 else 1
        taps += list(LETTERS[first + 1 : first + count])
        first += count
    return letters, taps


def split_loops(s: Schedule, loops: Sequence[str], sizes: Sequence[int]) -> tuple[list[str], list[str]]:
    """``loops`` along what is tiled, as loops over tiles of ``sizes`` and through one."""
    pairs = [split_names(s, loop, n) for loop, n in zip(loops, sizes)]
    return [outer for outer, _ in pairs], [inner for _, inner in pairs]


def partial_sums(draft: GpuDraft, product: Product, part: str) -> tuple[str, str]:
    """Sums for each iteration of loop ``part``: the block that makes them, and their storage, which lasts, as that of
    what `open_operands` made does, until what follows the product has read it."""
    block, sums = draft.s.rfactor(part, start="inside")
    for storage in (*(side.storage for side in product.sides if side.storage is not None), str(sums)):
        draft.attempt(draft.s.store_at, storage)
    return str(block), str(sums)


def cut_deep_box(draft: GpuDraft, product: Product, parts: int) -> Product:
    """The loops over pieces, and through one, as one each; where there are ``parts``, each part of the pieces has sums
    of its own, which are added up in the end."""
    s, side = draft.s, product.rows
    others = [x for x in product.stage.loops if x not in [i.loop for i in side.deep_box]]
    pairs = [split_names(s, product.stage.loop_of(i.name), n) for i, n in zip(side.deep_box, side.deep_sizes)]
    s.reorder(*others, *(outer for outer, _ in pairs), *(inner for _, inner in pairs))
    piece, step = (as_one(draft, loops) for loops in zip(*pairs))
    product = replace(product, cut=(piece, step))
    along = ", ".join(f"{n} `{i.name}`" for i, n in zip(side.deep_box, side.deep_sizes))
    draft.decide("tiling", product.name, f"pieces of what is summed over are boxes: {along}", "each is short by itself")
    if parts == 1:
        return product
    length = product.deep // prod(side.deep_sizes) // parts
    part, piece = split_names(s, piece, length)
    s.reorder(part, *others, piece, step)
    block, sums = partial_sums(draft, product, part)
    draft.decide("parallel", product.stage.name, f"{parts} parts of {length} boxes, added up in the end", "few tiles")
    return replace(
        product, cut=(piece, step), deep=product.deep // parts, name=block, sums=sums,
        batch=(part, *product.batch), batches=product.batches * parts,
    )  # fmt: skip
