"""Minima and maxima of arrays: NaN wins, and -0 is less than 0, in whatever order elements come."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class Extreme:
    """Like numpy's own ufunc, which takes either of two zeros."""

    def __init__(self, ufunc: np.ufunc, *, negative_wins: bool) -> None:
        self.ufunc, self.negative_wins = ufunc, negative_wins

    def __call__(self, a: Array, b: Array) -> Array:
        wins = np.logical_or(self._is_winning_zero(a), self._is_winning_zero(b))
        return self._with_signs(np.asarray(self.ufunc(a, b)), wins)

    def reduce(self, values: Array, axis: Any = 0, *, keepdims: Any = False, dtype: Any = None) -> Array:
        wins = np.logical_or.reduce(self._is_winning_zero(values), axis=axis, keepdims=keepdims)
        return self._with_signs(np.asarray(self.ufunc.reduce(values, axis=axis, keepdims=keepdims, dtype=dtype)), wins)

    def at(self, target: Array, places: Any, values: Array) -> None:
        wins = np.asarray(self._is_winning_zero(target))
        np.logical_or.at(wins, places, self._is_winning_zero(values))
        self.ufunc.at(target, places, values)
        target[...] = self._with_signs(target, wins)

    def _is_winning_zero(self, a: Array) -> Array:
        if a.dtype.kind in "biu":
            return np.zeros(np.shape(a), bool)
        return np.asarray((a == 0) & (np.signbit(a) == self.negative_wins))

    def _with_signs(self, result: Array, wins: Array) -> Array:
        if result.dtype.kind in "biu":
            return result
        zero = np.where(wins == self.negative_wins, result.dtype.type(-0.0), result.dtype.type(0.0))
        return np.where(result == 0, zero, result)


MINIMUM, MAXIMUM = Extreme(np.minimum, negative_wins=True), Extreme(np.maximum, negative_wins=False)
