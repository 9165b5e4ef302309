"""isl's schedule tree put into practice by public steps: fission, swap, skew, shift, reorder, wrap and fuse_loops.

The tree says when every statement runs: a row per loop of the new nest. For each row every statement's loop is
brought to the front of its nest, skewed and shifted until its variable is the row, and merged with those of
the others. Each step is checked like a user's own; one that is refused ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.ir.errors import ScheduleError
from weft.ir.solve import Form, combine
from weft.ir.stmt import For, Stmt
from weft.poly.isl_schedule import Band
from weft.schedules.find import blocks_inside, find_loop, loops_around
from weft.schedules.fission import body_parts
from weft.schedules.schedule import Schedule

Key = Callable[[str], Hashable]


@dataclass(slots=True)
class Unit:
    """Blocks that one loop is made for, and the row that is to be its variable, less the loop ``pivot`` itself.

    Without a pivot the blocks have no loop left: one of a single iteration is made.
    """

    blocks: list[str]
    pivot: str | None
    time: Form


class Follower:
    """A schedule under way, with what the loops of its blocks have become."""

    def __init__(self, schedule: Schedule) -> None:
        self.s = schedule
        names = [b.name for b in blocks_inside(schedule.kernel)]
        loops = {name: [f.var.name for f in loops_around(schedule.kernel, name)] for name in names}
        #: By block: each loop of the original program by its name now.
        self.names: dict[str, dict[str, str]] = {b: {name: name for name in found} for b, found in loops.items()}
        #: By block: the value of each original loop that is settled, in terms of the loops now.
        self.values: dict[str, dict[str, Form]] = {b: {} for b in names}

    # What there is

    def in_order(self, blocks: Sequence[str]) -> list[str]:
        """``blocks`` as they stand in the program."""
        return [b.name for b in blocks_inside(self.s.kernel) if b.name in blocks]

    def loops(self, block: str, level: int = 0) -> list[str]:
        """The loops around ``block`` inside of the first ``level``."""
        return [f.var.name for f in loops_around(self.s.kernel, block)][level:]

    def _head(self, block: str, level: int) -> str:
        """What of the statements inside ``level`` loops holds ``block``: its outermost loop there, or the block."""
        return (self.loops(block, level) or [block])[0]

    # Taking apart

    def separate(self, blocks: Sequence[str], level: int, key: Key) -> None:
        """No statement inside the first ``level`` loops holds blocks of different ``key``."""
        for _ in range(len(blocks)):
            for loop in dict.fromkeys(h for b in blocks if (h := self._head(b, level)) != b):
                if len({key(b) for b in self._inside(loop, blocks)}) > 1:
                    self._divide(loop, blocks, key)
                    break
            else:
                return

    def _inside(self, loop: str, blocks: Sequence[str]) -> list[str]:
        return [b.name for b in blocks_inside(find_loop(self.s.kernel, loop)) if b.name in blocks]

    def _divide(self, loop: str, blocks: Sequence[str], key: Key) -> None:
        """``loop`` as several, each for blocks of one key, in the order they stand."""
        inside = self._inside(loop, blocks)
        if len({key(b) for b in inside}) < 2:
            return None
        parts = body_parts(find_loop(self.s.kernel, loop).body)
        if parts is None:
            inner = next((f for f in self.loops(inside[0]) if f != loop and self._is_in(f, loop)), None)
            if inner is None:
                raise ScheduleError(f"the statements in `{loop}` stand in no sequence")
            self._divide(inner, blocks, key)
            return self._divide(loop, blocks, key)
        mixed = next((p for p in parts if isinstance(p, For) and len({key(b) for b in _names(p, blocks)}) > 1), None)
        if mixed is not None:
            self._divide(mixed.var.name, blocks, key)
            return self._divide(loop, blocks, key)
        for part, following in pairwise(parts):
            here, there = _names(part, blocks), _names(following, blocks)
            if {key(b) for b in here} != {key(b) for b in there}:
                rest = str(self.s.fission(loop, here[-1]))
                for block in self._inside(rest, blocks):
                    self._rename(block, loop, rest)
                return self._divide(rest, blocks, key)
        return None

    def _is_in(self, loop: str, outer: str) -> bool:
        return any(f.var.name == outer for f in loops_around(self.s.kernel, find_loop(self.s.kernel, loop)))

    def _rename(self, block: str, old: str, new: str) -> None:
        names, values = self.names[block], self.values[block]
        self.names[block] = {original: new if now == old else now for original, now in names.items()}
        self.values[block] = {o: {new if n == old else n: c for n, c in v.items()} for o, v in values.items()}

    def arrange(self, blocks: Sequence[str], level: int, rank: Mapping[str, int]) -> None:
        """The statements inside the first ``level`` loops in the order of ``rank``, by exchanging neighbours."""
        for _ in range(len(blocks) ** 2):
            order = self.in_order(blocks)
            heads = list(dict.fromkeys(self._head(b, level) for b in order))
            of = {self._head(b, level): rank[b] for b in order}
            wrong = next(((a, b) for a, b in pairwise(heads) if of[a] > of[b]), None)
            if wrong is None:
                return
            self.s.swap(*wrong)

    # Putting together

    def follow_member(self, band: Band, member: int, blocks: Sequence[str], level: int) -> str:
        """The loop for row ``member`` of ``band``, around all of ``blocks``, inside of ``level`` others."""
        units = self._units(band, member, blocks, level)
        heads = [(unit, self._shape(unit, level)) for unit in units]
        first = heads[0][1]
        for unit, loop in heads[1:]:
            self.s.fuse_loops(first, loop, by="value")
            for block in unit.blocks:
                self._rename(block, loop, first)
        return first

    def _units(self, band: Band, member: int, blocks: Sequence[str], level: int) -> list[Unit]:
        asked: dict[str, Unit] = {b: self._unit(b, band.rows[b][member], level) for b in blocks}

        def key(block: str) -> Hashable:
            unit = asked[block]
            return (unit.pivot or block, frozenset(unit.time.items()))

        self.separate(blocks, level, key)
        units: dict[Hashable, Unit] = {}
        for block in self.in_order(blocks):
            asked[block] = self._unit(block, band.rows[block][member], level)
            found = units.setdefault(key(block), asked[block])
            if found is not asked[block]:
                found.blocks.append(block)
        return list(units.values())

    def _unit(self, block: str, row: Form | None, level: int) -> Unit:
        if row is None:
            raise ScheduleError(f"`{block}` runs at times that are no one linear form")
        time: Form = {}
        open_loops = []
        for original, c in row.items():
            if not original or original in self.values[block]:
                time = combine(time, self.values[block][original] if original else {"": 1}, c)
            else:
                open_loops.append((original, c))
        if not open_loops:
            return Unit([block], None, time)
        here = self.loops(block, level)
        open_loops.sort(key=lambda found: here.index(self.names[block][found[0]]))
        *others, (pivot, factor) = open_loops
        if factor != 1:
            raise ScheduleError(f"`{block}` would run through loop `{pivot}` in steps of {factor}")
        for original, c in others:
            time = combine(time, {self.names[block][original]: c})
        return Unit([block], self.names[block][pivot], time)

    def _shape(self, unit: Unit, level: int) -> str:
        """The loop whose variable is the unit's time, outermost of those inside ``level`` loops."""
        if unit.pivot is None:
            return str(self.s.wrap(self._head(unit.blocks[0], level), sum_text(unit.time)))
        pivot = unit.pivot
        for name, c in unit.time.items():
            if name:
                self.s.skew(pivot, name, c)
            else:
                self.s.shift(pivot, c)
        around = self.loops(unit.blocks[0], level)
        before = around[: around.index(pivot)]
        if before:
            self.s.reorder(pivot, *before)
        for block in unit.blocks:
            original = next(o for o, now in self.names[block].items() if now == pivot and o not in self.values[block])
            self.values[block][original] = combine({pivot: 1}, unit.time, -1)
        return pivot


def _names(s: Stmt, blocks: Sequence[str]) -> list[str]:
    return [b.name for b in blocks_inside(s) if b.name in blocks]


def sum_text(form: Form) -> str:
    """``form`` as one writes it: ``"2*t + i - 1"``."""
    terms = [f"{c}*{name}" if c != 1 else name for name, c in form.items() if name]
    if form.get("") or not terms:
        terms.append(str(form.get("", 0)))
    return " + ".join(terms).replace("+ -", "- ")
