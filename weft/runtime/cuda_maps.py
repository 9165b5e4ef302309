"""Tensor maps, which tell the copy engine of an array: encoded by the driver once, moved to its address at each call.

Whoever launches holds the GIL from writing the address until the driver has taken the parameters, so one map does for
all calls of a plan.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

from weft.runtime.cuda_driver import driver_function, error_of, library_function
from weft.target.cuda.program import TensorMap

#: Bytes of a map, and what its address is a multiple of.
BYTES, ALIGN = 128, 64
#: The driver's numbers of elements by their bytes, of rows of 128 bytes with permuted pieces, of fetches of 256 bytes.
_ELEMENTS, _SWIZZLED_128, _PROMOTED_256 = {1: 0, 2: 1, 4: 2}, 3, 3
#: An address that is no array's: it is replaced before each launch.
_ANYWHERE = 1 << 20


def encode_map(made: TensorMap) -> tuple[Any, int]:
    """Memory that holds the map, and its address."""
    memory = (ctypes.c_char * (BYTES + ALIGN))()
    address = -(-ctypes.addressof(memory) // ALIGN) * ALIGN
    rank = len(made.sizes)
    sizes = (ctypes.c_uint64 * rank)(*made.sizes)
    strides = (ctypes.c_uint64 * max(1, rank - 1))(*made.strides)
    reach = ((n - 1) * step + 1 for n, step in zip(made.box, made.steps))
    box, steps = (ctypes.c_uint32 * rank)(*reach), (ctypes.c_uint32 * rank)(*made.steps)
    encode = library_function("cuTensorMapEncodeTiled")
    where = (ctypes.c_void_p(address), _ELEMENTS[made.itemsize], rank, ctypes.c_void_p(_ANYWHERE))
    status = encode(*where, sizes, strides, box, steps, 0, _SWIZZLED_128, _PROMOTED_256, 0)
    if status:
        raise error_of("cuTensorMapEncodeTiled", status)
    return memory, address


@functools.cache
def move_function() -> Any:
    """``cuTensorMapReplaceAddress``: a map, and where its array is now."""
    return driver_function("cuTensorMapReplaceAddress", 2)


def move_map(address: int, array: int) -> None:
    """The map at ``address`` is of the array at ``array`` from now on."""
    status = move_function()(address, array)
    if status:
        raise error_of("cuTensorMapReplaceAddress", status)
