"""Kernels for many sizes of one model: what differs between its sizes becomes a size of the program.

A group is first compiled for the sizes at hand. Where the model comes with others, the texts of the same group, and the
strides of its tensors, differ in numbers alone. A number that differs becomes a size of a program, unless it is a
multiple of such, or of the product of two, and a rest. A few sizes are no proof of that, and none is needed: a further
one is taken only where the program, with its sizes, is its text, number by number. All others are compiled for
themselves.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from math import prod
from typing import Any, NamedTuple

from weft.graph.groups.choose import Choice
from weft.graph.groups.compile_group import Prepared
from weft.graph.groups.partition import Group
from weft.graph.rewrites.constant_values import ConstantValues
from weft.graph.run.arenas import Arenas
from weft.ir.errors import Error
from weft.ir.expr import Expr, Var, idx
from weft.ir.span import Source
from weft.operators.bind import BoundDefinition
from weft.operators.definition import Definition
from weft.runtime.store import Artifact
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram

#: Whole numbers, of floats too (what a mean divides by), but for those in names and types.
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.0)?(?![\w.])")
#: Open sizes of a program at most, and texts of one group that are compared.
MOST_SIZES, MOST_TEXTS = 3, 4
#: Prices of a program at other sizes that are looked at.
MOST_PRICES = 64


def size_name(place: int) -> str:
    """What an open size is called."""
    return f"n{place}_open"


@dataclass(frozen=True)
class _Text:
    """A program's text: what is not a number in it, and its numbers, the strides of tensors that are not dense last."""

    rest: _Rest
    numbers: tuple[int, ...]

    @staticmethod
    def of(text: str, strides: Sequence[tuple[str, tuple[int, ...]]] = ()) -> _Text:
        found = _NUMBER.findall(text)
        numbers = [*(int(n.removesuffix(".0")) for n in found), *(n for _, own in strides for n in own)]
        floats = tuple("." in n for n in found)
        rest = _Rest(tuple(_NUMBER.split(text)), floats, tuple((name, len(own)) for name, own in strides))
        return _Text(rest, tuple(numbers))


class _Rest(NamedTuple):
    """Of a text: what stands between its numbers, which of these are floats, and the tensors that are not dense, with
    how many strides they have."""

    between: tuple[str, ...]
    floats: tuple[bool, ...]
    strided: tuple[tuple[str, int], ...]

    @property
    def float_type(self) -> str:
        return "float64" if any("float64" in part for part in self.between) else "float32"


@dataclass(frozen=True)
class _Form:
    """``slope`` times the product of the sizes ``factors``, by number, and a ``rest``."""

    slope: int
    factors: tuple[int, ...]
    rest: int

    def at(self, sizes: Sequence[int]) -> int:
        return self.slope * prod(sizes[f] for f in self.factors) + self.rest

    def expression(self, sizes: Sequence[Var]) -> Expr:
        made: Expr = idx(self.slope)
        for f in self.factors:
            made = sizes[f] * made
        return made + idx(self.rest) if self.rest else made

    def __str__(self) -> str:
        if not self.slope:
            return str(self.rest)
        product = " * ".join([*([str(self.slope)] if self.slope != 1 else []), *map(size_name, self.factors)])
        rest = f" {'+' if self.rest > 0 else '-'} {abs(self.rest)}" if self.rest else ""
        return f"({product}{rest})" if rest or " " in product else product


@dataclass(frozen=True)
class _Open:
    """The text with forms in place of its numbers; those at ``places`` are the sizes themselves."""

    rest: _Rest
    forms: tuple[_Form, ...]
    places: tuple[int, ...]

    def sizes(self, text: _Text) -> tuple[int, ...]:
        return tuple(text.numbers[p] for p in self.places)

    def fits(self, text: _Text) -> bool:
        if text.rest != self.rest:
            return False
        sizes = self.sizes(text)
        return min(sizes) > 1 and all(form.at(sizes) == n for form, n in zip(self.forms, text.numbers))

    @property
    def strides(self) -> Iterator[tuple[str, tuple[_Form, ...]]]:
        forms = iter(self.forms[len(self.rest.floats) :])
        for name, count in self.rest.strided:
            yield name, tuple(next(forms) for _ in range(count))

    def __str__(self) -> str:
        numbers = [self._number(form, is_float) for form, is_float in zip(self.forms, self.rest.floats)]
        return "".join(part for pair in zip(self.rest.between, [*numbers, ""]) for part in pair)

    def _number(self, form: _Form, is_float: bool) -> str:
        if not is_float:
            return str(form)
        return f"{self.rest.float_type}({form})" if form.slope else f"{form.rest}.0"


def _generalize(texts: Sequence[_Text]) -> _Open | None:
    """What these are at different sizes; None where their numbers do not follow from a few of them."""
    columns = list(zip(*(t.numbers for t in texts)))
    differing = sorted((n for n, c in enumerate(columns) if len({*c}) > 1), key=lambda n: (_spread(columns[n]), n))
    forms = {n: _Form(0, (), c[0]) for n, c in enumerate(columns)}
    places: list[int] = []
    for n in differing:
        found = _form(columns[n], [columns[p] for p in places])
        if found is None:
            found = _Form(1, (len(places),), 0)
            places.append(n)
        forms[n] = found
    if not places or len(places) > MOST_SIZES:
        return None
    return _Open(texts[0].rest, tuple(forms[n] for n in range(len(columns))), tuple(places))


def _spread(column: tuple[int, ...]) -> int:
    return max(column) - min(column)


def _form(column: tuple[int, ...], sizes: Sequence[tuple[int, ...]]) -> _Form | None:
    """How a number follows from the sizes: as a mere multiple first, which few sizes do not feign."""
    numbered = range(len(sizes))
    ways = [(n,) for n in numbered] + list(combinations_with_replacement(numbered, 2))
    fitting = [f for factors in ways for f in _fitting(column, factors, sizes)]
    return min(fitting, key=lambda f: f.rest != 0, default=None)


def _fitting(column: tuple[int, ...], factors: tuple[int, ...], sizes: Sequence[tuple[int, ...]]) -> Iterator[_Form]:
    products = [prod(sizes[f][t] for f in factors) for t in range(len(column))]
    least, most = products.index(min(products)), products.index(max(products))
    if products[least] == products[most]:
        return
    slope, left = divmod(column[most] - column[least], products[most] - products[least])
    form = _Form(slope, factors, column[least] - slope * products[least])
    if not left and all(slope * p + form.rest == n for p, n in zip(products, column)):
        yield form


@dataclass
class OpenSizes:
    """What the sizes of one model have in common; kept with the model."""

    _texts: dict[tuple[str, ...], list[_Text]] = field(default_factory=dict)
    _open: dict[tuple[str, ...], _Open] = field(default_factory=dict)
    _definitions: dict[str, Definition | None] = field(default_factory=dict)
    #: code for many sizes, by its key
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    #: what constants were computed to, and what code packs of them: one copy for all sizes
    values: ConstantValues = field(default_factory=ConstantValues)
    #: library or kernel, by the name of the product that was decided about
    choices: dict[str, Choice] = field(default_factory=dict)
    _prices: dict[Any, list[tuple[tuple[int, ...], float]]] = field(default_factory=dict)
    #: sizes of the inputs at first, and those that have changed since, with what they are now
    _shapes: tuple[int, ...] = ()
    _changes: set[tuple[int, int]] = field(default_factory=set)
    #: memory between kernels
    arenas: Arenas = field(default_factory=Arenas)
    #: variants of the model that are for their very sizes, as long as they are there
    special: list[Any] = field(default_factory=list)

    def opened(self, group: Group, prepared: Prepared) -> Prepared:
        """``prepared`` by a program for many sizes, from the second differing size of the group on."""
        name, text = tuple(m.name for m in group.members), _text(prepared)
        texts = self._texts.setdefault(name, [text])
        if texts[0] == text:
            return prepared
        known = self._open.get(name)
        if known is None or not known.fits(text):
            alike = [t for t in texts if t.rest == text.rest and t != text]
            known = _generalize([*alike, text]) if alike else None
            self._texts[name] = [*[t for t in texts if t != text][: MOST_TEXTS - 1], text]
            if known is None or not known.fits(text):
                return prepared
            self._open[name] = known
        return self._with(prepared, known, text)

    def begin(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """A graph whose inputs have these ``shapes`` is compiled."""
        now = tuple(n for shape in shapes for n in shape)
        self._shapes = self._shapes or now
        same = len(now) == len(self._shapes)
        self._changes = {pair for pair in zip(self._shapes, now) if pair[0] != pair[1]} if same else set()

    def price(self, program: TensorProgram, facts: str, price: Callable[[], float]) -> float:
        """What was found for a program at other sizes decides here too: then nothing is decided again."""
        text = _Text.of(print_program(program))
        known = self._prices.setdefault((text.rest, facts), [])
        for numbers, seconds in known:
            if all(self._follows(a, b) for a, b in zip(numbers, text.numbers)):
                return seconds
        found = price()
        known.append((text.numbers, found))
        del known[:-MOST_PRICES]
        return found

    def _follows(self, first: int, now: int) -> bool:
        """Whether a number is what it was, or changed as a size of the inputs did."""
        return first == now or any(first * b == now * a for a, b in self._changes)

    def closed(self) -> OpenSizes:
        """For code that leaves no size open, with the constants and the memory of this."""
        return OpenSizes(values=self.values.copy(), arenas=self.arenas)

    def _with(self, prepared: Prepared, known: _Open, text: _Text) -> Prepared:
        whole = self._definition(prepared, str(known), len(known.places))
        if whole is None:
            return prepared
        bound = prepared.definition.bound
        definition = BoundDefinition(whole, bound) if bound else whole
        variables = {s.name: s for s in whole.program.sizes}
        names = [size_name(n) for n in range(len(known.places))]
        strides = tuple(
            (name, tuple(f.expression([variables[n] for n in names]) for f in forms)) for name, forms in known.strides
        )
        sizes = tuple(zip(names, known.sizes(text)))
        return replace(prepared, definition=definition, sizes=sizes, strides=strides, closed=prepared)

    def _definition(self, prepared: Prepared, text: str, count: int) -> Definition | None:
        """None where the language does not take the text: a subscript that it cannot prove right, say."""
        key = f"{prepared.definition.how.key} {count} {text}"  # a size may be one of strides alone
        if key not in self._definitions:
            names = tuple(map(size_name, range(count)))
            made = Definition(Source("<operator of open sizes>", text), None, prepared.definition.how, names)
            try:
                params = [[p.name for p in d.program.params] for d in (made, prepared.definition)]
                is_same = params[0] == params[1] and {s.name for s in made.program.sizes} == {*names}
                self._definitions[key] = made if is_same and not made.program.scalars else None
            except Error:
                self._definitions[key] = None
        return self._definitions[key]


def _text(prepared: Prepared) -> _Text:
    layouts = (*prepared.signature.tensors, *prepared.signature.outputs)
    strides = [(name, layout.strides) for name, layout in layouts if not layout.is_dense]
    return _Text.of(prepared.definition.source.text, strides)
