"""Expressions over all lanes at once. A value that no lane changes stays a single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.intrinsics import INTRINSICS
from weft.ir.numpy_dtypes import convert, to_numpy
from weft.ir.visit import walk
from weft.sanitizer.lanes import Array, Lanes
from weft.tensor.array_arithmetic import BINARY, COMPARE, UNARY, computed

if TYPE_CHECKING:
    from weft.sanitizer.run import Run


def evaluate(e: Expr, lanes: Lanes, run: Run) -> Array:
    """The value of ``e`` in every lane."""
    return _RULES.get(type(e), _unsupported)(e, lanes, run)


def _const(e: Const, lanes: Lanes, run: Run) -> Array:
    exact = np.asarray(e.value, np.float64) if e.type.is_float else np.asarray(e.value, to_numpy(e.type))
    return convert(exact, e.type)


def _var(e: Var, lanes: Lanes, run: Run) -> Array:
    home, value = run.variables[e.name]
    if value.ndim == 0 or home is lanes:
        return value
    kept = lanes.gathered.get(e.name)
    if kept is None or kept[0] is not value:
        kept = lanes.gathered[e.name] = (value, lanes.bring(value, home))
    return kept[1]


def _cast(e: Cast, lanes: Lanes, run: Run) -> Array:
    return convert(evaluate(e.operand, lanes, run), e.type)


def _unary(e: Unary, lanes: Lanes, run: Run) -> Array:
    return computed(e.dtype, UNARY[e.op], evaluate(e.operand, lanes, run))


def _compare(e: Compare, lanes: Lanes, run: Run) -> Array:
    return computed(e.dtype, COMPARE[e.op], evaluate(e.left, lanes, run), evaluate(e.right, lanes, run))


def _binary(e: Binary, lanes: Lanes, run: Run) -> Array:
    left = evaluate(e.left, lanes, run)
    if e.op not in ("&&", "||"):
        return computed(e.dtype, BINARY[e.op], left, evaluate(e.right, lanes, run))
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


def _call(e: Call, lanes: Lanes, run: Run) -> Array:
    if e.name not in INTRINSICS:
        return _unsupported(e, lanes, run)
    return computed(e.dtype, INTRINSICS[e.name].evaluate, *(evaluate(a, lanes, run) for a in e.args))


def _unsupported(e: Expr, lanes: Lanes, run: Run) -> Array:
    raise UnsupportedError(
        f"a {type(e).__name__.lower()} in the program cannot be watched",
        span=e.span or run.span,
        why="programs are watched as they are written or scheduled, before they are lowered for a machine",
    )


_RULES: dict[type[Expr], Callable[[Any, Lanes, Run], Array]] = {
    Const: _const,
    Var: _var,
    Load: lambda e, lanes, run: run.load(e, lanes),
    Cast: _cast,
    Unary: _unary,
    Compare: _compare,
    Binary: _binary,
    Select: _select,
    Call: _call,
}
