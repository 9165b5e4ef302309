"""``scan``: a recurrence of first order in chunks that may run at once: a parallel scan.

``for t in 1:N: S[t] = S[t - 1] + x(t)`` becomes, by chunks of 16 steps::

    alloc S_total, S_carry
    for c, j: S_total[c] += x(16 * c + j + 1)             # what a chunk adds up to: chunks need nothing of one another
    S_carry[0] = S[0]
    for c in 1:C: S_carry[c] = S_carry[c - 1] + S_total[c - 1]
    for c:
      S_run = S_carry[c]
      for j: S_run = S_run + x(..);  S[16 * c + j + 1] = S_run

The operator has to be associative: ``+``, ``*``, ``min``, ``max``, or ``a(t) * S[t - 1] + b(t)``, of which chunks are
the like (``S_gain`` is the product of their a's). The loop over carries is a recurrence of the same form, so that it
can be taken apart again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, BinaryOp, Compare, Const, Expr, Load, Select, Var, identity, idx
from weft.ir.interval import Interval
from weft.ir.nesting import around, sequence, strip
from weft.ir.simplify import simplify
from weft.ir.stmt import Alloc, Block, For, Iter, Kernel, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, loads, substitute
from weft.poly.verdict import Verdict, refuse
from weft.schedules.copy_reads import emit_set
from weft.schedules.find import find_loop, loops_around
from weft.schedules.loop_facts import check_number, check_valid, is_true
from weft.schedules.project import guarded
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics

#: Operators that are the same in any grouping.
ASSOCIATIVE = ("+", "*", "min", "max")


@dataclass(frozen=True)
class Recurrence:
    """``store`` of what was ``before``, multiplied by ``factor`` if there is one, combined by ``op`` with ``term``.

    ``step`` is the iterator of ``block`` that goes through ``loop``, from ``base`` on.
    """

    loop: For
    block: Block
    step: Iter
    base: Expr
    store: Store
    before: Expr
    op: BinaryOp
    term: Expr
    factor: Expr | None

    @property
    def count(self) -> int:
        return int(self.loop.hi.value) - int(self.loop.lo.value)  # type: ignore[attr-defined]


def find_recurrence(loop: For) -> Recurrence | str:
    """What ``loop`` repeats, or why that is no recurrence of first order."""
    name, block = loop.var.name, strip(loop.body)
    if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const):
        return f"how often `{name}` runs is not a number"
    if int(loop.hi.value) <= int(loop.lo.value):
        return f"`{name}` runs no time, so there are no steps to take apart"
    if not isinstance(block, Block) or not isinstance(block.body, Store) or block.init is not None:
        return f"there is more in `{name}` than one block that stores one element"
    own = [i for i in block.iters if name in free_vars(i.binding)]
    base = simplify(substitute(own[0].binding, {loop.var: idx(0)})) if len(own) == 1 else None
    if base is None or simplify(own[0].binding - base) != loop.var:
        return f"no iterator of block `{block.name}` goes through `{name}`, one step at a time"
    store = block.body
    place = [simplify(substitute(i, {own[0].var: own[0].var - 1})) for i in store.indices]
    used = [n for n in loads(store.value) if n.buffer == store.buffer]
    if len(used) != 1 or [simplify(i) for i in used[0].indices] != place or place == list(store.indices):
        return f"block `{block.name}` does not go on from what it stored one step before alone"
    taken_apart = _take_apart(store.value, used[0])
    if taken_apart is None:
        return f"block `{block.name}` does not combine what it stored before by an associative operator"
    before, op, term, factor = taken_apart
    if isinstance(before, Select):
        if base != idx(0):
            return f"block `{block.name}` starts again at other steps than the first"
        later = {own[0].var.name: Interval(int(loop.lo.value) + 1, int(loop.hi.value) - 1)}
        if not is_true(simplify(before.condition, later)):
            return f"block `{block.name}` starts again at other steps than the first"
    return Recurrence(loop, block, own[0], base, store, before, op, term, factor)


def _take_apart(value: Expr, old: Load) -> tuple[Expr, BinaryOp, Expr, Expr | None] | None:
    """What was before, the operator, the term, and the factor of ``value``."""
    if not isinstance(value, Binary) or value.op not in ASSOCIATIVE:
        return None
    for state, term in ((value.left, value.right), (value.right, value.left)):
        if old in loads(term):
            continue
        if _is_state(state, old):
            return state, value.op, term, None
        if value.op == "+" and isinstance(state, Binary) and state.op == "*":
            for inner, factor in ((state.left, state.right), (state.right, state.left)):
                if _is_state(inner, old) and old not in loads(factor):
                    return inner, "+", term, factor
    return None


def _is_state(e: Expr, old: Load) -> bool:
    """What was stored before, or at the first step something else."""
    return e == old or (isinstance(e, Select) and e.then == old and old not in loads(e.otherwise))


def check_scan(kernel: Kernel, loop: str, length: int, *, numerics: Numerics) -> Verdict:
    """The loop must be a recurrence of first order whose operator is associative in what it computes with."""
    found = find_recurrence(find_loop(kernel, loop))
    if isinstance(found, str):
        return refuse(found)
    number = check_number("length of a chunk", length, 1)
    if not number.ok:
        return number
    buffer = found.store.buffer
    if numerics == "strict" and buffer.dtype.is_float and (found.factor is not None or found.op not in ("min", "max")):
        reason = f"results of chunks change the order in which {buffer.dtype} `{buffer.name}` is rounded"
        return replace(refuse(reason), offers=('numerics="fast"',))
    return check_valid(scan(kernel, loop, length).kernel)


@primitive(check_scan, "cannot take the recurrence over `{0}` apart")
def scan(kernel: Kernel, loop: str, length: int) -> Rewrite:
    """Makes loops through chunks: of totals, carries, results; then through one of totals, of results; and storage of
    what chunks hand on."""
    node = find_loop(kernel, loop)
    found = find_recurrence(node)
    assert isinstance(found, Recurrence)
    scope = {x.var.name: (x.lo, x.hi) for x in loops_around(kernel, node)}
    made = _Chunks(found, length, scope, taken_names(kernel))
    return Rewrite(replace_stmt(kernel, node, made.body()), made.names)


class _Chunks:
    """The nests that a recurrence becomes."""

    def __init__(self, r: Recurrence, length: int, scope: dict[str, tuple[Expr, Expr]], taken: set[str]) -> None:
        self.r, self.length, self.taken, self.scope = r, length, taken, scope
        self.chunks = -(-r.count // length)
        name, dtype, step = r.store.buffer.name, r.store.buffer.dtype, r.loop.var.name
        shape = (idx(self.chunks),)
        self.total, self.carry, self.gain = (
            Buffer(fresh_name(f"{name}_{what}", taken), dtype, shape) for what in ("total", "carry", "gain")
        )
        self.run = Buffer(fresh_name(f"{name}_run", taken), dtype, (idx(1),))
        ends = ((0, self.chunks), (1, self.chunks), (0, self.chunks), (0, length), (0, length))
        words = ("total", "carry", "chunk", "added", "run")
        self.loops = [self._loop(fresh_name(f"{step}_{w}", taken), *end) for w, end in zip(words, ends)]

    def _loop(self, name: str, lo: int, hi: int) -> For:
        self.scope[name] = (idx(lo), idx(hi))
        return For(Var(name), idx(lo), idx(hi), "serial", sequence([]))

    @property
    def names(self) -> tuple[str, ...]:
        return (*(x.var.name for x in self.loops), *(b.name for b in self.storage))

    @property
    def storage(self) -> tuple[Buffer, ...]:
        """What chunks hand on."""
        return (self.carry, self.total) if self.r.factor is None else (self.carry, self.total, self.gain)

    def body(self) -> Stmt:
        body = sequence([self._totals(), *self._carries(), self._results()])
        for buffer in self.storage:
            body = Alloc(buffer, body)
        return body

    def _outside(self, e: Expr, step: Expr) -> Expr:
        """``e`` of the block at ``step``, in terms of loops."""
        values = {i.var: i.binding for i in self.r.block.iters if i is not self.r.step}
        return simplify(substitute(e, {**values, self.r.step.var: step}))

    def _set(self, name: str, buffer: Buffer, place: Sequence[Expr], value: Expr, over: For | None = None) -> Block:
        """A block that stores ``value``, as a step of a reduction ``over`` a loop if there is one."""
        block = emit_set(fresh_name(name, self.taken), (buffer, place), value, self.scope, self.taken)
        iters = tuple(replace(i, kind="reduce") if over and i.binding == over.var else i for i in block.iters)
        return replace(block, iters=iters, span=self.r.block.span)

    def _step(self, chunk: For, inner: For) -> tuple[Expr, list[Expr]]:
        """Which step is the ``inner`` one of ``chunk``, and the test that there is one."""
        number = chunk.var * self.length + inner.var
        test: list[Expr] = [] if self.r.count % self.length == 0 else [Compare("<", number, idx(self.r.count))]
        return simplify(number + self.r.loop.lo + self.r.base), test

    def _totals(self) -> Stmt:
        r, chunk, inner = self.r, self.loops[0], self.loops[3]
        step, test = self._step(chunk, inner)
        place = [chunk.var]
        sums: list[tuple[Buffer, Const, Expr]] = []
        state: Expr = Load(self.total, tuple(place))
        if r.factor is not None:
            factor, gain = self._outside(r.factor, step), Load(self.gain, tuple(place))
            state = factor * state
            sums.append((self.gain, identity("*", gain.dtype), gain * factor))
        zero, value = identity(r.op, state.dtype), Binary(r.op, state, self._outside(r.term, step))
        sums.insert(0, (self.total, zero, value))
        starts = [self._set(f"{b.name}_start", b, place, first) for b, first, _ in sums]
        steps = [self._set(b.name, b, place, value, inner) for b, _, value in sums]
        return around([chunk], sequence([*starts, around([inner], guarded(test, sequence(steps)))]))

    def _carries(self) -> list[Stmt]:
        r, chunk = self.r, self.loops[1]
        before = self._outside(r.before, simplify(r.loop.lo + r.base))
        first = self._set(f"{self.carry.name}_start", self.carry, [idx(0)], before)
        last = (simplify(chunk.var - 1),)
        state: Expr = Load(self.carry, last)
        if r.factor is not None:
            state = Load(self.gain, last) * state
        value = Binary(r.op, state, Load(self.total, last))
        return [first, around([chunk], self._set(self.carry.name, self.carry, [chunk.var], value, chunk))]

    def _results(self) -> Stmt:
        r, chunk, inner = self.r, self.loops[2], self.loops[4]
        step, test = self._step(chunk, inner)
        run = Load(self.run, (idx(0),))
        begin = self._set(f"{self.run.name}_start", self.run, [idx(0)], Load(self.carry, (chunk.var,)))
        state: Expr = run if r.factor is None else self._outside(r.factor, step) * run
        value = Binary(r.op, state, self._outside(r.term, step))
        goes_on = self._set(self.run.name, self.run, [idx(0)], value, inner)
        place = [self._outside(i, step) for i in r.store.indices]
        stored = replace(self._set(r.block.name, r.store.buffer, place, run), name=r.block.name)
        steps = around([inner], guarded(test, sequence([goes_on, stored])))
        return around([chunk], Alloc(self.run, sequence([begin, steps])))
