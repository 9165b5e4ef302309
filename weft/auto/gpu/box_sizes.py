"""How much of each iterator a tile has whose rows are a box: of pixels of some images, for a convolution.

Pieces of the depth may be boxes, too: of all that is summed over for the gradient of a convolution's weights
(``E[n, h, w, f] * X[n, h + p - 1, w + q - 1, c]`` over n, h and w). Such a box must not reach beyond the end of an
iterator where an operand has elements: zeros of the other would be multiplied with these, whatever they are. So sizes
divide how often iterators run, unless both operands end there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import ceil, prod

from weft.auto.gpu.contraction_product import Product, Side
from weft.auto.stages import StageIter
from weft.ir.expr import idx
from weft.target.cuda.read_boxes import MOST_ELEMENTS, MOST_STEP

#: Products that are summed while one byte of results is stored, where neither waits for the other.
PRODUCTS_A_BYTE = 100
#: Steps of a piece: what an instruction takes at once, the fewest and the most, about which are the best, and which
#: are as good.
AT_ONCE, LEAST, MOST, BEST, NEAR = 16, 48, 192, (64, 96, 128), 32


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


def deep_sizes(product: Product) -> list[tuple[int, ...]]:
    """Boxes for pieces of the depth, along each of the iterators: of about the best lengths those that waste least, of
    these the longest stretches of memory."""
    every = _deep_boxes([_choices(product, i) for i in product.rows.deep_box], MOST)
    fit = [sizes for sizes in every if prod(sizes) >= LEAST and prod(sizes) % AT_ONCE == 0]

    def cost(sizes: tuple[int, ...], best: int) -> tuple[int, int, tuple[int, ...]]:
        steps = prod(_padded(i, n) for i, n in zip(product.rows.deep_box, sizes))
        return steps, abs(prod(sizes) - best) // NEAR, tuple(-n for n in reversed(sizes))

    chosen = [min(fit, key=partial(cost, best=best)) for best in BEST] if fit else []
    return list(dict.fromkeys(chosen))


def _choices(product: Product, i: StageIter) -> list[int]:
    """How much of an iterator a box may have."""
    step = max(side.step_of(side.dimension_of(i)) for side in product.sides)
    most = min(MOST, (MOST_ELEMENTS - 1) // step + 1) if step <= MOST_STEP else 1
    ends = all(_ends_with(side, i) for side in product.sides)
    return [n for n in range(1, most + 1) if i.count % n == 0 or (ends and n <= i.count)]


def _ends_with(side: Side, i: StageIter) -> bool:
    """Whether an operand has nothing where an iterator would run further."""
    d = side.dimension_of(i)
    is_plain = side.access.subscript_of(i.name) == d and side.access.offsets[d] == 0
    return is_plain and side.access.buffer.shape[d] == idx(i.count)


def _deep_boxes(choices: Sequence[Sequence[int]], most: int) -> Iterator[tuple[int, ...]]:
    if not choices:
        yield ()
        return
    for n in (n for n in choices[0] if n <= most):
        yield from ((n, *rest) for rest in _deep_boxes(choices[1:], most // n))


def _padded(i: StageIter, size: int) -> int:
    return ceil(i.count / size) * size


def with_deep_box(product: Product, sizes: tuple[int, ...]) -> Product:
    """``product`` with pieces of so much along each iterator: these are all of its depth."""
    rows, columns = (replace(side, deep_sizes=sizes) for side in product.sides)
    deep = prod(_padded(i, n) for i, n in zip(product.rows.deep_box, sizes))
    return replace(product, rows=rows, columns=columns, deep=deep, around=())


def parts_of(product: Product, most: int, shortest: int) -> list[int]:
    """Into how many parts pieces may be cut, up to ``most``, each of ``shortest`` steps or more: all of the same size,
    so that none is tested for."""
    pieces = product.deep // prod(product.rows.deep_sizes)
    return [n for n in range(1, most + 1) if pieces % n == 0 and (n == 1 or product.deep // n >= shortest)]
