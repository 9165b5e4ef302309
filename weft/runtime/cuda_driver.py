"""The edge to the CUDA driver: cuda-bindings, loaded on first use, and what its answers mean.

Launches alone go past it, through ctypes and one function of the driver's library: half the time of a call.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import sys
from collections import deque
from collections.abc import Iterator
from typing import Any

from weft.ir.errors import TargetError
from weft.runtime.cuda_errors import driver_error

#: The default stream that all of a process share.
LEGACY_STREAM = 1
#: Programs launched last, for when a GPU reports an error and cannot say whose it is.
recent: deque[str] = deque(maxlen=4)


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
    launched = ", ".join(dict.fromkeys(reversed(recent)))
    return driver_error(function, status, _name(driver(), status), launched)


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
def launch_function() -> Any:
    """``cuLaunchKernelEx`` of the driver's library: a configuration, a function, its parameters, nothing."""
    driver()
    library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    found = library.cuLaunchKernelEx
    found.argtypes = [ctypes.c_void_p] * 4
    found.restype = ctypes.c_int
    return found


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
