"""How much of each iterator a tile has whose rows are a box: of pixels of some images, for a convolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.auto.gpu.contraction_product import Product, Side
from weft.target.cuda.read_boxes import MOST_ELEMENTS

#: Products that are summed while one byte of results is stored, where neither waits for the other.
PRODUCTS_A_BYTE = 100


def with_box(product: Product, rows: int, columns: int) -> Product | None:
    """``product`` with tiles of so many rows and columns, one side of them boxes, powers of two along each iterator:
    those that leave fewest tiles half empty and whose results lie side by side, of several that of the longest
    stretches of memory.

    None where there are none, or where they are rows along one iterator, as in any product.
    """
    key = rows, columns, product.stored
    if key not in product.boxes:
        product.boxes[key] = _with_box(product, rows, columns)
    return product.boxes[key]


def _with_box(product: Product, rows: int, columns: int) -> Product | None:
    side = product.boxed
    size = rows if side is product.rows else columns
    if side is None or size & (size - 1):
        return None
    most = [min(_power_above(i.count), (MOST_ELEMENTS - 1) // step + 1) for i, step in zip(side.box, side.steps)]
    found = [replace(side, sizes=sizes) for sizes in _boxes(size, most)]

    def cost(s: Side) -> tuple[float, tuple[int, ...]]:
        stored = product.with_side(s).store_overhead * PRODUCTS_A_BYTE * product.stored
        return s.tiles_of(size) * (product.steps + stored), s.sizes

    best = min(found, key=cost, default=None)
    if best is None or (not side.is_opened and [i for i, n in zip(best.box, best.sizes) if n > 1] == [side.iterator]):
        return None
    return product.with_side(best)


def _power_above(count: int) -> int:
    return 1 << (count - 1).bit_length()


def _boxes(size: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not most:
        yield from [()] if size == 1 else []
        return
    own = 1
    while own <= min(size, most[0]):
        yield from ((own, *rest) for rest in _boxes(size // own, most[1:]))
        own *= 2
