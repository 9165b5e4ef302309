"""Arrays on a GPU: torch tensors, CuPy arrays, and whatever speaks DLPack or the CUDA array interface.

Results and temporaries come from the caller's own allocator, which knows on which stream memory is used and free
again; nothing here waits. Work goes to the stream that the caller's framework is on. For arrays of other frameworks
that is the default stream that all of a process share (CUDA's legacy stream), ordered after the stream that an
array names.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft.ir.dtype import DType
from weft.ir.errors import Error, UnsupportedError
from weft.ir.numpy_dtypes import from_numpy, to_numpy
from weft.runtime.argument import ArgumentInfo, Framework, Place, dense_strides
from weft.runtime.cuda_driver import LEGACY_STREAM, wait_for
from weft.runtime.dlpack import Held, read_capsule


def describe_device_array(value: Any, place: Place, is_output: bool) -> ArgumentInfo:
    """An array on a GPU that is not a torch tensor."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(value, getattr(cupy, "ndarray", ())):
        return _describe_cupy(value, place)
    try:
        if hasattr(value, "__dlpack__"):
            return _describe_dlpack(value, place)
        return _describe_interface(value, place)
    except Error:
        raise
    except Exception as error:  # the exporter is foreign code: whatever it raises becomes our error
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise place.error(f"is a {type(value).__name__} that does not share its memory", why=first) from None


def _describe_cupy(array: Any, place: Place) -> ArgumentInfo:
    dtype = _element_type(array.dtype, place)
    strides = _element_strides(array.strides, dtype, place)
    shape, device = tuple(array.shape), f"cuda:{array.device.id}"
    stream = stream_getter("cupy")(array.device.id)
    return ArgumentInfo("cupy", dtype, shape, strides, int(array.data.ptr), True, array, device, stream=stream)


def _describe_dlpack(value: Any, place: Place) -> ArgumentInfo:
    try:
        held = Held(value.__dlpack__(stream=LEGACY_STREAM, max_version=(1, 0)))
    except TypeError:  # older than versions
        held = Held(value.__dlpack__(stream=LEGACY_STREAM))
    tensor = read_capsule(held.capsule)
    if tensor.dtype is None:
        raise place.unknown_type(tensor.type_name)
    device, owner = f"cuda:{tensor.device}", value
    return ArgumentInfo(
        "dlpack", tensor.dtype, tensor.shape, tensor.strides, tensor.pointer, tensor.writable, owner, device,
        stream=LEGACY_STREAM, memory=held,
    )  # fmt: skip


def _describe_interface(value: Any, place: Place) -> ArgumentInfo:
    from weft.runtime.cuda_driver import device_of_pointer

    facts = value.__cuda_array_interface__
    pointer, read_only = facts["data"]
    dtype, shape = _element_type(np.dtype(facts["typestr"]), place), tuple(facts["shape"])
    given = facts.get("strides")
    strides = dense_strides(shape) if given is None else _element_strides(given, dtype, place)
    device = f"cuda:{device_of_pointer(pointer)}"
    stream = facts.get("stream") or LEGACY_STREAM
    return ArgumentInfo("dlpack", dtype, shape, strides, pointer, not read_only, value, device, stream=stream)


def _element_type(numpy_type: np.dtype[Any], place: Place) -> DType:
    dtype = from_numpy(np.dtype(numpy_type))
    if dtype is None:
        raise place.unknown_type(numpy_type)
    return dtype


def _element_strides(strides: Sequence[int], dtype: DType, place: Place) -> tuple[int, ...]:
    if any(s % dtype.itemsize for s in strides):
        raise place.error(
            "is not aligned to its elements",
            why=f"its byte strides {tuple(strides)} are no multiples of {dtype.itemsize}",
            help="pass a copy of it",
        )
    return tuple(s // dtype.itemsize for s in strides)


def main_framework(infos: Sequence[ArgumentInfo]) -> Framework:
    """Whose stream a call uses and whose arrays it gives: torch's or CuPy's where one argument is theirs."""
    given = {info.framework for info in infos}
    known: tuple[Framework, ...] = ("torch", "cupy")
    return next((f for f in known if f in given), "dlpack")


def stream_getter(framework: Framework) -> Callable[[int], int]:
    """The quickest function from a device's number to the stream that ``framework`` puts work on."""
    if framework == "torch":
        torch = sys.modules["torch"]
        quick: Callable[[int], int] | None = getattr(torch._C, "_cuda_getCurrentRawStream", None)
        return quick or (lambda device: int(torch.cuda.current_stream(device).cuda_stream))
    if framework == "cupy":
        cupy = sys.modules["cupy"]
        return lambda device: int(cupy.cuda.get_current_stream().ptr)
    return lambda device: LEGACY_STREAM


def order_streams(infos: Sequence[ArgumentInfo], stream: int) -> None:
    """Work on ``stream`` waits, on the GPU, for what the streams that arrays name are doing."""
    legacy = (0, LEGACY_STREAM)
    for other in {info.stream for info in infos} - {None, stream}:
        if other is not None and not (other in legacy and stream in legacy):
            wait_for(stream, other)


def allocate_on_device(framework: Framework, dtype: DType, shape: tuple[int, ...], device: int) -> Any:
    """An uninitialized dense array of ``framework`` on a GPU."""
    if framework == "torch":
        torch = sys.modules["torch"]
        return torch.empty(shape, dtype=getattr(torch, dtype.name), device=f"cuda:{device}")
    if framework == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device):
            return cupy.empty(shape, dtype=to_numpy(dtype))
    from weft.runtime.cuda_memory import DeviceArray

    return DeviceArray(dtype, shape, device)


def allocator(framework: Framework, dtype: DType, shape: tuple[int, ...], device: int) -> Callable[[], Any]:
    """As `allocate_on_device`, for many arrays alike: the quickest way that ``framework`` has."""
    if framework != "torch":
        return functools.partial(allocate_on_device, framework, dtype, shape, device)
    torch = sys.modules["torch"]
    element = getattr(torch, dtype.name)
    quick = getattr(getattr(torch._C._dynamo, "guards", None), "_empty_strided_cuda", None)
    if quick is not None and torch.cuda.device_count() == 1:  # it takes the current device
        return functools.partial(quick, shape, dense_strides(shape), element)
    return functools.partial(torch.empty, shape, dtype=element, device=torch.device("cuda", device))


def fill_on_device(array: Any, value: int | float | bool, stream: int) -> None:
    """Every element of ``array``, made by `allocate_on_device`, set to ``value``."""
    from weft.runtime.cuda_memory import DeviceArray

    if isinstance(array, DeviceArray):
        array.fill(value, stream)
    elif hasattr(array, "fill_"):
        array.fill_(value)
    else:
        array.fill(value)


def copy_on_device(info: ArgumentInfo) -> ArgumentInfo:
    """A dense copy of an array that nobody else has."""
    if info.framework == "torch":
        torch = sys.modules["torch"]
        copied = info.owner.clone(memory_format=torch.contiguous_format)
        return info._replace(owner=copied, pointer=copied.data_ptr(), strides=tuple(copied.stride()))
    if info.framework == "cupy":
        copied = sys.modules["cupy"].array(info.owner, order="C", copy=True)
        return info._replace(owner=copied, pointer=int(copied.data.ptr), strides=dense_strides(info.shape))
    if info.strides != dense_strides(info.shape):
        raise UnsupportedError(
            "an array of this framework cannot be bound to an operator",
            why=f"it is not dense (strides {info.strides}), and only its framework could copy it so",
            help="bind a dense array, or a torch tensor or CuPy array of the same memory",
        )
    from weft.runtime.cuda_memory import copy_dense_array

    made = copy_dense_array(info)
    return info._replace(owner=made, pointer=made.pointer, memory=None)


def address_of(array: Any) -> int:
    """Where an array that `allocate_on_device` made begins."""
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return int(array.data.ptr if hasattr(array, "data") else array.pointer)
