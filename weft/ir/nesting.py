"""Which statements stand inside which: a step down, and the way from one to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.ir.stmt import Alloc, Block, For, If, Let, Seq, Stmt, Tensorized, While


def inner_statements(s: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside ``s``, in program order."""
    read = _INNER.get(type(s))
    return () if read is None else read(s)


def _body(s: Any) -> tuple[Stmt, ...]:
    return (s.body,)


_INNER: dict[type[Stmt], Callable[[Any], tuple[Stmt, ...]]] = {
    Seq: lambda s: s.body,
    If: lambda s: (s.then,) if s.otherwise is None else (s.then, s.otherwise),
    Block: lambda s: (s.body,) if s.init is None else (s.init, s.body),
    For: _body,
    While: _body,
    Let: _body,
    Alloc: _body,
    Tensorized: _body,
}


def perfect_nest(s: Stmt, kind: str) -> tuple[tuple[For, ...], Stmt]:
    """The loops of ``kind`` that stand directly inside one another from ``s`` on, and what is inside them."""
    loops: list[For] = []
    while True:
        if isinstance(s, Seq) and len(s.body) == 1:
            s = s.body[0]
        elif isinstance(s, For) and s.kind == kind:
            loops.append(s)
            s = s.body
        else:
            return tuple(loops), s


def find_path(root: Stmt, target: Stmt) -> list[Stmt] | None:
    """The statements from ``root`` down to ``target`` (by identity), both included; None where it is not inside."""
    path = [root]
    while root is not target:
        inner = inner_statements(root)
        if len(inner) != 1:
            for s in inner:
                below = find_path(s, target)
                if below is not None:
                    return path + below
            return None
        root = inner[0]
        path.append(root)
    return path
