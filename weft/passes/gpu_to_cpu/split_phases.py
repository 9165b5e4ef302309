"""Warps taken phase by phase: ``thread w { thread l { A }; thread l { B } }`` as two nests, one for each phase.

Warps wait for one another at barriers of the block only, so all of them may go through one phase before any begins the
next. What a warp keeps from one phase to another gets a place for each warp.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Const, Load, Var, idx
from weft.ir.nesting import has_loop, sequence
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Atomic, For, If, Let, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, map_statements, names_in, rewrite


def split_phases(s: Stmt, taken: set[str]) -> Stmt:
    """``s``, statements of a block, with thread loops around thread loops split."""
    if isinstance(s, For) and s.kind == "thread":
        return _split(s, taken) if has_loop(s.body, "thread") else s
    if isinstance(s, (Seq, Alloc, Let)):
        return map_statements(s, lambda n: split_phases(n, taken))
    return s


def _split(loop: For, taken: set[str]) -> Stmt:
    if not (isinstance(loop.lo, Const) and isinstance(loop.hi, Const)):
        return loop
    splitter = _Splitter(loop, taken)
    parts = list(splitter.parts(loop.body))
    if len(parts) == 1 and not splitter.places:
        return loop
    made = sequence([replace(loop, body=part) for part in parts])
    for buffer in splitter.places:
        made = Alloc(buffer, made)
    return made


@dataclass(slots=True)
class _Splitter:
    loop: For
    taken: set[str]
    places: list[Buffer] = field(default_factory=list)

    @property
    def place(self) -> Binary:
        return Binary("-", self.loop.var, self.loop.lo)

    def parts(self, s: Stmt) -> Iterator[Stmt]:
        """What ``s`` does, one phase after another."""
        if not has_loop(s, "thread") or (isinstance(s, For) and s.kind == "thread"):
            yield s
            return
        match s:
            case Seq():
                for inner in s.body:
                    yield from self.parts(inner)
            case Alloc() if all(isinstance(size, Const) for size in s.buffer.shape) and s.buffer.strides is None:
                yield from self.parts(self.widened(s))
            case If(otherwise=None) if not loads(s.condition):
                if assigned_names(s.then) & set(free_vars(s.condition)):
                    yield s
                else:
                    yield from (replace(s, then=part) for part in self.parts(s.then))
            case Let() if s.var.name not in assigned_names(s.body):
                yield from self.kept(s)
            case _:
                yield s

    def widened(self, s: Alloc) -> Stmt:
        """The body of ``s`` with a part for each iteration of the loop in its array."""
        count = int(self.loop.hi.value) - int(self.loop.lo.value)  # type: ignore[attr-defined]
        wide = replace(s.buffer, name=fresh_name(s.buffer.name, self.taken), shape=(idx(count), *s.buffer.shape))
        self.places.append(wide)
        place = simplify(self.place)

        def redirected(n: object) -> Load | Store | Atomic | None:
            if isinstance(n, (Load, Store, Atomic)) and n.buffer.name == s.buffer.name:
                return replace(n, buffer=wide, indices=(place, *n.indices))
            return None

        return rewrite(s.body, redirected, {s.buffer.name})

    def kept(self, s: Let) -> Iterator[Stmt]:
        """A variable of the warp: computed again in each phase, or stored where memory is read for it."""
        parts = list(self.parts(s.body))
        if not loads(s.value):
            yield from (replace(s, body=part) if s.var.name in names_in(part) else part for part in parts)
            return
        count = int(self.loop.hi.value) - int(self.loop.lo.value)  # type: ignore[attr-defined]
        buffer = Buffer(fresh_name(f"{s.var.name}_kept", self.taken), s.var.dtype, (idx(count),), scope="local")
        self.places.append(buffer)
        place = (simplify(self.place),)
        yield Store(buffer, place, s.value, span=s.span)
        for part in parts:
            var = Var(s.var.name, s.var.dtype)
            yield Let(var, Load(buffer, place), part, span=s.span) if var.name in names_in(part) else part
