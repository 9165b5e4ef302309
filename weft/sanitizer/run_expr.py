"""Expressions over all lanes at once. A value that no lane changes stays a single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.intrinsics import INTRINSICS, REINTERPRET
from weft.ir.numpy_dtypes import to_numpy
from weft.ir.visit import children, walk
from weft.sanitizer.lanes import Array, Lanes
from weft.tensor.array_arithmetic import apply

if TYPE_CHECKING:
    from weft.sanitizer.run import Run


def evaluate(e: Expr, lanes: Lanes, run: Run) -> Array:
    """The value of ``e`` in every lane."""
    return _RULES.get(type(e), _unsupported)(e, lanes, run)


def _var(e: Var, lanes: Lanes, run: Run) -> Array:
    home, value = run.variables[e.name]
    if value.ndim == 0 or home is lanes:
        return value
    kept = lanes.gathered.get(e.name)
    if kept is None or kept[0] is not value:
        kept = lanes.gathered[e.name] = (value, lanes.bring(value, home))
    return kept[1]


def _binary(e: Binary, lanes: Lanes, run: Run) -> Array:
    left = evaluate(e.left, lanes, run)
    if e.op not in ("&&", "||"):
        return apply(e, (left, evaluate(e.right, lanes, run)))
    asked = left if e.op == "&&" else ~left
    return _where(asked, lanes, lambda part: evaluate(e.right, part, run), left)


def _select(e: Select, lanes: Lanes, run: Run) -> Array:
    chosen = evaluate(e.condition, lanes, run)
    if not _reads(e.then) and not _reads(e.otherwise):
        return np.asarray(np.where(chosen, evaluate(e.then, lanes, run), evaluate(e.otherwise, lanes, run)))
    nothing = np.zeros((), to_numpy(e.dtype))
    yes = _where(chosen, lanes, lambda part: evaluate(e.then, part, run), nothing)
    return _where(~chosen, lanes, lambda part: evaluate(e.otherwise, part, run), yes)


def _reads(e: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk(e))


def _where(chosen: Array, lanes: Lanes, value: Callable[[Lanes], Array], elsewhere: Array) -> Array:
    """``value`` in the lanes that are chosen, which alone evaluate it."""
    if chosen.ndim == 0:
        return value(lanes) if chosen else elsewhere
    places = np.nonzero(chosen)[0]
    if not len(places):
        return elsewhere
    found = value(lanes.part(places))
    if len(places) == lanes.count:
        return found
    result = np.array(np.broadcast_to(elsewhere, (lanes.count,)))
    result[places] = found
    return result


def _apply(e: Expr, lanes: Lanes, run: Run) -> Array:
    if isinstance(e, Call) and e.name not in INTRINSICS and e.name != REINTERPRET:
        return _unsupported(e, lanes, run)
    return apply(e, [evaluate(x, lanes, run) for x in children(e) if isinstance(x, Expr)])


def _unsupported(e: Expr, lanes: Lanes, run: Run) -> Array:
    raise UnsupportedError(
        f"a {type(e).__name__.lower()} in the program cannot be watched",
        span=e.span or run.span,
        why="programs are watched as they are written or scheduled, before they are lowered for a machine",
    )


_RULES: dict[type[Expr], Callable[[Any, Lanes, Run], Array]] = {
    Var: _var,
    Load: lambda e, lanes, run: run.load(e, lanes),
    Binary: _binary,
    Select: _select,
    **dict.fromkeys((Const, Cast, Unary, Compare, Call), _apply),
}
