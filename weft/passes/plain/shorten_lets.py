"""Variables and buffers that exist no longer than they are used.

``let x = 1; A(x); B`` becomes ``{ let x = 1; A(x) }; B``, so that a barrier in ``B`` is none of its business.

Live ranges become shorter; liveness is read off the nesting of statements.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.stmt import Alloc, Let, Seq, Stmt
from weft.ir.visit import fact, free_vars, rebuild, used_names, walk


def shorten_lets(s: Stmt) -> Stmt:
    """``s`` with statements that do not mention a variable or buffer taken out of its scope, at its end."""
    s = rebuild(s, lambda n: shorten_lets(n) if isinstance(n, Stmt) else n)
    if isinstance(s, Seq):
        return _flat(s)
    if not isinstance(s, (Let, Alloc)) or not isinstance(s.body, Seq):
        return s
    name = s.var.name if isinstance(s, Let) else s.buffer.name
    parts = s.body.body
    last = max((n for n, part in enumerate(parts) if name in names_in(part)), default=-1)
    if last + 1 == len(parts):
        return s
    inside = parts[0] if last == 0 else Seq(parts[: last + 1])
    return Seq((replace(s, body=inside), *parts[last + 1 :]), span=s.span) if last >= 0 else s.body


@fact
def names_in(s: Stmt) -> frozenset[str]:
    """What ``s`` mentions, in the sizes of its buffers too."""
    sizes = [e for n in walk(s) if isinstance(n, Alloc) for e in (*n.buffer.shape, *(n.buffer.strides or ()))]
    return frozenset(used_names(s)).union(*(free_vars(e) for e in sizes))


def _flat(s: Seq) -> Stmt:
    parts: list[Stmt] = []
    for stmt in s.body:
        parts += stmt.body if isinstance(stmt, Seq) else (stmt,)
    return parts[0] if len(parts) == 1 else Seq(tuple(parts), span=s.span)
