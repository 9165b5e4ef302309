"""Whether linear equations and inequalities have an integer solution, and one of them: the Omega test.

>>> solve([{"x": 2, "y": -1}], [{"x": 1, "": -3}])            # 2x = y, x >= 3
{'x': 3, 'y': 6}

A `Form` is a sum of multiples of variables; the key ``""`` holds the constant. Equations are removed by
unimodular changes of variables, inequalities by Fourier-Motzkin elimination, exact wherever a coefficient is 1;
elsewhere the dark shadow and splinters decide. Values near zero are preferred, so that points read well.
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

Form: TypeAlias = dict[str, int]
Point: TypeAlias = dict[str, int]
#: One of several lists of (form, is an equation) must hold.
Literal: TypeAlias = tuple[Form, bool]
Clause: TypeAlias = Sequence[Sequence[Literal]]


class Unknown(enum.Enum):
    """The answer of a solver that gave up."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN
Answer: TypeAlias = "Point | Unknown | None"


class _Contradiction(Exception):
    """An equation or inequality without variables that does not hold."""


class _OutOfBudgetError(Exception):
    pass


def combine(a: Form, b: Form, times: int = 1) -> Form:
    """``a + times * b``."""
    total = dict(a)
    _add(total, b, times)
    return total


def _add(total: Form, b: Form, times: int) -> None:
    for name, c in b.items():
        c = total.get(name, 0) + c * times
        if c:
            total[name] = c
        else:
            total.pop(name, None)


def variables(form: Form) -> list[str]:
    """The names in ``form``, that of the constant aside."""
    return [name for name in form if name]


def evaluate(form: Form, point: Point) -> int:
    """The value of ``form``; variables that the point does not mention count as 0."""
    return sum(c * (point.get(name, 0) if name else 1) for name, c in form.items())


class Elimination:
    """Equations turned into replacements of variables, in the order they apply."""

    def __init__(self, replaced: Iterable[tuple[str, Form]] = (), fresh: Iterator[int] | None = None) -> None:
        self.replaced = list(replaced)
        self.fresh = itertools.count() if fresh is None else fresh

    def add(self, equation: Form) -> bool:
        """Takes ``equation = 0`` into account; False where it cannot hold."""
        form = self.reduce(equation)
        while True:
            constant, divisor, name, least = form.get("", 0), 0, "", 0
            for n, c in form.items():
                if n:
                    divisor = math.gcd(divisor, c)
                    if not name or abs(c) < least:
                        name, least = n, abs(c)
            if not name:
                return constant == 0
            if constant % divisor:
                return False
            if divisor > 1:
                form = {n: c // divisor for n, c in form.items()}
            if least == divisor:
                sign = -form[name]
                self.replaced.append((name, {n: c * sign for n, c in form.items() if n != name}))
                return True
            form = self._shrink(form, name)

    def _shrink(self, form: Form, name: str) -> Form:
        """A change of variable that leaves remainders modulo the least coefficient as the others."""
        factor = form[name]
        fresh = f"~{next(self.fresh)}"
        change = {n: -(c // factor) for n, c in form.items() if n != name and c // factor}
        change[fresh] = 1
        self.replaced.append((name, change))
        left = {n: c % factor for n, c in form.items() if n != name and c % factor}
        left[fresh] = factor
        return left

    def reduce(self, form: Form) -> Form:
        """``form`` without the variables that were replaced."""
        left: Form | None = None  # a copy, where there is one to replace
        for name, by in self.replaced:
            times = (form if left is None else left).get(name)
            if times is not None:
                left = dict(form) if left is None else left
                del left[name]
                _add(left, by, times)
        return form if left is None else left

    def complete(self, point: Point) -> Point:
        """``point`` with the values of the replaced variables."""
        for name, by in reversed(self.replaced):
            point[name] = evaluate(by, point)
        return point


def solve(
    equations: Iterable[Form], inequalities: Iterable[Form], clauses: Sequence[Clause] = (), budget: int = 4000
) -> Answer:
    """A point where equations are 0, inequalities >= 0 and of each clause one alternative holds; None if none is.

    Which of two variables that are as cheap is eliminated first can decide between a few steps and thousands, so a
    search that comes to no end is begun again from the other side.
    """
    given = list(equations), list(inequalities), list(clauses)
    question = _question(*given)
    if question in _without_answer:
        return None
    answer: Answer = UNKNOWN
    for share, is_turned in ((4, False), (4, True), (1, False)):
        answer = _Search(budget // share, is_turned).run(*given)
        if answer is not UNKNOWN:
            break
    if answer is None:
        if len(_without_answer) >= _MOST_KEPT:
            _without_answer.clear()
        _without_answer.add(question)
    return answer


#: The last questions found to have no answer, whatever their variables are called: nests of one program are much alike.
_without_answer: set[object] = set()
_MOST_KEPT = 256


def _question(equations: list[Form], inequalities: list[Form], clauses: list[Clause]) -> object:
    """The same for questions that differ in the names of variables alone, which are numbered as they come."""
    numbers = {"": 0}

    def numbered(form: Form) -> tuple[tuple[int, int], ...]:
        return tuple([(numbers.setdefault(n, len(numbers)), c) for n, c in form.items()])

    choices = [[[(numbered(form), holds) for form, holds in part] for part in clause] for clause in clauses]
    return (
        tuple(map(numbered, equations)),
        tuple(map(numbered, inequalities)),
        tuple([tuple(map(tuple, clause)) for clause in choices]),
    )


#: Of so many inequalities that one elimination makes, one is new, as a rule: making the others takes time as well.
_ALIKE = 16


class _Search:
    """One question; ``budget`` counts the inequalities it may still make; of variables that are as cheap the first is
    eliminated first where it ``is_turned``."""

    def __init__(self, budget: int, is_turned: bool = False) -> None:
        self.budget, self.is_turned = budget, is_turned
        self.fresh = itertools.count()

    def run(self, equations: list[Form], inequalities: list[Form], clauses: list[Clause]) -> Answer:
        try:
            return self.branch(Elimination(), equations, inequalities, clauses)
        except (_OutOfBudgetError, RecursionError):
            return UNKNOWN

    def branch(
        self, start: Elimination, equations: list[Form], inequalities: list[Form], clauses: list[Clause]
    ) -> Point | None:
        """Solves without the clauses, then forces the first one that the point found violates."""
        elimination = Elimination(start.replaced, self.fresh)
        if not all(map(elimination.add, equations)):
            return None
        point = self.components([elimination.reduce(f) for f in inequalities])
        if point is None:
            return None
        point = elimination.complete(point)
        broken = next((c for c in clauses if not any(holds(a, point) for a in c)), None)
        if broken is None:
            return point
        rest = [c for c in clauses if c is not broken]
        for alternative in broken:
            self.pay(1)
            equal = [f for f, is_equation in alternative if is_equation]
            more = [f for f, is_equation in alternative if not is_equation]
            solution = self.branch(elimination, equal, inequalities + more, rest)
            if solution is not None:
                return solution
        return None

    def pay(self, cost: int) -> None:
        self.budget -= cost
        if self.budget < 0:
            raise _OutOfBudgetError

    def components(self, forms: Sequence[Form]) -> Point | None:
        """Solves inequalities without common variables apart from each other, in the order given."""
        point: Point = {}
        for group in _components(forms):
            solution = self.inequalities(group)
            if solution is None:
                return None
            point.update(solution)
        return point

    def with_equation(self, equation: Form, inequalities: Sequence[Form]) -> Point | None:
        elimination = Elimination((), self.fresh)
        if not elimination.add(equation):
            return None
        point = self.inequalities([elimination.reduce(f) for f in inequalities])
        return None if point is None else elimination.complete(point)

    def inequalities(self, forms: Sequence[Form]) -> Point | None:
        try:
            tight, equation = _tighten(forms)
        except _Contradiction:
            return None
        self.pay(len(tight))
        if equation is not None:
            return self.with_equation(equation, tight)
        if not tight:
            return {}
        name, exact = _choose(tight, self.is_turned)
        lower = [f for f in tight if f.get(name, 0) > 0]
        upper = [f for f in tight if f.get(name, 0) < 0]
        rest = [f for f in tight if name not in f]
        if not lower or not upper:
            return _extend(self.inequalities(rest), name, lower, upper)
        self.pay(len(lower) * len(upper) // _ALIKE)
        point = self.inequalities([*rest, *_shadow(name, lower, upper, dark=False)])
        if point is None:
            return None
        full = _extend(point, name, lower, upper)
        if full is not None or exact:
            return full
        point = self.inequalities([*rest, *_shadow(name, lower, upper, dark=True)])
        if point is not None:
            return _extend(point, name, lower, upper)
        return self.splinters(name, lower, upper, tight)

    def splinters(self, name: str, lower: list[Form], upper: list[Form], tight: list[Form]) -> Point | None:
        """What lies outside the dark shadow is close above some lower bound."""
        most = max(-f[name] for f in upper)
        for bound in lower:
            for step in range((most * bound[name] - most - bound[name]) // most + 1):
                self.pay(1)
                point = self.with_equation(combine(bound, {"": -step}), tight)
                if point is not None:
                    return point
        return None


def _components(forms: Iterable[Form]) -> list[list[Form]]:
    """Groups of forms that share variables with no other group; those without variables are one."""
    groups: dict[str, list[Form]] = {}
    constant: list[Form] = []
    for form in forms:
        names = [n for n in form if n]
        if not names:
            constant.append(form)
            continue
        target = groups.setdefault(names[0], [])
        target.append(form)
        for name in names[1:]:
            other = groups.get(name)
            if other is None:
                groups[name] = target
            elif other is not target:
                target += other
                for key, group in groups.items():
                    if group is other:
                        groups[key] = target
    distinct = {id(group): group for group in groups.values()}
    return [constant, *distinct.values()] if constant else list(distinct.values())


def holds(literals: Iterable[Literal], point: Point) -> bool:
    """Whether ``point`` satisfies all ``literals``."""
    return all((v := evaluate(f, point)) == 0 or (v > 0 and not is_equation) for f, is_equation in literals)


def _tighten(forms: Iterable[Form]) -> tuple[list[Form], Form | None]:
    """The strongest inequality of each direction, and an equation where two opposite ones meet."""
    best: dict[tuple[tuple[str, int], ...], int] = {}
    for form in forms:
        constant = form.get("", 0)
        terms = [(n, c) for n, c in form.items() if n]
        if not terms:
            if constant < 0:
                raise _Contradiction
            continue
        divisor = math.gcd(*(c for _, c in terms))
        if divisor > 1:
            terms, constant = [(n, c // divisor) for n, c in terms], constant // divisor
        key = tuple(sorted(terms))
        if key not in best or constant < best[key]:
            best[key] = constant
    equation = None
    for key, constant in best.items():
        other = best.get(tuple((n, -c) for n, c in key))
        if other is not None and constant + other <= 0:
            if constant + other < 0:
                raise _Contradiction
            equation = {**dict(key), "": constant}
    return [{**dict(key), "": constant} for key, constant in best.items()], equation


def _choose(forms: Sequence[Form], is_turned: bool) -> tuple[str, bool]:
    """The variable that is cheapest to eliminate, exactly where possible, and whether it is exact."""
    counts: dict[str, list[int]] = {}
    for form in forms:
        for name, c in form.items():
            if name:
                seen = counts.get(name)
                if seen is None:
                    seen = counts[name] = [0, 0, 1, 1]
                if c > 0:
                    seen[0] += 1
                    seen[2] = max(seen[2], c)
                else:
                    seen[1] += 1
                    seen[3] = max(seen[3], -c)

    def cost(name: str) -> tuple[bool, int]:
        below, above, low, high = counts[name]
        inexact = below > 0 and above > 0 and low > 1 and high > 1
        return inexact, below * above - below - above

    # Witnesses read best where the names that sort first (outer loops as they were given) are chosen last.
    name = min(counts if is_turned else reversed(counts), key=cost)
    return name, not cost(name)[0]


def _shadow(name: str, lower: Sequence[Form], upper: Sequence[Form], *, dark: bool) -> list[Form]:
    made = []
    for low in lower:
        for high in upper:
            a, b = low[name], -high[name]
            form = combine({n: c * b for n, c in low.items()}, high, a)
            made.append(combine(form, {"": -(a - 1) * (b - 1)}) if dark else form)
    return made


def _extend(point: Point | None, name: str, lower: Sequence[Form], upper: Sequence[Form]) -> Point | None:
    """``point`` with a value for ``name`` between its bounds, as near to 0 as they allow; None where none fits."""
    if point is None:
        return None
    point.pop(name, None)
    least = max((-(evaluate(f, point) // f[name]) for f in lower), default=None)
    most = min((evaluate(f, point) // -f[name] for f in upper), default=None)
    if least is not None and most is not None and least > most:
        return None
    value = 0 if least is None else max(least, 0)
    point[name] = value if most is None else min(value, most)
    return point
