"""Whether two sums are one polynomial: by their normal forms, and by isl where these differ in spelling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from weft.algebra.canonical import Key, Normal, Region, difference, modulo, normal_form
from weft.algebra.functions import SETS, Functions
from weft.algebra.linear import Linear, Literal, UndecidedError, is_size, names_of
from weft.algebra.rules import times
from weft.algebra.terms import Read, Sum, restricted
from weft.algebra.weights import Weight
from weft.poly.isl_oracle import ask_worker, is_absent

#: Divisors that are multiplied out, one after another.
MOST_DIVISORS = 4


@dataclass(frozen=True, slots=True)
class Point:
    """Where two sums differ: sizes, the output index, what is read there, and the two weights."""

    sizes: dict[str, int]
    index: tuple[int, ...]
    reads: tuple[tuple[str, tuple[int, ...]], ...]
    weights: tuple[Fraction, Fraction]


@dataclass
class Comparison:
    """Compares sums over the free names, where the literals of ``context`` (about sizes) hold."""

    functions: Functions
    context: tuple[Literal, ...] = ()
    modulus: int | None = None
    seconds: float = 2.0
    aliases: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def differ(self, left: Sum, right: Sum, free: tuple[str, ...], depth: int = 0) -> Point | None:
        """None where the sums are equal, else a point where their polynomials (in reads) are not."""
        divisors = 0
        while True:
            left, right = self.renamed(left), self.renamed(right)
            a, b = normal_form(left), normal_form(right)
            self.count("terms", len(a) + len(b))
            rest = modulo(difference(a, b), self.modulus)
            self.count("alike", len(a.keys() & b.keys()))
            if self.merge(rest, a, b, depth):
                continue
            point = self.settle(rest, a, b, free)
            if point is None:
                return None
            divisor = self.divisor((*left, *right))
            if divisor is None or divisors == MOST_DIVISORS:
                return point
            divisors += 1
            left, right = (self.multiplied(s, divisor) for s in (left, right))

    def renamed(self, terms: Sum) -> Sum:
        if not self.aliases:
            return terms
        return tuple(replace(t, reads=tuple(Read(self.name(r.name), r.subscripts) for r in t.reads)) for t in terms)

    def name(self, name: str) -> str:
        if name.startswith("1/"):
            return f"1/{self.name(name[2:])}"
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def merge(self, rest: Normal, a: Normal, b: Normal, depth: int) -> bool:
        """Templates of one function that only one side has, made one where their arguments are equal."""
        mine, other = (
            {name.removeprefix("1/") for key, region in rest if (key, region) in side for name, _ in key}
            for side in (a, b)
        )
        for first in sorted(mine - other):
            for second in sorted(other - mine):
                if self.is_same(first, second, depth):
                    self.aliases[second] = first
                    self.count("functions")
                    return True
        return False

    def is_same(self, first: str, second: str, depth: int) -> bool:
        a, b = self.functions.templates.get(first), self.functions.templates.get(second)
        if a is None or b is None or depth > 4 or (a.function, a.slots) != (b.function, b.slots):
            return False
        if a.arguments is None or b.arguments is None or len(a.arguments) != len(b.arguments):
            return False
        free = tuple(f"?{n}" for n in range(a.slots))
        if a.function in SETS:
            return all(self.is_same_set(x, y, free) for x, y in zip(a.arguments, b.arguments))
        return all(self.differ(x, y, free, depth + 1) is None for x, y in zip(a.arguments, b.arguments))

    def is_same_set(self, left: Sum, right: Sum, free: tuple[str, ...]) -> bool:
        a, b = normal_form(self.renamed(left)), normal_form(self.renamed(right))
        if a.keys() == b.keys():
            return True
        for key in sorted({k for k, _ in (*a, *b)}):
            sides = [[r for k, r in side if k == key] for side in (a, b)]
            question = _Question(key, free, [r for side in sides for r in side], self.context)
            if question.ask_sets(sides[0], sides[1], self.seconds) is not None:
                return False
        self.count("isl")
        return True

    def settle(self, rest: Normal, a: Normal, b: Normal, free: tuple[str, ...]) -> Point | None:
        """Asks isl about what is spelled differently, tensors by tensors."""
        for key in dict.fromkeys(k for k, _ in rest):
            regions = {r: w for (k, r), w in rest.items() if k == key}
            question = _Question(key, free, list(regions), self.context)
            point = question.ask(regions, self.modulus, self.seconds)
            self.count("isl")
            if point is not None:
                weights = tuple(
                    question.weigh({r: w for (k, r), w in side.items() if k == key}, point, self.seconds)
                    for side in (a, b)
                )
                return question.point(point, (weights[0], weights[1]))
        return None

    def divisor(self, terms: Sum) -> Read | None:
        """An inverse that a product has at all of its points, to multiply both sides by."""
        for t in terms:
            own = {*t.bound, *(q.name for q in t.quotients)}
            for r in t.reads:
                if r.name.startswith("1/") and names_of(r.subscripts).isdisjoint(own):
                    return r
        return None

    def multiplied(self, terms: Sum, divisor: Read) -> Sum:
        self.functions.note("a / q = b / r  where  a * r = b * q", "finite")
        under = Read(divisor.name[2:], divisor.subscripts)
        whole = self.functions.arguments(under) if under.name.startswith("sum:") else None
        from weft.algebra.terms import Term

        factor: Sum = whole[0] if whole is not None else (Term(reads=(under,)),)
        found: list[Any] = []
        for t in terms:
            if divisor in t.reads:
                reads = list(t.reads)
                reads.remove(divisor)
                found.append(replace(t, reads=tuple(reads)))
            else:
                found += times(self.functions, (t,), factor)
        return tuple(found)


class _Question:
    """Sets over one list of reads, told to isl."""

    def __init__(
        self, key: Key, free: tuple[str, ...], regions: Iterable[Region], context: tuple[Literal, ...]
    ) -> None:
        self.key, self.free, self.context = key, free, context
        rank = sum(n for _, n in key)
        self.coordinates = [*free, *(f"#{n}" for n in range(rank))]
        forms = [f for region in regions for f, _ in region] + [f for f, _ in context]
        self.sizes = sorted(n for n in names_of(forms) if is_size(n))
        self.names = {n: f"x{k}" for k, n in enumerate(self.coordinates)}
        self.names |= {n: f"p{k}" for k, n in enumerate(self.sizes)}

    def set_text(self, region: Region, weight: str = "") -> str:
        hidden = sorted({n for f, _ in region for n, _ in f if n[:1] == "~"})
        names = self.names | {n: f"e{k}" for k, n in enumerate(hidden)}
        tests = [f"{_form_text(f, names)} {'=' if e else '>='} 0" for f, e in (*sorted(region), *self.context)]
        tests += [f"p{k} >= 0" for k in range(len(self.sizes))]
        inside = " and ".join(tests) or "0 = 0"
        if hidden:
            inside = f"exists ({', '.join(names[n] for n in hidden)} : {inside})"
        point = f"[{', '.join(self.names[n] for n in self.coordinates)}]"
        return f"{self.parameters()} -> {{ {point}{f' -> {weight}' if weight else ''} : {inside} }}"

    def parameters(self) -> str:
        return f"[{', '.join(self.names[n] for n in self.sizes)}]"

    def weighted(self, regions: dict[Region, Weight]) -> list[str]:
        return [self.set_text(r, self.weight_text(w)) for r, w in regions.items()]

    def weight_text(self, weight: Weight) -> str:
        if any(n not in self.names for m in weight for n in m):
            raise UndecidedError("a weight depends on a quotient")
        monomials = [
            " * ".join([f"({c.numerator}/{c.denominator})", *(self.names[n] for n in m)]) for m, c in weight.items()
        ]
        return f"({' + '.join(monomials)})"

    def ask(self, regions: dict[Region, Weight], modulus: int | None, seconds: float) -> dict[str, list[int]] | None:
        names = {n for w in regions.values() for m in w for n in m if is_size(n)} - set(self.sizes)
        for name in sorted(names):
            self.names[name] = f"p{len(self.sizes)}"
            self.sizes.append(name)
        return _answer({"weights": self.weighted(regions), "modulus": modulus}, seconds)

    def ask_sets(self, left: list[Region], right: list[Region], seconds: float) -> dict[str, list[int]] | None:
        point = f"[{', '.join(self.names[n] for n in self.coordinates)}]"
        sides = {"left": [self.set_text(r) for r in left], "weights": [self.set_text(r) for r in right]}
        return _answer({**sides, "as_sets": True, "empty": f"{self.parameters()} -> {{ {point} : 0 = 1 }}"}, seconds)

    def weigh(self, regions: dict[Region, Weight], point: dict[str, list[int]], seconds: float) -> Fraction:
        if not regions:
            return Fraction(0)
        tests = [f"x{k} = {v}" for k, v in enumerate(point["at"])] + [
            f"p{k} = {v}" for k, v in enumerate(point["sizes"])
        ]
        place = f"[{', '.join(self.names[n] for n in self.coordinates)}]"
        at = f"{self.parameters()} -> {{ {place} : {' and '.join(tests) or '0 = 0'} }}"
        reply = ask_worker({"weights": self.weighted(regions), "point": at}, seconds)
        if not isinstance(reply, dict):
            raise _late()
        return Fraction(reply["weight"])

    def point(self, found: dict[str, list[int]], weights: tuple[Fraction, Fraction]) -> Point:
        at = iter(found["at"])
        index = tuple(next(at) for _ in self.free)
        reads = tuple((name, tuple(next(at) for _ in range(rank))) for name, rank in self.key)
        return Point(dict(zip(self.sizes, found["sizes"])), index, reads, weights)


def _answer(question: dict[str, Any], seconds: float) -> dict[str, list[int]] | None:
    reply = ask_worker(question, seconds)
    if not isinstance(reply, dict):
        raise _late()
    point: dict[str, list[int]] | None = reply["point"]
    return point


def _late() -> UndecidedError:
    if is_absent():
        return UndecidedError("the sets are spelled differently, and islpy, which decides that, is not installed")
    return UndecidedError("isl gave no answer in time")


def _form_text(form: Linear, names: dict[str, str]) -> str:
    return " + ".join(f"{c}*{names[n]}" if n else str(c) for n, c in form) or "0"


def with_domain(terms: Sum, domain: Iterable[Literal]) -> Sum:
    return restricted(terms, domain)
