"""Whether two loops that follow one another may become one that runs an iteration of each in turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from weft.ir.nesting import statements
from weft.ir.stmt import Assert, For, Kernel
from weft.poly.conflicts import Meeting, Surroundings, commute, find_conflict, pairs, written_by
from weft.poly.describe import refuse_conflict
from weft.poly.domain import Reader, leaf_domain
from weft.poly.leaves import CONCURRENT, Leaf, leaves, loop_named, sizes_of
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.solve import Form, combine
from weft.poly.verdict import OK, Verdict, refuse

_Place: TypeAlias = Callable[[Leaf, For], Form]


def check_fuse_loops(
    kernel: Kernel, first: str, second: str, numerics: str = "strict", *, by_value: bool = False
) -> Verdict:
    """Whether iteration ``x`` of ``second`` may run right after iteration ``x`` of ``first``.

    Both are counted from 0, or meant ``by_value``. That they are neighbours is the caller's to know.
    """
    one, other = loop_named(kernel, first), loop_named(kernel, second)
    for name, loop in ((first, one), (second, other)):
        if loop is None:
            return refuse(f"there is no loop `{name}`")
    assert one is not None
    assert other is not None
    if any(isinstance(n, Assert) for n in statements(one)):
        return refuse(f"`{second}` must not start before all checks in `{first}` have passed")
    left = [leaf for leaf in leaves(kernel, one) if first in leaf.loop_names]
    right = [leaf for leaf in leaves(kernel, other) if second in leaf.loop_names]
    header = [leaf for leaf in leaves(kernel, other) if leaf.stmt is other]
    for leaf in header:
        for access in leaf.accesses:
            if access.buffer.name in written_by(left):
                name = access.buffer.name
                reason = f"the range of `{second}` is read from `{name}`, which `{first}` writes"
                return refuse_meeting(reason, kernel, touches(left, name, reads=False), [(leaf, access)])
    places = (_value if by_value else _count), left, right
    return _check_memory(kernel, one, other, places, numerics)


def _check_memory(
    kernel: Kernel, one: For, other: For, places: tuple[_Place, list[Leaf], list[Leaf]], numerics: str
) -> Verdict:
    """Work of the first loop must not meet work of an earlier iteration of the second, which will precede it."""
    place, left, right = places
    if not left or not right:
        return OK
    concurrent = one.kind in CONCURRENT or other.kind in CONCURRENT
    names = left[0].loop_names
    shared = frozenset(names[: names.index(one.var.name)])
    around = Surroundings(shared, written_by([*left, *right]), sizes_of(kernel))

    def orders(meeting: Meeting) -> list[list[Form]]:
        if commute(meeting.a, meeting.b, numerics, concurrent=concurrent):
            return []
        ahead = combine(place(meeting.first, one), meeting.prime(place(meeting.second, other)), -1)
        orders = [[combine(ahead, {"": -1})]]
        if concurrent:
            orders.append([combine({"": -1}, ahead, -1)])
        return orders

    conflict = find_conflict(pairs(left, right), around, orders)
    return OK if conflict is None else refuse_conflict(conflict[0], conflict[1].a, conflict[1].b)


def _value(_: Leaf, loop: For) -> Form:
    return {loop.var.name: 1}


def _count(leaf: Leaf, loop: For) -> Form:
    """How many iterations of ``loop`` precede the one ``leaf`` is in."""
    start = Reader(leaf, leaf_domain(leaf), "start").form(loop.lo)
    return combine({loop.var.name: 1}, start, -1)
