"""Variables and buffers that exist no longer than they are used.

``let x = 1; A(x); B`` becomes ``{ let x = 1; A(x) }; B``, so that a barrier in ``B`` is none of its business.

Live ranges become shorter; liveness is read off the nesting of statements.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import AddressOf, Load, Var
from weft.ir.nesting import sequence
from weft.ir.stmt import Alloc, Atomic, Let, Seq, Stmt, Store
from weft.ir.visit import map_statements, names_in, walk


def shorten_lets(s: Stmt) -> Stmt:
    """``s`` with statements that do not mention a variable or buffer taken out of its scope, at its end."""
    s = map_statements(s, shorten_lets)
    if isinstance(s, Seq):
        return sequence(s.body)
    if not isinstance(s, (Let, Alloc)) or not isinstance(s.body, Seq):
        return s
    name = s.var.name if isinstance(s, Let) else s.buffer.name
    parts = s.body.body
    last = max((n for n, part in enumerate(parts) if name in names_in(part)), default=-1)
    if last + 1 == len(parts):
        return s
    inside = parts[0] if last == 0 else Seq(parts[: last + 1])
    return Seq((replace(s, body=inside), *parts[last + 1 :]), span=s.span) if last >= 0 else s.body


def mentioned_names(s: Stmt) -> dict[str, None]:
    """Variables and buffers in ``s``, also in the sizes and strides of the buffers, in order of first use."""
    names: dict[str, None] = {}
    buffers: dict[str, Buffer] = {}
    for n in walk(s):
        if isinstance(n, Var):
            names[n.name] = None
        elif isinstance(n, (Load, Store, Atomic, AddressOf, Alloc)):
            buffers[n.buffer.name] = n.buffer
    for buffer in buffers.values():
        sizes = (*buffer.shape, *(buffer.strides or ()))
        names |= {n.name: None for e in sizes for n in walk(e) if isinstance(n, Var)}
    return names | dict.fromkeys(buffers)
