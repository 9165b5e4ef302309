"""What integers can be: variables by their ranges, and numbers of blocks, whose products the whole grid limits.

``blockIdx.y * gridDim.x + blockIdx.x`` has no range by those of its parts, but is below the number of all blocks. Its
largest value is a polynomial in the grid's sizes, ``gx * gy - 1``, and every product of different sizes is no more than
the number of blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.from_cuda.values import Number
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Const, Expr, Var
from weft.ir.interval import Interval, bounds
from weft.ir.visit import free_vars

#: Factors by their names, each product with its factor.
Polynomial = dict[tuple[str, ...], int]


@dataclass(frozen=True, slots=True)
class GridSizes:
    """Numbers of blocks by the variables that count them, and how many blocks a grid has at most."""

    sizes: Mapping[str, str]
    blocks: int


@dataclass(eq=False)
class Ranges(dict[str, Interval]):
    """What variables can be. ``mixed`` are data that met an index in an operation, and had better be one too;
    ``numbers`` are what a launch gives: the same for all threads; ``wrapping`` are ints that programs let wrap."""

    mixed: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    wrapping: set[str] = field(default_factory=set)
    grid: GridSizes | None = None

    def meet(self, *numbers: Number) -> None:
        for n in numbers:
            if isinstance(n.expr, Var) and not (n.type.is_integer and n.expr.dtype == dt.index):
                self.mixed.add(n.expr.name)

    def of(self, e: Expr) -> Interval:
        """Bounds of ``e``."""
        found = bounds(e, self)
        if found.within(0, dt.int32.max_value) or self.grid is None or not set(self.grid.sizes) & set(free_vars(e)):
            return found
        product = _expanded(e)
        if product is None or any(factor < 0 for names, factor in product.items() if names):
            return found
        if any(low is None or low < 0 for low in (self._of(name).lo for names in product for name in names)):
            return found
        return found.intersect(Interval(product.get((), 0), self._most(product, self.grid)))

    def _of(self, name: str) -> Interval:
        return self.get(name, Interval(None, None))

    def _most(self, product: Polynomial, grid: GridSizes) -> int | None:
        """The largest value of a sum of products, whose factors are at least 0."""
        total: Polynomial = {}
        for names, factor in product.items():
            _add(total, self._largest(names, factor, grid))
        most = total.pop((), 0)
        for names, factor in total.items():
            if len(set(names)) < len(names) or any(name not in grid.sizes.values() for name in names):
                return None
            most += max(factor * grid.blocks, factor)  # every size is at least 1
        return most

    def _largest(self, names: tuple[str, ...], factor: int, grid: GridSizes) -> Polynomial:
        """A product with each factor at its largest: a block's number one less than their number."""
        made: Polynomial = {(): factor}
        for name in names:
            most = self._of(name).hi
            if name in grid.sizes:
                made = _times(made, {(grid.sizes[name],): 1, (): -1})
            elif name in grid.sizes.values() or most is None:
                made = _times(made, {(name,): 1})
            else:
                made = _times(made, {(): most})
        return made


def _expanded(e: Expr) -> Polynomial | None:
    """``e`` as a sum of products of variables."""
    match e:
        case Const():
            return {(): int(e.value)}
        case Var():
            return {(e.name,): 1}
        case Binary("+" | "-" | "*"):
            left, right = _expanded(e.left), _expanded(e.right)
            if left is None or right is None:
                return None
            if e.op == "*":
                return _times(left, right)
            sign: Polynomial = {(): -1 if e.op == "-" else 1}
            return _add(dict(left), _times(right, sign))
    return None


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    made: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            _add(made, {tuple(sorted((*left, *right))): x * y})
    return made


def _add(to: Polynomial, more: Polynomial) -> Polynomial:
    for names, factor in more.items():
        to[names] = to.get(names, 0) + factor
    return to
