"""The launches that runs of a program asked for code for, kept for a later build of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from weft.runtime.store import Artifact, default_store
from weft.version import cache_key


def remember_launches(unit: str, launches: Mapping[str, Iterable[str]]) -> None:
    """Keeps what a run of a program asked for, by kernel."""
    kept = {kernel: set(keys) for kernel, keys in known_launches(unit).items()}
    for kernel, keys in launches.items():
        kept.setdefault(kernel, set()).update(keys)
    facts = {kernel: sorted(keys)[:_MOST] for kernel, keys in kept.items()}
    default_store().put(_key(unit), Artifact({"kind": "cuda launches", "launches": facts}))


def known_launches(unit: str) -> Mapping[str, Sequence[str]]:
    found = default_store().get(_key(unit))
    return found.metadata["launches"] if found is not None else {}


#: Versions of a kernel that a program contains at most.
_MOST = 16


def _key(unit: str) -> str:
    return cache_key("cuda launches", unit)
