"""Opaque functions: two instances are one where the normal forms of their arguments are.

An instance is the read of a tensor that nobody stored: its name is the template, the normal form of the arguments with
outer indices as slots; its subscripts are what stands in the slots. What is known of some functions (`rules`) is
applied before that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import factorial, prod
from typing import TypeAlias

from weft.algebra.canonical import Key, Normal, Region, normal_form
from weft.algebra.cells import cells
from weft.algebra.linear import Linear, add, fresh, linear, put, scale, variable
from weft.algebra.terms import Read, Sum, Term, read, restricted
from weft.algebra.weights import Weight

Entry: TypeAlias = tuple[int, Key, Region, tuple[tuple[tuple[str, ...], Fraction], ...]]


@dataclass(frozen=True, slots=True)
class Template:
    """A function and its arguments as sums over slots ``?0``, ``?1``, …; None where their weights are no numbers."""

    function: str
    slots: int
    arguments: tuple[Sum, ...] | None


@dataclass
class Functions:
    """The templates of one comparison, and the steps that rules were used for."""

    templates: dict[str, Template] = field(default_factory=dict)
    names: dict[tuple[object, ...], str] = field(default_factory=dict)
    used: dict[str, str] = field(default_factory=dict)

    def note(self, rule: str, numerics: str) -> None:
        self.used.setdefault(rule, numerics)

    def instance(self, function: str, args: Sequence[Sum]) -> Sum:
        """``function(args)``, in cases where tests of outer indices decide what the arguments are."""
        found: list[Term] = []
        for where, quotients, settled in cells(args):
            used = tuple(q for q in quotients)
            found += restricted(self.opaque(function, settled), where, used)
        return tuple(found)

    def opaque(self, function: str, args: Sequence[Sum]) -> Sum:
        """The read of the template of ``args``, which hold no tests of outer indices."""
        forms = [_as_set(normal_form(a)) if function in SETS else normal_form(a) for a in args]
        entries, slots = _slotted(forms)
        key = (function, len(args), entries)
        name = self.names.get(key)
        if name is None:
            name = self.names[key] = f"{function}:{len(self.names)}"
            arguments = _arguments(entries, len(args))
            self.templates[name] = Template(function, len(slots), arguments)
        return read(name, slots)

    def arguments(self, r: Read) -> tuple[Sum, ...] | None:
        """What an instance of a function was applied to."""
        template = self.templates.get(r.name)
        if template is None or template.arguments is None:
            return None
        by = {f"?{n}": s for n, s in enumerate(r.subscripts)}
        return tuple(tuple(t.renamed().put(by).solved() for t in a) for a in template.arguments)


#: Functions of sets: how often a member is in does not matter.
SETS = ("max",)


def _as_set(form: Normal) -> Normal:
    return {key: {(): Fraction(1)} for key in form}


def _is_outer(name: str) -> bool:
    return name[:1] in ("$", "%", "?")


def _slotted(forms: Sequence[Normal]) -> tuple[tuple[Entry, ...], list[Linear]]:
    """The normal forms with slots in the place of outer indices, and what is in the slots."""
    flat = [(n, key, region, weight) for n, form in enumerate(forms) for (key, region), weight in form.items()]
    flat.sort(key=lambda e: (e[0], e[1], sorted(_blank(f, q) for f, q in e[2]), sorted(e[3].items())))
    slots: list[Linear] = []
    entries: list[Entry] = []
    for n, key, region, weight in flat:
        literals = sorted(region, key=lambda w: (not w[1], _blank(*w)))
        slotted = frozenset((_with_slot(f, slots), q) for f, q in literals)
        entries.append((n, key, slotted, _weight_with_slots(weight, slots)))
    return tuple(sorted(entries, key=lambda e: (e[0], e[1], sorted(e[2]), e[3]))), slots


def _blank(form: Linear, is_equation: bool) -> tuple[object, ...]:
    outer = any(_is_outer(n) for n, _ in form)
    return (is_equation, tuple((n, c) for n, c in form if not _is_outer(n) and (n or not outer)), outer)


def _with_slot(form: Linear, slots: list[Linear]) -> Linear:
    """The form with one slot for its part that is about outer indices, sizes and the constant included."""
    part = {n: c for n, c in form if _is_outer(n)}
    if not part:
        return form
    inner = [(n, c) for n, c in form if n[:1] in ("#", "~")]
    sign = -1 if not inner or inner[0][1] > 0 else 1
    whole = scale(linear({n: c for n, c in form if n[:1] not in ("#", "~")}), sign)
    for n, slot in enumerate(slots):
        rest = add(whole, slot, -1)
        if not any(_is_outer(name) for name, _ in rest):
            return add(linear({**dict(inner), f"?{n}": sign}), rest, sign)
    slots.append(whole)
    return linear({**dict(inner), f"?{len(slots) - 1}": sign})


def _weight_with_slots(weight: Weight, slots: list[Linear]) -> tuple[tuple[tuple[str, ...], Fraction], ...]:
    names: dict[str, str] = {}
    for name in sorted({n for m in weight for n in m if _is_outer(n)}):
        form = variable(name)
        if form not in slots:
            slots.append(form)
        names[name] = f"?{slots.index(form)}"
    return tuple(sorted((tuple(sorted(names.get(n, n) for n in m)), c) for m, c in weight.items()))


def _arguments(entries: tuple[Entry, ...], count: int) -> tuple[Sum, ...] | None:
    if any(len(weight) != 1 or weight[0][0] for _, _, _, weight in entries):
        return None
    found: list[list[Term]] = [[] for _ in range(count)]
    for n, key, region, weight in entries:
        found[n].append(_as_term(key, region, weight[0][1]))
    return tuple(map(tuple, found))


def _as_term(key: Key, region: Region, weight: Fraction) -> Term:
    """A term whose set is ``region``; the orders of equal tensors were told, and are told again."""
    rank = sum(n for _, n in key)
    hidden = sorted({n for f, _ in region for n, _ in f if n[:1] == "~"})
    new = {n: fresh() for n in (*(f"#{k}" for k in range(rank)), *hidden)}
    by = {n: variable(v) for n, v in new.items()}
    reads, at = [], 0
    for name, count in key:
        reads.append(Read(name, tuple(by[f"#{k}"] for k in range(at, at + count))))
        at += count
    names = [name for name, _ in key]
    weight /= prod(factorial(names.count(n)) for n in set(names))
    return Term(weight, tuple(new.values()), (), tuple((put(f, by), e) for f, e in region), tuple(reads))
