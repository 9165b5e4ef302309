"""The machine that schedules are made for, with figures that are given, measured before, or assumed.

``WEFT_MACHINE`` names a JSON file (`weft machine --json` writes one). Otherwise what `weft machine --measure` found
is taken from the artifact store, and where nothing is there, usual values are assumed.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import Machine, host_machine
from weft.version import __version__

if TYPE_CHECKING:
    from weft.target.cpu.machine_model import MachineModel


def local_machine() -> Machine:
    """The machine that code runs on here, with all that is known of it."""
    machine = host_machine()
    if machine.figures:
        return machine
    figures = _kept_figures(machine, str(default_store().directory))
    return replace(machine, figures=figures) if figures else machine


def machine_model() -> MachineModel:
    """The model of this host."""
    return local_machine().model


def measured_model() -> MachineModel:
    """Measures this host, which takes a good part of a second, and keeps the result for later processes."""
    from weft.runtime.measure_machine import measure_machine

    machine = replace(host_machine(), figures="")
    model = measure_machine(machine)
    default_store().put(_key(machine), Artifact({"model": model.to_json()}))
    _kept_figures.cache_clear()
    return model


@functools.lru_cache(maxsize=16)
def _kept_figures(machine: Machine, directory: str) -> str:
    kept = default_store().get(_key(machine))
    return "" if kept is None else str(kept.metadata.get("model", ""))


def _key(machine: Machine) -> str:
    return f"machine model|{__version__}|{machine.key}"
