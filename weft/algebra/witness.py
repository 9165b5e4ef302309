"""Refusals seen on arrays: both programs evaluated at sizes for which they are to differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.algebra.interfaces import Interfaces
from weft.algebra.linear import Linear
from weft.ir.buffer import Buffer
from weft.ir.errors import Error
from weft.ir.expr import Const
from weft.ir.numpy_dtypes import to_numpy
from weft.tensor.evaluate import evaluate
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import specialize

#: Points of a program's statements that are evaluated at most; what is added to sizes; sets of arrays for each.
MOST_POINTS = 20_000_000
LARGER = (0, 2)
TRIES = 9


@dataclass(frozen=True, slots=True)
class Seen:
    """An element that differs on arrays of these sizes, and its two values."""

    index: tuple[int, ...]
    sizes: dict[str, int]
    values: tuple[Any, Any]


def confirm(pair: Interfaces, output: int, index: tuple[int, ...], sizes: Mapping[str, int]) -> Seen | None:
    """The element at ``index``, or another, that differs on some arrays; None where none is seen."""
    for larger in LARGER:
        given = {n.name: sizes.get(n.name, 1) + larger for n in (*pair.first.sizes, *pair.first.constants)}
        for seed in range(TRIES):
            try:
                sides = _outputs(pair, output, given, seed)
            except (Error, MemoryError):
                continue
            if sides is None:
                return None
            places = np.argwhere(_apart(*sides))
            if len(places):
                at = index if list(index) in places.tolist() else tuple(map(int, places[0]))
                return Seen(at, given, (sides[0][at], sides[1][at]))
    return None


def _outputs(pair: Interfaces, output: int, sizes: Mapping[str, int], seed: int) -> tuple[Any, Any] | None:
    """What both programs give for random arrays; None where that takes too long."""
    values = [{name: _value(form, sizes) for name, form in side.items()} for side in pair.sizes]
    programs = pair.first, pair.second
    if any(points(p, v) > MOST_POINTS for p, v in zip(programs, values)):
        return None
    random = np.random.default_rng(seed)
    arrays = [_array(p, values[0], random, seed) for p in pair.first.params]
    first, second = (evaluate(p, arrays, wide=True)[output] for p in programs)
    return first, second


def _value(form: Linear, sizes: Mapping[str, int]) -> int:
    return sum(c * (sizes.get(n, 1) if n else 1) for n, c in form)


def _array(parameter: Any, sizes: Mapping[str, int], random: np.random.Generator, seed: int) -> Any:
    shape: tuple[int, ...] = ()
    if isinstance(parameter, Buffer):
        from weft.algebra.positions import position

        shape = tuple(max(0, _value(position(s, {})[0].form, sizes)) for s in parameter.shape)
    elif parameter.name in sizes:
        return sizes[parameter.name]
    t = parameter.dtype
    if t.is_bool:
        return random.integers(0, 2, shape).astype(bool)
    if t.is_integer:
        lo, hi = ((0, 2), (1, 4), (t.min_value, min(t.max_value, 2**62)))[seed % 3]
        return random.integers(lo, hi, shape).astype(to_numpy(t))
    low = 0.5 if seed % 3 == 0 else -2.0
    return random.uniform(low, 2.0, shape)


def points(program: TensorProgram, sizes: Mapping[str, int]) -> float:
    """How often statements run in all, about."""
    plain = specialize(program, sizes)
    total: float = 0
    for s in plain.statements:
        total += math.prod(
            a.hi.value - a.lo.value if isinstance(a.hi, Const) and isinstance(a.lo, Const) else 1 for a in s.axes
        )
    return total


def _apart(a: Any, b: Any) -> Any:
    """Where two arrays differ by more than rounding."""
    if a.dtype.kind in "biu":
        return a != b
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= 1e-7 * (np.abs(a) + np.abs(b)) + 1e-12
    return ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
