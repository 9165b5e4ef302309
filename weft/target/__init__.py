"""Machines: a description of each, and a generator that turns loop programs into its code.

A target is one folder, whose module ``target`` has a `Target` called ``TARGET``, and one line here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from weft.target.target import MachineDescription, Target


class Registered(NamedTuple):
    """What is known of a target before it is loaded.

    ``device`` says whose arrays its code takes: those on the ``cpu``, or on a ``cuda`` device. ``stages`` are the
    texts that it makes of a lowered program, in order.
    """

    name: str
    device: str
    stages: tuple[str, ...]

    def load(self) -> Target:
        found: Target = import_module(f"weft.target.{self.name}.target").TARGET
        return found


#: The first target of a device is what arrays there are compiled for, where nobody asks for another.
TARGETS: dict[str, Registered] = {
    t.name: t
    for t in (
        Registered("cpu", "cpu", ("llvm", "asm")),
        Registered("cuda", "cuda", ("cuda", "ptx", "sass")),
        Registered("c", "cpu", ("c", "asm")),
    )
}


def target_of(machine: MachineDescription) -> Registered:
    """Which target makes code for ``machine``."""
    return TARGETS[machine.target]
