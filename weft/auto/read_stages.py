"""The stages of a loop program, read from its blocks and the loops around them.

>>> stage = read_stages(kernel)["C"]
>>> [(i.name, i.extent, i.is_reduction) for i in stage.iters]
[('m', 512, False), ('n', 512, False), ('k', 512, True)]
>>> stage.reads[0].stride("m")          # elements of memory between neighbours along `m`; 0: the same element
512
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, floor

from weft.auto.costs import point_cost
from weft.auto.stages import UNKNOWN_EXTENT, Stage, StageAccess, StageIter, Stages
from weft.ir.affine import affine_form
from weft.ir.borders import away_from_borders
from weft.ir.buffer import Buffer
from weft.ir.evaluated import evaluated
from weft.ir.expr import Binary, Const, Expr, Load, Var
from weft.ir.interval import Interval, bounds
from weft.ir.nesting import inner_statements
from weft.ir.simplify import simplify
from weft.ir.solve import variables
from weft.ir.stmt import Alloc, Atomic, Block, For, If, Iter, Kernel, Seq, Stmt, Store
from weft.ir.visit import fact, free_vars, stores
from weft.schedules.find import ranges_at

#: Stages that were read before, by the statements around a block and by its place, all by identity; those are kept too.
KnownStages = dict[tuple[int, ...], tuple[tuple[Stmt, ...], Stage | None]]


def read_stages(kernel: Kernel, steps: frozenset[str] = frozenset(), known: KnownStages | None = None) -> Stages:
    """Every outermost block of ``kernel`` that writes one buffer through one store; ``steps`` are recurrences.

    Those that are ``known`` from the program before a step are the same where nothing changed around them.
    """
    reader = _Reader(kernel, steps, {} if known is None else known)
    reader.visit(kernel.body, ())
    return Stages(tuple(reader.found), frozenset(kernel.outputs))


class _Reader:
    def __init__(self, kernel: Kernel, steps: frozenset[str], known: KnownStages) -> None:
        self.kernel = kernel
        self.steps = steps
        self.known = known
        self.found: list[Stage] = []
        self.blocks: dict[int, int] = {}  # by loop: how many blocks are inside
        self._count(kernel.body)

    def _count(self, s: Stmt) -> int:
        count = 1 if isinstance(s, Block) else sum(map(self._count, inner_statements(s)))
        if isinstance(s, For):
            self.blocks[id(s)] = count
        return count

    def visit(self, s: Stmt, around: tuple[Stmt, ...]) -> None:
        inside = around if isinstance(s, (Seq, Alloc)) else (*around, s)
        if not isinstance(s, Block):
            for child in inner_statements(s):
                self.visit(child, inside)
            return
        key = (len(self.found), *map(id, inside))
        if key not in self.known:
            self.known[key] = (inside, self._stage(s, tuple(x for x in around if isinstance(x, For))))
        stage = self.known[key][1]
        if stage is not None:
            self.found.append(stage)

    def _stage(self, block: Block, loops: tuple[For, ...]) -> Stage | None:
        steps = sum(loop.var.name in self.steps for loop in loops)
        shared = max(steps, sum(self.blocks[id(loop)] > 1 for loop in loops))
        stage = _stage(self.kernel, block, loops[:shared], loops[shared:], len(self.found))
        return replace(stage, steps=steps) if stage is not None and steps else stage


def _stage(kernel: Kernel, block: Block, outer: tuple[For, ...], loops: tuple[For, ...], position: int) -> Stage | None:
    point = _point(block)
    if point is None:
        return None
    iters = _iters(kernel, block, loops)
    own, shared = (tuple(x.var.name for x in some) for some in (loops, outer))
    counts = tuple(_count(kernel, loop) for loop in outer)
    work = (point.write, point.reads, point.operations, point.op)
    return Stage(block.name, block, own, iters, *work, position, shared, counts)


@dataclass(frozen=True, slots=True)
class Point:
    """What a block does at one point: see the fields of the same names of `Stage`."""

    write: StageAccess
    reads: tuple[StageAccess, ...]
    operations: int
    op: str


def _point(block: Block) -> Point | None:
    """What ``block`` does at one point; None where it does not write through one store."""
    names = frozenset(i.var.name for i in block.iters)
    known = _points(block.body)
    if names not in known:
        known[names] = _find_point(block.body, names)
    return known[names]


@fact
def _points(body: Stmt) -> dict[frozenset[str], Point | None]:
    """What was found out about a body, by the iterators around it: rewrites of loops leave bodies as they are."""
    return {}


def _find_point(body: Stmt, names: frozenset[str]) -> Point | None:
    writes = stores(body)
    if len({(w.buffer.name, w.indices) for w in writes}) != 1:
        return None
    written = writes[0]
    value, op = _update(written)
    write = _access(written.buffer, written.indices, names, is_write=True, guarded=isinstance(body, If))
    reads = tuple(
        _access(load.buffer, load.indices, names, guarded=bool(tests))
        for e in (value, *written.indices)
        for load, tests, _ in evaluated(e)
        if isinstance(load, Load)
    )
    return Point(write, reads, round(point_cost(value)) + (op != "="), op)


def _count(kernel: Kernel, loop: For) -> int:
    constant = isinstance(loop.lo, Const) and isinstance(loop.hi, Const)
    extent = _extent(loop.lo, loop.hi, {} if constant else ranges_at(kernel, loop))
    return UNKNOWN_EXTENT if extent is None else extent


def _iters(kernel: Kernel, block: Block, loops: tuple[For, ...]) -> tuple[StageIter, ...]:
    limits = [e for i in block.iters for e in (i.lo, i.hi)] + [e for loop in loops for e in (loop.lo, loop.hi)]
    ranges = ranges_at(kernel, block) if any(not isinstance(e, Const) for e in limits) else {}
    inside = {loop.var.name: loop for loop in loops}
    users: dict[str, list[str]] = {}
    for i in block.iters:
        for name in free_vars(i.binding):
            users.setdefault(name, []).append(i.var.name)

    def read(i: Iter) -> StageIter:
        used = [n for n in free_vars(i.binding) if n in inside]
        is_own = len(used) == 1 and users[used[0]] == [i.var.name] and _counts_up(i.binding, used[0])
        if is_own:
            loop = inside[used[0]]
            constant = isinstance(loop.lo, Const) and isinstance(loop.hi, Const)
            exact = constant or isinstance(simplify(loop.hi - loop.lo, ranges), Const)
            extent = _extent(loop.lo, loop.hi, ranges)
            short = 0.0 if exact else _short_part(loop, extent, ranges)
            return StageIter(i.var.name, used[0], extent, i.kind == "reduce", exact, short)
        return StageIter(i.var.name, None, _extent(i.lo, i.hi, ranges) if used else 1, i.kind == "reduce")

    return tuple(map(read, block.iters))


def _counts_up(binding: Expr, loop: str) -> bool:
    """Whether ``binding`` is one more for each iteration of ``loop``."""
    if isinstance(binding, Var):
        return True
    form = affine_form(binding)
    return form is not None and form.get(loop) == 1


def _extent(lo: Expr, hi: Expr, ranges: Mapping[str, Interval]) -> int | None:
    """How many values there are from ``lo`` to ``hi``, at most."""
    if isinstance(lo, Const) and isinstance(hi, Const):
        return max(0, int(hi.value) - int(lo.value))
    ends = (hi.left, hi.right) if isinstance(hi, Binary) and hi.op == "min" else (hi,)
    most = [bounds(simplify(end - lo, ranges), ranges).hi for end in ends]
    return min((max(0, n) for n in most if n is not None), default=None)


def _short_part(loop: For, extent: int | None, ranges: Mapping[str, Interval]) -> float:
    """In which part of all cases ``loop`` runs less than ``extent`` times: of tiles the last, of triangles all."""
    ends = (loop.hi.left, loop.hi.right) if isinstance(loop.hi, Binary) and loop.hi.op == "min" else (loop.hi,)
    return max((_part_below(simplify(end - loop.lo, ranges), extent, ranges) for end in ends), default=1.0)


def _part_below(e: Expr, least: int | None, ranges: Mapping[str, Interval]) -> float:
    """For which part of the values of the one variable in ``e`` that is less than ``least``."""
    form = affine_form(e)
    if form is None or least is None or len(names := variables(form)) > 1:
        return 1.0
    for name in names:
        values, step = ranges.get(name), form[name]
        if values is None or values.lo is None or values.hi is None or step == 0 or values.hi < values.lo:
            return 1.0
        enough = (least - form.get("", 0)) / step  # from there on, or up to there
        below = ceil(enough) - values.lo if step > 0 else values.hi - floor(enough)
        return min(max(below, 0) / (values.hi - values.lo + 1), 1.0)
    return float(form.get("", 0) < least)


def _update(s: Store | Atomic) -> tuple[Expr, str]:
    """The value that is accumulated and how; or the value stored and ``=``."""
    if isinstance(s, Atomic):
        return s.value, s.op
    value = s.value
    if isinstance(value, Binary) and value.op in ("+", "*", "min", "max"):
        for old, new in ((value.left, value.right), (value.right, value.left)):
            if isinstance(old, Load) and old.buffer.name == s.buffer.name and old.indices == s.indices:
                return new, value.op
    return value, "="


def _access(
    buffer: Buffer, indices: tuple[Expr, ...], names: frozenset[str], *, is_write: bool = False, guarded: bool = False
) -> StageAccess:
    rows: list[Mapping[str, int]] = []
    offsets: list[int | None] = []
    for index in indices:
        form = affine_form(index)
        if form is None and not is_write:
            form, guarded = affine_form(away_from_borders(index)), True
        if form is None:
            return StageAccess(buffer, None, is_write, guarded)
        rows.append({n: c for n, c in form.items() if n in names})
        offsets.append(form.get("", 0) if names.issuperset(variables(form)) else None)
    return StageAccess(buffer, tuple(rows), is_write, guarded, tuple(offsets))
