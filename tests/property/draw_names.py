"""Names of loops, blocks and buffers drawn for a random step."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from weft.schedules.find import all_allocs, all_loops, blocks_inside
from weft.schedules.schedule import Schedule


def loop_names(s: Schedule) -> list[str]:
    return [loop.var.name for loop in all_loops(s.kernel)] or ["none"]


def block_names(s: Schedule) -> list[str]:
    return [block.name for block in blocks_inside(s.kernel)] or ["none"]


def buffer_names(s: Schedule) -> list[str]:
    return [b.name for b in s.kernel.buffers] + [a.buffer.name for a in all_allocs(s.kernel)]


def a_loop(draw: Any, s: Schedule) -> str:
    return str(draw(st.sampled_from(loop_names(s))))


def a_block(draw: Any, s: Schedule) -> str:
    return str(draw(st.sampled_from(block_names(s))))


def a_buffer(draw: Any, s: Schedule) -> str:
    return str(draw(st.sampled_from(buffer_names(s))))


def a_nest(draw: Any, s: Schedule) -> list[str]:
    """The loops around a block, outermost first."""
    return [loop.name for loop in s.loops(a_block(draw, s))] if blocks_inside(s.kernel) else []
