"""Whether two accesses can meet: touch one element in two iterations that are related as asked.

Such a pair is a dependence, the iterations its witness.

>>> meeting = Meeting(leaf, access, leaf, access, Surroundings(shared=frozenset("mn")))
>>> meeting.find([after("k")])                  # the second iteration has a greater k
Witness(first={'m': 0, 'n': 0, 'k': 0}, second={'m': 0, 'n': 0, 'k': 1}, element='C[0, 0]')

Variables of the second iteration carry a prime: ``k'``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from weft.ir.numerics import is_fast
from weft.ir.solve import UNKNOWN, Clause, Elimination, Form, Point, Unknown, combine, evaluate, holds, solve
from weft.poly.domain import Domain, leaf_domain, touch_of
from weft.poly.gaps import Gaps
from weft.poly.leaves import Access, Leaf
from weft.poly.places import place_of
from weft.poly.products import Products
from weft.poly.verdict import Witness

Found: TypeAlias = "Witness | Unknown | None"


def primed(name: str) -> str:
    return name + "'"


def after(name: str) -> Form:
    """The second iteration has a greater ``name`` than the first."""
    return {primed(name): 1, name: -1, "": -1}


def before(name: str) -> Form:
    """The second iteration has a smaller ``name`` than the first."""
    return {name: 1, primed(name): -1, "": -1}


def difference(name: str) -> Form:
    return {primed(name): 1, name: -1}


@dataclass(frozen=True)
class Surroundings:
    """What two iterations have in common: equal ``shared`` loops; ``written`` buffers may change in between."""

    shared: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    #: Symbolic sizes of buffers: never negative.
    sizes: frozenset[str] = frozenset()


def written_by(touching: Iterable[Leaf]) -> frozenset[str]:
    return frozenset(a.buffer.name for leaf in touching for a in leaf.accesses if a.writes)


def commute(a: Access, b: Access, numerics: str, *, concurrent: bool) -> bool:
    """Whether the order of two updates of one element does not matter; ``concurrent`` ones must be atomic too."""
    if a.update is None or a.update != b.update or (concurrent and not (a.atomic and b.atomic)):
        return False
    return is_fast(numerics) or (a.is_exact and b.is_exact)


@dataclass
class Memory:
    """What the questions of one check have in common."""

    #: Questions about subscripts and loop bounds alone, and whether nothing answers them.
    empty: dict[object, bool] = field(default_factory=dict)


@dataclass
class Meeting:
    """Two accesses to one buffer, the subscripts set equal."""

    first: Leaf
    a: Access
    second: Leaf
    b: Access
    around: Surroundings
    memory: Memory = field(default_factory=Memory)

    def __post_init__(self) -> None:
        self.left, self.right = touch_of(self.first, self.a), touch_of(self.second, self.b)
        self.marked = set(self.second.loop_names) - self.around.shared
        self.names: dict[str, str] = {}
        self.products = Products()
        own = self.left.domain
        for domain in (own,) if self.first.is_box else (leaf_domain(self.first), own):
            for opaque in domain.opaque.values():
                self.products.name(opaque.factors)
        self.equations = [combine(x, self.prime(y), -1) for x, y in zip(self.left.indices, self.right.indices)]
        if self.products.factors:
            self.equations = self._without_products(self.equations)

    @property
    def is_of_one(self) -> bool:
        """Whether both sides are one access of one statement: copies of a statement share accesses, not leaves."""
        return self.a is self.b and self.first is self.second

    @cached_property
    def never(self) -> bool:
        """Whether no element is common whatever the iterations."""
        return self._eliminated[0]

    @property
    def elimination(self) -> Elimination:
        return self._eliminated[1]

    @cached_property
    def _eliminated(self) -> tuple[bool, Elimination]:
        elimination = Elimination()
        return not all(map(elimination.add, self.equations)), elimination

    def _without_products(self, equations: list[Form]) -> list[Form]:
        """The equations with products resolved as far as it goes, a few rounds of it."""
        for _ in range(4):
            elimination = Elimination()
            plain = [f for f in equations if not self.products.occur_in(f)]
            if not all(map(elimination.add, plain)):
                return equations
            known = [self.products.rewrite(f, elimination) for f in equations]
            resolved = [e for f in known for e in self.products.separate(f, self._is_below)]
            if resolved == equations:
                break
            equations = resolved
        return equations

    def _is_below(self, rest: Form, size: str) -> bool:
        """Whether ``rest`` lies between ``-size`` and ``size`` wherever both statements run."""
        for sign in (1, -1):
            equations, inequalities, clauses = self._constraints()
            too_large = combine({n: c * sign for n, c in rest.items()}, {size: -1})
            if solve(equations, [too_large, *inequalities], clauses) is not None:
                return False
        return True

    def distance(self, name: str) -> Form:
        """How far the second iteration is ahead in loop ``name``, as far as equal subscripts tell."""
        return self.elimination.reduce(difference(name))

    def find(self, order: Sequence[Form], equal: Sequence[str] = ()) -> Found:
        """Iterations that meet and satisfy ``order`` (each >= 0), with equal values of the loops ``equal``."""
        if self.never or self._is_impossible(order, equal) or self.is_excluded(order, equal):
            return None
        if self.gaps_in_memory is not None and self.gaps_in_memory.exclude(order, equal):
            return None
        more, inequalities, clauses = self._constraints()
        equations = [*self.equations, *map(difference, equal), *more]
        inequalities = [*order, *inequalities]
        if self.products.factors:
            inequalities = [self.products.rewrite(f, self.elimination) for f in inequalities]
        point = solve(equations, inequalities, clauses)
        if point is UNKNOWN:
            from weft.poly.isl_oracle import ask_isl

            point = ask_isl(equations, inequalities, clauses)
        return point if point is None or isinstance(point, Unknown) else self._witness(point)

    def _constraints(self) -> tuple[list[Form], list[Form], list[Clause]]:
        """Where both statements run."""
        equations: list[Form] = []
        inequalities: list[Form] = [{size: 1} for size in self.around.sizes]
        clauses: list[Clause] = []
        for domain, second in self._domains():
            equations += map(self.prime, domain.equations) if second else domain.equations
            inequalities += map(self.prime, domain.inequalities) if second else domain.inequalities
            for clause in domain.clauses:
                clauses.append([[(self.prime(f), e) for f, e in a] for a in clause] if second else clause)
        return equations, inequalities, clauses

    def must_agree(self, name: str) -> bool:
        """Whether iterations that meet surely have equal values of loop ``name``."""
        return self.quickly_agree(name) or all(self.is_excluded([order(name)]) for order in (after, before))

    def quickly_agree(self, name: str) -> bool:
        """The same, as far as subscripts and ranges tell of all loops at once."""
        return name in self.settled or self.never or not self.distance(name)

    @cached_property
    def settled(self) -> frozenset[str]:
        """Loops that have equal values in iterations that meet, by narrowing what subscripts leave of their gaps."""
        return frozenset() if self.left.domain.made or self.right.domain.made else self.gaps.settled

    def is_excluded(self, order: Sequence[Form], equal: Sequence[str] = ()) -> bool:
        """Whether subscripts and loop bounds alone, tests aside, keep iterations in ``order`` from meeting.

        Statements of one nest often share both, so the answer is kept; between equal subscripts it also
        holds for the opposite order.
        """
        if self.left.domain.made or self.right.domain.made:
            return False
        subject = (id(self.first.loops), id(self.second.loops), tuple(map(_key, self.equations)), tuple(equal))
        question = (subject, tuple(map(_key, order)))
        kept = self.memory.empty.get(question)
        if kept is None:
            kept = self._exclude(order, equal)
            self.memory.empty[question] = kept
            if self.first.loops is self.second.loops and self.left.indices == self.right.indices:
                opposite = ({n: -c if n else c for n, c in form.items()} for form in order)
                self.memory.empty[subject, tuple(map(_key, opposite))] = kept
        return kept

    def _exclude(self, order: Sequence[Form], equal: Sequence[str]) -> bool:
        gaps = self.gaps
        if gaps.exclude(order, equal):
            return True
        # What no equation speaks of, and its range allows, needs the tests of both statements to be excluded.
        asked = {n for form in order for n in form if n and n in self.marked}
        return bool(asked) and gaps.mention(asked) and self._solve_bounds(order, equal)

    @cached_property
    def gaps(self) -> Gaps:
        """How far the two iterations may be apart, as far as ranges of loops tell."""
        return Gaps(self.equations, self.first.ranges, self.second.ranges, {n: primed(n) for n in self.marked})

    @cached_property
    def gaps_in_memory(self) -> Gaps | None:
        """The same by places in memory, where subscripts are quotients and remainders: what they take apart of a fused
        loop is often together there. None where it is not."""
        if not (self.left.domain.made or self.right.domain.made):
            return None
        here, there = (place_of(leaf, access) for leaf, access in ((self.first, self.a), (self.second, self.b)))
        if here is None or there is None:
            return None
        there = {primed(n) if n in self.marked else n: c for n, c in there.items()}
        names = {n: primed(n) for n in self.marked}
        return Gaps([combine(here, there, -1)], self.first.ranges, self.second.ranges, names)

    def _solve_bounds(self, order: Sequence[Form], equal: Sequence[str]) -> bool:
        inequalities = list(order)
        for domain, second in ((leaf_domain(self.first), False), (leaf_domain(self.second), True)):
            bounds = domain.inequalities[: domain.bounds]
            inequalities += map(self.prime, bounds) if second else bounds
        return solve([*self.equations, *map(difference, equal)], inequalities) is None

    def _is_impossible(self, order: Sequence[Form], equal: Sequence[str]) -> bool:
        """The cheap half of the question: equal subscripts alone against the order."""
        elimination = self.elimination
        if equal:
            elimination = Elimination(elimination.replaced, elimination.fresh)
            if not all(elimination.add(difference(name)) for name in equal):
                return True
        for form in order:
            left = elimination.reduce(form)
            if left.get("", 0) < 0 and len(left) == 1:
                return True
        return False

    def _domains(self) -> list[tuple[Domain, bool]]:
        return [
            (leaf_domain(self.first), False),
            (self.left.domain, False),
            (leaf_domain(self.second), True),
            (self.right.domain, True),
        ]

    def prime(self, form: Form) -> Form:
        """``form`` about the second iteration."""
        names = self.names
        result: Form = {}
        for name, c in form.items():
            new = names.get(name)
            if new is None:
                new = names[name] = self._primed(name)
            result[new] = result.get(new, 0) + c
        return result

    def _primed(self, name: str) -> str:
        if name in self.marked:
            return primed(name)
        own = self.right.domain
        for domain in (own,) if self.second.is_box else (leaf_domain(self.second), own):
            if name in domain.made:
                return primed(name)
            opaque = domain.opaque.get(name)
            if opaque is None:
                continue
            if opaque.factors:
                return self.products.name(map(self._primed, opaque.factors))
            changes = opaque.changes or opaque.buffers & self.around.written
            depends = any(self._primed(n) != n for n in opaque.depends if n != name)
            return primed(name) if changes or depends else name
        return name

    def _sizes_used(self) -> list[str]:
        """The symbolic sizes that decide where the statements run and what they touch."""
        names: set[str] = set()
        for domain, _ in self._domains():
            for form in domain.forms():
                names.update(form)
        for index in (*self.left.indices, *self.right.indices):
            names.update(index)
        names.update(*(self.products.factors.get(n, ()) for n in tuple(names)))
        return sorted(self.around.sizes & names)

    def _confirm(self, point: Point) -> bool:
        """Whether the point still is one when products have the values that their factors say."""
        self.products.fill(point)
        equations, inequalities, clauses = self._constraints()
        meet = [combine(x, self.prime(y), -1) for x, y in zip(self.left.indices, self.right.indices)]
        every = [*clauses, *([[(f, True)]] for f in (*equations, *meet)), *([[(f, False)]] for f in inequalities)]
        return all(any(holds(alternative, point) for alternative in clause) for clause in every)

    def _witness(self, point: Point) -> Witness:
        domains = [d for d, _ in self._domains()]
        is_exact = all(d.is_exact and all(o.factors for o in d.opaque.values()) for d in domains)
        certain = is_exact and (not self.products.factors or self._confirm(point))
        first = {n: point.get(n, 0) for n in self.first.loop_names}
        second = {n: point.get(primed(n) if n in self.marked else n, 0) for n in self.second.loop_names}
        indices = [evaluate(f, point) for f in self.left.indices[self.left.owners :]]
        name = self.a.buffer.name
        element = f"{name}[{', '.join(map(str, indices))}]" if indices else name
        sizes = {n: point.get(n, 0) for n in self._sizes_used()}
        return Witness(first, second, element if certain else f"one element of `{name}`", sizes, certain)


def _key(form: Form) -> frozenset[tuple[str, int]]:
    return frozenset(form.items())


Pair: TypeAlias = tuple[Leaf, Access, Leaf, Access]


def find_conflict(
    candidates: Iterable[Pair], around: Surroundings, orders: Callable[[Meeting], Iterable[Sequence[Form]]]
) -> tuple[Witness | Unknown, Meeting] | None:
    """The first pair that meets in one of the ``orders`` asked of it; one that surely does where there is one."""
    memory = Memory()
    doubt: tuple[Witness | Unknown, Meeting] | None = None
    for first, a, second, b in candidates:
        meeting = Meeting(first, a, second, b, around, memory)
        for order in orders(meeting):
            conflict = meeting.find(order)
            if conflict is None:
                continue
            if isinstance(conflict, Witness) and conflict.certain:
                return conflict, meeting
            doubt = doubt or (conflict, meeting)
    return doubt


def pairs(touching: Sequence[Leaf], others: Sequence[Leaf] | None = None) -> list[Pair]:
    """Accesses to one buffer of which one writes; updates of one element first, since they explain best.

    Of ``touching`` alone each pair comes once, in program order; with ``others`` the second is one of those.
    """
    result = []
    for place, leaf in enumerate(touching):
        for other in touching[place:] if others is None else others:
            for i, a in enumerate(leaf.accesses):
                for b in leaf.accesses[i:] if other is leaf else other.accesses:
                    if (a.writes or b.writes) and a.buffer.name == b.buffer.name:
                        result.append((leaf, a, other, b))
    result.sort(key=lambda p: 3 - (p[1].writes and p[3].writes) - (p[1].update is not None and p[3].update is not None))
    return result
