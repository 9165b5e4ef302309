"""`check_equal`: whether two tensor programs compute the same, as a `Equality` that says why.

>>> check_equal(f, g).answer          # True: proved; False: they differ, at `witness`; None: not decided, see `reason`
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from weft.algebra.compare import Comparison, Point, with_domain
from weft.algebra.formulas import Formulas, Tensor
from weft.algebra.functions import Functions
from weft.algebra.interfaces import ApartError, Interfaces
from weft.algebra.linear import UndecidedError, variable
from weft.algebra.terms import Sum, within
from weft.algebra.witness import Seen, confirm
from weft.tensor.program import TensorProgram

#: exact: bit for bit. fast: sums in another order, products distributed. finite: where nothing is infinite or NaN.
Numerics = Literal["exact", "fast", "finite"]


@dataclass(frozen=True, slots=True)
class Witness:
    """An element of an output that differs, for sizes; how often a product is in the sum of each side; values seen."""

    output: str
    index: tuple[int, ...]
    sizes: Mapping[str, int]
    product: str
    weights: tuple[Fraction, Fraction]
    values: tuple[Any, Any] | None
    #: where the values were seen, if that is elsewhere
    seen: Seen | None = None

    def __str__(self) -> str:
        place = f"{self.output}({', '.join(map(str, self.index))})"
        given = ", ".join(f"{n} = {v}" for n, v in self.sizes.items())
        first, second = self.weights
        told = f"{place}{' with ' + given if given else ''}: {self.product} counts {first} and {second} times"
        if self.values is None:
            return told
        where = "" if self.seen is None else f" at {self.output}({', '.join(map(str, self.seen.index))})"
        return f"{told}; on arrays{where}, {self.values[0]:.6g} and {self.values[1]:.6g}"


@dataclass(frozen=True, slots=True)
class Equality:
    """The answer of `check_equal`; true where the programs are proved equal."""

    answer: bool | None
    steps: tuple[str, ...] = ()
    numerics: Numerics | None = None
    witness: Witness | None = None
    reason: str | None = None
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return self.answer is True

    def __str__(self) -> str:
        if self.answer is None:
            return f"not decided: {self.reason}"
        if not self.answer:
            return f"not equal: {self.witness or self.reason}"
        return "\n".join(
            [f"equal ({self.numerics}), proved in {self.seconds * 1e3:.1f} ms", *(f"  {s}" for s in self.steps)]
        )

    __repr__ = __str__


def check_equal(
    first: TensorProgram, second: TensorProgram, *, sizes: Mapping[str, int] | None = None, seconds: float = 2.0
) -> Equality:
    """Whether two programs give the same for all inputs and sizes; ``sizes`` fixes some of the first one's."""
    start = time.perf_counter()
    try:
        found = _Proof(Interfaces(first, second, sizes or {}).match(), seconds).run()
    except ApartError as e:
        found = Equality(False, reason=str(e))
    except UndecidedError as e:
        found = Equality(None, reason=str(e))
    except RecursionError:
        found = Equality(None, reason="the formula is nested too deep")
    return Equality(found.answer, found.steps, found.numerics, found.witness, found.reason, time.perf_counter() - start)


class _Proof:
    def __init__(self, interfaces: Interfaces, seconds: float) -> None:
        self.interfaces, self.seconds = interfaces, seconds
        self.functions = Functions()

    def run(self) -> Equality:
        pair = self.interfaces
        mine = Formulas(self.functions, pair.sizes[0]).read_program(pair.first)
        other = Formulas(self.functions, pair.sizes[1], pair.inputs).read_program(pair.second)
        steps: list[str] = []
        exact = True
        for number, (a, b) in enumerate(zip(pair.first.outputs, pair.second.outputs)):
            sides = self.sides(number, mine[a.name], other[b.name])
            wraps = 1 << a.dtype.bits if a.dtype.is_integer else None
            comparison = Comparison(self.functions, tuple(pair.context), wraps, self.seconds)
            free = tuple(f"${n}" for n in range(a.rank))
            point = comparison.differ(*sides, free)
            if point is not None:
                return self.refused(number, point, sides)
            if a.dtype.is_float and any(map(_may_cancel, sides)):
                self.functions.note("x - x = 0", "finite")
            exact = exact and (a.dtype.is_integer or all(map(self.is_moved, sides)))
            steps += _told(a.name, sides, comparison)
        steps += self.functions.used
        integers = all(b.dtype.is_integer for b in pair.first.outputs)
        finite = "finite" in self.functions.used.values()
        exact = exact and (integers or not self.functions.used)
        return Equality(True, tuple(steps), "exact" if exact else "finite" if finite else "fast")

    def sides(self, number: int, a: Tensor, b: Tensor) -> tuple[Sum, Sum]:
        subscripts = tuple(variable(f"${n}") for n in range(self.interfaces.first.outputs[number].rank))
        domain = [w for s, size in zip(subscripts, self.interfaces.shape_of(number)) for w in within(s[0][0], (), size)]
        left, right = (with_domain(t.at(subscripts), domain) for t in (a, b))
        return left, right

    def is_moved(self, terms: Sum) -> bool:
        """Whether every element is one read, as it is, of an input."""
        return all(
            len(t.reads) == 1 and t.weight == 1 and not t.bound and t.reads[0].name not in self.functions.templates
            for t in terms
        )

    def refused(self, number: int, point: Point, sides: tuple[Sum, Sum]) -> Equality:
        output = self.interfaces.first.outputs[number].name
        seen = confirm(self.interfaces, number, point.index, point.sizes)
        inputs = {p.name for p in self.interfaces.first.params}
        opaque = any(r.name not in inputs for side in sides for t in side for r in t.reads)
        product = (
            " * ".join(f"{self.told(name)}({', '.join(map(str, at))})" for name, at in point.reads) or "the constant 1"
        )
        witness = Witness(output, point.index, point.sizes, product, point.weights, None)
        if seen is not None:
            where = None if seen.index == point.index and seen.sizes.items() >= point.sizes.items() else seen
            witness = replace(witness, values=seen.values, seen=where)
        if seen is None and opaque:
            return Equality(None, reason=f"the forms differ, at {witness}, and no arrays show that the values do")
        return Equality(False, witness=witness)

    def told(self, name: str) -> str:
        return name.split(":")[0]


def _may_cancel(terms: Sum) -> bool:
    """Whether products of the same tensors are added and subtracted."""
    signs: dict[tuple[str, ...], set[bool]] = {}
    for t in terms:
        signs.setdefault(tuple(sorted(r.name for r in t.reads)), set()).add(t.weight > 0)
    return any(len(s) > 1 for s in signs.values())


def _told(output: str, sides: tuple[Sum, Sum], comparison: Comparison) -> list[str]:
    counts = comparison.counts
    steps = [f"{output}: {len(sides[0])} and {len(sides[1])} products, as weighted sets of what they read"]
    if counts.get("alike"):
        steps.append(f"{output}: {counts['alike']} sets are spelled alike")
    if counts.get("functions"):
        steps.append(f"{output}: {counts['functions']} functions are one, as their arguments are equal")
    if counts.get("isl"):
        steps.append(f"{output}: isl finds the rest equal, in {counts['isl']} comparisons")
    return steps
