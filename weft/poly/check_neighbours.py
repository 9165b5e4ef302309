"""Whether statements that follow one another may change places, run in a loop each, or in one loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from weft.ir.nesting import find_path, statements
from weft.ir.solve import Form, combine
from weft.ir.stmt import Assert, For, Kernel, Stmt
from weft.poly.conflicts import Meeting, Surroundings, before, commute, find_conflict, pairs, written_by
from weft.poly.describe import refuse_conflict
from weft.poly.domain import Reader, leaf_domain
from weft.poly.leaves import CONCURRENT, Leaf, leaves, sizes_of
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.verdict import OK, Verdict, refuse


def check_swap(kernel: Kernel, first: Stmt, second: Stmt, numerics: str = "strict") -> Verdict:
    """Whether nothing that ``first`` does conflicts with what ``second`` does, within one iteration around them."""
    loops = [s for s in find_path(kernel.body, first) or [] if isinstance(s, For) and s is not first]

    def orders(meeting: Meeting) -> list[list[Form]]:
        return [] if commute(meeting.a, meeting.b, numerics, concurrent=False) else [[]]

    return _check_pairs(kernel, leaves(kernel, first), leaves(kernel, second), [s.var.name for s in loops], orders)


def check_fission(kernel: Kernel, loop: For, parts: Sequence[Stmt], place: int, numerics: str = "strict") -> Verdict:
    """Whether ``loop``, which runs ``parts`` one after another, may be split behind the one at ``place``."""
    early = [leaf for stmt in parts[: place + 1] for leaf in leaves(kernel, stmt)]
    late = [leaf for stmt in parts[place + 1 :] for leaf in leaves(kernel, stmt)]
    if loop.kind in CONCURRENT or not early or not late:
        return OK
    name, names = loop.var.name, early[0].loop_names

    def orders(meeting: Meeting) -> list[list[Form]]:
        """A late statement that ran in an earlier iteration than an early one will run behind it."""
        keeps = commute(meeting.a, meeting.b, numerics, concurrent=False) or not meeting.distance(name)
        return [] if keeps else [[before(name)]]

    return _check_pairs(kernel, early, late, names[: names.index(name)], orders)


def check_fuse_loops(
    kernel: Kernel, one: For, other: For, numerics: str = "strict", *, by_value: bool = False
) -> Verdict:
    """Whether iteration ``x`` of ``other`` may run right after iteration ``x`` of ``one``.

    Both are counted from 0, or meant ``by_value``. That they are neighbours is the caller's to know.
    """
    first, second = one.var.name, other.var.name
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
    if not left or not right:
        return OK
    concurrent = one.kind in CONCURRENT or other.kind in CONCURRENT
    place = (lambda leaf, loop: {loop.var.name: 1}) if by_value else _count

    def orders(meeting: Meeting) -> list[list[Form]]:
        """Work of the first loop must not meet work of an earlier iteration of the second, which will precede it."""
        if commute(meeting.a, meeting.b, numerics, concurrent=concurrent):
            return []
        ahead = combine(place(meeting.first, one), meeting.prime(place(meeting.second, other)), -1)
        early: list[list[Form]] = [[combine(ahead, {"": -1})]]
        return [*early, [combine({"": -1}, ahead, -1)]] if concurrent else early

    return _check_pairs(kernel, left, right, left[0].loop_names[: left[0].loop_names.index(first)], orders)


def _count(leaf: Leaf, loop: For) -> Form:
    """How many iterations of ``loop`` precede the one ``leaf`` is in."""
    start = Reader(leaf, leaf_domain(leaf), "start").form(loop.lo)
    return combine({loop.var.name: 1}, start, -1)


def _check_pairs(
    kernel: Kernel,
    left: list[Leaf],
    right: list[Leaf],
    shared: Iterable[str],
    orders: Callable[[Meeting], list[list[Form]]],
) -> Verdict:
    """Whether nothing of ``left`` meets anything of ``right`` in one of ``orders``; loops ``shared`` are around all."""
    around = Surroundings(frozenset(shared), written_by([*left, *right]), sizes_of(kernel))
    conflict = find_conflict(pairs(left, right), around, orders)
    return OK if conflict is None else refuse_conflict(conflict[0], conflict[1].a, conflict[1].b)
