"""``schedule="polyhedral"``: isl decides what is fused, skewed and run at once; public steps do it.

Meant for programs whose dependences are no boxes: stencils in a time loop, eliminations, wavefronts, chains of
matrix and vector products. Nests that isl leaves as they are get the strategies of ``schedule="auto"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace

from weft.auto.draft import Draft, P
from weft.auto.plan import Decision
from weft.auto.polyhedral_facts import Facts, read_facts
from weft.auto.polyhedral_finish import finish_nest
from weft.auto.polyhedral_follow import Follower
from weft.auto.polyhedral_nest import Nest, choose_depth, choose_order, shares_arrays
from weft.auto.polyhedral_streams import common_band, finish_rows
from weft.auto.scheduler import STRATEGIES
from weft.auto.strategy import schedule_nest
from weft.ir.errors import ScheduleError
from weft.ir.solve import variables
from weft.poly.isl_schedule import Band, Parts, Tree, ask_schedule
from weft.runtime.threads import get_num_threads
from weft.schedules.schedule import Schedule
from weft.target.cpu.host import Machine

#: How long isl may think; what it has not answered by then is scheduled without it.
SECONDS = 4.0


def polyhedral_schedule(schedule: Schedule, machine: Machine, threads: int | None = None) -> list[Decision]:
    """Schedules ``schedule``'s program for ``machine``; what was decided, and what was not possible."""
    draft = Draft(schedule, machine, get_num_threads() if threads is None else threads)
    empty = [stage.name for stage in draft.stages if stage.is_empty]
    asked = f"`{empty[0]}` computes nothing" if empty else None
    tree = asked or ask_schedule(schedule.kernel, schedule.numerics, seconds=SECONDS)
    if isinstance(tree, str):
        draft.decide("fallback", schedule.kernel.name, "scheduled without isl", tree)
    else:
        work = _Polyhedral(draft)
        refusal = draft.attempt(work.follow, tree, work.follower.in_order(list(work.follower.names)), 0)
        if refusal is not None:
            draft.decide("fallback", schedule.kernel.name, "scheduled without isl", refusal.what)
    for name in [stage.name for stage in draft.stages]:
        if name in draft.stages and name not in draft.scheduled:
            schedule_nest(draft, name, STRATEGIES)
    return draft.decisions


class _Polyhedral:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.follower = Follower(draft.s)
        self.facts: Facts = read_facts(draft.s.kernel)

    def attempt(self, steps: Callable[P, object], *args: P.args, **named: P.kwargs) -> ScheduleError | None:
        """``steps(*args)`` as a whole or not at all."""
        known = deepcopy((self.follower.names, self.follower.values))
        error = self.draft.attempt(steps, *args, **named)
        if error is not None:
            self.follower.names, self.follower.values = known
        return error

    def follow(self, tree: Tree, blocks: Sequence[str], level: int) -> None:
        if isinstance(tree, Parts):
            self._parts(tree, blocks, level)
        elif isinstance(tree, Band):
            self._band(tree, blocks, level)

    def _parts(self, tree: Parts, blocks: Sequence[str], level: int) -> None:
        rank = {name: n for n, (names, _) in enumerate(tree.parts) for name in names}
        error = self.attempt(self._apart, blocks, level, rank, ordered=tree.ordered)
        if error is not None:
            self._give_up(blocks, "not taken apart as isl would", error)
            return
        place = {b: n for n, b in enumerate(self.follower.in_order(blocks))}
        here = [(names & place.keys(), inside) for names, inside in tree.parts if names & place.keys()]
        rest = sorted(here, key=lambda part: min(place[b] for b in part[0]))
        while rest:
            names, inside = rest.pop(0)
            if rest and level == 0 and self._merge_rows(inside, rest[0][1], names | rest[0][0]):
                rest.pop(0)
            else:
                self.follow(inside, [b for b in blocks if b in names], level)

    def _apart(self, blocks: Sequence[str], level: int, rank: Mapping[str, int], *, ordered: bool) -> None:
        """Statements of another rank in nests of their own, and if ``ordered`` in the order of their ranks."""
        self.follower.separate(blocks, level, rank.__getitem__)
        if ordered:
            self.follower.arrange(blocks, level, rank)

    def _merge_rows(self, first: Tree, second: Tree, blocks: Iterable[str]) -> bool:
        """Two bands as one, where they go through the same large array and that is legal."""
        band = common_band(first, second, self.facts, self.draft)
        if band is None:
            return False
        names = self.follower.in_order(list(blocks))
        nest = Nest(tuple(names), band, self.facts, choose_order(band, names, self.facts), 0, depth=1)

        def merge() -> None:
            nest.blocks = tuple(self._move_out_small(band, names, 0))
            nest.loops.append(self.follower.follow_member(band, nest.order[0], nest.blocks, 0))
            finish_rows(self.draft, nest)

        return self.attempt(merge) is None

    def _band(self, band: Band, blocks: Sequence[str], level: int) -> None:
        blocks = self._move_out_small(band, blocks, level)
        nest = Nest(tuple(blocks), band, self.facts, choose_order(band, blocks, self.facts), level)
        nest.depth, nest.tiles = choose_depth(nest, self.facts, self.draft)
        if self._is_simple(nest):
            return
        if len(blocks) > 1 and level == 0 and any(band.coincident) and not shares_arrays(nest, self.draft):
            if self._each_alone(nest):
                self.draft.decide("fusion", ", ".join(blocks), "not merged", "they share no array that is large")
            return
        error = self._try_band(nest)
        if error is None:
            return
        self._give_up(blocks, "not merged as isl would" if len(blocks) > 1 else "not skewed as isl would", error)
        if len(blocks) > 1:
            self._each_alone(nest)

    def _each_alone(self, nest: Nest) -> bool:
        """Every statement in a nest of its own, where that is legal."""
        alone = {b: n for n, b in enumerate(nest.blocks)}
        error = self.attempt(self.follower.separate, nest.blocks, nest.level, alone.__getitem__)
        for block in nest.blocks if error is None else ():
            own = Band({block: nest.band.rows[block]}, nest.band.coincident, nest.band.permutable, None)
            self._band(own, [block], nest.level)
        return error is None

    def _is_simple(self, nest: Nest) -> bool:
        """Whether the strategies for one block do better: there is no other, and it can run on threads as it is."""
        return len(nest.blocks) == 1 and nest.level == 0 and not nest.tiles and any(nest.band.coincident)

    def _try_band(self, nest: Nest) -> ScheduleError | None:
        """The loops of the band; where they cannot all be made, the outermost of them. The refusal of the first try."""
        first: ScheduleError | None = None
        for depth in range(nest.depth, 0 if nest.depth and len(nest.blocks) > 1 else nest.depth - 1, -1):
            tried = replace(nest, depth=depth, tiles=nest.tiles if len(nest.tiles) <= depth else (), loops=[])
            error = self.attempt(self._follow_band, tried)
            if error is None:
                if first is not None:
                    what = f"only the outermost {depth} of {nest.depth} loops merged"
                    self._give_up(nest.blocks, what, first)
                return None
            first = first or error
        return first

    def _follow_band(self, nest: Nest) -> None:
        blocks = list(nest.blocks)
        for n, member in enumerate(nest.order[: nest.depth]):
            nest.loops.append(self.follower.follow_member(nest.band, member, blocks, nest.level + n))
        self._say_what_was_done(nest)
        if 0 < nest.depth == len(nest.order):
            self.follow(nest.band.inside, blocks, nest.level + nest.depth)
        finish_nest(self.draft, nest)

    def _say_what_was_done(self, nest: Nest) -> None:
        rows = [row for b in nest.blocks for row in nest.band.rows[b]]
        skewed = any(row is not None and len(variables(row)) > 1 for row in rows) and nest.depth > 1
        if not nest.loops or (len(nest.blocks) == 1 and not skewed):
            return
        what = f"one nest in loops {', '.join(nest.loops)}{', skewed' if skewed else ''}"
        why = "isl: what one writes the others use soon after" if len(nest.blocks) > 1 else "isl: no dependence"
        self.draft.decide("fusion", ", ".join(nest.blocks), what, f"{why}{', never backwards' if skewed else ''}")

    def _move_out_small(self, band: Band, blocks: Sequence[str], level: int) -> list[str]:
        """Statements of fewer loops, and those that recurrences start from, go first, or last, where that is legal.

        The others are returned.
        """
        deep = len(band.coincident)
        serial = not any(band.coincident)
        small = [b for b in blocks if len(self.follower.loops(b, level)) < deep or (serial and self._only_writes(b))]
        large = [b for b in blocks if b not in small]
        for place in (-1, 1) if small and large else ():
            rank = {b: place if b in small else 0 for b in blocks}
            if self.attempt(self._apart, blocks, level, rank, ordered=True) is None:
                return large
        return list(blocks)

    def _only_writes(self, block: str) -> bool:
        return all(a.writes and not a.reads for a in self.facts.accesses[block])

    def _give_up(self, blocks: Sequence[str], what: str, error: ScheduleError) -> None:
        self.draft.decide("fallback", ", ".join(blocks), what, error.why or error.what)
