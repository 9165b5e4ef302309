"""`weft.cuda`: the GPUs of this machine, as far as a user of Weft needs to know of them."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from weft.runtime.cuda_device import default_machine, find_device
from weft.runtime.cuda_driver import ask, device_count, is_available
from weft.runtime.cuda_memory import DeviceArray
from weft.target.cuda.machine import GpuMachine

if TYPE_CHECKING:
    from weft.graph.from_torch.load_inline import load_inline as load_inline
    from weft.operators.cuda_kernel import kernel as kernel

_LATER = {"kernel": "weft.operators.cuda_kernel", "load_inline": "weft.graph.from_torch.load_inline"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'weft.cuda' has no attribute {name!r}")
    return getattr(importlib.import_module(_LATER[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


def synchronize(device: int | None = None) -> None:
    """Waits until GPU number ``device`` (all of them without one) is done, and raises what went wrong there.

    A lookup out of range on a GPU cannot raise an error while it runs: it is raised here, or by the next call of an
    operator on that GPU.
    """
    for index in range(device_count()) if device is None else (device,):
        found = find_device(index)
        with found.current():
            ask("cuCtxSynchronize")
        found.check_records()


__all__ = [
    "DeviceArray",
    "GpuMachine",
    "default_machine",
    "device_count",
    "is_available",
    "kernel",
    "load_inline",
    "synchronize",
]
