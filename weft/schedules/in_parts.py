"""``in_parts``: an extremum, and sums that depend on it, found for each part of their steps, and brought together.

::

    M = max over t of x(t)                        M_p[p] = max over t in part p of x(t)
    S = sum over t of exp(x(t) - M) * v(t)        S_p[p] = sum over t in part p of exp(x(t) - M_p[p]) * v(t)
                                                  M = max over p of M_p[p]
                                                  S = sum over p of S_p[p] * exp(M_p[p] - M)

Parts do not wait for one another: they can be blocks of a GPU, or threads, and each can be in one pass (`online`). What
is summed must depend on the extremum by a factor (`exponents`), as there. Parts are brought together in order: split
softmax, as flash decoding does it. A part of which a mask leaves nothing adds nothing; where that is so of all, the
result is what it was in one part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Call, Compare, Const, Expr, Load, Select, Var, const, identity, idx
from weft.ir.nesting import path_to, sequence
from weft.ir.numerics import is_fast
from weft.ir.stmt import Alloc, Block, For, If, Iter, Kernel, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, mentions, rebuild, substitute
from weft.poly.leaves import update_of
from weft.poly.verdict import Verdict, refuse
from weft.schedules.exponents import RATES, growth
from weft.schedules.find import find_block, loops_around
from weft.schedules.loop_facts import check_number, check_valid
from weft.schedules.make_blocks import declared_anew
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics
from weft.schedules.unscale import places_in, runs_in_full

_SIGNS = {"max": 1, "min": -1}


@dataclass(frozen=True)
class _Sum:
    """A sum whose ``value`` grows with ``read``, an element of the extremum, at ``rate``; steps are ``step``."""

    block: Block
    value: Expr
    step: Iter
    read: Load
    rate: float
    seen: Expr


def check_in_parts(kernel: Kernel, extremum: str, *sums: str, size: int, numerics: Numerics) -> Verdict:
    """Each must be a nest of its own through all steps, and sums depend on the extremum by a factor."""
    wrong = check_number("size", size, 1)
    if not wrong.ok:
        return wrong
    node = find_block(kernel, extremum)
    update = update_of(node.body) if isinstance(node.body, Store) else None
    if update is None or update[0] not in _SIGNS or not update[1].dtype.is_float or not sums:
        return refuse(f"block `{extremum}` finds no maximum or minimum of floats, or nothing depends on it")
    if not is_fast(numerics):
        return replace(refuse(f"sums of parts change how `{sums[0]}` is rounded"), offers=('numerics="fast"',))
    for b in (node, *(find_block(kernel, name) for name in sums)):
        steps = [i for i in b.iters if i.kind == "reduce"]
        plain = isinstance(b.body, Store) and all(isinstance(i, Var) for i in b.body.indices)
        if len(steps) != 1 or not plain or not isinstance(steps[0].hi, Const) or not runs_in_full(kernel, b):
            return refuse(f"block `{b.name}` does not run through all steps of one loop in a nest of its own")
    for name in sums:
        if _read_sum(node, find_block(kernel, name)) is None:
            return refuse(f"what block `{name}` adds up does not depend on `{extremum}` by a factor")
    if _place(kernel, [node, *(find_block(kernel, name) for name in sums)]) is None:
        return refuse(f"`{extremum}` and what depends on it do not follow one another")
    return check_valid(in_parts(kernel, extremum, *sums, size=size).kernel)


@primitive(check_in_parts, "cannot find {*} in parts")
def in_parts(kernel: Kernel, extremum: str, *sums: str, size: int) -> Rewrite:
    """Makes the blocks of what the extremum is of, of the extremum and sums of parts, and of what is kept of these."""
    made = _Parts(kernel, extremum, sums, size)
    nests, buffers = made.emit()
    found = _place(kernel, [find_block(kernel, name) for name in (extremum, *sums)])
    assert found is not None
    around, roots = found
    last = max(n for n, s in enumerate(around.body) if any(s is r for r in roots))
    kept = [s for s in around.body[: last + 1] if not any(s is r for r in roots)]
    body = sequence([*kept, *nests, *around.body[last + 1 :]])
    for buffer in buffers:
        body = Alloc(buffer, body)
    return Rewrite(replace_stmt(kernel, around, body), tuple(made.names))


def _place(kernel: Kernel, blocks: Sequence[Block]) -> tuple[Seq, list[Stmt]] | None:
    """The sequence that all nests are in, in this order, with nothing between that they have to do with."""
    roots: list[Stmt] = [loops_around(kernel, b)[0] for b in blocks]
    around = [s for s in path_to(kernel, roots[0]) if isinstance(s, Seq)][-1:]
    if not around:
        return None
    places = [n for r in roots for n, s in enumerate(around[0].body) if s is r]
    if len(places) < len(roots) or places != sorted(places):
        return None
    written = {w for r in roots for w in mentions(r).stored}
    read = {w for r in roots for w in mentions(r).loaded}
    between = [s for n, s in enumerate(around[0].body) if places[0] < n < places[-1] and n not in places]
    if any(mentions(s).loaded & written or mentions(s).stored & (read | written) for s in between):
        return None
    return around[0], roots


def _read_sum(node: Block, block: Block) -> _Sum | None:
    """How ``block`` depends on what ``node`` finds."""
    assert isinstance(node.body, Store)
    update, whole = (update_of(b.body) if isinstance(b.body, Store) else None for b in (block, node))
    if update is None or whole is None or update[0] != "+":
        return None
    reads = list(dict.fromkeys(n for n in loads(update[1]) if n.buffer == node.body.buffer))
    (step,) = (i for i in block.iters if i.kind == "reduce")
    (own,) = (i for i in node.iters if i.kind == "reduce")
    for values in places_in(block, node) if len(reads) == 1 else ():
        seen = substitute(whole[1], values)
        rate = growth(update[1], reads[0], seen, _SIGNS[whole[0]])
        if rate and values[own.var] == step.var:
            return _Sum(block, update[1], step, reads[0], rate, seen)
    return None


class _Parts:
    """What becomes of an extremum and its sums."""

    def __init__(self, kernel: Kernel, extremum: str, sums: Sequence[str], size: int) -> None:
        self.node, self.size = find_block(kernel, extremum), size
        self.taken, self.names, self.buffers = taken_names(kernel), list[str](), list[Buffer]()
        self.sums = [s for name in sums if (s := _read_sum(self.node, find_block(kernel, name))) is not None]
        assert isinstance(self.node.body, Store)
        update = update_of(self.node.body)
        assert update is not None
        self.op, self.value, self.target = update[0], update[1], self.node.body
        (self.step,) = (i for i in self.node.iters if i.kind == "reduce")
        assert isinstance(self.step.hi, Const)
        self.steps = int(self.step.hi.value)
        self.part = Var(fresh_name("vp", self.taken))
        self.through = Iter(self.part, idx(0), idx(-(-self.steps // size)), "spatial", self.part)

    def emit(self) -> tuple[list[Stmt], list[Buffer]]:
        """Nests of parts, of what is kept of them, and of what is made of that."""
        spatial, target, name = _spatial(self.node), self.target, self.target.buffer.name
        self.seen = self._buffer(f"{name}_value", target.buffer, (idx(self.size),))
        self.found = self._buffer(f"{name}_part", target.buffer)
        place, step = (self.part, *target.indices), replace(self.step, hi=idx(self.size))
        value = Store(self.seen, (*place, step.var), self._within(self._put(self.value, step.var), step))
        parts = [self._nest(self.seen.name, [*spatial, replace(step, kind="spatial")], value)]
        parts.append(self._reduction(self.found, [*spatial, step], place, self.op, Load(self.seen, (*place, step.var))))
        kept = [self._keep(self.found, spatial, place)]
        most = Load(kept[0][1], place)
        totals = [self._total(self.node, self.op, most)]
        for s in self.sums:
            assert isinstance(s.block.body, Store)
            place, step = (self.part, *s.block.body.indices), replace(s.step, hi=idx(self.size))
            own = self._buffer(f"{s.block.body.buffer.name}_part", s.block.body.buffer)
            parts.append(self._reduction(own, [*_spatial(s.block), step], place, "+", self._put(s.value, step.var, s)))
            kept.append(self._keep(own, _spatial(s.block), place))
            totals.append(self._total(s.block, "+", self._rescaled(s, kept[0][1], Load(kept[-1][1], place))))
        return [*parts, *(nest for nest, _ in kept), *totals], self.buffers

    def _buffer(self, name: str, like: Buffer, more: tuple[Expr, ...] = ()) -> Buffer:
        """Storage like another for each part."""
        name, shape = fresh_name(name, self.taken), (self.through.hi, *like.shape, *more)
        self.buffers.append(Buffer(name, like.dtype, shape))
        return self.buffers[-1]

    def _put(self, value: Expr, step: Var, s: _Sum | None = None) -> Expr:
        """``value`` with ``step`` counted in the part, and the extremum as that of the part."""

        def put(n: Any) -> Any:
            if s is not None and n in (s.seen, s.read):
                where = (self.part, *s.read.indices)
                return Load(self.found, where) if n == s.read else Load(self.seen, (*where, step))
            if n == step:
                return self.part * self.size + step
            return n if isinstance(n, Buffer) else rebuild(n, put)

        return cast(Expr, put(value))

    def _within(self, value: Expr, step: Iter) -> Expr:
        """The last part may have fewer steps: beyond them there is nothing."""
        test = self._test(step)
        return value if test is None else Select(test, value, identity(self.op, value.dtype))

    def _test(self, step: Iter) -> Expr | None:
        inside = Compare("<", self.part * self.size + step.var, idx(self.steps))
        return inside if self.steps % self.size else None

    def _rescaled(self, s: _Sum, extrema: Buffer, own: Load) -> Expr:
        """What a part adds: it was summed relative to its own extremum, and is wanted relative to that of all."""
        mine = Load(extrema, (self.part, *s.read.indices))
        is_nothing, is_all = (Compare("==", x, identity(self.op, mine.dtype)) for x in (mine, s.read))
        gap = (s.read - mine) * const(s.rate, mine.dtype)
        scaled = Binary("*", own, Call("exp", (gap,), gap.dtype))
        return Select(is_nothing, Select(is_all, own, const(0, own.dtype)), scaled)

    # Nests

    def _keep(self, buffer: Buffer, spatial: list[Iter], place: tuple[Expr, ...]) -> tuple[Stmt, Buffer]:
        """What a part has found, stored once for all."""
        kept = self._buffer(f"{buffer.name}_kept", replace(buffer, shape=buffer.shape[1:]))
        return self._nest(kept.name, spatial, Store(kept, place, Load(buffer, place))), kept

    def _reduction(self, buffer: Buffer, iters: list[Iter], place: tuple[Expr, ...], op: BinaryOp, value: Expr) -> Stmt:
        store = Store(buffer, place, Binary(op, Load(buffer, place), value))
        test = None if self._adds_nothing_beyond(value, iters[-1].var) else self._test(iters[-1])
        return self._nest(buffer.name, iters, store, identity(op, buffer.dtype), test)

    def _adds_nothing_beyond(self, value: Expr, step: Var) -> bool:
        """Whether ``value`` leaves what it is combined with as it is where a part has no such step any more: there it
        is the identity, or an exponential of that (0) times what is the same at all steps, and finite."""
        if isinstance(value, Load) and value.buffer == self.seen:
            return True

        def without_exponentials(n: Any) -> Any:
            is_zero = isinstance(n, Call) and n.name in RATES and self.found in {x.buffer for x in loads(n)}
            return const(0, n.dtype) if is_zero else n if isinstance(n, Buffer) else rebuild(n, without_exponentials)

        rest = without_exponentials(value)
        return not loads(rest) and step.name not in free_vars(rest)

    def _total(self, block: Block, op: BinaryOp, value: Expr) -> Stmt:
        """What all parts give, in the block that gave it before."""
        assert isinstance(block.body, Store)
        store = replace(block.body, value=Binary(op, Load(block.body.buffer, block.body.indices), value))
        return self._loops(replace(block, body=store), [*_spatial(block), replace(self.through, kind="reduce")])

    def _nest(
        self, name: str, iters: list[Iter], store: Store, start: Const | None = None, test: Expr | None = None
    ) -> Stmt:
        """A block in loops through parts and ``iters``, of which one may be steps of a part."""
        self.names.append(name)
        init = None if start is None else replace(store, value=start)
        return self._loops(Block(name, (), (), (), init, store), [self.through, *iters], test)

    def _loops(self, block: Block, iters: list[Iter], test: Expr | None = None) -> Stmt:
        names: dict[Var, Expr] = {i.var: Var(fresh_name(i.var.name.removeprefix("v"), self.taken)) for i in iters}
        stmt: Stmt = declared_anew(replace(block, iters=tuple(replace(i, binding=names[i.var]) for i in iters)))
        stmt = stmt if test is None else If(substitute(test, names), stmt)
        for i in reversed(iters):
            stmt = For(cast(Var, names[i.var]), i.lo, i.hi, "serial", stmt)
        return stmt


def _spatial(block: Block) -> list[Iter]:
    return [i for i in block.iters if i.kind == "spatial"]
