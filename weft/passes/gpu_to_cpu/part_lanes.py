"""Branches that lanes of a warp part at, some of which meet inside: all lanes pass the meetings.

``if c { A; warp barrier; B }`` becomes ``let inside = c; if inside { A }; warp barrier; if inside { B }``, where the
program means by the barrier those lanes that come there: a volatile access, or a function of a warp whose mask names
those lanes.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Expr, Var
from weft.ir.stmt import Assign, For, Let, Stmt, While
from weft.ir.visit import free_vars, loads, walk
from weft.passes.analysis.uniform_values import differs
from weft.passes.gpu_to_cpu.mask_jumps import Masker


def part_lanes(mask: Var, body: Stmt, taken: set[str]) -> Stmt:
    """``body`` for the threads with ``mask``, in which all of them pass its barriers."""
    read = {load.buffer.name for load in loads(body)}
    masker = _LaneMasker(frozenset((taken | read | {mask.name}) - _counters(body)), taken)
    masker.gone.add(mask.name)
    return masker.masked(mask, body)


def _counters(body: Stmt) -> set[str]:
    """Variables of ``body``'s own that depend on no memory: lanes that are elsewhere may compute them too."""
    made = {s.var.name: [s.value] for s in walk(body) if isinstance(s, Let)}
    for s in walk(body):
        if isinstance(s, Assign) and s.var.name in made:
            made[s.var.name].append(s.value)
    counters = {name for name, values in made.items() if not any(map(loads, values))}
    while gone := {n for n in counters for v in made[n] if set(free_vars(v)) & made.keys() - counters}:
        counters -= gone
    return counters


class _LaneMasker(Masker):
    def masked_loop(self, mask: Expr, s: For | While, body: Stmt) -> Stmt:
        """Lanes that are elsewhere go round as often, and do nothing."""
        if isinstance(s, While) and differs(s.condition, self.varying):
            raise UnsupportedError("lanes of a warp part, and meet in a loop whose number of steps only they know")
        return replace(s, body=self.masked(mask, body))
