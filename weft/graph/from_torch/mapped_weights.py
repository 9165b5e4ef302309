"""Weights of a model in a file that is mapped into memory: ``options={"weights": "mapped"}``.

What compiled code reads are mostly packed copies, and the model's own weights only rest beside them. They stay what
they are, the same tensors with the same values, which one may read, write, save and compute with; only their memory is
the file's, which the system takes back while nobody reads it.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import Any

from weft.graph.from_torch.edge import torch
from weft.locks import new_lock
from weft.runtime.native import trim_heap
from weft.runtime.paged_file import map_parts

#: Bytes of a weight from which on it is worth a file's pages.
LEAST = 1 << 16

_lock = new_lock()
#: Where weights are that were mapped, in what, and how often each had been written to then.
_mapped: dict[int, tuple[weakref.ref[Any], int]] = {}


def map_weights(tensors: Iterable[Any]) -> None:
    """Moves the memory of ``tensors`` into a file, but for small ones, and those that others have views of."""
    with _lock:
        moved = [t for t in {id(t): t for t in tensors}.values() if _is_movable(t)]
        if not moved:
            return
        try:
            memory, places = map_parts(list(map(_bytes_of, moved)))
        except OSError as error:
            warnings.warn(f"weft: weights stay in memory, as no file can have them: {error.strerror}", stacklevel=2)
            return
        for place, tensor in zip(places, moved):
            _move(memory, place, tensor)
        for address in [address for address, (file, _) in _mapped.items() if file() is None]:
            del _mapped[address]
    trim_heap()


def _is_movable(tensor: Any) -> bool:
    kinds = (torch().Tensor, torch().nn.Parameter, torch().nn.Buffer)
    is_plain = type(tensor) in kinds and tensor.layout == torch().strided and tensor.device.type == "cpu"
    if not is_plain or tensor.is_inference() or tensor.is_neg() or tensor.is_conj():
        return False
    return _is_alone(tensor) and tensor.untyped_storage().nbytes() >= LEAST and not _is_mapped(tensor)


def _is_alone(tensor: Any) -> bool:
    """Whether no other tensor or array is in the memory of ``tensor``."""
    count = getattr(torch()._C, "_storage_Use_Count", None)
    if count is None:
        return False
    alone = torch().empty(1)
    return bool(count(tensor.untyped_storage()._cdata) == count(alone.untyped_storage()._cdata))


def _is_mapped(tensor: Any) -> bool:
    file, version = _mapped.get(tensor.untyped_storage().data_ptr(), (None, None))
    return file is not None and file() is not None and version == tensor._version


def is_in_file(tensor: Any) -> bool:
    """Whether reading values of a tensor would bring pages of a file into memory."""
    return tensor.untyped_storage().data_ptr() in _mapped if _mapped else False


def _bytes_of(tensor: Any) -> Any:
    storage = tensor.untyped_storage()
    return torch().empty(0, dtype=torch().uint8).set_(storage, 0, (storage.nbytes(),), (1,)).numpy()


def _move(memory: Any, place: int, tensor: Any) -> None:
    size = tensor.untyped_storage().nbytes()
    storage = torch().frombuffer(memory, dtype=torch().uint8, count=size, offset=place).untyped_storage()
    look = tensor.storage_offset(), tensor.shape, tensor.stride()
    with torch().no_grad():
        tensor.data = torch().empty(0, dtype=tensor.dtype).set_(storage, *look)
    _mapped[storage.data_ptr()] = weakref.ref(memory), tensor._version
