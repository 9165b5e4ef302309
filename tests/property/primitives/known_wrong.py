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
    Known("rfactor"),  # instances that meet in an element
    Known("write_out"),  # keeps the last term of a reduction only
    Known("privatize"),  # in or under concurrent loops
    Known(".*", why="data race"),  # after `peel` and `cut` two blocks share one access
    Known("reorder|tile|alternate|decompose_reduction", after="peel|cut|split|unroll|specialize"),
)


def is_known(primitive: str, why: str, trace: str) -> bool:
    return any(
        re.fullmatch(k.primitive, primitive) and re.search(k.why, why) and re.search(k.after, trace) for k in KNOWN
    )
