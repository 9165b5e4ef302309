"""What rewrites of several statements ask: who writes and reads a tensor, and whether a statement writes all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Cast, Const, Expr, Load, Select, Unary, Var, idx
from weft.ir.visit import loads, replace_buffers, rewrite
from weft.tensor.access import statement_reads
from weft.tensor.boundary import Outside
from weft.tensor.normal_form.conversions import holds
from weft.tensor.program import Statement


def writers(statements: Sequence[Statement]) -> Counter[str]:
    return Counter(s.target.name for s in statements)


def reads(s: Statement) -> set[str]:
    return {load.buffer.name for load in statement_reads(s)}


def reads_of(name: str, statements: Sequence[Statement]) -> Iterator[tuple[Statement, Load]]:
    """Every read of a tensor, with who reads."""
    for s in statements:
        for load in statement_reads(s):
            if load.buffer.name == name:
                yield s, load


def is_whole(s: Statement) -> bool:
    """Whether it writes each element of its target at a point of its own: ``T(i,j)`` over all ``i`` and ``j``."""
    ends = {a.var: a.hi for a in s.axes if a.lo == idx(0)}
    plain = len({*s.indices}) == len(s.indices) == len(s.spatial_axes)
    return plain and all(isinstance(i, Var) and ends.get(i) == n for i, n in zip(s.indices, s.target.shape))


def is_formula(s: Statement) -> bool:
    """Whether it says what each element of its target is, from what it reads elsewhere."""
    plain = s.op == "=" and not s.reduce_axes and not s.recurrences and is_whole(s)
    return plain and s.target.name not in reads(s)


def is_element(e: Expr) -> bool:
    """Whether it is read somewhere, converted without rounding, denied or tested at most."""
    match e:
        case Const():
            return True
        case Load():
            return not any(loads(i) for i in e.indices)
        case Outside(load=load, fill=fill):
            return is_element(load) and (fill is None or isinstance(fill, Const))
        case Cast(type=t, operand=operand):
            return operand.dtype.is_float and holds(t, operand.dtype) and is_element(operand)
        case Unary(op="-", operand=operand):
            return is_element(operand)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return not loads(condition) and isinstance(otherwise, Const) and is_element(then)
    return False


def with_value(s: Statement, value: Expr) -> Statement:
    return s if value == s.value else replace(s, value=value)


def renamed(s: Statement, old: Buffer, new: Buffer) -> Statement:
    """The statement with one tensor under another name."""
    at = {old: new}
    indices = tuple(replace_buffers(i, at) for i in s.indices)
    return replace(s, target=at.get(s.target, s.target), indices=indices, value=replace_buffers(s.value, at))


def replace_reads(s: Statement, name: str, make: object) -> Statement:
    """The statement with ``make(load)`` in the place of each read of a tensor."""

    def step(node: object) -> Expr | None:
        return make(node) if isinstance(node, Load) and node.buffer.name == name else None  # type: ignore[operator]

    indices = tuple(rewrite(i, step) for i in s.indices)
    return replace(s, indices=indices, value=rewrite(s.value, step))
