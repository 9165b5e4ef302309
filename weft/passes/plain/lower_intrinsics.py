"""Nests that are hardware intrinsics, as calls of these where the machine has them, else as the loops they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir import dtype as dt
from weft.ir.errors import ScheduleError, UnsupportedError
from weft.ir.expr import Call
from weft.ir.hardware import HARDWARE, Hardware, find_hardware
from weft.ir.interval import Interval
from weft.ir.match_hardware import Mismatch, match_hardware
from weft.ir.stmt import Evaluate, Kernel, Stmt, Tensorized
from weft.ir.visit import map_statements
from weft.passes.analysis.loop_ranges import ranges_inside


def lower_intrinsics(kernel: Kernel, *, machine_name: str, missing_for: Callable[[Hardware], Sequence[str]]) -> Kernel:
    """Every tensorized nest as a call of its intrinsic where nothing is ``missing_for`` it, else as the loops it is."""
    return replace(kernel, body=_Lowering(machine_name, missing_for).lower(kernel.body, {}))


@dataclass(frozen=True, slots=True)
class _Lowering:
    machine_name: str
    missing_for: Callable[[Hardware], Sequence[str]]

    def lower(self, s: Stmt, ranges: Mapping[str, Interval]) -> Stmt:
        if isinstance(s, Evaluate) and s.call.name in HARDWARE:
            self.require(HARDWARE[s.call.name], s)
        inner = ranges_inside(s, ranges)
        if isinstance(s, Tensorized):
            hardware = find_hardware(s.intrinsic)
            return self.lower(s.body, ranges) if self.missing_for(hardware) else _call(hardware, s, ranges)
        return map_statements(s, lambda n: self.lower(n, inner))

    def require(self, hardware: Hardware, s: Evaluate) -> None:
        """A call, other than a tensorized nest, has no loops to run instead."""
        missing = self.missing_for(hardware)
        if missing:
            raise UnsupportedError(
                f"`{self.machine_name}` has no `{hardware.name}`",
                span=s.span,
                notes=[("needs", text) for text in missing],
            )


def _call(hardware: Hardware, s: Tensorized, ranges: Mapping[str, Interval]) -> Stmt:
    """The operands are found by comparing once more: what the loops say now counts."""
    match = match_hardware(hardware, s.body, ranges)
    if isinstance(match, Mismatch):
        raise ScheduleError(
            f"loops tensorized as `{hardware.name}` have changed since",
            span=s.span,
            why=match.reason,
            help="tensorize after the other steps on these loops",
        )
    return Evaluate(Call(hardware.name, match, dt.index, span=s.span), span=s.span)
