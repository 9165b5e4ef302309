"""DLPack capsules, read and made."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from weft.ir import dtype as dt
from weft.ir.errors import InternalError
from weft.runtime import dlpack
from weft.runtime.dlpack import make_capsule, read_capsule


@pytest.mark.parametrize("version", [{}, {"max_version": (1, 0)}])
def test_capsules_of_numpy_are_read(version: dict[str, object]) -> None:
    array = np.arange(24, dtype=np.int16).reshape(2, 3, 4)[:, ::2]
    capsule = array.__dlpack__(**version)
    found = read_capsule(capsule)
    assert (found.pointer, found.dtype) == (array.ctypes.data, dt.int16)
    assert (found.shape, found.strides, found.writable) == (array.shape, (12, 8, 1), True)


def test_read_only_arrays_say_so() -> None:
    array = np.zeros(3)
    array.flags.writeable = False
    assert not read_capsule(array.__dlpack__(max_version=(1, 0))).writable


def test_types_that_weft_does_not_have() -> None:
    assert read_capsule(np.zeros(2, np.complex64).__dlpack__()).dtype is None


def test_a_capsule_that_was_used_is_refused() -> None:
    with pytest.raises(InternalError, match="DLPack capsule"):
        read_capsule(object())


def test_what_is_lent_is_given_back() -> None:
    """By the capsule where nobody took it, else by whoever took it."""
    before = len(dlpack._lent)
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    capsule = make_capsule(array, array.ctypes.data, 0, dt.float32, (2, 3))
    found = read_capsule(capsule)
    assert (found.shape, found.strides, found.pointer, found.device) == ((2, 3), (3, 1), array.ctypes.data, 0)
    assert len(dlpack._lent) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._lent) == before


def test_torch_takes_and_gives_back() -> None:
    torch = pytest.importorskip("torch")
    before = len(dlpack._lent)
    array = np.arange(6, dtype=np.float32)
    capsule = make_capsule(array, array.ctypes.data, 0, dt.float32, (6,))
    managed = dlpack._Managed.from_address(next(reversed(dlpack._lent)))
    managed.tensor.device_type = 1  # as if on the CPU, which torch can read here
    taken = torch.utils.dlpack.from_dlpack(capsule)
    del capsule
    assert taken.tolist() == array.tolist()
    assert len(dlpack._lent) == before + 1
    del taken
    gc.collect()
    assert len(dlpack._lent) == before
