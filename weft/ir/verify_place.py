"""Which loops may stand in which, and a quick answer for programs in which nothing else depends on its place."""

from __future__ import annotations

from typing import NamedTuple

from weft.ir.nesting import inner_statements
from weft.ir.stmt import Alloc, Assert, Block, For, If, Seq, Stmt, Store, Tensorized
from weft.ir.visit import fact

#: Loops that must not enclose a loop of this kind.
REFUSED_INSIDE: dict[str, tuple[str, ...]] = {
    "parallel": ("vector", "thread"),
    "block": ("parallel", "vector", "thread"),
    "thread": ("parallel", "vector"),
}
#: Statements that may stand anywhere.
_ANYWHERE = (Seq, If, Block, Store, Assert, Alloc)


class _Places(NamedTuple):
    """Of a statement: the kinds of loops that may not be around it; whether all in it is where it may be."""

    refused: frozenset[str] = frozenset()
    plain: bool = True


@fact
def _places(s: Stmt) -> _Places:
    inner = [_places(stmt) for stmt in inner_statements(s)]
    refused = inner[0].refused if len(inner) == 1 else frozenset[str]().union(*(p.refused for p in inner))
    plain = all(p.plain for p in inner)
    if isinstance(s, For):
        own = REFUSED_INSIDE.get(s.kind, ())
        return _Places(refused.union(own) if own else refused, plain and s.kind not in refused)
    if isinstance(s, Tensorized):
        return _Places(refused | {"vector"}, plain)
    return _Places(refused, plain and isinstance(s, _ANYWHERE))


def is_in_place(s: Stmt) -> bool:
    """Whether ``s`` is surely in order as far as the loops around statements matter; False where one has to look."""
    return _places(s).plain
