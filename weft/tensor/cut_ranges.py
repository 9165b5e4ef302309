"""Variables that end where the shorter of two tensors does, by sizes of which nothing says that they are equal."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import combinations

from weft.ir.expr import Compare, CompareOp, Var
from weft.ir.remark import Remark
from weft.ir.visit import free_vars
from weft.tensor.polynomial import Polynomial, constant
from weft.tensor.program import Doubt
from weft.tensor.subscripts import Access
from weft.tensor.text import describe, describe_access


def find_cuts(var: Var, ends: Sequence[tuple[Access, Polynomial]], variables: Container[str]) -> Iterator[Doubt]:
    """What to say where the reads that bind ``var``, each with where it would end, go by sizes of different names.

    Told where elements of one that ``var`` steps through are not read. A read that moves with other ``variables`` too
    may well go on: of windows, the last position is not the last tap.
    """
    first: dict[Polynomial, Access] = {}
    for access, end in ends:
        first.setdefault(end, access)
    for (end, access), (its_end, other) in combinations(first.items(), 2):
        loses = _steps_through(var, access, variables), _steps_through(var, other, variables)
        is_diagonal = access.buffer == other.buffer and access.indices == other.indices
        if any(loses) and not is_diagonal and _names(its_end) != _names(end):
            op: CompareOp = "!=" if all(loses) else ">" if loses[0] else "<"
            condition = Compare(op, end.expr(), its_end.expr())
            yield Doubt(condition, _remark(var, (access, other), (end, its_end)))


def _steps_through(var: Var, access: Access, variables: Container[str]) -> bool:
    """Whether a subscript moves by one as ``var`` does, and with no other of ``variables``: all that is beyond the end
    of ``var`` is not read."""
    alone = [i for i in access.indices if {n for n in free_vars(i) if n in variables} == {var.name}]
    return any(Polynomial.of(i).coefficient(var) in (constant(1), constant(-1)) for i in alone)


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
        f"they end at {first} and {second}; what is beyond is left out",
        f"where they must be equal, give both sizes one name; else say `where {name} in 0:min({first}, {second})`",
    )
