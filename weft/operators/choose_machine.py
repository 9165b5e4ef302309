"""Which machine code is made for: the one that the arrays are on, or a target that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.operators.scheduling import check_target
from weft.runtime.executor import find_executor
from weft.target import TARGETS

if TYPE_CHECKING:
    from weft.target.description import MachineDescription


def choose_machine(target: str | None, device: str = "cpu", stage: str = "") -> MachineDescription:
    """The machine for ``target``, where one is given, else of a target that has ``stage``, for arrays on ``device``.

    For ``target="cuda"`` without arrays on a GPU: what ``WEFT_CUDA_ARCH`` says, else the first GPU there is, else a
    usual one, so that code can be looked at anywhere.
    """
    check_target(target)
    kind = device.partition(":")[0]
    having = [t for t in TARGETS.values() if stage in t.stages]
    fitting = [t for t in having or TARGETS.values() if t.device == kind] or having
    target_found = TARGETS[target] if target is not None else fitting[0]
    if target_found.device == kind or target_found.device == "cpu":
        return find_executor(target_found.device if target_found.device == "cpu" else device).machine(target_found.name)
    from weft.runtime.cuda_device import default_machine

    return default_machine()
