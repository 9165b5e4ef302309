"""A reduction over storage of several threads, as the statement they run together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.ir.buffer import Buffer
from weft.ir.expr import Compare, Const, Expr, Load, Select, Var, identity, idx
from weft.ir.interval import Interval
from weft.ir.stmt import Alloc, For, Seq, Stmt, Store
from weft.ir.visit import substitute
from weft.passes.analysis.conditions import guarded
from weft.passes.analysis.loop_ranges import extent, loop_range
from weft.passes.analysis.thread_digits import Digit
from weft.passes.analysis.thread_reductions import Candidate, build_reduction, combined
from weft.passes.analysis.thread_shapes import WARP, Shape
from weft.passes.analysis.thread_units import Unit
from weft.passes.to_grid.launch_storage import LaunchStorage


@dataclass(frozen=True, slots=True)
class ReductionJoiner:
    """Joins reductions of one launch; ``mark`` says of a statement that barriers may stand before it."""

    storage: LaunchStorage
    mark: Callable[[Stmt], Stmt]
    fresh: Callable[[str], str]

    @property
    def shape(self) -> Shape:
        return self.storage.shape

    def join(self, unit: Unit) -> Stmt:
        """Combines what the threads of a group have; threads that have nothing bring what changes nothing.

        The result goes to the threads' copies of the target; where that is shared, or does not exist for some of
        them, to a variable of theirs, and from there by one of them to the target.
        """
        c = unit.reduction
        assert c is not None
        values = self.shape.values({**unit.digits, **unit.group})
        tests = [substitute(t, values) for t in (*unit.nest.tests, *c.guards)]
        value = self.own_value(unit, c, values, tests)
        target = Load(c.store.buffer, c.store.indices)
        place = substitute(self.storage.relocated(unit.digits, target, unit.ranges), values)
        is_own = c.store.buffer.name in self.storage.placement.own
        if is_own and not tests:
            return self.mark(self.together(unit, c, value, place))
        zero = identity(c.op, c.store.buffer.dtype)
        result = Buffer(self.fresh(f"{c.store.buffer.name}_all"), c.store.buffer.dtype, (idx(1),), scope="local")
        everything = Load(result, (idx(0),))
        update = Store(place.buffer, place.indices, combined(c.op, place, everything), span=c.store.span)
        first = [] if is_own else self.shape.first_of(unit.own)
        reduce = Seq((Store(result, (idx(0),), zero), self.together(unit, c, value, everything)))
        return Alloc(result, Seq((self.mark(reduce), self.mark(guarded([*first, *tests], update)))))

    def own_value(self, unit: Unit, c: Candidate, values: dict[Var, Expr], tests: list[Expr]) -> Expr:
        """What this thread brings."""
        digits = {**unit.digits, **unit.group}
        inside = {**unit.ranges, **{loop.var.name: loop_range(loop, unit.ranges) for loop in c.loops}}
        from_zero = {name: Interval(0, d.extent - 1) for name, d in unit.group.items()}
        starts: dict[Var, Expr] = {loop.var: loop.lo + loop.var for loop in c.loops if loop.lo != idx(0)}
        moved = self.storage.relocated(digits, substitute(c.value, starts), {**inside, **from_zero})
        value: Expr = substitute(moved, values)
        ends = [Compare("<", loop.var, extent(loop)) for loop in c.loops if not _is_whole(loop, unit.group)]
        for test in reversed([*tests, *(substitute(end, values) for end in ends)]):
            value = Select(test, value, identity(c.op, c.store.buffer.dtype))
        return value

    def together(self, unit: Unit, c: Candidate, value: Expr, place: Load) -> Stmt:
        reach = max(d.stride * d.extent for d in unit.group.values())
        in_warp = (reach <= WARP and WARP % reach == 0) or self.shape.total <= WARP
        store = Store(place.buffer, place.indices, value, span=c.store.span)
        own = [(loop.var, unit.group[loop.var.name]) for loop in c.loops]
        mine = [(var, digit, self.shape.digit(digit)) for var, digit in own]
        scope = "warp" if in_warp else "block"
        return build_reduction(store, c.op, value, self.passed(value), self.shape.number(), mine, scope)

    def passed(self, value: Expr) -> Buffer:
        """The array through which values of this type are passed."""
        kept = self.storage.passing.get(str(value.dtype))
        if kept is None:
            kept = Buffer(self.fresh("passed"), value.dtype, (idx(self.shape.total),), scope="shared")
            self.storage.passing[str(value.dtype)] = kept
        return kept


def _is_whole(loop: For, group: Mapping[str, Digit]) -> bool:
    count = extent(loop)
    return isinstance(count, Const) and int(count.value) == group[loop.var.name].extent
