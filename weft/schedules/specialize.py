"""``specialize``: a second version of a loop nest for calls where a condition on sizes or scalars holds:
loop versioning, or multi-versioning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Const, Expr, Var, idx
from weft.ir.simplify import simplify
from weft.ir.stmt import If, Kernel, Stmt
from weft.ir.visit import rebuild
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.condition import parse_condition
from weft.schedules.find import all_loops, find_loop, ranges_at, size_ranges
from weft.schedules.loop_facts import has_barrier
from weft.schedules.rewrite import Rewrite, fresh_copy, primitive, replace_stmt, simplify_bounds, taken_names
from weft.schedules.trace import Numerics


def check_specialize(
    kernel: Kernel, loop: str, condition: str, sizes: Mapping[str, int] | None = None, *, numerics: Numerics
) -> Verdict:
    """Always legal: both versions are the same program until other steps change one of them."""
    old = find_loop(kernel, loop)
    _condition(kernel, condition, sizes)
    return refuse(f"there is a barrier inside `{loop}`") if has_barrier(old) else OK


@primitive(check_specialize, "cannot specialize on `{1}`")
def specialize(kernel: Kernel, loop: str, condition: str, sizes: Mapping[str, int] | None = None) -> Rewrite:
    """Makes the version for ``condition``, its loops called ``m_s``; ``m`` stays as the version for all else.

    ``sizes`` are values of sizes that are numbers already. Both versions are made even where they
    decide the condition: later steps may be about either, and the one that never runs goes in lowering.
    """
    old = find_loop(kernel, loop)
    test = simplify(_condition(kernel, condition, sizes), size_ranges(kernel))
    version = fresh_copy(old, taken_names(kernel), "_s")
    equal_sizes = dict(_equalities(test))
    version = simplify_bounds(_with_values(version, equal_sizes) if equal_sizes else version, ranges_at(kernel, old))
    made = tuple(f.var.name for f in all_loops(version))
    return Rewrite(replace_stmt(kernel, old, If(test, version, old, span=old.span)), made)


def _condition(kernel: Kernel, text: str, sizes: Mapping[str, int] | None) -> Expr:
    values: dict[str, Expr] = {name: idx(value) for name, value in (sizes or {}).items()}
    return parse_condition(text, values | {v.name: v for v in kernel.scalars})


def _equalities(test: Expr) -> Iterator[tuple[Var, Const]]:
    """The variables ``test`` fixes, with their values."""
    if isinstance(test, Binary) and test.op == "&&":
        yield from _equalities(test.left)
        yield from _equalities(test.right)
    elif isinstance(test, Compare) and test.op == "==":
        for a, b in ((test.left, test.right), (test.right, test.left)):
            if isinstance(a, Var) and isinstance(b, Const) and not a.dtype.is_float:
                yield a, b


def _with_values(root: Stmt, values: Mapping[Var, Const]) -> Any:
    """``root`` with variables replaced everywhere but in the shapes of buffers, which stay as declared."""

    def visit(n: Any) -> Any:
        if isinstance(n, Buffer):
            return n
        return values.get(n, n) if isinstance(n, Var) else rebuild(n, visit)

    return visit(root)
