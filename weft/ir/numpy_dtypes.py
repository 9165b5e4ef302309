"""Element types as numpy knows them, and `Cast` over whole arrays.

bfloat16 and floats of 8 bits are numpy types of the ml_dtypes package, which is imported when first needed.

>>> convert(np.array([1.5, np.nan, 1e9]), dtype.int8)        # truncates, NaN is 0, saturates
array([  1,   0, 127], dtype=int8)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ir import dtype as dt
from weft.ir.dtype import DType

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float"}


@cache
def to_numpy(dtype: DType) -> np.dtype[Any]:
    """The numpy type of one element."""
    if dtype.kind not in dt.OTHER_FLOATS:
        return np.dtype(dtype.scalar.name)
    import ml_dtypes

    numpy_type: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype.scalar.name))
    return numpy_type


@cache
def from_numpy(numpy_dtype: np.dtype[Any]) -> DType | None:
    """The element type of a numpy array, or None where Weft has none (complex, text, foreign byte order)."""
    if numpy_dtype.name in dt.OTHER_FLOATS.values():
        return dt.SCALAR_TYPES[numpy_dtype.name]
    kind = _KINDS.get(numpy_dtype.kind)
    if kind is None or not numpy_dtype.isnative:
        return None
    return dt.bool_ if kind == "bool" else dt.SCALAR_TYPES.get(f"{kind}{numpy_dtype.itemsize * 8}")


def convert(values: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """What `Cast` does, elementwise: wraps between integers, saturates from float, rounds to nearest even.

    What is too large for a float is infinity, but the largest number of those of 8 bits; an infinity stays one.
    """
    source = from_numpy(values.dtype)
    if source is not None and source == dtype.scalar:
        return values
    with np.errstate(all="ignore"):
        if dtype.is_bool:
            return np.asarray(values != 0)
        if dtype.is_integer and source is not None and source.is_float:
            return _saturate(values.astype(np.float64), dtype)
        if dtype.kind in dt.OTHER_FLOATS:
            odd = _to_float32_odd(values)
            return (_within(odd, dtype) if dtype.saturates else odd).astype(to_numpy(dtype))
        if dtype.is_narrow_float and values.dtype.kind in "iu":
            values = values.astype(np.float64)
        return values.astype(to_numpy(dtype))


def round_to(dtype: DType, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Float ``values`` rounded to what ``dtype`` can hold, in the type `dtype` computes in (float32 for narrow)."""
    rounded = convert(values, dtype)
    return rounded.astype(np.float32) if dtype.is_narrow_float else rounded


def _within(values: npt.NDArray[np.float32], dtype: DType) -> npt.NDArray[np.float32]:
    kept = np.clip(values, -dtype.shape.largest, dtype.shape.largest)
    return np.where(np.isinf(values), values, kept) if dtype.shape.has_infinity else kept


def _saturate(values: npt.NDArray[np.float64], dtype: DType) -> npt.NDArray[Any]:
    whole = np.trunc(values)
    above, below = whole >= float(dtype.max_value + 1), whole < float(dtype.min_value)
    ordinary = ~(above | below | np.isnan(whole))
    result = np.zeros(values.shape, to_numpy(dtype))
    result[ordinary] = whole[ordinary].astype(result.dtype)
    result[above] = dtype.max_value
    result[below] = dtype.min_value
    return result


def _to_float32_odd(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """To float32, rounded to odd where inexact, so that rounding once more to bfloat16 rounds only once in effect."""
    if values.dtype in (np.float32, np.float16) or values.dtype.kind == "b":
        return values.astype(np.float32)
    wide = _to_float64_odd(values)
    narrow = np.atleast_1d(wide.astype(np.float32))
    inexact = (narrow != wide) & ~np.isnan(wide)
    bits = narrow.view(np.uint32)
    bits = bits - (inexact & (np.abs(narrow.astype(np.float64)) > np.abs(wide)))
    odd: npt.NDArray[np.float32] = (bits | inexact).astype(np.uint32).view(np.float32)
    return odd.reshape(values.shape)


def _to_float64_odd(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """To float64; 64-bit integers it cannot hold keep their top 48 bits and a sticky one."""
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return values.astype(np.float64)
    direct = values.astype(np.float64)
    top = (values >> 16) | ((values & 0xFFFF) != 0)
    return np.where(np.abs(direct) < 2.0**53, direct, top.astype(np.float64) * 65536.0)
