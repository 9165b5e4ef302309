"""The model of the machine that schedules are made for: given, measured before, or assumed; never measured here.

``WEFT_MACHINE`` names a JSON file (`weft machine --json` writes one). Otherwise what `weft machine --measure` found
is taken from the artifact store, and where nothing is there, usual values are assumed.
"""

from __future__ import annotations

import functools
import os

from weft.ir.errors import TargetError
from weft.runtime.store import Artifact, default_store
from weft.target.cpu.host import Machine, host_machine
from weft.target.cpu.host_facts import read_host_facts
from weft.target.cpu.machine_model import MachineModel, assume_model, parse_model, read_model
from weft.version import __version__


def machine_model(machine: Machine | None = None) -> MachineModel:
    """The model of ``machine``, this host unless given."""
    machine = machine or host_machine()
    given = os.environ.get("WEFT_MACHINE")
    return _given_model(given) if given else _kept_model(machine, str(default_store().directory))


def measured_model(machine: Machine | None = None) -> MachineModel:
    """Measures this host, which takes a good part of a second, and keeps the result for later processes."""
    from weft.runtime.measure_machine import measure_machine

    machine = machine or host_machine()
    model = measure_machine(machine)
    default_store().put(_key(machine), Artifact({"model": model.to_json()}))
    _kept_model.cache_clear()
    return model


@functools.cache
def _given_model(path: str) -> MachineModel:
    return read_model(path)


@functools.lru_cache(maxsize=16)
def _kept_model(machine: Machine, directory: str) -> MachineModel:
    kept = default_store().get(_key(machine))
    if kept is not None:
        try:
            return parse_model(str(kept.metadata.get("model")), "in the artifact store")
        except TargetError:
            default_store().remove(_key(machine))  # written by another version
    return assume_model(machine)


def _key(machine: Machine) -> str:
    facts = read_host_facts()
    return f"machine model|{__version__}|{machine.key}|{facts.name}|{facts.threads}|{facts.caches}"
