"""Reads outside a tensor with a stated value, so that padding needs no copy.

``Outside(load, mode, fill)`` is the load where its indices are in bounds, and elsewhere: ``value``
gives ``fill``, ``edge`` the nearest element, ``wrap`` the element as if the tensor repeated, and
``reflect`` as if it were mirrored at its ends without repeating them (numpy's pad modes of these
names). Range inference ignores the access; `expand_outside` turns the node into plain arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from weft.ir.dtype import DType
from weft.ir.expr import Binary, Compare, Expr, Load, Select, _require, _span, idx
from weft.ir.inequality import all_of
from weft.ir.span import Span
from weft.ir.visit import Node, rewrite

OutsideMode = Literal["value", "edge", "wrap", "reflect"]
N = TypeVar("N", bound=Node)


@dataclass(frozen=True, slots=True)
class Outside(Expr):
    """``load``, defined everywhere; ``fill`` (of the load's type) is for mode ``value`` alone."""

    load: Load
    mode: OutsideMode
    fill: Expr | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.mode in get_args(OutsideMode), "a boundary", f"unknown mode {self.mode}")
        _require((self.fill is not None) == (self.mode == "value"), "a boundary", "mode value, and only it, takes fill")
        if self.fill is not None:
            _require(self.fill.dtype == self.load.dtype, "a boundary", "types differ", self.fill, self.load)

    @property
    def dtype(self) -> DType:
        return self.load.dtype


def expand_outside(node: N) -> N:
    """Every `Outside` below ``node`` as a select or as index arithmetic."""
    return rewrite(node, lambda n: _expand(n) if isinstance(n, Outside) else None)


def _expand(node: Outside) -> Expr:
    if node.mode == "value":
        return _guarded(node)
    indices = tuple(_PLACES[node.mode](i, size) for i, size in zip(node.load.indices, node.load.buffer.shape))
    return Load(node.load.buffer, indices, span=node.span or node.load.span)


def _guarded(node: Outside) -> Expr:
    load, fill = node.load, node.fill
    assert fill is not None
    pairs = zip(load.indices, load.buffer.shape)
    inside = [test for i, size in pairs for test in (Compare(">=", i, idx(0)), Compare("<", i, size))]
    return Select(all_of(inside), load, fill, span=node.span) if inside else load


def _reflect(i: Expr, size: Expr) -> Expr:
    """The distance from 0 on a path that goes up to ``size - 1`` and back; a size of 1 stays at 0."""
    period = Binary("max", (size - 1) * 2, idx(1))
    along = Binary("%", i, period)
    return Binary("min", along, (size - 1) * 2 - along)


_PLACES: dict[str, Callable[[Expr, Expr], Expr]] = {
    "edge": lambda i, size: Binary("max", Binary("min", i, size - 1), idx(0)),
    "wrap": lambda i, size: Binary("%", i, size),
    "reflect": _reflect,
}
