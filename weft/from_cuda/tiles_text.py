"""Tiles of threads as parameters of functions whose templates have their size as an ``int``.

``template <int N> __device__ float sum(thread_block_tile<N> tile, float x)`` is what NVIDIA's own texts teach, and nvcc
finds ``N`` though a tile's size is an ``unsigned int``; C++ and clang do not. Such tiles are called by a class that all
tiles are derived from, whose size is an ``int`` (`include/both/cooperative_groups.h`).
"""

from __future__ import annotations

import re

_PLACES = re.compile(
    r"\btemplate\s*<(?P<header>[^;{}()]*?)>\s*(?=[\w_])|\bthread_block_tile(?=\s*<\s*(?P<size>\w+)\s*>)"
)
_NUMBERS = re.compile(r"\b(?P<unsigned>unsigned\s+)?(?P<type>\w+)\s+(?P<name>\w+)\s*(?:=[^,]*)?(?:,|$)")


def name_int_tiles(text: str) -> str:
    """``text`` in which tiles whose size is an ``int`` of a template are named as such; lines keep their numbers."""
    if "thread_block_tile" not in text:
        return text
    is_int: dict[str, bool] = {}

    def visit(found: re.Match[str]) -> str:
        if found["header"] is not None:
            for one in _NUMBERS.finditer(found["header"]):
                is_int[one["name"]] = one["type"] == "int" and not one["unsigned"]
            return found[0]
        return "weft_tile" if is_int.get(found["size"]) else found[0]

    return _PLACES.sub(visit, text)
