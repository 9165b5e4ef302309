"""What loop variables can be, for passes that walk a program downwards."""

from __future__ import annotations

from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Const, Expr
from weft.ir.interval import Interval, Ranges, ranges_through
from weft.ir.interval import loop_range as loop_range
from weft.ir.simplify import Simplifier, simplify
from weft.ir.stmt import For, Stmt


def ranges_inside(s: Stmt, ranges: Ranges) -> Ranges:
    """What variables can be inside ``s``, where they are in ``ranges`` around it."""
    return ranges_through([s], ranges) if isinstance(s, For) else ranges


def extent_range(loop: For, ranges: Ranges) -> Interval:
    """How often the loop may run; terms that both bounds have cancel."""
    return linear_form(Binary("-", loop.hi, loop.lo)).bounds(ranges)


def extent(loop: For) -> Expr:
    """How often the loop runs, where its range is not empty."""
    return simplify(loop.hi - loop.lo)


def constant_extent(loop: For) -> int | None:
    """How often the loop runs, where both bounds are numbers."""
    if isinstance(loop.lo, Const) and isinstance(loop.hi, Const):
        return max(0, int(loop.hi.value) - int(loop.lo.value))
    return None


def runs_at_least_once(loop: For, ranges: Ranges) -> bool:
    least = extent_range(loop, ranges).lo
    return least is not None and least >= 1


def ranges_where(condition: Expr, holds: bool, ranges: Ranges, changing: frozenset[str]) -> Ranges:
    """``ranges``, and what ``condition`` says if it ``holds`` or if not of variables that are not ``changing``."""
    simplifier = Simplifier(ranges)
    simplifier.mutable = set(changing)
    return {**ranges, **simplifier.facts(condition, holds)}


def is_serial_loop(s: Stmt) -> bool:
    return isinstance(s, For) and s.kind in ("serial", "unroll")
