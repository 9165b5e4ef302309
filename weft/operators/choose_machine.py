"""Which machine code is made for: the one that the arrays are on, or a target that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from weft.ir.errors import ArgumentError, did_you_mean
from weft.operators.scheduling import Target
from weft.runtime.machine_model import local_machine

if TYPE_CHECKING:
    from weft.target.cpu.host import Machine
    from weft.target.cuda.machine import GpuMachine


def choose_machine(target: str | None, device: str = "cpu") -> Machine | GpuMachine:
    """The machine for ``target``, where one is given, else the one that arrays on ``device`` are on.

    For ``target="cuda"`` without arrays on a GPU: what ``WEFT_CUDA_ARCH`` says, else the first GPU there is, else a
    usual one, so that code can be looked at anywhere.
    """
    if target not in (None, *get_args(Target)):
        raise ArgumentError(
            f"there is no target `{target}`",
            help=did_you_mean(str(target), get_args(Target)) or f"use one of: {', '.join(get_args(Target))}",
        )
    if target == "cpu" or (target is None and device == "cpu"):
        return local_machine()
    from weft.runtime.cuda_device import default_machine, find_device

    return default_machine() if device == "cpu" else find_device(int(device[5:])).machine
