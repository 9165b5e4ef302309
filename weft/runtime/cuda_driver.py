"""The edge to the CUDA driver: cuda-bindings, loaded on first use, and what its answers mean.

Launches alone go past it, through ctypes and one function of the driver's library: half the time of a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from weft.ir.errors import TargetError
from weft.runtime.cuda_errors import driver_error

#: The default stream that all of a process share.
LEGACY_STREAM = 1
#: How many of the programs launched last are known, for when a GPU reports an error and cannot say whose it is.
RECENT = 4
#: How many launches there were, and the numbers of the last owners; machine code writes here too.
recent_ring = (ctypes.c_int64 * (1 + RECENT))()
_owners: dict[str, int] = {}
_owner_numbers = itertools.count(1)


def owner_number(name: str) -> int:
    """The number of an owner of programs, for `note_launch`."""
    return _owners.setdefault(name, next(_owner_numbers))


def note_launch(owner: int) -> None:
    """A program of ``owner`` is launched now."""
    position = recent_ring[0]
    recent_ring[1 + position % RECENT] = owner
    recent_ring[0] = position + 1


def recent_owners() -> list[str]:
    """Whose programs were launched last, newest first."""
    names, position = {number: name for name, number in _owners.items()}, recent_ring[0]
    numbers = [recent_ring[1 + (position - n) % RECENT] for n in range(1, RECENT + 1)]
    return [names[n] for n in dict.fromkeys(numbers) if n in names]


@functools.cache
def driver() -> Any:
    """``cuda.bindings.driver``, initialized; a clear error where there is no driver to talk to."""
    try:
        from cuda.bindings import driver as found
    except ImportError as error:
        raise TargetError(
            "kernels cannot run on a GPU here",
            why=f"the package cuda-bindings cannot be loaded: {error}",
            help="pip install 'weft[cuda]'",
        ) from None
    try:
        status = int(found.cuInit(0)[0])
    except Exception as error:  # the loader's own errors, which differ between versions
        raise TargetError(
            "kernels cannot run on a GPU here",
            why=f"there is no CUDA driver: {(str(error).splitlines() or [type(error).__name__])[0]}",
            help="install NVIDIA's driver, or pass arrays that are on the CPU",
        ) from None
    if status:
        raise driver_error("cuInit", status, _name(found, status))
    return found


def ask(function: str, *args: Any) -> Any:
    """What a function of the driver answers: nothing, a value, or a tuple of values."""
    api = driver()
    status, *values = getattr(api, function)(*args)
    if int(status):
        raise error_of(function, int(status))
    return values[0] if len(values) == 1 else tuple(values) or None


def error_of(function: str, status: int) -> TargetError:
    """The error that a status other than 0 stands for."""
    return driver_error(function, status, _name(driver(), status), ", ".join(recent_owners()))


def _name(api: Any, status: int) -> str:
    try:
        return str(api.CUresult(status).name)
    except ValueError:
        return f"status {status}"


def is_available() -> bool:
    """Whether there is a driver and a GPU."""
    try:
        return device_count() > 0
    except TargetError:
        return False


@functools.cache
def device_count() -> int:
    return int(ask("cuDeviceGetCount"))


def device_of_pointer(pointer: int) -> int:
    """The number of the GPU that memory is on."""
    attribute = driver().CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(ask("cuPointerGetAttribute", attribute, pointer))


@contextlib.contextmanager
def capture_relaxed() -> Iterator[None]:
    """Loading and allocating is allowed inside while another call of this thread captures a graph."""
    api = driver()
    relaxed = api.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = ask("cuThreadExchangeStreamCaptureMode", relaxed)
    try:
        yield
    finally:
        ask("cuThreadExchangeStreamCaptureMode", before)


@functools.cache
def _library() -> ctypes.CDLL:
    driver()
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def driver_address(function: str) -> int:
    """Where a function of the driver's library is."""
    return ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value or 0


def library_function(name: str) -> Any:
    """A function of the driver's library, which answers with a status."""
    function = getattr(_library(), name)
    function.restype = ctypes.c_int
    return function


@functools.cache
def driver_function(name: str, arguments: int) -> Any:
    """A function of the driver's library that takes so many addresses and handles, and answers with a status."""
    function = library_function(name)
    function.argtypes = [ctypes.c_void_p] * arguments
    return function


def launch_function() -> Any:
    """``cuLaunchKernelEx`` of the driver's library: a configuration, a function, its parameters, nothing."""
    return driver_function("cuLaunchKernelEx", 4)


def wait_for(stream: int, other: int) -> None:
    """What is put on ``stream`` from now on runs after what is on ``other`` now."""
    if stream == other:
        return
    event = ask("cuEventCreate", driver().CUevent_flags.CU_EVENT_DISABLE_TIMING)
    try:
        ask("cuEventRecord", event, other)
        ask("cuStreamWaitEvent", stream, event, 0)
    finally:
        ask("cuEventDestroy", event)
