"""Where a dictionary has a number that every change of it changes: found by looking at a few dictionaries.

Python has had one since 3.6 (PEP 509) and gives it up again after 3.13 (PEP 699). It is searched for in dictionaries
that are changed in known ways, and used only where exactly one place fits.
"""

from __future__ import annotations

import ctypes
import functools
import struct

#: Words of a dictionary's structure, its count of references and its type apart.
_FIRST, _LAST = 2, 6


@functools.cache
def dict_version_offset() -> int | None:
    """Bytes from the address of a dictionary to its version; None where this Python has none."""
    samples: list[dict[object, object]] = [{}, {"weight": 1}, {n: n for n in range(9)}]
    places = [n for n in range(_FIRST, _LAST) if all(_tells(n, dict(d)) for d in samples)]
    return 8 * places[0] if len(places) == 1 else None


def _tells(place: int, table: dict[object, object]) -> bool:
    """Whether a word changes whenever ``table`` does, to what it never was, and only then."""
    seen = [_word(table, place)]
    for value in range(4):
        table["weight"] = value  # after the first the same key: nothing else of the structure changes
        seen.append(_word(table, place))
    table["other"] = 0
    seen.append(_word(table, place))
    is_asked_only = table.get("weight") == 3 and _word(table, place) == seen[-1]
    del table["other"]
    seen.append(_word(table, place))
    return is_asked_only and len({*seen}) == len(seen)


def _word(table: dict[object, object], place: int) -> int:
    (found,) = struct.unpack("=Q", ctypes.string_at(id(table) + 8 * place, 8))
    return int(found)
