"""What was made of the constants of a model: computed once and packed once for all of its sizes.

Nothing is held here that nobody reads: what was packed for a kernel lives as long as some kernel has it. So arrays
are told apart by how they were made, and not by an address that others may come to have.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from weft.ir.errors import Error
from weft.runtime.arrays import describe

_NUMBERS = itertools.count()
#: Entries that may be there without being looked through.
_FEW = 256
#: Gives what was made; None where it is gone.
_Reference = Callable[[], Any]


class _Made(NamedTuple):
    #: which tells it apart, however often it is made
    number: int
    values: tuple[_Reference, ...]
    #: arrays that it was made of, where their addresses alone tell them apart: these must stay theirs
    given: tuple[Any, ...]


@dataclass
class ConstantValues:
    """``versions`` says what changes where what is at an address was written to: tensors of the user."""

    versions: dict[int, Hashable] = field(default_factory=dict)
    _made: dict[Hashable, _Made] = field(default_factory=dict)
    #: arrays that were made, by where they are, and what tells each apart
    _places: dict[int, tuple[_Reference, Hashable]] = field(default_factory=dict)
    #: entries from which on those that nobody needs are looked for
    _many: int = field(default_factory=lambda: _FEW)

    def identity(self, array: Any) -> Hashable:
        """Differs for arrays of different values, as long as these are there; the same for one that is made again."""
        info = describe(array)
        known = self._known(info.pointer)
        return info.pointer if known is None else known, info.shape, info.strides, info.dtype

    def find(self, how: Hashable, given: Sequence[Any], make: Callable[[], Sequence[Any]]) -> tuple[Any, ...]:
        """What ``make`` gives of the arrays ``given``, or gave before, where somebody has it still."""
        key = how, tuple(map(self.identity, given))
        known = self._made.get(key)
        if known is not None:
            values = tuple(value() for value in known.values)
            if all(value is not None for value in values):
                return values
        values, number = tuple(make()), next(_NUMBERS) if known is None else known.number
        references = tuple(map(_reference, values))
        self._made[key] = _Made(number, references, tuple(array for array in given if self._is_strange(array)))
        for place, (value, reference) in enumerate(zip(values, references)):
            if (pointer := _pointer(value)) is not None:
                self._places[pointer] = reference, (number, place)
        if len(self._made) > self._many or len(self._places) > self._many:
            self._let_go()
        return values

    def _let_go(self) -> None:
        """Of what is gone: all that nothing that is there was made of."""
        self._places = {at: one for at, one in self._places.items() if one[0]() is not None}
        needed = {key for key, made in self._made.items() if any(value() is not None for value in made.values)}
        keys = {made.number: key for key, made in self._made.items()}
        ahead = list(needed)
        while ahead:
            origins = {keys[n] for n in _numbers_in(ahead.pop()) if n in keys} - needed
            needed |= origins
            ahead += origins
        self._made = {key: made for key, made in self._made.items() if key in needed}
        self._many = max(_FEW, 2 * len(self._made), 2 * len(self._places))

    def _known(self, pointer: int) -> Hashable | None:
        reference, identity = self._places.get(pointer, (None, None))
        return None if reference is None or reference() is None else identity

    def _is_strange(self, array: Any) -> bool:
        """Neither the user's, whose changes are counted, nor made here."""
        pointer = describe(array).pointer
        return pointer not in self.versions and self._known(pointer) is None

    def check(self, pointers: Sequence[int], versions: Sequence[Hashable]) -> None:
        """Forgets all where tensors of the user have been written to since, or are others."""
        now = dict(zip(pointers, versions))
        if any(self.versions.get(pointer) != version for pointer, version in now.items()):
            self.forget()
        self.versions |= now

    def forget(self) -> None:
        """Constants have other values now."""
        for known in (self._made, self._places, self.versions):
            known.clear()

    def copy(self) -> ConstantValues:
        return ConstantValues(dict(self.versions), dict(self._made), dict(self._places))

    def take(self, other: ConstantValues) -> None:
        """What another made of the same constants."""
        self._made |= other._made
        self._places |= other._places


def _numbers_in(key: Any) -> list[int]:
    """Of what was made that something was made of."""
    return [identity[0][0] for identity in key[1] if isinstance(identity[0], tuple)]


def _reference(value: Any) -> _Reference:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _pointer(value: Any) -> int | None:
    """None for an object that a library packed, which only that can read."""
    try:
        return describe(value).pointer
    except (Error, RuntimeError, AttributeError):
        return None
