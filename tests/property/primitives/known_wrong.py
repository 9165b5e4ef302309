"""What is known to be wrong and not mended yet: a list that is to become empty."""

from __future__ import annotations

import re
from typing import NamedTuple


class Known(NamedTuple):
    """Faults of ``primitive`` (a pattern) that say ``why``, after steps that say ``after`` (patterns too)."""

    primitive: str
    why: str = ""
    after: str = ""


KNOWN: tuple[Known, ...] = (
    Known(".*", why="the sign of a zero"),  # strict extrema
    Known("skip_masked|scan"),  # loops that run no time
    Known("surround|precompute", why="out of bounds"),
    Known("unscale"),  # one of two blocks of an extremum
    Known("in_parts"),  # beyond an uneven end
    Known("merge_axes", why="scope"),
)


def is_known(primitive: str, why: str, trace: str) -> bool:
    return any(
        re.fullmatch(k.primitive, primitive) and re.search(k.why, why) and re.search(k.after, trace) for k in KNOWN
    )
