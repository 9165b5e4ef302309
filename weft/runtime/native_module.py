"""Machine code of the runtime's own, as it is written down."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

#: The fields of a structure: where each is, in bytes, and LLVM's name of its type.
Structure: TypeAlias = "Mapping[str, tuple[int, str]]"
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def words(*names: str) -> Structure:
    """A structure of words in this order."""
    return {name: (8 * i, "i64") for i, name in enumerate(names)}


class NativeModule(NamedTuple):
    """Functions in the language of `native_language`, and what their names stand for.

    ``functions`` are those of others, with LLVM's types; ``objects`` are addresses that are given when the code is
    loaded, ``memory`` is words of its own, by how many there are.
    """

    source: str
    constants: Mapping[str, int] = _NOTHING
    structures: Mapping[str, Structure] = _NOTHING
    functions: Mapping[str, str] = _NOTHING
    objects: tuple[str, ...] = ()
    memory: Mapping[str, int] = _NOTHING

    def text(self) -> str:
        """The whole module as LLVM text; what does that is loaded only where the code is not kept already."""
        from weft.runtime.native_language import translate

        return translate(self)
