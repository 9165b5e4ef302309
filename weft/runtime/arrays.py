"""What callers pass as arrays and numbers, described and checked.

numpy arrays, torch tensors, and anything that speaks DLPack, the array interface or the
buffer protocol reduce to one `ArgumentInfo`. Inputs of any element strides are taken as
they are; data that no kernel can address (misaligned, strides that are no whole number of
elements) is copied. torch is never imported, only recognized. Arrays on a GPU: `cuda_arrays`.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.ir.dtype import OTHER_FLOATS, DType, parse_dtype
from weft.ir.errors import Error, InternalError, TargetError
from weft.ir.numpy_dtypes import from_numpy, to_numpy
from weft.ir.span import Span
from weft.runtime.argument import ArgumentInfo, Framework, Place
from weft.runtime.fastcall_native import native_calls

_CPU_DEVICES = (1, 3, 11)  # DLPack: plain memory, and memory pinned for a GPU
_GPU_DEVICES = (2, 13)  # of CUDA, the second managed: seen by CPU and GPU


def describe(
    value: Any, *, name: str = "array", dtype: str | DType | None = None, span: Span | None = None
) -> ArgumentInfo:
    """``value`` as an input; raises the error that says what is wrong with it and what would work."""
    place = Place(name, span)
    info = _describe_any(value, place, is_output=False)
    _check_dtype(info, dtype, place)
    return info


def describe_output(
    value: Any, *, name: str = "out", dtype: str | DType | None = None, span: Span | None = None
) -> ArgumentInfo:
    """``value`` as something to write into: writable, used as it is, no two elements in one place."""
    place = Place(name, span)
    info = _describe_any(value, place, is_output=True)
    _check_dtype(info, dtype, place, is_output=True)
    if not info.writable:
        raise place.error(
            "is read-only and cannot be an output",
            why="its memory is marked as not writable",
            help=f"pass a writable array: {place.name}.copy(), or numpy.empty(shape, dtype)",
        )
    if overlaps_itself(info):
        raise place.error(
            "has several elements in one place and cannot be an output",
            why=f"shape {info.shape} with strides {info.strides} visits some addresses more than once",
            help="pass a plain array, for example numpy.empty(shape, dtype)",
        )
    return info


def _package(dtype: DType) -> str:
    """Who has the numpy type."""
    return "ml_dtypes" if dtype.kind in OTHER_FLOATS else "numpy"


def _check_dtype(info: ArgumentInfo, dtype: str | DType | None, place: Place, *, is_output: bool = False) -> None:
    wanted = parse_dtype(dtype) if isinstance(dtype, str) else dtype
    if wanted is None:
        if dtype is not None:
            raise InternalError(f"no element type is called {dtype}")
        return
    if info.dtype != wanted:
        in_torch = info.framework == "torch"
        kind = f"torch.{wanted}" if in_torch else f"{_package(wanted)}.{wanted}"
        convert = f"convert it: {place.name}.{'to' if in_torch else 'astype'}({kind})"
        make = f"pass {'torch' if in_torch else 'numpy'}.empty({info.shape}, dtype={kind})"
        raise place.error(
            f"must be {wanted}, not {info.dtype}",
            why=f"it was called with {'a torch tensor' if in_torch else 'an array'} of {info.dtype}",
            help=make if is_output else convert,
        )


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _describe_any(value: Any, place: Place, *, is_output: bool) -> ArgumentInfo:
    if isinstance(value, np.ndarray):
        return _describe_numpy(value, place, is_output)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _describe_torch(torch, value, place, is_output)
    if is_on_gpu(device_of(value)):
        from weft.runtime.cuda_arrays import describe_device_array

        return describe_device_array(value, place, is_output)
    return _describe_numpy(_view_other(value, place, is_output), place, is_output)


def device_of(value: Any) -> str | None:
    """Where the memory of an array is, "cpu" or "cuda:0" or such; None where ``value`` does not say or is no array.

    The memory itself is not asked for.
    """
    if isinstance(value, np.ndarray):
        return "cpu"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        device: Any = getattr(value, "device")  # noqa: B009
        return f"cuda:{device.index or 0}" if device.type == "cuda" else str(device.type)
    if isinstance(value, (bool, int, float, str, np.generic, type)):
        return None
    try:
        if hasattr(value, "__dlpack_device__"):
            kind, number = map(int, value.__dlpack_device__())
            return "cpu" if kind in _CPU_DEVICES else f"cuda:{number}" if kind in _GPU_DEVICES else None
        return _interface_device(value) if hasattr(value, "__cuda_array_interface__") else None
    except Exception:  # foreign code; describing the array says what is wrong with it
        return None


def _interface_device(value: Any) -> str:
    """Where an array is that has a CUDA array interface and no DLPack: its pointer knows."""
    from weft.runtime.cuda_driver import device_of_pointer

    return f"cuda:{device_of_pointer(value.__cuda_array_interface__['data'][0])}"


def is_on_gpu(device: str | None) -> bool:
    return device is not None and device.startswith("cuda")


def _describe_numpy(array: npt.NDArray[Any], place: Place, is_output: bool) -> ArgumentInfo:
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):  # naming np.ma loads it: 10 ms
        raise place.error("is a masked array", why="its mask would be ignored", help="pass x.filled(value)")
    array = np.asarray(array)  # a subclass may answer differently
    dtype = from_numpy(array.dtype)
    if dtype is None:
        raise _unsupported_numpy(array.dtype, place)
    whole = all(n <= 1 or s % dtype.itemsize == 0 for n, s in zip(array.shape, array.strides))
    note = None
    if array.size and not (whole and array.flags.aligned):
        if is_output:
            raise place.error(
                "is not aligned to its elements and cannot be an output",
                why=f"elements of {dtype} take {dtype.itemsize} bytes; its address or byte strides "
                f"{array.strides} are not multiples of that",
                help="pass a plain array, for example numpy.empty(shape, dtype)",
            )
        array, note = np.array(array, order="C", copy=True), f"`{place.name}` is misaligned and was copied"
    strides = tuple(s // dtype.itemsize for s in array.strides)
    pointer = array.__array_interface__["data"][0] if dtype.kind not in OTHER_FLOATS else array.ctypes.data
    return ArgumentInfo("numpy", dtype, array.shape, strides, pointer, bool(array.flags.writeable), array, "cpu", note)


def _unsupported_numpy(dtype: np.dtype[Any], place: Place) -> Error:
    if not dtype.isnative:
        return place.error(
            f"is byte-swapped ({dtype.str})",
            why="kernels read numbers in the byte order of the machine",
            help=f"convert it: {place.name}.astype({place.name}.dtype.newbyteorder('='))",
        )
    if dtype.kind in "cfV" and dtype.names is None:
        return place.unknown_type(dtype)
    return place.error(
        f"holds {dtype}, not numbers",
        why="arrays of objects, texts, dates and records have no element type here",
        help="convert it to a numeric type with astype",
    )


def _describe_torch(torch: Any, tensor: Any, place: Place, is_output: bool) -> ArgumentInfo:
    if tensor.device.type not in ("cpu", "cuda"):
        raise place.error(
            f"is on device `{tensor.device}`",
            why="kernels run on CPUs and CUDA GPUs" if tensor.device.type != "meta" else "a meta tensor has no data",
            help=f"move it: {place.name}.cpu()" if tensor.device.type != "meta" else None,
        )
    if tensor.layout != torch.strided:
        raise place.error(
            f"has the layout {tensor.layout}", why="kernels read dense tensors", help=f"{place.name}.to_dense()"
        )
    dtype = parse_dtype(str(tensor.dtype).removeprefix("torch."))
    if dtype is None:
        raise place.unknown_type(tensor.dtype)
    if tensor.requires_grad and torch.is_grad_enabled():
        raise place.error(
            "requires a gradient",
            why="the result would not be connected to it",
            help=f"pass {place.name}.detach(), or call under torch.no_grad()",
        )
    return _torch_memory(tensor, dtype, place, is_output)


def _torch_memory(tensor: Any, dtype: DType, place: Place, is_output: bool) -> ArgumentInfo:
    note = None
    if hasattr(tensor, "fake_mode"):  # asking a FakeTensor for its address draws a warning
        raise place.error("has no data", why="it is a FakeTensor, which only has a shape")
    try:
        if tensor.is_neg():
            if is_output:
                raise place.error("is a negated view and cannot be an output", help="pass a plain tensor")
            tensor, note = tensor.resolve_neg(), f"`{place.name}` is a negated view and was copied"
        pointer = tensor.data_ptr()
        if pointer % dtype.itemsize and tensor.numel():
            if is_output:
                raise place.error("is not aligned to its elements and cannot be an output")
            tensor, note = tensor.clone(), f"`{place.name}` is misaligned and was copied"
            pointer = tensor.data_ptr()
        shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    except RuntimeError as error:
        raise place.error("gives no access to its data", why=str(error).splitlines()[0]) from None
    if not pointer and 0 not in shape:
        raise place.error("has no data", why=f"it is a {type(tensor).__name__} without memory behind it")
    return ArgumentInfo("torch", dtype, shape, strides, pointer, True, tensor, device_of(tensor) or "cpu", note)


def _view_other(value: Any, place: Place, is_output: bool) -> npt.NDArray[Any]:
    """Anything that exports its memory, as a numpy view of that memory."""
    kind = type(value).__name__
    try:
        is_class = isinstance(value, type)  # np.ndarray itself has the attributes of its arrays
        if hasattr(value, "__array_interface__") and not is_class and not (is_output and isinstance(value, np.generic)):
            return np.asarray(value)
        if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__") and not is_class:
            return _view_dlpack(value, place)
        if not isinstance(value, (str, np.generic)):
            return np.asarray(memoryview(value))
    except Error:
        raise
    except Exception as error:  # the exporter is foreign code: whatever it raises becomes our error
        if not isinstance(error, TypeError) or (hasattr(value, "__dlpack__") and not is_class):
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise place.error(f"is {_a(kind)} that does not share its memory", why=first) from None
    raise place.error(
        f"is {_a(kind)}, not an array",
        why="arrays come from numpy, torch, or anything with DLPack or the buffer protocol",
        help=None if is_output else f"convert it: numpy.asarray({place.name}, dtype=...)",
    )


def _view_dlpack(value: Any, place: Place) -> npt.NDArray[Any]:
    kind, number = value.__dlpack_device__()
    if int(kind) not in _CPU_DEVICES:
        raise place.error(
            f"is on another device (DLPack device {int(kind)}:{number})",
            why="kernels run on CPUs and CUDA GPUs",
            help="copy it to the CPU first",
        )
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError):
        if hasattr(value, "__array__"):  # bfloat16 has no DLPack import in numpy
            return np.asarray(value)
        raise


def scalar_value(
    value: Any, dtype: str | DType, *, name: str = "scalar", span: Span | None = None
) -> int | float | bool:
    """A number for a scalar parameter: Python or numpy numbers, arrays and tensors of no dimension."""
    wanted = parse_dtype(dtype) if isinstance(dtype, str) else dtype
    if wanted is None:
        raise InternalError(f"no element type is called {dtype}")
    place = Place(name, span)
    number = value if isinstance(value, (bool, int, float)) else _unwrap_number(value, place)
    if isinstance(number, bool):
        return number if wanted.is_bool else float(number) if wanted.is_float else int(number)
    if wanted.is_float:
        try:
            return float(number)
        except OverflowError:
            raise place.error(f"is too large for {wanted}", why="it is an integer beyond every float") from None
    if wanted.is_bool or not isinstance(number, int):
        raise place.error(
            f"must be {wanted}, not {number!r}", why=f"it was called with {_a(type(value).__name__)}",
            help="pass True or False" if wanted.is_bool else "pass a whole number",
        )  # fmt: skip
    if not wanted.min_value <= number <= wanted.max_value:
        raise place.error(
            f"does not fit {wanted}",
            why=f"{number} is not between {wanted.min_value} and {wanted.max_value}",
        )
    return int(number)


def _unwrap_number(value: Any, place: Place) -> int | float | bool:
    kind = type(value).__name__
    torch = sys.modules.get("torch")
    is_tensor = torch is not None and isinstance(value, torch.Tensor)
    if isinstance(value, (np.generic, np.ndarray)) or is_tensor:
        shape = tuple(value.shape)
        if shape:
            raise place.error(f"must be a number, not an array of shape {shape}", help="pass one element, x.item()")
        try:
            number = value.item()
        except (RuntimeError, ValueError, NotImplementedError) as error:
            raise place.error("gives no access to its value", why=str(error).splitlines()[0]) from None
        if isinstance(number, (bool, int, float)):
            return number
        kind = type(number).__name__ if not isinstance(value, np.generic) else kind
        if hasattr(number, "__float__") and not isinstance(number, complex):
            return float(number)  # bfloat16 scalars of ml_dtypes
    elif hasattr(value, "__index__"):
        return int(value.__index__())
    raise place.error(
        f"must be a number, not {_a(kind)}",
        why="scalars are Python or numpy numbers, or arrays of no dimension",
    )


def overlaps_itself(info: ArgumentInfo) -> bool:
    """Whether two elements share an address, as far as sorting the strides can tell (unsure counts as yes)."""
    if 0 in info.shape:
        return False
    reach = 0
    for stride, size in sorted((abs(s), n) for n, s in zip(info.shape, info.strides) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def overlaps(a: ArgumentInfo, b: ArgumentInfo) -> bool:
    """Whether an element of ``a`` shares memory with one of ``b``; interleaved views do not, unsure counts as yes."""
    (a_low, a_high), (b_low, b_high) = a.extent, b.extent
    if a_low == a_high or b_low == b_high or a_high <= b_low or b_high <= a_low:
        return False
    try:
        return bool(np.shares_memory(_as_numpy(a), _as_numpy(b), max_work=1 << 14))  # type: ignore[arg-type]
    except RuntimeError:  # numpy's "too hard"
        return True


class _Memory:
    """Memory that numpy may look at, given by address."""

    def __init__(self, info: ArgumentInfo) -> None:
        size, self.owner = info.dtype.itemsize, info.owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": f"|V{size}",
            "shape": info.shape,
            "strides": tuple(s * size for s in info.strides),
            "data": (info.pointer, True),
        }


def _as_numpy(info: ArgumentInfo) -> npt.NDArray[Any]:
    return np.asarray(_Memory(info))


def look_at(info: ArgumentInfo) -> npt.NDArray[Any]:
    """An array in this machine's memory as numpy sees it, without a copy."""
    return _as_numpy(info).view(to_numpy(info.dtype))


def copy_dense(info: ArgumentInfo) -> ArgumentInfo:
    """A copy of an array, row-major, that nobody else has, where the array is."""
    if is_on_gpu(info.device):
        from weft.runtime.cuda_arrays import copy_on_device

        return copy_on_device(info)
    return describe(np.array(look_at(info), order="C"))


#: Bytes of a first result from which where it begins matters more than how soon it is there.
LARGE = 64 << 10


#: Bytes of a large page, which processors find with one entry of their tables instead of 512.
LARGE_PAGE = 1 << 21


def aligned_bytes(count: int) -> npt.NDArray[np.uint8]:
    """Memory for ``count`` bytes that begins at a cache line, or at a large page where it fills one."""
    if count >= LARGE_PAGE and (found := _large_pages(count)) is not None:
        return found
    memory = np.empty(count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count]


def zeroed_bytes(count: int) -> npt.NDArray[np.uint8]:
    """As `aligned_bytes`, all zeros: where rows are filled up, nobody writes what is behind them, but sums of the lanes
    there are computed, and a processor may take a hundred times as long for numbers near zero as for others."""
    if count >= LARGE_PAGE and (found := _large_pages(count)) is not None:
        return found  # pages that are new are zeros
    memory = np.zeros(count + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + count]


def _large_pages(count: int) -> npt.NDArray[np.uint8] | None:
    """Memory of which the system was asked to make whole large pages; the rest behind them is in small ones."""
    try:
        # Of this process alone: after a fork parent and child would write into the same memory, and systems make large
        # pages of shared memory only where they are set up to.
        memory = mmap.mmap(-1, count + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        block = np.frombuffer(memory, np.uint8)
        start = -block.ctypes.data % LARGE_PAGE
        memory.madvise(mmap.MADV_HUGEPAGE, start, count - count % LARGE_PAGE)
    except (OSError, AttributeError):  # no room, or a system without
        return None
    return block[start : start + count]


def allocate(framework: Framework, dtype: DType, shape: Sequence[int], device: str = "cpu") -> Any:
    """An uninitialized dense array of the caller's framework."""
    try:
        if is_on_gpu(device):
            from weft.runtime.cuda_arrays import allocate_on_device

            return allocate_on_device(framework, dtype, tuple(shape), int(device[5:]))
        if framework == "torch":
            torch = sys.modules["torch"]
            return torch.empty(tuple(shape), dtype=getattr(torch, dtype.name), device="cpu")
        is_worth_loading = prod(shape) * dtype.itemsize >= LARGE or native_calls.cache_info().currsize
        native = native_calls() if is_worth_loading else None
        if native is None:
            return np.empty(tuple(shape), to_numpy(dtype))
        return native.new_array(to_numpy(dtype), tuple(shape))
    except (MemoryError, ValueError, RuntimeError) as error:
        raise TargetError(
            f"cannot allocate a {dtype} array of shape {tuple(shape)}", why=str(error).splitlines()[0]
        ) from None


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy type of the element type called ``name``."""
    dtype = parse_dtype(name)
    if dtype is None:
        raise InternalError(f"no element type is called {name}")
    return to_numpy(dtype)
