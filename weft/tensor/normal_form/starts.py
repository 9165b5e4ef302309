"""Initializations apart, merged with what they start.

=================================  ============================================  =====
before                             after                                         class
=================================  ============================================  =====
``T = 0.0``, then ``T += e``       ``T +=! e``                                   exact
``T += e`` of a temporary          ``T +=! e``                                   exact
``T = b(n)``, then ``T += e``      ``U +=! e``, then ``T = U + b(n)``             fast
``D(y) = 0.0``, ``D(y+1) = I(y)``  ``D(y) = 0 <= y-1 && y-1 < N ? I(y-1) : 0.0``  exact
=================================  ============================================  =====
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir.buffer import Buffer
from weft.ir.dtype import float32
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Select, Var, cast, const, identity
from weft.ir.inequality import all_of
from weft.ir.visit import free_vars, fresh_name
from weft.tensor.normal_form.axes import put_value
from weft.tensor.normal_form.statements import is_whole, reads, writers
from weft.tensor.normalize import widen
from weft.tensor.polynomial import Polynomial, canonical
from weft.tensor.program import Statement


def merge_starts(
    statements: list[Statement], temporaries: set[str], carried: set[str], taken: set[str], fast: bool
) -> list[Statement]:
    """``carried`` are tensors whose values before the call count; no new temporary is called as one in ``taken``."""
    count, done = writers(statements), list[Statement]()
    for s in statements:
        first = [p for p in done if p.target == s.target]
        if s.target.name in reads(s) or any(s.target.name in reads(p) for p in done):
            done.append(s)
        elif not first and _adds(s) and s.target.name in temporaries and count[s.target.name] == 1:
            done.append(replace(s, initialize=True))
        elif len(first) == 1 and count[s.target.name] == 2 and _is_start(first[0]):
            later = carried | {p.target.name for p in done[done.index(first[0]) + 1 :]}
            merged = None if later & reads(first[0]) else _merged(first[0], s, taken, fast)
            done = [p for p in done if p is not first[0] or merged is None]
            done += [s] if merged is None else merged
        else:
            done.append(s)
    return done


def _adds(s: Statement) -> bool:
    return s.op != "=" and not s.initialize and is_whole(s)


def _is_start(s: Statement) -> bool:
    return s.op == "=" and not s.reduce_axes and is_whole(s)


def _merged(start: Statement, s: Statement, taken: set[str], fast: bool) -> list[Statement] | None:
    """The two as they are in the normal form; None leaves them."""
    begins = cast(s.target.dtype, start.value)
    if _adds(s) and isinstance(begins, Const) and _same(begins, identity(s.op, s.target.dtype)):
        return [replace(s, initialize=True)]
    if _adds(s) and fast and s.op in ("+", "*") and s.target.dtype.is_float:
        return _with_start(start, s, begins, taken)
    if s.op == "=" and isinstance(begins, Const) and len(s.axes) == s.target.rank:
        return _framed(start, s, begins)
    return None


def _with_start(start: Statement, s: Statement, begins: Expr, taken: set[str]) -> list[Statement]:
    t = float32 if s.target.dtype.is_narrow_float else s.target.dtype
    own = Buffer(fresh_name(f"{s.target.name}_sum", taken), t, s.target.shape)
    total = Load(own, start.indices, span=s.span)
    both = Binary("+" if s.op == "+" else "*", total, cast(t, begins))
    value = widen(s.value) if s.target.dtype.is_narrow_float else s.value
    return [
        replace(s, target=own, value=value, initialize=True),
        replace(start, value=cast(s.target.dtype, both), span=s.span),
    ]


def _same(a: Const, b: Const) -> bool:
    return repr(const(a.value, b.dtype).value) == repr(b.value)


def _framed(start: Statement, s: Statement, fill: Const) -> list[Statement] | None:
    """A part put into a tensor of one value: at each element of the whole, the part's or the value."""
    at: dict[Var, Expr] = {}
    tests: list[Expr] = []
    own = {a.var: a for a in s.axes}
    for index, place in zip(s.indices, start.indices):
        form = Polynomial.of(index)
        axes = [v for v in own if v.name in free_vars(index)]
        if len(axes) != 1 or axes[0] in at or (form - Polynomial.of(axes[0])).as_int is None:
            return None
        axis = axes[0]
        at[axis] = inner = canonical(place - (form - Polynomial.of(axis)).expr())
        tests += [Compare(">=", inner, own[axis].lo), Compare("<", inner, own[axis].hi)]
    if any(v.name in {*free_vars(a.lo), *free_vars(a.hi)} for v in own for a in s.axes) or len(at) != len(own):
        return None
    value = Select(all_of(tests), cast(s.target.dtype, put_value(s.value, at)), fill)
    return [replace(start, value=value, span=s.span)]
