"""Reductions across threads: a value of each thread of a group combined, the result in every thread of it.

In the fork-join form a reduction over storage of which every thread has an element, as ``rfactor`` makes it::

    thread y { for t in 0:32 { m[y] = max(m[y], p[y, t]) } }

In the grid form, where each thread has its part of ``p`` and a copy of ``m`` for itself::

    tensorized thread_reduce {
      passed[y * 32 + x] = p[]
      barrier(warp)
      for t in 0:32 { m[] = max(m[], passed[y * 32 + t]) }
      barrier(warp)
    }

The body is the meaning, and correct as it stands; a target may write warp shuffles instead (`read_reduction` says
of what). ``passed`` is touched in such statements only. Where the barriers are of scope ``block``, what a target
writes must order memory as a block barrier does: others rely on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Expr, Load, Var, identity, idx
from weft.ir.hardware import ACROSS_THREADS
from weft.ir.simplify import simplify
from weft.ir.stmt import Barrier, For, Seq, Stmt, Store, Tensorized
from weft.ir.visit import free_vars, walk
from weft.passes.analysis.conditions import peel_guards
from weft.passes.analysis.thread_digits import Digit, Placed
from weft.poly.leaves import split_update

(THREAD_REDUCE,) = ACROSS_THREADS
_OPERATORS = ("+", "*", "min", "max", "&", "|", "^")


@dataclass(frozen=True, slots=True)
class Candidate:
    """``for t: X[i] = X[i] op value`` over serial ``loops``, under ``guards`` that are free of them."""

    guards: tuple[Expr, ...]
    loops: tuple[For, ...]
    store: Store
    op: str
    value: Expr

    @property
    def names(self) -> frozenset[str]:
        return frozenset(loop.var.name for loop in self.loops)

    def sources(self, made: Collection[str]) -> Iterator[Load]:
        """The loads of storage in ``made`` that the loops run through."""
        for n in walk(self.value):
            used = {v for i in n.indices for v in free_vars(i)} if isinstance(n, Load) else set[str]()
            if isinstance(n, Load) and n.buffer.name in made and self.names & used:
                yield n


def find_candidate(s: Stmt, made: Collection[str], fast: bool) -> Candidate | None:
    """The reduction over an element of storage in ``made`` for each iteration that ``s`` is, or None.

    Float sums and products are added up in another order by threads, which only ``fast`` numerics allow.
    """
    guards, s = peel_guards(s)
    loops: list[For] = []
    while isinstance(s, For) and s.kind in ("serial", "unroll"):
        loops.append(s)
        s = s.body
    if not loops or not isinstance(s, Store):
        return None
    update = split_update(s)
    if update is None or len(update[1]) != 1 or not isinstance(s.value, Binary):
        return None
    op, (value,) = update[0], update[1]
    names = {loop.var.name for loop in loops}
    exact = not s.buffer.dtype.is_float or op in ("min", "max")
    if s.value.op not in _OPERATORS or not (exact or fast):
        return None
    if any(names & set(free_vars(e)) for e in (*s.indices, *guards)):
        return None
    if any(names & {*free_vars(loop.lo), *free_vars(loop.hi)} for loop in loops):
        return None
    if any(n.buffer == s.buffer for n in walk(value) if isinstance(n, Load)):
        return None
    candidate = Candidate(tuple(guards), tuple(loops), s, op, value)
    return candidate if any(True for _ in candidate.sources(made)) else None


def find_group(candidate: Candidate, made: Collection[str], places: Mapping[str, Collection[Placed]],
               extents: Mapping[str, int]) -> dict[str, Digit] | None:  # fmt: skip
    """The digits of the thread number that the loops of ``candidate`` run through.

    ``places`` has for each buffer the digits at which other nests place threads.
    """
    digits: dict[str, Digit] = {}
    for load in candidate.sources(made):
        for dim, e in enumerate(load.indices):
            for name in candidate.names & set(free_vars(e)):
                digit = _digit_in(e, name, extents[name], [p for p in places.get(load.buffer.name, ()) if p.dim == dim])
                if digit is None or digits.setdefault(name, digit) != digit:
                    return None
    return digits if digits.keys() == candidate.names else None


def _digit_in(e: Expr, name: str, extent: int, digits: Sequence[Placed]) -> Digit | None:
    step = next((c for atom, c in linear_form(e).terms.items() if isinstance(atom, Var) and atom.name == name), None)
    if step is None:
        return None
    for p in digits:
        if step % p.step == 0 and step * extent <= p.step * p.extent:
            return Digit(p.stride * (step // p.step), extent)
    return None


@dataclass(frozen=True, slots=True)
class Reduction:
    """What a ``thread_reduce`` statement does: ``target[indices] = op(target[indices], all values of the group)``.

    The threads of a group differ in the digits ``group`` of their number, ``(number // stride) % extent``, most
    significant first. ``value`` is what this thread brings, ``zero`` what changes nothing.
    """

    op: str
    target: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    zero: Expr
    group: tuple[Digit, ...]
    passed: Buffer
    scope: str


def build_reduction(
    store: Store, op: str, value: Expr, passed: Buffer, number: Expr, own: Sequence[tuple[Var, Digit, Expr]], scope: str
) -> Tensorized:
    """The statement that combines ``value`` of the threads of a group into the element that ``store`` names.

    ``own`` has for each digit of the group a loop variable, the digit, and its value in this thread.
    """
    place: Expr = number
    for var, digit, mine in own:
        place = place - mine * idx(digit.stride) + var * idx(digit.stride)
    loaded = Load(passed, (simplify(place),))
    body: Stmt = Store(store.buffer, store.indices, combined(op, Load(store.buffer, store.indices), loaded))
    for var, digit, _ in reversed(own):
        body = For(var, idx(0), idx(digit.extent), "serial", body)
    wait = Barrier("warp" if scope == "warp" else "block")
    return Tensorized(THREAD_REDUCE, Seq((Store(passed, (number,), value), wait, body, wait)), span=store.span)


def combined(op: str, a: Expr, b: Expr) -> Expr:
    return Binary(op, a, b)  # type: ignore[arg-type]


def is_reduction(s: object) -> bool:
    return isinstance(s, Tensorized) and s.intrinsic == THREAD_REDUCE


def read_reduction(s: Tensorized) -> Reduction:
    """What the statement that `build_reduction` made does."""
    if not is_reduction(s) or not isinstance(s.body, Seq) or len(s.body.body) != 4:
        raise InternalError("not a reduction across threads")
    bring, wait, inner, _ = s.body.body
    loops: list[For] = []
    while isinstance(inner, For):
        loops.append(inner)
        inner = inner.body
    if not (isinstance(bring, Store) and isinstance(wait, Barrier) and isinstance(inner, Store)):
        raise InternalError("a reduction across threads of another form")
    combine = inner.value
    assert isinstance(combine, Binary)
    (given,) = [n for n in walk(combine) if isinstance(n, Load) and n.buffer == bring.buffer]
    steps = linear_form(given.indices[0]).terms
    group = tuple(Digit(steps[loop.var], int(loop.hi.value)) for loop in loops)  # type: ignore[attr-defined]
    zero = identity(combine.op, inner.buffer.dtype)
    return Reduction(combine.op, inner.buffer, inner.indices, bring.value, zero, group, bring.buffer, wait.scope)
