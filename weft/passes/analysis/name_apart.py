"""Names apart: every variable and buffer made in a statement under a name of its own."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.stmt import Alloc, For, Let, Stmt
from weft.ir.visit import fresh_name, map_statements, replace_buffers, substitute


def name_apart(s: Stmt, seen: set[str], taken: set[str], kinds: tuple[type, ...] = (For, Let, Alloc)) -> Stmt:
    """``s`` where nothing that these ``kinds`` of statement make is called as anything in ``seen``, which grows.

    New names are not in ``taken``.
    """
    if isinstance(s, (For, Let)) and isinstance(s, kinds):
        if s.var.name in seen:
            var = replace(s.var, name=fresh_name(s.var.name, taken))
            s = replace(s, var=var, body=substitute(s.body, {s.var: var}))
        seen.add(s.var.name)
    elif isinstance(s, Alloc):
        if s.buffer.name in seen:
            buffer = replace(s.buffer, name=fresh_name(s.buffer.name, taken))
            s = Alloc(buffer, replace_buffers(s.body, {s.buffer: buffer}), span=s.span)
        seen.add(s.buffer.name)
    return map_statements(s, lambda n: name_apart(n, seen, taken, kinds))
