"""Subscripts as numbers of several digits, some of which say which thread an element belongs to.

In ``chunk * 1024 + t * 4 + v`` with 256 threads ``t`` and ``v`` in ``0:4`` the middle digit is the thread: it has
the place 4 and counts 256. Without it ``chunk * 4 + v`` is left, which tells apart the elements of one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.ir.affine import Linear, linear_form
from weft.ir.dtype import index
from weft.ir.expr import Binary, Const, Expr, Var
from weft.ir.interval import Interval
from weft.ir.visit import free_vars


class Digit(NamedTuple):
    """``(number of the thread // stride) % extent``."""

    stride: int
    extent: int


class Placed(NamedTuple):
    """A digit of the thread number found in dimension ``dim`` of a subscript, where it counts ``step`` elements."""

    dim: int
    step: int
    stride: int
    extent: int

    @property
    def digit(self) -> Digit:
        return Digit(self.stride, self.extent)


@dataclass(frozen=True, slots=True)
class Split:
    """The digits of a subscript that are threads, joined where they are neighbours, and what is left of it."""

    placed: tuple[Placed, ...]
    rest: tuple[Expr, ...]


def split_subscript(
    indices: Sequence[Expr], digits: Mapping[str, Digit], ranges: Mapping[str, Interval]
) -> Split | None:
    """``indices`` taken apart; None where some thread variable of ``digits`` is in it in another way."""
    placed: list[Placed] = []
    rest: list[Expr] = []
    for dim, e in enumerate(indices):
        split = _split(e, dim, digits, ranges)
        if split is None:
            return None
        placed += split[0]
        rest.append(split[1])
    return Split(join_placed(placed), tuple(rest))


def _split(
    e: Expr, dim: int, digits: Mapping[str, Digit], ranges: Mapping[str, Interval]
) -> tuple[list[Placed], Expr] | None:
    if isinstance(e, Const) or (isinstance(e, Var) and e.name not in digits):
        return [], e
    form = linear_form(e)
    found: list[tuple[Expr, Placed]] = []
    for atom, factor in form.terms.items():
        digit = digit_of(atom, digits)
        if digit is not None and factor > 0:
            found.append((atom, Placed(dim, factor, *digit)))
        elif digit is not None or not (isinstance(atom, Var) or digits.keys().isdisjoint(free_vars(atom))):
            return None
    for atom, placed in sorted(found, key=lambda f: -f[1].step):
        left = _without(form, atom, placed, ranges)
        if left is None:
            return None
        form = left
    return [p for _, p in found if p.extent > 1], form.expr(index)


def _without(form: Linear, atom: Expr, placed: Placed, ranges: Mapping[str, Interval]) -> Linear | None:
    """``form`` without the digit ``atom``: what counts whole rounds of it moves down, what is below stays."""
    step, whole = placed.step, placed.step * placed.extent
    above = {a: c for a, c in form.terms.items() if a != atom and c % whole == 0}
    below = {a: c for a, c in form.terms.items() if a != atom and c % whole != 0}
    low = Linear(below, form.constant % whole)
    if not low.bounds(ranges).within(0, step - 1):
        return None
    terms = {**below, **{a: c // placed.extent for a, c in above.items()}}
    return Linear(terms, form.constant // whole * step + form.constant % whole)


def digit_of(e: Expr, digits: Mapping[str, Digit]) -> Digit | None:
    """The digit that ``e`` is: a thread variable, or a quotient or remainder of one that divides it evenly."""
    if isinstance(e, Var):
        return digits.get(e.name)
    if isinstance(e, Binary) and e.op in ("//", "%", "tdiv", "tmod") and isinstance(e.right, Const):
        whole, by = digit_of(e.left, digits), int(e.right.value)
        if whole is None or by <= 0 or whole.extent % by:
            return None
        upper = e.op in ("//", "tdiv")
        return Digit(whole.stride * by, whole.extent // by) if upper else Digit(whole.stride, by)
    return None


def join_placed(placed: Iterable[Placed]) -> tuple[Placed, ...]:
    """Digits in order, neighbours in both the subscript and the thread number as one."""
    joined: list[Placed] = []
    for p in sorted(placed):
        last = joined[-1] if joined else None
        next_to = last is not None and last.dim == p.dim and last.step * last.extent == p.step
        if last is not None and next_to and last.stride * last.extent == p.stride:
            joined[-1] = last._replace(extent=last.extent * p.extent)
        else:
            joined.append(p)
    return tuple(joined)


def join_digits(digits: Iterable[Digit]) -> tuple[Digit, ...]:
    """Digits of a thread number in order, neighbours as one."""
    joined: list[Digit] = []
    for d in sorted(set(digits)):
        if d.extent == 1:
            continue
        last = joined[-1] if joined else None
        if last is not None and last.stride * last.extent == d.stride:
            joined[-1] = Digit(last.stride, last.extent * d.extent)
        else:
            joined.append(d)
    return tuple(joined)


def rest_size(size: int, dim: int, placed: Sequence[Placed]) -> int:
    """How many elements of a dimension are left to each thread."""
    for p in sorted((p for p in placed if p.dim == dim), key=lambda p: -p.step):
        whole = p.step * p.extent
        size = size // whole * p.step + min(size % whole, p.step)
    return size
