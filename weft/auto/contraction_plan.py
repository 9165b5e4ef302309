"""How a contraction may run: plans as data, before anything is done.

Iterators are told apart by which operands use them, never by name: lanes run along one that what is written has;
operands that use it are loaded as vectors, the others broadcast one element to all lanes. Rows are iterators that some
operand does not use, so that what it loads serves all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from weft.auto.costs import point_cost
from weft.auto.estimate_regions import MAX_COPIES
from weft.auto.stages import Stage, StageAccess, StageIter
from weft.ir.expr import Binary, Cast, Expr, Select
from weft.ir.stmt import Stmt, Store
from weft.ir.visit import Node, fact, loads, rewrite
from weft.schedules.layouts import LETTERS

#: Iterators of sums and what their loops move them on by, outermost first.
Steps = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Blocking:
    """A block of ``width`` elements along the lanes and ``depth`` steps of reduction ``along`` stays in a cache."""

    along: str
    depth: int
    width: int


@dataclass(frozen=True, slots=True)
class Dot:
    """An instruction that takes ``group`` steps of reduction ``along`` at once, in each of ``lanes`` lanes."""

    instruction: str
    along: str
    group: int
    lanes: int


@dataclass(frozen=True, slots=True)
class ContractionPlan:
    """Lanes along ``lane``, ``width`` elements and ``rows`` of each tile of sums in registers.

    ``packed`` are buffers that are copied so that the elements of a tile's lanes are side by side, ``by_rows`` those
    so that the elements of its rows are. ``steps`` are the loops of the sum, outermost first, by iterator and what they
    move it on by; none where the program's own order stays. ``strips`` are iterators of rows that go on by so much
    outside the panels (`contraction_strips`). ``dot`` is the instruction that does the innermost loops, if one does.
    """

    lane: str
    width: int
    rows: tuple[tuple[str, int], ...]
    packed: tuple[str, ...] = ()
    by_rows: tuple[str, ...] = ()
    blocking: Blocking | None = None
    steps: Steps = ()
    strips: Steps = ()
    dot: Dot | None = None

    @property
    def way(self) -> str:
        by = self.dot.instruction if self.dot else ""
        return f"{self.lane} {self.packed} {self.by_rows} {'blocked' if self.blocking else ''} {by}"

    def __str__(self) -> str:
        tile = " x ".join([*(f"{n}:{size}" for n, size in self.rows), f"{self.lane}:{self.width}"])
        copies = f", {' and '.join(self.packed)} copied" if self.packed else ""
        copies += f", {' and '.join(self.by_rows)} copied by rows" if self.by_rows else ""
        block = self.blocking
        blocks = f", blocks {block.along}:{block.depth} x {block.width}" if block else ""
        steps = f", steps {' '.join(f'{n}:{by}' for n, by in self.steps)}" if self.steps else ""
        strips = f", strips {' '.join(f'{n}:{by}' for n, by in self.strips)}" if self.strips else ""
        by = f", by {self.dot.instruction}" if self.dot else ""
        return f"tiles {tile}{copies}{blocks}{steps}{strips}{by}"


@dataclass(frozen=True)
class Contraction:
    """A stage and the plan that it follows."""

    stage: Stage
    plan: ContractionPlan
    #: Elements in a vector, and sums that keep the units busy while each waits for the one before.
    vector: int
    enough: float

    @cached_property
    def operands(self) -> tuple[StageAccess, ...]:
        return self.stage.distinct_reads

    @property
    def lane(self) -> StageIter:
        return self.stage.by_name[self.plan.lane]

    @property
    def rows(self) -> dict[str, int]:
        return dict(self.plan.rows)

    @property
    def tile(self) -> dict[str, int]:
        """How many elements along each iterator a tile has."""
        return {self.plan.lane: self.plan.width, **self.rows}

    @property
    def vectors(self) -> int:
        return -(-self.plan.width // self.vector)

    @property
    def sums(self) -> int:
        """Registers of sums."""
        return self.vectors * prod(self.rows.values())

    @property
    def vector_operands(self) -> tuple[StageAccess, ...]:
        return tuple(a for a in self.operands if a.uses(self.plan.lane))

    @property
    def is_apart(self) -> bool:
        """Whether nothing is used again along the lanes: rows of tiles side by side then use whole lines of memory."""
        return len(self.vector_operands) == len(self.operands)

    @property
    def packed(self) -> tuple[StageAccess, ...]:
        """One access of each buffer that is copied into another order."""
        along = {a.buffer.name: a for a in reversed(self.vector_operands)}
        return tuple(along[name] for name in self.plan.packed)

    @property
    def by_rows(self) -> tuple[tuple[StageAccess, str], ...]:
        """Those that are copied by rows, with the iterator of these."""
        found = ((a, row_of(self.plan, a)) for a in self.operands if a.buffer.name in self.plan.by_rows)
        return tuple({a.buffer.name: (a, row) for a, row in found if row is not None}.values())

    @property
    def edges(self) -> int:
        """Iterators along which some tiles are not full."""
        tile = self.tile
        return sum(not i.exact or i.count % tile[i.name] != 0 for i in self.stage.spatial if i.name in tile)

    @property
    def turns(self) -> bool:
        """Whether sums lie across the lanes in memory."""
        return self.stage.write.stride(self.plan.lane) != 1

    @property
    def is_written_out(self) -> bool:
        """Whether all steps are written out, since rows share what they load: there are few of them."""
        return is_window(self.stage, self.plan.lane) and self.sums * _steps(self.stage) <= MAX_COPIES

    def is_batch(self, name: str) -> bool:
        """Whether all that is loaded as vectors is another for each value of ``name``."""
        return all(a.uses(name) for a in self.vector_operands)


def row_of(plan: ContractionPlan, access: StageAccess) -> str | None:
    """The iterator of rows along which ``access`` can be cut into tiles."""
    return next((name for name, _ in plan.rows if access.subscript_of(name) is not None), None)


def packed_layout(access: StageAccess, plan: ContractionPlan, along: int, tile: int | None) -> str:
    """A copy with ``tile`` elements along a dimension side by side, all of them for None, in the order of steps.

    Steps in which nothing is cut come in the order of dimensions too; those of a group, for an instruction that takes
    them at once, are innermost.
    """
    steps, group = plan.steps, []
    letters = {d: LETTERS[d] for d in range(access.buffer.rank) if d != along}
    if plan.dot is not None and (d := access.subscript_of(plan.dot.along)) is not None:
        group = [f"{LETTERS[d]}%{plan.dot.group}"]
        letters[d] = f"{LETTERS[d]}/{plan.dot.group}"
    words: list[str] = []
    for name, by in steps:
        d = next((d for d in letters if list((access.rows or ())[d]) == [name]), None)
        if d is not None:
            cut = max(step for of, step in steps if of == name)
            words.append(f"{letters[d]}/{by}" if by > 1 else f"{letters[d]}%{cut}" if cut > 1 else letters[d])
    given = {word[0] for word in words}
    others = [*(letter for letter in letters.values() if letter not in given), *words]
    last = LETTERS[along]
    return " ".join([*others, last, *group] if tile is None else [f"{last}/{tile}", *others, f"{last}%{tile}", *group])


def bare_stage(stage: Stage) -> Stage:
    """``stage`` as if what lies beyond the edges of its operands were there: it is copied around them first."""
    if not any(a.guarded for a in stage.reads):
        return stage
    block = replace(stage.block, body=_bare(stage.block.body))
    return replace(stage, block=block, reads=tuple(replace(a, guarded=False) for a in stage.reads))


@fact
def _bare(body: Stmt) -> Stmt:
    def inside(n: Node) -> Node | None:
        if not isinstance(n, Select) or loads(n.condition):
            return None
        return n.then if loads(n.then) else n.otherwise

    return rewrite(body, inside)


def is_contraction(stage: Stage) -> bool:
    """Whether sums (or minima ...) are taken of products (or anything else) of operands reused along iterators."""
    if stage.op == "=" or not stage.is_affine or not stage.is_plain or stage.reads_target or stage.is_empty:
        return False
    long = [i for i in stage.spatial if i.count > 1]
    summed = [i for i in stage.reductions if i.count > 1]
    if not long or not summed or any(stage.write.uses(i.name) for i in summed):
        return False
    reads = [a for a in stage.distinct_reads if any(a.uses(i.name) for i in summed)]
    return len(reads) > 1 and any(not a.uses(i.name) for a in reads for i in long)


def lane_iterators(stage: Stage, vector: int, is_loadable: Callable[[StageAccess, str], bool]) -> list[StageIter]:
    """Iterators that may become lanes; where all lies along one that fills its vectors, about, only that."""
    reads = stage.distinct_reads
    long = [i for i in stage.spatial if i.count > 1]
    gathered = {i.name for i in long if any(not is_loadable(a, i.name) for a in reads)}
    near = [i for i in long if i.name not in gathered] or long
    along = [i for i in near if i.count % vector == 0 or i.count >= vector**2]
    along = [i for i in along if stage.write.stride(i.name) == 1 and all(a.stride(i.name) in (0, 1) for a in reads)]
    return along or sorted(near, key=lambda i: (stage.write.stride(i.name) != 1, -i.count))


def is_apart(access: StageAccess, lane: str) -> bool:
    """Whether the elements of a vector lie apart and can be copied to be side by side."""
    return access.uses(lane) and access.stride(lane) != 1 and access.subscript_of(lane) is not None


def footprint(stage: Stage, access: StageAccess, fixed: Collection[str] = ()) -> int:
    """How many elements ``access`` touches while the iterators ``fixed`` stand still."""
    return prod(spans(stage, access, fixed))


def spans(stage: Stage, access: StageAccess, fixed: Collection[str] = ()) -> tuple[int, ...]:
    """The same by dimension."""
    assert access.rows is not None
    reach = {i.name: 0 if i.name in fixed else i.count - 1 for i in stage.iters}
    return tuple(1 + sum(abs(c) * reach[n] for n, c in row.items()) for row in access.rows)


def instructions(stage: Stage) -> int:
    """Vector instructions that update a sum: a product that is added is one."""
    store = _bare(stage.block.body)
    if not isinstance(store, Store):
        return max(1, stage.operations)
    value = store.value
    fused = stage.op == "+" and isinstance(value, Binary) and any(_is_product(e) for e in (value.left, value.right))
    return max(1, round(point_cost(value)) - fused)


def _is_product(e: Expr) -> bool:
    while isinstance(e, Cast):
        e = e.operand
    return isinstance(e, Binary) and e.op == "*"


def _steps(stage: Stage) -> int:
    return prod(i.count for i in stage.reductions)


def is_window(stage: Stage, lane: str) -> bool:
    """Whether neighbouring rows load many of the same vectors, in few steps: a subscript moves with both."""
    rows = [row for a in stage.distinct_reads if a.uses(lane) for row in a.rows or () if not row.get(lane)]
    return _steps(stage) <= MAX_COPIES and any(sum(stage.by_name[n].count > 1 for n in row) > 1 for row in rows)
