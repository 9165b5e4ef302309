"""Names of positions, and of tests of positions, written out: ``let i = b * 16 + t; A[i]`` as ``A[b * 16 + t]``.

This is forward substitution. Subscripts, tests and bounds then say what they are in terms of loops, which is what
every analysis asks for. What is made outside all blocks and is no mere sum is a size like those the kernel is given:
it keeps its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Select, Unary, Var
from weft.ir.nesting import has_loop
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, Kernel, Let, Param, Stmt
from weft.ir.visit import children, count_nodes, fact, rebuild, substitute
from weft.passes.plain.close_inductions import close_inductions
from weft.passes.plain.count_whiles import count_whiles
from weft.passes.plain.forward_tests import forward_tests
from weft.passes.plain.live_ranges import split_live_ranges
from weft.passes.plain.narrow_variables import narrow_variables

#: Nodes of an expression that may be written out wherever its name stands.
LONGEST = 100


def inline_indices(kernel: Kernel) -> Kernel:
    """``kernel``, where it has threads, without variables that stand for integers computed from fixed ones."""
    if not has_loop(kernel.body, "thread"):
        return kernel
    kept = _kept(kernel.body)
    if kernel.params not in kept:
        kept[kernel.params] = _inlined(kernel).body
    return replace(kernel, body=kept[kernel.params])


@fact
def _kept(s: Stmt) -> dict[tuple[Param, ...], Stmt]:
    """What became of ``s`` in kernels with these parameters: several passes ask for the same program."""
    return {}


def _inlined(kernel: Kernel) -> Kernel:
    body, changing = close_inductions(count_whiles(kernel.body)), assigned_names(kernel.body)
    body = split_live_ranges(forward_tests(body, lambda e: _is_position(e, changing)))
    body = narrow_variables(body)
    return simplify(replace(kernel, body=_inline(body, assigned_names(body), {}, is_outside=True)))


def inline_positions(s: Stmt) -> Stmt:
    """``s``, a part of what a thread does, without variables that stand for positions."""
    return _inline(s, assigned_names(s), {}, is_outside=False)


def _inline(s: Stmt, changing: frozenset[str], held: Mapping[Var, Expr], *, is_outside: bool) -> Stmt:
    """``s`` with the values of variables that are ``held``."""
    if isinstance(s, Let) and s.var.name not in changing:
        value = substitute(s.value, held)
        if _is_position(value, changing):
            is_size = s.var.dtype == dt.index and any(not isinstance(e, Var) for e in linear_form(value).terms)
            if not (is_outside and is_size):
                return _inline(s.body, changing, {**held, s.var: value}, is_outside=is_outside)
    is_outside &= not (isinstance(s, For) and s.kind in ("block", "thread"))

    def part(n: Any) -> Any:
        return _inline(n, changing, held, is_outside=is_outside) if isinstance(n, Stmt) else substitute(n, held)

    return rebuild(s, part)


def _is_position(e: Expr, changing: frozenset[str]) -> bool:
    return e.dtype in (dt.index, dt.bool_) and _is_arithmetic(e, changing) and count_nodes(e) <= LONGEST


def _is_arithmetic(e: Expr, changing: frozenset[str]) -> bool:
    """Whether ``e`` is made of integers and variables that do not change, without memory or calls."""
    if isinstance(e, Var):
        return not e.dtype.is_float and e.name not in changing
    if isinstance(e, Const):
        return not e.dtype.is_float
    return isinstance(e, (Binary, Unary, Cast, Compare, Select)) and all(
        _is_arithmetic(c, changing) for c in children(e) if isinstance(c, Expr)
    )
