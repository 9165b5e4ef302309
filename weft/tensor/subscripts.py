"""Subscripts as range inference reads them: the accesses of a statement, and what the tests before each say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.ir.buffer import Buffer
from weft.ir.expr import Cast, Expr, Load, Var, idx
from weft.ir.inequality import all_of
from weft.ir.span import Span
from weft.ir.visit import Node, free_vars, walk
from weft.tensor.boundary import Outside
from weft.tensor.conditions import Alternatives, alternatives
from weft.tensor.facts import Facts
from weft.tensor.guarded_loads import guarded_loads
from weft.tensor.polynomial import Polynomial, atom
from weft.tensor.ranges import Ranges, mentions

#: The ends of a tensor that a read may go beyond: whether it is the greatest position.
ENDS = (True, False)


@dataclass(frozen=True, slots=True)
class Access:
    """A subscripted tensor, read or written, that says something about the ranges of its variables."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)
    #: it is made only where these hold
    guards: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Subscript:
    """One dimension of an access, in which ``var`` alone is of unknown range."""

    var: Var
    access: Access
    dimension: int
    index: Polynomial
    size: Polynomial

    @property
    def is_plain(self) -> bool:
        return self.index == atom(self.var)

    @property
    def is_tested(self) -> bool:
        """Whether the read is made only where a test of the variable holds that says how far it goes.

        Tests of remainders and of data say nothing of that.
        """
        atoms = {a for case in self.cases() for p in case for a in p.atoms() if mentions(a, self.var.name)}
        return any(not isinstance(a, (Load, Cast)) and getattr(a, "op", "") not in ("%", "tmod") for a in atoms)

    def cases(self) -> Alternatives:
        """What the tests before the read say, as inequalities; nothing where they do not mention the variable."""
        guards = self.access.guards
        about = any(mentions(g, self.var.name) for g in guards)
        return alternatives(all_of(guards), None) if about else []

    def is_kept_inside(self, greatest: bool, case: Sequence[Polynomial], ranges: Ranges) -> bool:
        """Whether a case of the tests excludes every point at which the read is beyond that end of its tensor."""
        beyond = self.index - self.size if greatest else -self.index - 1
        return Facts(ranges).refutes([beyond, *case])

    def tests_hold(self, ranges: Ranges) -> bool:
        """Whether the tests hold everywhere."""
        return all(map(Facts(ranges).refutes, alternatives(all_of(self.access.guards), None, negate=True)))


def accesses_of(node: Node) -> Iterator[Access]:
    """Every read with the tests before it, except of those whose outside is defined."""
    for read in guarded_loads(node):
        yield Access(read.load.buffer, read.load.indices, read.load.span, read.guards)


def plain_accesses_of(node: Node) -> Iterator[Access]:
    """The loads whose outside is defined, with only those subscripts that are a variable alone.

    ``A(n, i-1)`` with zeros outside leaves ``i`` open, but ``n`` is most likely meant to run over ``A``.
    """
    for n in walk(node):
        if isinstance(n, Outside):
            indices = tuple(i if isinstance(i, Var) else idx(0) for i in n.load.indices)
            yield Access(n.load.buffer, indices, n.load.span)


def subscripts_of(unknown: Mapping[str, Var], accesses: Sequence[Access]) -> Iterator[Subscript]:
    """The subscripts that one unknown variable alone decides."""
    for access in accesses:
        for dimension, (index, size) in enumerate(zip(access.indices, access.buffer.shape)):
            names = [n for n in free_vars(index) if n in unknown]
            if len(names) == 1 and not _is_looked_up(names[0], index):
                yield Subscript(unknown[names[0]], access, dimension, Polynomial.of(index), Polynomial.of(size))


def _is_looked_up(name: str, index: Expr) -> bool:
    """Whether data alone say what a variable has to do with a subscript."""
    around = [a for a in Polynomial.of(index).atoms() if mentions(a, name)]
    return all(isinstance(a.operand if isinstance(a, Cast) else a, Load) for a in around)


def by_variable(subscripts: Iterable[Subscript]) -> dict[str, list[Subscript]]:
    groups: dict[str, list[Subscript]] = {}
    for subscript in subscripts:
        groups.setdefault(subscript.var.name, []).append(subscript)
    return groups
