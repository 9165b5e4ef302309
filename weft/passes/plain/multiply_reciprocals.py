"""Divisions by what stays the same through a loop become products with its reciprocal.

For fast numerics only: the product is rounded twice. A constant's reciprocal is known; another divisor's is computed
once before the outermost loop in which nothing changes it and that is certain to divide by it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.ir.expr import Binary, Const, Expr, Reduce, Select, Var, const
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import (
    Node,
    children,
    free_vars,
    fresh_name,
    loads,
    map_statements,
    mentions,
    rewrite,
    used_names,
    walk,
)
from weft.passes.analysis.loop_ranges import constant_extent


def multiply_reciprocals(kernel: Kernel) -> Kernel:
    """``kernel`` with fewer divisions of float32 and float64."""
    if not any(isinstance(n, Binary) and n.op == "/" for n in walk(kernel.body)):
        return kernel
    body = rewrite(kernel.body, lambda n: _by_constant(n) if isinstance(n, Binary) else None)
    return replace(kernel, body=_Inverter(used_names(kernel)).visit(body))


def _by_constant(e: Binary) -> Expr | None:
    if not _divides(e) or not isinstance(e.right, Const):
        return None
    value = float(e.right.value)
    return e.left * const(1.0 / value, e.dtype) if value and abs(value) < 1e30 and abs(value) > 1e-30 else None


def _divides(e: Expr) -> bool:
    return isinstance(e, Binary) and e.op == "/" and e.dtype.is_float and e.dtype.bits >= 32


@dataclass(slots=True)
class _Inverter:
    taken: set[str]

    def visit(self, s: Stmt) -> Stmt:
        if not isinstance(s, For):
            return map_statements(s, self.visit)
        names = {Var(fresh_name("inverse", self.taken), d.dtype): d for d in _steady_divisors(s)}
        inverses = {divisor: var for var, divisor in names.items()}
        result: Stmt = rewrite(s, lambda n: _multiplied(n, inverses)) if names else s
        result = map_statements(result, self.visit)
        for var, divisor in names.items():
            result = Let(var, Binary("/", const(1.0, var.dtype), divisor), result)
        return result


def _multiplied(n: Node, inverses: dict[Expr, Var]) -> Expr | None:
    if not isinstance(n, Binary) or not _divides(n) or n.right not in inverses:
        return None
    return n.left * inverses[n.right]


def _steady_divisors(loop: For) -> list[Expr]:
    """The divisors that are used in every run of ``loop`` and never change in it."""
    found = {e.right: None for e in _certain_divisions(loop) if not isinstance(e.right, Const)}
    if not found:
        return []
    own = mentions(loop)
    inside, changed = own.bound | assigned_names(loop), own.stored | own.allocated | own.reached

    def steady(e: Expr) -> bool:
        return not inside & free_vars(e).keys() and not changed & {n.buffer.name for n in loads(e)}

    return [d for d in found if steady(d)]


def _certain_divisions(s: Stmt) -> Iterator[Binary]:
    """Divisions that happen whenever ``s`` runs: in loops that run, under no test but of what the divisor is not."""
    if isinstance(s, For) and constant_extent(s):
        yield from _certain_divisions(s.body)
    elif isinstance(s, If) and s.otherwise is None:
        tested = free_vars(s.condition).keys()
        yield from (e for e in _certain_divisions(s.then) if not tested & free_vars(e.right).keys())
    elif isinstance(s, Seq):
        for stmt in s.body:
            yield from _certain_divisions(stmt)
    elif isinstance(s, (Alloc, Let)):
        yield from _certain_divisions(s.body)
    elif isinstance(s, Store):
        yield from _unconditional(s.value)


def _unconditional(e: Expr) -> Iterator[Binary]:
    if isinstance(e, Binary) and _divides(e):
        yield e
    if isinstance(e, (Select, Reduce)) or (isinstance(e, Binary) and e.op in ("&&", "||")):
        return
    for conjunct in children(e):
        if isinstance(conjunct, Expr):
            yield from _unconditional(conjunct)
