"""``bind``: a loop becomes a dimension of the grid of a GPU kernel, over blocks or over the threads of one."""

from __future__ import annotations

from typing import Literal

from weft.ir.stmt import Kernel
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import find_loop
from weft.schedules.rewrite import Rewrite
from weft.schedules.set_kind import check_set_kind, set_kind
from weft.schedules.trace import Numerics

Level = Literal["block", "thread"]


def check_bind(kernel: Kernel, loop: str, level: Level, *, numerics: Numerics) -> Verdict:
    find_loop(kernel, loop)
    if level not in ("block", "thread"):
        legal = tuple(f's.bind("{loop}", "{levels}")' for levels in ("block", "thread"))
        return refuse("a grid has blocks and threads", alternatives=legal)
    return check_set_kind(kernel, loop, level, numerics=numerics)


def bind(kernel: Kernel, loop: str, level: Level) -> Rewrite:
    return set_kind(kernel, loop, level)
