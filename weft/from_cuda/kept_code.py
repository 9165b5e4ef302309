"""Code for whole grids of a source's kernels, or the reason why there is none; both are kept between processes.

What a kernel becomes depends on its source with all headers and options: ``source`` is a digest of what clang made of
them for the device. Where everything is kept nothing is read, and none of the compiler is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from weft.ir.errors import Error
from weft.runtime.machine_model import local_machine
from weft.runtime.store import Artifact, default_store
from weft.version import blake2b, cache_key

if TYPE_CHECKING:
    from weft.from_cuda.unit import Unit

#: The description of launches of any size whose pointers share no memory.
ANY = "any"


@dataclass(frozen=True, slots=True)
class GridCode:
    """Machine code, as an object file and as a library, with its entry; the lines that say what the entry's
    parameters are, and where the kernel's arguments have pointers (see `grid_code`)."""

    object: bytes
    library: bytes
    entry: str
    slots: str
    pointers: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a kernel runs thread by thread."""

    reason: str


def source_digest(file: Path, device_text: str) -> str:
    """What tells the device's half of a unit from any other; reasons name lines of ``file``."""
    return blake2b(file.read_bytes() + b"\0" + device_text.encode(), digest_size=16).hexdigest()


def keep_kernels(source: str, kernels: Sequence[str]) -> None:
    """Keeps which kernels clang found, those made from templates too: reading the source again takes them as given."""
    default_store().put(cache_key("cuda kernels", source), Artifact({"kind": "cuda kernels", "kernels": list(kernels)}))


@dataclass
class KeptCode:
    """The kernels of one unit."""

    file: Path
    flags: Sequence[str]
    source: str
    _unit: Unit | None = None

    def pointers(self, kernel: str) -> str | Refusal:
        """Where the arguments of ``kernel`` have pointers."""
        kept = self._take_or_make(self._key(kernel), kernel, None)
        return Refusal(kept.metadata["reason"]) if "reason" in kept.metadata else kept.metadata["pointers"]

    def code(self, kernel: str, launch: str) -> GridCode | Refusal:
        """Code for launches of ``kernel`` that ``launch`` describes."""
        kept = self._take_or_make(self._key(kernel, launch), kernel, launch)
        facts = kept.metadata
        if "reason" in facts:
            return Refusal(facts["reason"])
        return GridCode(kept.blobs["object"], kept.blobs["library"], facts["entry"], facts["slots"], facts["pointers"])

    def _key(self, *parts: str) -> str:
        return cache_key("cuda grid", self.source, str(self.file.resolve()), *self._machine, *parts)

    @cached_property
    def _machine(self) -> tuple[str, ...]:
        machine = local_machine()
        return machine.key, str(machine.figures)

    def _take_or_make(self, key: str, kernel: str, launch: str | None) -> Artifact:
        store = default_store()
        kept = store.get(key)
        if kept is not None:
            return kept
        try:
            made = self._make(kernel, launch)
        except Error as error:
            made = Artifact({"kind": "cuda grid", "reason": str(error)})
        except Exception as error:  # whatever went wrong, the kernel runs thread by thread; but that is not kept
            return Artifact({"kind": "cuda grid", "reason": f"{type(error).__name__}: {error}"})
        store.put(key, made)
        return made

    def _make(self, kernel: str, launch: str | None) -> Artifact:
        from weft.from_cuda.code_library import link_code
        from weft.from_cuda.grid_code import compile_grid, pointer_places
        from weft.ir.deep import deep_recursion
        from weft.runtime.pause_collector import collector_paused

        with collector_paused(), deep_recursion():
            unit = self._read(kernel)
            facts = {"kind": "cuda grid", "pointers": pointer_places(unit, kernel)}
            if launch is None:
                return Artifact(facts)
            code = compile_grid(unit, kernel, launch, self.flags)
        facts |= {"entry": code.entry, "slots": code.slots}
        return Artifact(facts, {"object": code.object, "library": link_code(code.object)})

    def _read(self, kernel: str) -> Unit:
        from weft.from_cuda.grid_code import read_source, template_use

        if self._unit is None:
            kept = default_store().get(cache_key("cuda kernels", self.source))
            kernels = [kernel] if kept is None else kept.metadata["kernels"]
            uses = [use for use in map(template_use, kernels) if use is not None]
            self._unit = read_source(self.file, self.flags, uses)
        return self._unit
