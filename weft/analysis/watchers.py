"""Loop programs that watch a line of memory being touched: what stands in the place of each access.

A watcher's text is a kernel whose parameter ``sim_line`` is the line; the variables it keeps from one touch to the next
are the ``let`` at its start. `watched` puts it around and into a program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Expr, Var, idx
from weft.ir.parser import parse_kernel
from weft.ir.stmt import If, Kernel, Let, Stmt
from weft.operators.loop_kernel import LoopKernel

LINE = Var("sim_line")
#: Odd, and far from multiples of small numbers: lines whose product ends high are the sampled ones.
_SCATTER = 0x9E3779B97F4A7C15 - (1 << 64)


@dataclass(frozen=True)
class Watcher:
    """``text`` of the kernel, how many of its ``let`` are kept, and the share of lines it looks at, one in ``rate``."""

    text: str
    kept: int = 0
    rate: int = 1

    @cached_property
    def _kernel(self) -> Kernel:
        return parse_kernel(self.text, "<watcher>")

    def run(self, program: Callable[[Callable[[Expr], Stmt]], Stmt], *arrays: Any) -> None:
        """Runs ``program``, a statement made from what a touch of a line is, with the watcher's arrays."""
        touch, kept = self._kernel.body, list[Let]()
        for _ in range(self.kept):
            assert isinstance(touch, Let)
            kept.append(touch)
            touch = touch.body
        body = program(lambda line: Let(LINE, line, self._sampled(touch)))
        for let in reversed(kept):
            body = replace(let, body=body)
        LoopKernel(replace(self._kernel, params=self._kernel.buffers, body=body), "strict")(*arrays)

    def _sampled(self, touch: Stmt) -> Stmt:
        if self.rate == 1:
            return touch
        mixed = Binary("&", Binary(">>", LINE * idx(_SCATTER), idx(40)), idx(self.rate - 1))
        return If(Compare("==", mixed, idx(0)), touch)


assert LINE.dtype == dt.index
