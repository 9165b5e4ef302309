"""Machines: a description of each, and a generator that turns loop programs into its code. A target is one folder,
with the modules that `Target` names, and one line here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.target.target import Target

if TYPE_CHECKING:
    from weft.target.description import MachineDescription

#: The first target of a device is what arrays there are compiled for, where nobody asks for another.
TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        Target("cpu", "cpu", ("llvm", "asm"), "llvm"),
        Target("cuda", "cuda", ("cuda", "ptx", "sass"), "nvrtc"),
        Target("c", "cpu", ("c", "asm")),
    )
}


def target_of(machine: MachineDescription) -> Target:
    """Which target makes code for ``machine``."""
    return TARGETS[machine.target]
