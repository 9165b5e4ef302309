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
    Known("privatize"),  # in or under concurrent loops
)


def is_known(primitive: str, why: str, trace: str) -> bool:
    return any(
        re.fullmatch(k.primitive, primitive) and re.search(k.why, why) and re.search(k.after, trace) for k in KNOWN
    )
