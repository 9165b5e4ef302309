"""One of two values, as a condition tells: of numbers, addresses and records."""

from __future__ import annotations

from weft.from_cuda import arithmetic as ar
from weft.from_cuda.context import Context, negate
from weft.from_cuda.memory import flat
from weft.from_cuda.unit import Node
from weft.from_cuda.values import ZERO, Address, Nothing, Number, Struct, Target, Value
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Const, Expr, Select, idx


def choose(c: Context, n: Node, test: Expr, then: Value, otherwise: Value) -> Value:
    """``test ? then : otherwise``."""
    match then, otherwise:
        case Number(), Number():
            return ar.select(test, then, otherwise, c.ranges)
        case Address(), Address():
            return _choose_address(c, test, then, otherwise)
        case Struct(), Struct():
            fields = {k: choose(c, n, test, v, otherwise.fields[k]) for k, v in then.fields.items()}
            return Struct(then.type, fields)
        case Nothing(), Nothing():
            return then
    return c.refuse(n, "a choice between two things of this kind")


def _choose_address(c: Context, test: Expr, then: Address, otherwise: Address) -> Address:
    is_set = _is_either_set(c, test, then, otherwise)
    if then.is_null or otherwise.is_null:
        found = otherwise if then.is_null else then
        return Address(found.to, found.targets, found.which, is_set)
    if len(then.targets) == 1 and len(otherwise.targets) == 1:
        a, b = (flat(c, x.targets[0]) for x in (then, otherwise))
        if a.memory is b.memory and a.unit == b.unit and a.extra == b.extra:
            one = Target(a.memory, Select(test, a.offset, b.offset), a.unit, a.extra)
            return Address(then.to, (one,), None, is_set)
    which = Select(test, then.which or ZERO, ar.fold(Binary("+", otherwise.which or ZERO, idx(len(then.targets)))))
    targets = tuple(flat(c, t) for t in (*then.targets, *otherwise.targets))
    return Address(then.to, targets, c.keep("which", which), is_set)


def _is_either_set(c: Context, test: Expr, then: Address, otherwise: Address) -> Expr | None:
    """Whether the one of two addresses that is taken is not null."""
    if then.is_null and otherwise.is_null:
        return None
    if then.is_null or otherwise.is_null:
        taken = negate(test) if then.is_null else test
        other = (otherwise if then.is_null else then).is_set
        return c.keep("is_set", taken if other is None else Binary("&&", taken, other))
    if then.is_set is None and otherwise.is_set is None:
        return None
    sure = Const(True, dt.bool_)
    return c.keep("is_set", Select(test, then.is_set or sure, otherwise.is_set or sure))
