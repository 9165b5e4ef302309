"""Whether loops of a nest may change places: no two iterations that touch one element change their order.

A pair of iterations runs in the order of the outermost loop in which they differ. Where that loop runs its
iterations concurrently they have no order, so that no two that conflict may first differ there.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace

from weft.ir.expr import Load, Var
from weft.ir.nesting import statements
from weft.ir.solve import Form, Unknown
from weft.ir.stmt import Barrier, Break, Continue, For, Kernel, Return
from weft.ir.visit import walk
from weft.poly.conflicts import Found, Meeting, Memory, Surroundings, after, before, commute, pairs, written_by
from weft.poly.describe import describe
from weft.poly.leaves import CONCURRENT, Access, Leaf, leaves, sizes_of
from weft.poly.verdict import OK, Verdict, refuse

#: Longer chains have too many orders to try them all.
_MOST_LOOPS = 4
_MOST_ALTERNATIVES = 3


def check_reorder(kernel: Kernel, chain: Sequence[For], order: Sequence[For], numerics: str = "strict") -> Verdict:
    """Whether the loops ``chain`` (each inside the one before) may run in ``order``, a permutation."""
    structure = _check_structure(chain, order)
    if structure is not None:
        return refuse(structure)
    verdict = _check_memory(kernel, chain, order, numerics)
    return verdict if verdict.ok else replace(verdict, offers=lambda: _alternatives(kernel, chain, order, numerics))


def _alternatives(kernel: Kernel, chain: Sequence[For], wanted: Sequence[For], numerics: str) -> tuple[str, ...]:
    """The legal orders that are most like the one ``wanted``."""
    names: list[str] = []
    if numerics == "strict" and _check_memory(kernel, chain, wanted, "fast").ok:
        names.append('the same with numerics="fast"')
    if len(chain) > _MOST_LOOPS:
        return tuple(names)

    def likeness(order: tuple[For, ...]) -> int:
        return sum(a is b for a, b in zip(order, wanted))

    for order in sorted(itertools.permutations(chain), key=likeness, reverse=True)[1:]:
        is_new = any(a is not b for a, b in zip(order, chain))
        if is_new and _check_structure(chain, order) is None and _check_memory(kernel, chain, order, numerics).ok:
            names.append(f"s.reorder({', '.join(json.dumps(loop.var.name) for loop in order)})")
            if len(names) == _MOST_ALTERNATIVES:
                break
    return tuple(names)


def _check_structure(chain: Sequence[For], order: Sequence[For]) -> str | None:
    for place, loop in enumerate(order):
        inside = {other.var.name for other in order[place:]}
        for bound in (loop.lo, loop.hi):
            for n in walk(bound):
                if isinstance(n, Var) and n.name in inside:
                    return f"the range of `{loop.var.name}` depends on `{n.name}`, which would run inside it"
                if isinstance(n, Load) and loop is not chain[0]:
                    return f"the range of `{loop.var.name}` is read from `{n.buffer.name}`"
    for n in statements(chain[0].body):
        if isinstance(n, (Break, Continue, Return)):
            return f"a statement inside leaves the loops early ({type(n).__name__.lower()})"
        if isinstance(n, Barrier):
            return "a statement inside waits at a barrier"
    return None


def _check_memory(kernel: Kernel, chain: Sequence[For], order: Sequence[For], numerics: str) -> Verdict:
    innermost = chain[-1].var.name
    below = [leaf for leaf in leaves(kernel, chain[0]) if chain[0].var.name in leaf.loop_names]
    inside = [leaf for leaf in below if innermost in leaf.loop_names]
    if not inside:
        return OK
    between = _check_between([leaf for leaf in below if innermost not in leaf.loop_names], inside)
    if between is not None:
        return refuse(between)
    names = inside[0].loop_names
    shared = frozenset(names[: names.index(chain[0].var.name)])
    around = Surroundings(shared, written_by(inside), sizes_of(kernel))
    memory = Memory()
    doubt: Verdict | None = None
    for first, a, second, b in pairs(inside):
        meeting = Meeting(first, a, second, b, around, memory)
        conflict = _find_change(meeting, chain, order, numerics)
        if conflict is None and not meeting.is_of_one:
            meeting = Meeting(second, b, first, a, around, memory)
            conflict = _find_change(meeting, chain, order, numerics)
        if conflict is None:
            continue
        verdict = _refusal(conflict, meeting.a, meeting.b)
        if conflict is not None and not isinstance(conflict, Unknown) and conflict.certain:
            return verdict
        doubt = verdict if doubt is None else doubt
    return OK if doubt is None else doubt


def _check_between(between: Sequence[Leaf], inside: Sequence[Leaf]) -> str | None:
    """Statements between the loops would run more or less often, unless they only read what stays as it is."""
    written = written_by(inside)
    for leaf in between:
        for access in leaf.accesses:
            if access.writes:
                return f"a statement between the loops writes `{access.buffer.name}`"
            if access.buffer.name in written:
                return f"a test between the loops reads `{access.buffer.name}`, which the loops write"
    return None


def _find_change(meeting: Meeting, chain: Sequence[For], order: Sequence[For], numerics: str) -> Found:
    """Iterations that meet, the first one first in the old order but not surely so in the new one."""
    # Loops that must agree take no part; ranges and equal subscripts often show it, bounds are asked where they do not.
    old = [loop for loop in chain if loop.var.name not in meeting.settled]
    if _same_order(old, order) or meeting.never:
        return None
    old = [loop for loop in old if meeting.distance(loop.var.name)]
    if _same_order(old, order):
        return None
    old = [loop for loop in old if not meeting.must_agree(loop.var.name)]
    if _same_order(old, order):
        return None
    moved = _in_order(old, order)
    doubt: Found = None
    for place, loop in enumerate(old):
        if loop.kind in CONCURRENT:
            continue  # the two have no order now, so that they do not meet
        equal = [other.var.name for other in old[:place]]
        for level, other in enumerate(moved):
            conflict = _find_at(meeting, loop, other, equal, [o.var.name for o in moved[:level]], numerics)
            if conflict is not None and not isinstance(conflict, Unknown) and conflict.certain:
                return conflict
            doubt = doubt or conflict
    return doubt


def _in_order(loops: Sequence[For], order: Sequence[For]) -> list[For]:
    return [loop for loop in order if any(loop is other for other in loops)]


def _same_order(loops: Sequence[For], order: Sequence[For]) -> bool:
    return all(x is y for x, y in zip(loops, _in_order(loops, order)))


def _find_at(
    meeting: Meeting, loop: For, other: For, equal_old: list[str], equal_new: list[str], numerics: str
) -> Found:
    """Iterations that first differ in ``loop`` in the old order and in ``other`` in the new one."""
    name, new = loop.var.name, other.var.name
    if name in equal_new or new in equal_old:
        return None
    concurrent = other.kind in CONCURRENT
    if commute(meeting.a, meeting.b, numerics, concurrent=concurrent):
        return None
    if new == name and not concurrent:
        return None
    orders: list[list[Form]] = [[after(name), before(new)]] if new != name else [[after(name)]]
    if concurrent and new != name:
        orders.append([after(name), after(new)])
    doubt: Found = None
    for order in orders:
        conflict = meeting.find(order, list(dict.fromkeys([*equal_old, *equal_new])))
        if conflict is not None and not isinstance(conflict, Unknown):
            return conflict
        doubt = doubt or conflict
    return doubt


def _refusal(conflict: Found, a: Access, b: Access) -> Verdict:
    if conflict is None or isinstance(conflict, Unknown):
        reason = f"it could not be proved that no two iterations that meet in `{a.buffer.name}` change order"
        return refuse(reason, kind="unproved")
    return refuse(f"{describe(conflict, a, b)}, in this order", conflict)
