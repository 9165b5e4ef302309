"""Whether a loop's iterations can run as the lanes of vectors, and which values differ between lanes."""

from __future__ import annotations

from weft.ir.expr import Broadcast, Expr, Load, Ramp, Reduce, Shuffle, Var
from weft.ir.intrinsics import HINTS
from weft.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Block,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Let,
    Return,
    Seq,
    Stmt,
    Store,
    While,
)
from weft.ir.visit import Node, children, walk

_FORBIDDEN: dict[type, str] = {
    While: "a while loop",
    Break: "a break",
    Continue: "a continue",
    Return: "a return",
    Atomic: "an atomic update",
    Barrier: "a barrier",
    Block: "a block that is not lowered",
    Evaluate: "a call for its effect",
    Ramp: "a vector",
    Broadcast: "a vector",
    Shuffle: "a vector",
    Reduce: "a reduction that is not lowered",
}


def check_vector(loop: For) -> str | None:
    """Why the iterations of ``loop`` cannot be lanes, or None where they can."""
    varying = infer_varying(loop)
    private = {n.buffer.name for n in walk(loop.body) if isinstance(n, Alloc)}
    outside = _assigned_outside(loop)
    if outside:
        return f"it assigns `{outside}`, which lives longer than an iteration"
    for n in walk(loop.body):
        if isinstance(n, Evaluate) and n.call.name in HINTS:
            continue
        reason = _FORBIDDEN.get(type(n))
        if reason is not None:
            return f"it contains {reason}"
        if isinstance(n, Var) and n.dtype.lanes > 1:
            return "it contains a vector"
        if isinstance(n, For) and n.kind in ("parallel", "block"):
            return f"it contains a {n.kind} loop, which is for several cores"
        if isinstance(n, Store) and n.buffer.name not in private and not any(is_varying(i, varying) for i in n.indices):
            return f"all iterations store to the same element of `{n.buffer.name}`"
        if isinstance(n, Alloc) and any(is_varying(e, varying) for e in n.buffer.shape):
            return f"the size of `{n.buffer.name}` differs between iterations"
    return None


def _assigned_outside(loop: For) -> str | None:
    inside = {n.var.name for n in walk(loop.body) if isinstance(n, Let)}
    return next((n.var.name for n in walk(loop.body) if isinstance(n, Assign) and n.var.name not in inside), None)


def infer_varying(loop: For) -> frozenset[str]:
    """Names of variables and private buffers whose value may differ between iterations of ``loop``."""
    private = {n.buffer.name for n in walk(loop.body) if isinstance(n, Alloc)}
    varying = {loop.var.name} | private
    while True:
        before = len(varying)
        _spread(loop.body, varying, masked=False)
        if len(varying) == before:
            return frozenset(varying)


def is_varying(e: Expr, varying: set[str] | frozenset[str]) -> bool:
    for n in walk(e):
        if isinstance(n, Var) and n.name in varying:
            return True
        if isinstance(n, Load) and n.buffer.name in varying:
            return True
    return False


def _spread(node: Stmt, varying: set[str], *, masked: bool) -> None:
    """One round: variables set from varying values, or where only some lanes are active, vary."""
    match node:
        case Let(var=var, value=value) | Assign(var=var, value=value):
            if (masked and isinstance(node, Assign)) or is_varying(value, varying):
                varying.add(var.name)
        case If(condition=condition):
            masked = masked or is_varying(condition, varying)
        case For(lo=lo, hi=hi):
            masked = masked or is_varying(lo, varying) or is_varying(hi, varying)
    for child in _statements(node):
        _spread(child, varying, masked=masked)


def _statements(node: Node) -> list[Stmt]:
    if isinstance(node, Seq):
        return list(node.body)
    return [c for c in children(node) if isinstance(c, Stmt)]
