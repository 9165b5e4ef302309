"""Shared libraries into the process, from bytes: what a C compiler made."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile

from weft.ir.errors import TargetError
from weft.runtime.loader import LoadedObject
from weft.runtime.threads import get_num_threads


def load_library(library: bytes) -> LoadedObject:
    """``library`` loaded by the system's linker; the file it needs for that is gone afterwards."""
    handle, path = tempfile.mkstemp(prefix="weft-", suffix=".so")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(library)
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise TargetError("a compiled library cannot be loaded", why=str(error)) from None
    finally:
        os.unlink(path)
    _share_threads(loaded)

    def address(name: str) -> int | None:
        try:
            return ctypes.cast(getattr(loaded, name), ctypes.c_void_p).value
        except AttributeError:
            return None

    return LoadedObject(address, loaded)


def _share_threads(loaded: ctypes.CDLL) -> None:
    """As many threads as other kernels use, where the library has OpenMP."""
    with contextlib.suppress(AttributeError):
        loaded.omp_set_num_threads(get_num_threads())
