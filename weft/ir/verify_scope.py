"""What `verify` knows where a statement stands, and which statements it has found in order there before."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weft.ir.buffer import Buffer
from weft.ir.expr import Var
from weft.ir.stmt import Param, Stmt
from weft.ir.visit import fact, free_names, mentions

Role = Literal["parameter", "loop", "let", "iterator", "axis"]
CONCURRENT = ("parallel", "vector", "block", "thread")
#: Scopes that are kept to be entered again; other schedules of one program have other loops.
_MOST_KEPT = 2000


@dataclass(frozen=True)
class Declared:
    """A variable in scope, and what made it."""

    var: Var
    role: str


class Scope:
    """The names in scope where a statement stands.

    Scopes are entered one from another, always the same object for the same way in, so that a statement
    which was found to be in order in a scope need not be looked at there again.
    """

    def __init__(
        self,
        vars: dict[str, Declared],
        buffers: dict[str, Buffer],
        writable: frozenset[str],
        outer: Scope | None = None,
    ) -> None:
        self.vars = vars
        self.buffers = buffers
        self.writable = writable
        self._entered: dict[object, Scope] = {}
        self._root: Scope = self if outer is None else outer._root
        self._kept = 0
        #: The scope of a block here, which sees parameters and storage, but no variables made around it.
        self.block: Scope = self if outer is None else outer.block

    def binds(self, name: str) -> bool:
        return name in self.vars or name in self.buffers

    def bind(self, variables: Sequence[Var], role: Role) -> Scope:
        """``variables`` are in scope."""
        key = (role, *((v.name, v.type) for v in variables))
        kept = self._entered.get(key)
        if kept is None:
            kept = Scope(dict(self.vars), self.buffers, self.writable, self)
            kept.vars.update((v.name, Declared(v, role)) for v in variables)
            self._keep(key, kept)
        return kept

    def allocate(self, buffer: Buffer) -> Scope:
        """``buffer`` is in scope."""
        kept = self._entered.get(buffer.name)
        if kept is None or kept.buffers[buffer.name] != buffer:
            buffers, writable = {**self.buffers, buffer.name: buffer}, self.writable | {buffer.name}
            kept = Scope(self.vars, buffers, writable, self)
            kept.block = kept if self.block is self else self.block.allocate(buffer)
            self._keep(buffer.name, kept)
        return kept

    def for_iterators(self, iterators: Sequence[Var]) -> Scope:
        """Inside a block with these iterators, whose own blocks see them no more than it sees what is around it."""
        return self.block.bind(iterators, "iterator")

    def agrees(self, other: Scope, s: Stmt) -> bool:
        """Whether all names in ``s`` mean here what they mean in ``other``, and those it binds are free here too."""
        if self is other:
            return True
        if self._root is not other._root or not mentions(s).bound.isdisjoint(self.vars.keys() | self.buffers.keys()):
            return False
        for here, there in ((self.vars, other.vars), (self.buffers, other.buffers)):
            for name in free_names(s):
                one, two = here.get(name), there.get(name)
                if one is not two and one != two:
                    return False
        return self.writable is other.writable or (self.writable ^ other.writable).isdisjoint(free_names(s))

    def _keep(self, key: object, entered: Scope) -> None:
        root = self._root
        root._kept += 1
        if root._kept > _MOST_KEPT:
            root._entered.clear()
            root._kept = 0
        self._entered[key] = entered


@functools.lru_cache(maxsize=16)
def outermost_scope(
    params: tuple[Param, ...], outputs: tuple[str, ...], hardware: tuple[tuple[str, str], ...]
) -> Scope:
    """The scope of a kernel's body; statements in order depend on which hardware intrinsics there are, too."""
    return Scope(
        {p.name: Declared(p, "parameter") for p in params if isinstance(p, Var)},
        {p.name: p for p in params if isinstance(p, Buffer)},
        frozenset(outputs),
    )


@dataclass(eq=False, slots=True)
class Found:
    """Where a statement was last found to be in order; of the body of a block, with what around it."""

    scope: Scope | None = None
    block: tuple[object, ...] = ()


@fact
def found_in_order(s: Stmt) -> Found:
    return Found()
