"""Expressions and conditions of a statement as linear forms, and the constraints that make them so.

Quotients and remainders by constants, minima, maxima and selects become auxiliary variables with the constraints
that define them. What is not linear (a loaded subscript, ``i * n``) becomes an `Opaque` variable that may have any
value; the same expression of the same values is the same variable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.evaluated import Test
from weft.ir.expr import Binary, Broadcast, Cast, Compare, Const, Expr, Load, Ramp, Select, Unary, Var
from weft.ir.inequality import cases, conjuncts
from weft.ir.interval import bounds
from weft.ir.printer import print_expr
from weft.ir.solve import Clause, Form, Literal, combine
from weft.ir.visit import free_vars, walk
from weft.poly.leaves import Access, Leaf

LANE = "lane"


@dataclass(frozen=True, slots=True)
class Opaque:
    """A value nothing is known of but what it depends on; a product of variables names its ``factors``."""

    depends: frozenset[str]
    buffers: frozenset[str] = frozenset()
    factors: tuple[str, ...] = ()
    #: Whether two readings in one iteration may differ: a let variable that is assigned.
    changes: bool = False


@dataclass(slots=True)
class Domain:
    """Constraints under which a statement runs, over its loops, sizes and auxiliary variables."""

    equations: list[Form] = field(default_factory=list)
    inequalities: list[Form] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)
    opaque: dict[str, Opaque] = field(default_factory=dict)
    #: Auxiliary variables: the same in two statements only by chance.
    made: set[str] = field(default_factory=set)
    #: Some condition could not be expressed: the domain is larger than the truth.
    is_exact: bool = True
    #: Sizes that are at least 1 wherever the statement runs.
    positive: set[str] = field(default_factory=set)

    def forms(self) -> Iterator[Form]:
        """Every linear form in a constraint."""
        yield from self.equations
        yield from self.inequalities
        for clause in self.clauses:
            for alternative in clause:
                yield from (form for form, _ in alternative)

    #: How many of the inequalities, the first ones, are bounds of loops.
    bounds: int = 0


@dataclass(slots=True)
class Touch:
    """An access in linear form: its subscripts (owning loops first) and what holds where it happens."""

    access: Access
    indices: list[Form]
    domain: Domain
    #: How many of ``indices`` are owning loops.
    owners: int

    @property
    def buffer(self) -> Buffer:
        return self.access.buffer

    @property
    def reads(self) -> bool:
        return self.access.reads

    @property
    def writes(self) -> bool:
        return self.access.writes

    @property
    def subscripts(self) -> list[Form]:
        return self.indices[self.owners :]

    def step(self, loop: str) -> int | None:
        """Elements from one iteration of ``loop`` to the next; None where rows, or more, lie between."""
        *rows, last = self.indices or [{}]
        return None if any(form.get(loop) for form in rows) else last.get(loop, 0)


def leaf_domain(leaf: Leaf) -> Domain:
    """Where ``leaf`` runs: the bounds of its loops and the tests around it (kept with the leaf)."""
    kept = leaf.domain_cache
    if not isinstance(kept, Domain):
        kept = Domain()
        reader = Reader(leaf, kept, "")
        for loop in leaf.loops:
            reader.bound(loop.name, loop.lo, loop.hi)
        kept.bounds = len(kept.inequalities)
        if leaf.sizes:
            reader.find_positive(leaf)
        for test in leaf.tests:
            reader.require(test)
        if leaf.tests and leaf.sizes:
            reader.find_positive(leaf)
        leaf.domain_cache = kept
    return kept


def touch_of(leaf: Leaf, access: Access) -> Touch:
    """``access`` of ``leaf`` in linear form (kept with the leaf)."""
    kept = leaf.touch_cache.get(id(access))
    if kept is None:  # with the access itself, or another one could be made in its place
        kept = leaf.touch_cache[id(access)] = access, _read_touch(leaf, access)
    touch = kept[1]
    assert isinstance(touch, Touch)
    return touch


def _read_touch(leaf: Leaf, access: Access) -> Touch:
    domain = Domain()
    reader = Reader(leaf, domain, "@")  # keeps its auxiliary variables apart from those of the statement
    if leaf.sizes:
        domain.positive = leaf_domain(leaf).positive
    for axis in access.axes:
        reader.local(axis.var.name)
        reader.bound(axis.var.name, axis.lo, axis.hi)
    for test in access.tests:
        reader.require(test)
    indices: list[Form] = [{name: 1} for name in access.owners]
    indices += [reader.form(e) for e in access.indices]
    return Touch(access, indices, domain, len(access.owners))


class Reader:
    """Turns expressions of one leaf into forms, adding what defines them to ``domain``."""

    def __init__(self, leaf: Leaf, domain: Domain, tag: str) -> None:
        self.values = leaf.values
        self.lets = leaf.lets
        self.resolve: Callable[[Expr], Expr] = leaf.resolve
        self.domain = domain
        self.tag = tag
        self.known: dict[Any, str] = {}

    def local(self, name: str) -> None:
        """``name`` is a variable of this access alone."""
        self.domain.made.add(name)

    def fresh(self, base: str) -> str:
        name = f"{base}{self.tag}{len(self.domain.made)}"
        self.domain.made.add(name)
        return name

    # Conditions

    def bound(self, name: str, lo: Expr, hi: Expr | None) -> None:
        """``lo <= name < hi``."""
        if isinstance(lo, Const) and isinstance(hi, Const) and hi.value > 1:  # as below, at once: most loops
            first = int(lo.value)
            self.domain.inequalities += [
                {name: 1, "": -first} if first else {name: 1},
                {"": int(hi.value) - 1, name: -1},
            ]
            return
        var = Var(name)
        self.require(Test(Compare("<=", lo, var)))
        if hi is not None:
            self.require(Test(Compare("<", var, hi)))

    def find_positive(self, leaf: Leaf) -> None:
        """Sizes that cannot be 0 here: ``f < M*N`` for an ``f`` that is not negative needs both."""
        loops = {loop.name for loop in leaf.loops if isinstance(loop.lo, Const) and loop.lo.value >= 0}
        found: set[str] = set()
        for form in self.domain.inequalities:
            above = [n for n, c in form.items() if n and c > 0]
            below = [n for n, c in form.items() if n and c < 0]
            is_exact = all(n in loops or n in leaf.sizes for n in below)
            if len(above) == 1 and form.get("", 0) < 0 and is_exact and leaf.sizes.issuperset(self.factors(above[0])):
                found.update(self.factors(above[0]))
        self.domain.inequalities += [{name: 1, "": -1} for name in sorted(found - self.domain.positive)]
        self.domain.positive |= found

    def require(self, test: Test) -> None:
        for part in conjuncts(test.condition, test.holds):
            self.add(cases(part, True, self.cases_of))

    def add(self, clauses: list[list[Literal]]) -> None:
        """One of ``clauses`` holds."""
        if len(clauses) == 1:
            for form, is_equation in clauses[0]:
                (self.domain.equations if is_equation else self.domain.inequalities).append(form)
        else:
            self.domain.clauses.append(clauses)

    def cases_of(self, e: Expr, holds: bool) -> list[list[Literal]]:
        """What a comparison says; of other conditions nothing is known."""
        if not isinstance(e, Compare) or e.left.dtype != dt.index:
            self.domain.is_exact = False
            return [[]]
        # A loop to min(a, b) is below both: no auxiliary variable, no case distinction.
        parts = conjuncts(e, holds)
        return self.comparison(parts[0]) if len(parts) == 1 else [[x for p in parts for x in self.cases_of(p, True)[0]]]

    def comparison(self, e: Expr) -> list[list[Literal]]:
        assert isinstance(e, Compare)
        left, right = (e.right, e.left) if e.op in (">", ">=") else (e.left, e.right)
        gap = combine(self.form(right), self.form(left), -1)
        if e.op in ("<=", ">="):
            return [[(gap, False)]]
        if e.op == "==":
            return [[(gap, True)]]
        beyond = (combine(gap, {"": -1}), False)
        if e.op in ("<", ">"):
            return [[beyond]]
        return [[beyond], [(combine({n: -c for n, c in gap.items()}, {"": -1}), False)]]

    # Values

    def form(self, e: Expr) -> Form:
        if isinstance(e, Const):
            value = int(e.value)
            return {"": value} if value else {}
        if isinstance(e, Var):
            value_of = self.values.get(e.name)
            if value_of is not None:
                return self.form(value_of)
            return {e.name: 1} if e.type == dt.index and e.name not in self.lets else self.opaque(e)
        rule = _RULES.get(type(e))
        found = None if rule is None else rule(self, e)
        return self.opaque(e) if found is None else found

    def unary(self, e: Unary) -> Form | None:
        return {n: -c for n, c in self.form(e.operand).items()} if e.op == "-" and e.dtype.scalar == dt.index else None

    def binary(self, e: Binary) -> Form | None:
        if e.dtype.scalar != dt.index:
            return None
        if e.op in ("+", "-"):
            return combine(self.form(e.left), self.form(e.right), 1 if e.op == "+" else -1)
        if e.op == "*":
            return self.product(self.form(e.left), self.form(e.right))
        if e.op in ("//", "%", "tdiv", "tmod"):
            return self.division(e)
        if e.op in ("min", "max"):
            return self.extreme(e)
        return None

    def product(self, left: Form, right: Form) -> Form:
        total: Form = {}
        for a, c in left.items():
            for b, d in right.items():
                names = sorted((*self.factors(a), *self.factors(b)))
                total = combine(total, {self.monomial(names): c * d})
        return total

    def factors(self, name: str) -> tuple[str, ...]:
        if not name:
            return ()
        kept = self.domain.opaque.get(name)
        return kept.factors if kept is not None and kept.factors else (name,)

    def monomial(self, names: list[str]) -> str:
        if len(names) < 2:
            return names[0] if names else ""
        name = "*".join(names)
        self.domain.opaque[name] = Opaque(frozenset(names), factors=tuple(names))
        return name

    def division(self, e: Binary) -> Form | None:
        by = self.form(e.right)
        divisor = by.get("", 0)
        if set(by) - {""} or divisor <= 0:
            return self.symbolic_division(e, by)
        n = self.form(e.left)
        if not set(n) - {""} and n.get("", 0) >= 0:
            value = n.get("", 0) // divisor if e.op in ("//", "tdiv") else n.get("", 0) % divisor
            return {"": value} if value else {}
        key = (frozenset(n.items()), divisor, e.op in ("tdiv", "tmod"))
        quotient = self.known.get(key)
        if quotient is None:
            quotient = self.known[key] = self.fresh("q")
            # For truncation the remainder has the sign of the numerator.
            rest = combine(n, {quotient: 1}, -divisor)
            inside: list[Literal] = [(rest, False), (combine({"": divisor - 1}, rest, -1), False)]
            if e.op in ("//", "%"):
                self.domain.inequalities += [form for form, _ in inside]
            else:
                negative = {m: -c for m, c in n.items()}
                above = [(n, False), *inside]
                below: list[Literal] = [(negative, False), ({m: -c for m, c in rest.items()}, False)]
                self.domain.clauses.append([above, [*below, (combine({"": divisor - 1}, rest), False)]])
        return {quotient: 1} if e.op in ("//", "tdiv") else combine(n, {quotient: 1}, -divisor)

    def symbolic_division(self, e: Binary, by: Form) -> Form | None:
        """By a size known to be positive: the numerator is size * quotient + remainder."""
        size = next((n for n, c in by.items() if c == 1 and n in self.domain.positive), None)
        if size is None or len(by) > 1 or e.op not in ("//", "%"):
            return None
        n = self.form(e.left)
        key = (frozenset(n.items()), size)
        quotient = self.known.get(key)
        if quotient is None:
            quotient = self.known[key] = self.fresh("q")
            rest = combine(n, self.product({size: 1}, {quotient: 1}), -1)
            self.domain.inequalities += [rest, combine({size: 1, "": -1}, rest, -1)]
        return {quotient: 1} if e.op == "//" else combine(n, self.product({size: 1}, {quotient: 1}), -1)

    def extreme(self, e: Binary) -> Form:
        left, right = self.form(e.left), self.form(e.right)
        key = (e.op, frozenset((frozenset(left.items()), frozenset(right.items()))))
        name = self.known.get(key)
        if name is None:
            name = self.known[key] = self.fresh(e.op)
            # m <= a and m <= b for a minimum, and one of them reached.
            gaps = [combine({name: -1}, side) for side in (left, right)]
            if e.op == "max":
                gaps = [{n: -c for n, c in gap.items()} for gap in gaps]
            self.domain.inequalities += gaps
            self.domain.clauses.append([[(gap, True)] for gap in gaps])
        return {name: 1}

    def select(self, e: Select) -> Form | None:
        if e.dtype != dt.index:
            return None
        yes, no = (cases(e.condition, holds, self.cases_of) for holds in (True, False))
        name = self.fresh("s")
        then, otherwise = combine(self.form(e.then), {name: -1}), combine(self.form(e.otherwise), {name: -1})
        self.domain.clauses.append([[*a, (then, True)] for a in yes] + [[*a, (otherwise, True)] for a in no])
        return {name: 1}

    def cast(self, e: Cast) -> Form | None:
        """Widening to an index keeps the value; of narrower arithmetic only plain variables are followed."""
        source = e.operand.dtype
        if e.dtype != dt.index or not isinstance(e.operand, Cast) or e.operand.operand.dtype != dt.index:
            return None
        inner = e.operand.operand
        interval = bounds(inner, {})
        fits = source.is_integer and interval.within(source.min_value, source.max_value)
        return self.form(inner) if fits else None

    def ramp(self, e: Ramp) -> Form | None:
        stride = self.form(e.stride)
        if set(stride) - {""} or e.dtype.scalar != dt.index:
            return None
        if LANE not in self.domain.made:
            self.local(LANE)
            self.domain.inequalities += [{LANE: 1}, {LANE: -1, "": e.lanes - 1}]
        return combine(self.form(e.base), {LANE: stride.get("", 0)} if stride else {})

    def opaque(self, e: Expr) -> Form:
        e = self.resolve(e)
        names = free_vars(e)
        buffers = frozenset(n.buffer.name for n in walk(e) if isinstance(n, Load))
        depends, changes = set(names), e.dtype.lanes > 1
        for name in names:
            if name in self.lets:
                loops, assigned = self.lets[name]
                depends.update(loops)
                changes = changes or assigned
        name = f"({print_expr(e)})"
        self.domain.opaque[name] = Opaque(frozenset(depends), buffers, changes=changes)
        return {name: 1}


_RULES: Mapping[type, Callable[[Reader, Any], Form | None]] = {
    Unary: Reader.unary,
    Binary: Reader.binary,
    Select: Reader.select,
    Cast: Reader.cast,
    Ramp: Reader.ramp,
    Broadcast: lambda reader, e: reader.form(e.value),
}
