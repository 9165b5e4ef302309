"""Which liberties code may take with the arithmetic of a program.

- ``strict``: every operation is rounded once, sums are in the order of the definition: the same bits everywhere.
- ``fast``: sums of floats may be in another order, products fused into sums, divisions done by reciprocals.
- ``winograd``: as fast, and convolutions of a model may be computed Winograd's way, from differences of pixels: fewer
  products, whose errors grow with what is added up before. For a single operator nothing changes.
- ``tf32``: as fast, and what is multiplied may be rounded to 10 bits of fraction where hardware multiplies such
  float32 quicker. Sums still have all of their bits.
"""

from __future__ import annotations

from typing import Literal, get_args

Numerics = Literal["strict", "fast", "winograd", "tf32"]
NUMERICS: tuple[str, ...] = get_args(Numerics)
#: From the least free to the freest, as texts tell.
CHOICES = 'numerics="strict", "fast", "winograd" or "tf32"'


def is_fast(numerics: str) -> bool:
    """Whether sums of floats may be in another order."""
    return numerics != "strict"
