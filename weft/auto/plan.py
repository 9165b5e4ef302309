"""What the scheduler decided and why, as data that `explain` turns into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: What a decision is about, in the order `explain` tells them.
Topic = Literal["fusion", "tiling", "registers", "vector", "parallel", "packing", "storage", "fallback"]


@dataclass(frozen=True, slots=True)
class Decision:
    """``what`` was done to block ``subject``, and ``why``; both are sentences without a full stop.

    >>> Decision("tiling", "C", "tiles of 8 x 32 sums", "16 of 32 registers; 3 loads for 16 multiplications")
    """

    topic: Topic
    subject: str
    what: str
    why: str
