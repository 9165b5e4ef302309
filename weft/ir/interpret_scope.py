"""What the interpreter knows about names while it translates a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.errors import ProgramError
from weft.ir.expr import Var
from weft.ir.interpret_memory import Env, Site, make_snapshot
from weft.ir.span import Span


@dataclass(slots=True)
class Layout:
    """The slots of a program's variables, buffers and access sites; ``initial`` is what a run starts from."""

    check: bool
    initial: Env = field(default_factory=lambda: [None])
    groups: int = 0

    def slot(self, value: Any = None) -> int:
        self.initial.append(value)
        return len(self.initial) - 1


@dataclass(frozen=True, slots=True)
class Scope:
    """What names mean at a place in the program, and which loops are around it.

    ``tracked`` are the buffers that more than one strand can reach; ``own`` the variables
    this strand may assign; ``concurrent`` the kinds and numbers of concurrent loops, outermost first.
    """

    layout: Layout
    vars: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, int] = field(default_factory=dict)
    tracked: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    loops: tuple[tuple[str, int], ...] = ()
    concurrent: tuple[tuple[str, int], ...] = ()
    in_loop: bool = False
    span: Span | None = None

    def with_var(self, var: Var) -> tuple[Scope, int]:
        slot = self.layout.slot()
        return replace(self, vars={**self.vars, var.name: slot}), slot

    def with_loop(self, var: Var) -> tuple[Scope, int]:
        scope, slot = self.with_var(var)
        return replace(scope, loops=(*self.loops, (var.name, slot))), slot

    def var_slot(self, var: Var) -> int:
        if var.name not in self.vars:
            raise ProgramError(f"unknown variable `{var.name}`", span=var.span or self.span)
        return self.vars[var.name]

    def buffer_slot(self, buffer: Buffer, span: Span | None) -> int:
        if buffer.name not in self.buffers:
            raise ProgramError(f"unknown buffer `{buffer.name}`", span=span or self.span)
        return self.buffers[buffer.name]

    def site(self, buffer: Buffer, action: str, span: Span | None) -> Site:
        slot = self.layout.slot()
        site = Site(buffer, action, span or self.span, self.loops, make_snapshot(slot, self.loops))
        self.layout.initial[slot] = site
        return site
