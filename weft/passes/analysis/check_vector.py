"""Whether a loop's iterations can be lanes, which values differ between these, and how far apart in memory they lie."""

from __future__ import annotations

from weft.ir.affine import affine_form, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Broadcast, Const, Expr, Load, Ramp, Reduce, Shuffle, Var, idx
from weft.ir.intrinsics import HINTS
from weft.ir.nesting import inner_statements
from weft.ir.offsets import joined_offset
from weft.ir.stmt import JUMPS, Alloc, Assign, Atomic, Barrier, Block, Evaluate, For, If, Let, Stmt, Store, While
from weft.ir.visit import mentions, walk

_FORBIDDEN: dict[type, str] = {
    While: "a while loop",
    **{jump: f"a {jump.__name__.lower()}" for jump in JUMPS},
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
    private = mentions(loop.body).allocated
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
    set_here = (
        n.var if isinstance(n, Assign) else n.result for n in walk(loop.body) if isinstance(n, (Assign, Atomic))
    )
    return next((var.name for var in set_here if var is not None and var.name not in inside), None)


def infer_varying(loop: For) -> frozenset[str]:
    """Names of variables and private buffers whose value may differ between iterations of ``loop``."""
    varying = {loop.var.name, *mentions(loop.body).allocated}
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
        case Atomic(result=Var() as result):
            varying.add(result.name)
        case If(condition=condition):
            masked = masked or is_varying(condition, varying)
        case For(lo=lo, hi=hi):
            masked = masked or is_varying(lo, varying) or is_varying(hi, varying)
    for child in inner_statements(node):
        _spread(child, varying, masked=masked)


def check_independent(loop: For) -> str | None:
    """Why iterations of ``loop`` may depend on each other, or None where they cannot.

    For each buffer written, one dimension must be indexed by the same injective function of the
    loop's variable in every access: then no two iterations meet. Buffers do not overlap.
    """
    nodes, own = list(walk(loop.body)), mentions(loop.body)
    local = {n.var.name for n in nodes if isinstance(n, Let)}
    for n in nodes:
        if isinstance(n, Atomic):
            return f"it updates `{n.buffer.name}` atomically"
        if isinstance(n, Assign) and n.var.name not in local:
            return f"it assigns `{n.var.name}`, which lives longer than an iteration"
    for name in sorted(own.stored - own.allocated):
        accesses = [n.indices for n in nodes if isinstance(n, (Load, Store)) and n.buffer.name == name]
        if not any(_separates(column, loop.var.name, own.bound) for column in zip(*accesses)):
            return f"iterations may meet in `{name}`"
    return None


def _separates(column: tuple[Expr, ...], var: str, inner: frozenset[str]) -> bool:
    """Whether one dimension's index, over all accesses, is one function of ``var`` that never repeats."""
    first = column[0]
    if any(e != first for e in column[1:]) or any(isinstance(n, Var) and n.name in inner for n in walk(first)):
        return False
    form = affine_form(first)
    return form is not None and form.get(var, 0) != 0


def infer_step(buffer: Buffer, indices: tuple[Expr, ...], var: str, varying: frozenset[str]) -> int | None:
    """Elements between the accesses of neighbouring iterations, or None where that is not one number."""
    if buffer.name in varying:
        return 1 if not any(is_varying(i, varying) for i in indices) else None
    joined = joined_offset(buffer, indices) if all(i.dtype.lanes == 1 for i in indices) else None
    parts = zip(indices, buffer.element_strides()) if joined is None else [(joined, idx(1))]
    total = 0
    for index, stride in parts:
        if not is_varying(index, varying):
            continue
        terms = linear_form(index).terms
        others = [e for e in terms if not (isinstance(e, Var) and e.name == var) and is_varying(e, varying)]
        if others or not isinstance(stride, Const):
            return None
        total += int(stride.value) * sum(c for e, c in terms.items() if isinstance(e, Var) and e.name == var)
    return total
