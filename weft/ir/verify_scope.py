"""What `verify` knows where a statement stands, and which statements it has found in order there before."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from weft.ir.buffer import Buffer
from weft.ir.expr import Var
from weft.ir.stmt import Param, Stmt
from weft.ir.visit import fact

Role = Literal["parameter", "loop", "let", "iterator", "axis"]
CONCURRENT = ("parallel", "vector", "block", "thread")
#: Scopes that are kept to be entered again; other schedules of one program have other loops.
_MOST_KEPT = 2000


@dataclass(frozen=True)
class Declared:
    """A variable in scope, what made it, and the number of concurrent loops around that place."""

    var: Var
    role: str
    fences: int


class Scope:
    """What is known where a statement stands: the names in scope, and the loops around it, outermost first.

    Scopes are entered one from another, always the same object for the same way in, so that a statement
    which was found to be in order in a scope need not be looked at there again.
    """

    def __init__(
        self,
        vars: dict[str, Declared],
        buffers: dict[str, Buffer],
        writable: frozenset[str],
        hidden: frozenset[str] = frozenset(),
        loops: tuple[str, ...] = (),
        root: Scope | None = None,
    ) -> None:
        self.vars = vars
        self.buffers = buffers
        self.writable = writable
        #: Variables of enclosing statements that a block body must not use.
        self.hidden = hidden
        self.loops = loops
        self.fences = sum(kind in CONCURRENT for kind in loops)
        self._entered: dict[object, Scope] = {}
        self._root = root or self
        self._kept = 0

    def has(self, *kinds: str) -> bool:
        return any(kind in kinds for kind in self.loops)

    def binds(self, name: str) -> bool:
        return name in self.vars or name in self.buffers or name in self.hidden

    def bind(self, variables: Sequence[Var], role: Role, kind: str | None = None) -> Scope:
        """``variables`` are in scope, in one more loop where ``kind`` is given."""
        key = (kind, role, *((v.name, v.type) for v in variables))
        found = self._entered.get(key)
        if found is None:
            loops = self.loops if kind is None else (*self.loops, kind)
            found = Scope(dict(self.vars), self.buffers, self.writable, self.hidden, loops, self._root)
            found.vars.update((v.name, Declared(v, role, found.fences)) for v in variables)
            self._keep(key, found)
        return found

    def allocate(self, buffer: Buffer) -> Scope:
        """``buffer`` is in scope."""
        known = self._entered.get(buffer.name)
        if known is None or known.buffers[buffer.name] != buffer:
            buffers, writable = {**self.buffers, buffer.name: buffer}, self.writable | {buffer.name}
            known = Scope(self.vars, buffers, writable, self.hidden, self.loops, self._root)
            self._keep(buffer.name, known)
        return known

    def block(self) -> Scope:
        """A block sees parameters alone, besides its iterators."""
        found = self._entered.get(None)
        if found is None:
            vars = {n: d for n, d in self.vars.items() if d.role == "parameter"}
            hidden = self.hidden | (self.vars.keys() - vars.keys())
            # A break must not leave the block; which concurrent loops it runs in still matters inside.
            loops = tuple(k for k in self.loops if k in CONCURRENT)
            found = Scope(vars, self.buffers, self.writable, hidden, loops, self._root)
            self._keep(None, found)
        return found

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
        {p.name: Declared(p, "parameter", 0) for p in params if isinstance(p, Var)},
        {p.name: p for p in params if isinstance(p, Buffer)},
        frozenset(outputs),
    )


@dataclass(eq=False, slots=True)
class Found:
    """Where a statement was last found to be in order."""

    scope: Scope | None = None


@fact
def found_in_order(s: Stmt) -> Found:
    return Found()
