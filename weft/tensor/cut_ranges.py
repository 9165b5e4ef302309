"""Variables that end where the shorter of two tensors does, by sizes of which nothing says that they are equal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from weft.ir.expr import Binary, Var
from weft.ir.remark import Remark
from weft.ir.visit import free_vars
from weft.tensor.polynomial import Polynomial, constant
from weft.tensor.subscripts import Access
from weft.tensor.text import describe, describe_access


def find_cut(var: Var, ends: Sequence[tuple[Access, Polynomial]]) -> Remark | None:
    """What to say where the reads that bind ``var``, each with where it would end, go by sizes of different names."""
    steps = [e for e in ends if _is_a_step(var, e[0]) and not any(isinstance(a, Binary) for a in e[1].atoms())]
    for (access, end), (other, its_end) in combinations(steps, 2):
        if _names(its_end) != _names(end):
            return _remark(var, (access, other), (end, its_end))
    return None


def _is_a_step(var: Var, access: Access) -> bool:
    """Whether a subscript moves by one as ``var`` does: of `A(2*i)` and `A(i/2)`, sizes have names of their own."""
    return any(Polynomial.of(i).coefficient(var) in (constant(1), constant(-1)) for i in access.indices)


def _names(end: Polynomial) -> frozenset[str]:
    return frozenset(name for a in end.atoms() for name in free_vars(a))


def _remark(var: Var, pair: tuple[Access, Access], ends: tuple[Polynomial, Polynomial]) -> Remark:
    name = var.name
    a, b = (f"`{describe_access(access.buffer.name, access.indices)}`" for access in pair)
    first, second = (describe(e.expr()) for e in ends)
    return Remark(
        "cut-range",
        f"`{name}` ends where the shorter of {a} and {b} does",
        pair[1].span or pair[0].span,
        f"they end at {first} and {second}, which may differ; what is beyond is left out",
        f"where they must be equal, give both sizes one name; else say `where {name} in 0:min({first}, {second})`",
    )
