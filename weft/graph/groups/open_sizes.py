"""Kernels for many sizes of one model: what differs between two of its sizes becomes a size of the program.

A group is first compiled for the sizes at hand. Where the model comes with others, the texts of the same group for both
differ in numbers alone. A number that differs becomes the size ``n`` of a program, the others that differ a multiple of
it and a rest. Two sizes are no proof of that, and none is needed: a third is taken only where the program, with that
``n``, is its text, number by number. All others are compiled for themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from weft.graph.groups.compile_group import Prepared
from weft.graph.groups.partition import Group
from weft.ir.errors import Error
from weft.ir.span import Source
from weft.operators.bind import BoundDefinition
from weft.operators.definition import Definition
from weft.operators.dynamic import dynamic_sizes
from weft.operators.specialization import Specialization
from weft.runtime.store import Artifact

#: What the open size is called.
SIZE = "n_open"
#: Whole numbers, but for those in names, types and floats.
_NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


@dataclass(frozen=True)
class _Text:
    """A program's text: what stands between its numbers, and these."""

    between: tuple[str, ...]
    numbers: tuple[int, ...]

    @staticmethod
    def of(text: str) -> _Text:
        return _Text(tuple(_NUMBER.split(text)), tuple(map(int, _NUMBER.findall(text))))


@dataclass(frozen=True)
class _Line:
    """``slope * n + rest``."""

    slope: int
    rest: int

    def __str__(self) -> str:
        if self.slope == 0:
            return str(self.rest)
        product = SIZE if self.slope == 1 else f"{self.slope} * {SIZE}"
        rest = f" {'+' if self.rest > 0 else '-'} {abs(self.rest)}" if self.rest else ""
        return f"({product}{rest})" if rest or self.slope != 1 else product


@dataclass(frozen=True)
class _Open:
    """The text with lines in place of its numbers; number ``place`` is the size itself."""

    between: tuple[str, ...]
    lines: tuple[_Line, ...]
    place: int

    def fits(self, text: _Text) -> bool:
        if text.between != self.between:
            return False
        n = text.numbers[self.place]
        return n > 1 and all(line.slope * n + line.rest == m for line, m in zip(self.lines, text.numbers))

    def __str__(self) -> str:
        numbers = [*map(str, self.lines), ""]
        return "".join(part for pair in zip(self.between, numbers) for part in pair)


def _generalize(first: _Text, second: _Text) -> _Open | None:
    """Where numbers differ as one size does."""
    if first.between != second.between:
        return None
    steps = [b - a for a, b in zip(first.numbers, second.numbers)]
    differing = [n for n, step in enumerate(steps) if step]
    if not differing:
        return None
    place = min(differing, key=lambda n: (abs(steps[n]), n))
    lines = []
    for a, step in zip(first.numbers, steps):
        slope, left = divmod(step, steps[place])
        if left:
            return None
        lines.append(_Line(slope, a - slope * first.numbers[place]))
    return _Open(first.between, tuple(lines), place)


@dataclass
class OpenSizes:
    """What the sizes of one model have in common; kept with the model."""

    _first: dict[tuple[str, ...], _Text] = field(default_factory=dict)
    _last: dict[tuple[str, ...], _Text] = field(default_factory=dict)
    _open: dict[tuple[str, ...], _Open] = field(default_factory=dict)
    _definitions: dict[str, Definition | None] = field(default_factory=dict)
    #: code for many sizes, by its key
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    #: code with constants packed, by what it was made of: one copy for all sizes
    bound: dict[Any, Specialization] = field(default_factory=dict)

    def opened(self, group: Group, prepared: Prepared) -> Prepared:
        """``prepared`` by a program for many sizes, from the second differing size of the group on."""
        name, text = tuple(m.name for m in group.members), _Text.of(prepared.definition.source.text)
        first = self._first.setdefault(name, text)
        if first == text:
            return prepared
        known = self._open.get(name)
        if known is None or not known.fits(text):
            known = _generalize(self._last.get(name, first), text)
            self._last[name] = text
            if known is None or not known.fits(text):
                return prepared
            self._open[name] = known
        return self._with(prepared, str(known))

    def forget_values(self) -> None:
        """Constants have other values now."""
        self.bound.clear()

    def _with(self, prepared: Prepared, text: str) -> Prepared:
        whole = self._definition(prepared, text)
        if whole is None:
            return prepared
        bound = prepared.definition.bound
        definition = BoundDefinition(whole, bound) if bound else whole
        sizes = dynamic_sizes(definition.whole_interface, definition.complete(prepared.signature), definition.dynamic)
        if not sizes:  # strides that follow from the size
            return prepared
        return replace(prepared, definition=definition, sizes=tuple(sizes.items()), closed=prepared)

    def _definition(self, prepared: Prepared, text: str) -> Definition | None:
        """None where the language does not take the text: a subscript that it cannot prove right, say."""
        key = f"{prepared.definition.how.key} {text}"
        if key not in self._definitions:
            made = Definition(Source(f"<operator of any {SIZE}>", text), None, prepared.definition.how, (SIZE,))
            try:
                params = [[p.name for p in d.program.params] for d in (made, prepared.definition)]
                is_same = params[0] == params[1] and [s.name for s in made.program.sizes] == [SIZE]
                self._definitions[key] = made if is_same and not made.program.scalars else None
            except Error:
                self._definitions[key] = None
        return self._definitions[key]
