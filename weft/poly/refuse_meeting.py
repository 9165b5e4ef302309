"""Refusals for which a buffer's name is reason enough, with two iterations that show it where there are two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from weft.ir.solve import Form, Unknown
from weft.ir.stmt import Kernel
from weft.poly.conflicts import Meeting, Surroundings, after, before, find_conflict, written_by
from weft.poly.describe import describe
from weft.poly.leaves import CONCURRENT, Access, Leaf, leaves, sizes_of
from weft.poly.verdict import OK, Verdict, Witness, refuse

Touch: TypeAlias = tuple[Leaf, Access]


def touches(touching: Iterable[Leaf], buffer: str, *, reads: bool = True, writes: bool = True) -> Iterator[Touch]:
    """What the statements ``touching`` do to ``buffer``, as far as it reads or writes as asked."""
    for leaf in touching:
        for a in leaf.accesses:
            if a.buffer.name == buffer and ((reads and a.reads) or (writes and a.writes)):
                yield leaf, a


def refuse_meeting(
    reason: str,
    kernel: Kernel,
    ones: Iterable[Touch],
    others: Iterable[Touch],
    orders: Sequence[Sequence[Form]] = ((),),
    *,
    is_after: bool = False,
) -> Verdict:
    """``reason``, and an iteration of each side that touch one element in one of the ``orders``.

    Loops around both have equal values unless an order speaks of them. ``is_after`` says that ``kernel`` is
    the program as the rewrite would leave it.
    """
    conflict = _first_meeting(kernel, ones, others, orders)
    if conflict is None or isinstance(conflict[0], Unknown):
        return refuse(reason, kind="unproved")
    witness = replace(conflict[0], after=is_after)
    return refuse(f"{reason}: {describe(witness, conflict[1].a, conflict[1].b)}", witness)


def check_apart(reason: str, kernel: Kernel, ones: Iterable[Touch], others: Iterable[Touch]) -> Verdict:
    """`refuse_meeting`, unless no element is touched by both sides while loops around both have equal values."""
    first, second = list(ones), list(others)
    if _first_meeting(kernel, first, second, ((),)) is None:
        return OK
    return refuse_meeting(reason, kernel, first, second)


def _first_meeting(
    kernel: Kernel, ones: Iterable[Touch], others: Iterable[Touch], orders: Sequence[Sequence[Form]]
) -> tuple[Witness | Unknown, Meeting] | None:
    second = list(others)
    found = (_find(kernel, one, other, orders) for one in ones for other in second)
    return next((conflict for conflict in found if conflict is not None), None)


def _find(
    kernel: Kernel, one: Touch, other: Touch, orders: Sequence[Sequence[Form]]
) -> tuple[Witness | Unknown, Meeting] | None:
    (leaf, a), (later, b) = one, other
    if not (a.writes or b.writes):
        return None
    ordered = {name.rstrip("'") for order in orders for form in order for name in form}
    common = []
    for x, y in zip(leaf.loops, later.loops):
        if x.node is not y.node or x.name in ordered:
            break
        common.append(x.name)
    around = Surroundings(frozenset(common), written_by(leaves(kernel)), sizes_of(kernel))
    return find_conflict([(leaf, a, later, b)], around, lambda meeting: orders)


def check_precedes(
    reason: str,
    kernel: Kernel,
    one: Touch,
    others: Iterable[Touch],
    fixed: Set[str],
    *,
    in_any_order: bool = False,
) -> Verdict:
    """A no for ``reason`` where an iteration of ``one`` may come before one of the ``others`` that touches its element.

    ``kernel`` is the program as a rewrite would leave it; loops ``fixed`` have equal values.
    """
    leaf, a = one
    for later, b in others:
        around = Surroundings(frozenset(fixed), written_by(leaves(kernel)), sizes_of(kernel))
        meeting = Meeting(leaf, a, later, b, around)
        for order, equal in [([], ())] if in_any_order else precedes(leaf, later, fixed):
            conflict = meeting.find(order, equal)
            if isinstance(conflict, Unknown):
                return refuse(reason, kind="unproved")
            if conflict is not None:
                return refuse(f"{reason}: {describe(conflict, a, b)}", replace(conflict, after=True))
    return OK


def precedes(first: Leaf, second: Leaf, fixed: Set[str]) -> list[tuple[list[Form], tuple[str, ...]]]:
    """The ways in which an iteration of ``first`` may come before one of ``second``: orders, and equal loops."""
    common: list[str] = []
    ways: list[tuple[list[Form], tuple[str, ...]]] = []
    for a, b in zip(first.loops, second.loops):
        if a.node is not b.node:
            break
        if a.name in fixed:
            continue
        ways.append(([after(a.name)], tuple(common)))
        if a.kind in CONCURRENT:
            ways.append(([before(a.name)], tuple(common)))
        common.append(a.name)
    return [*ways, ([], tuple(common))] if first.order < second.order else ways
