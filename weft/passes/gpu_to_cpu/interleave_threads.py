"""Threads that walk through memory side by side, run side by side: loop interchange.

    thread t in 0:256 {                               alloc s_kept: float32[256] in local
      let s: float32 = 0.0                            thread t in 0:256 { s_kept[t] = 0.0 }
      for i in 0:(n - t + m - 1) // m {               for i in 0:(n + m - 1) // m {
        s = s + X[i * m + t]                  =>        thread t in 0:min(256, n - i * m) {
      }                                                   s_kept[t] = s_kept[t] + X[i * m + t]
      S[t] = s                                          }
    }                                                 }
                                                      thread t in 0:256 { let s: float32 = s_kept[t] S[t] = s }

Neighbouring threads load neighbouring elements, one thread loads elements far apart: a grid-stride loop. Threads
between two barriers may take turns after each iteration; what one keeps meanwhile lies in an array (scalar expansion).
This is for loops that only collect, in a sum or by atomic updates: what is loaded is all that goes through memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.ir.affine import linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Expr, Load, Var, idx
from weft.ir.interval import bounds
from weft.ir.nesting import exits, flat, has_loop, sequence, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assign, Atomic, Evaluate, For, If, Kernel, Let, Stmt, Store, While
from weft.ir.visit import (
    Node,
    free_vars,
    fresh_name,
    loads,
    map_statements,
    mentions,
    rewrite,
    substitute,
    used_names,
    walk,
)
from weft.passes.analysis.check_vector import infer_step, infer_varying
from weft.passes.analysis.loop_ranges import constant_extent

#: Elements between neighbours that still share lines of a cache.
NEAR = 4
#: Iterations of a loop from which on the order in memory matters, and variables that are worth an array.
LONG, MOST_KEPT = 16, 2
_REFUSED = (Alloc, Evaluate, For, Store, While)


def interleave_threads(kernel: Kernel) -> Kernel:
    """``kernel`` with loops of threads inside the loops that threads run, where that is how they lie in memory."""
    taken = used_names(kernel)

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "thread" and not has_loop(s.body, "thread"):
            return _interleaved(s, taken) or s
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


@dataclass(frozen=True, slots=True)
class _Body:
    """What a thread does: variables, a loop, and the rest."""

    lets: tuple[Let, ...]
    loop: For
    rest: tuple[Stmt, ...]


def _interleaved(team: For, taken: set[str]) -> Stmt | None:
    body, extent = _taken_apart(team.body), constant_extent(team)
    if body is None or extent is None or not _is_worth(team, body.loop):
        return None
    changing = assigned_names(team.body)
    kept = [let for let in body.lets if let.var.name in changing]
    again = [let for let in body.lets if let.var.name not in changing]
    outside = assigned_names(body.loop.body) - mentions(body.loop.body).bound
    if len(kept) > MOST_KEPT or not outside <= {let.var.name for let in kept} or any(loads(x.value) for x in again):
        return None
    places = {let.var: _array(let.var, extent, taken) for let in kept}
    turned = _turned(team, body.loop, again, places)
    if turned is None:
        return None
    at = (simplify(team.var - team.lo),)
    starts = sequence([Store(places[let.var], at, let.value) for let in kept])
    ends = sequence(body.rest)
    for let in reversed(kept):
        ends = replace(let, value=Load(places[let.var], at), body=ends)
    parts: list[Stmt] = [replace(team, body=_around(again, starts))] if kept else []
    parts += [turned, *([replace(team, body=_around(again, ends))] if body.rest else [])]
    made = sequence(parts)
    for buffer in places.values():
        made = Alloc(buffer, made)
    return made


def _array(var: Var, extent: int, taken: set[str]) -> Buffer:
    return Buffer(fresh_name(f"{var.name}_kept", taken), var.dtype, (idx(extent),), scope="local")


def _taken_apart(s: Stmt) -> _Body | None:
    lets: list[Let] = []
    while isinstance(s := strip(s), Let):
        lets.append(s)
        s = s.body
    first, *rest = flat(s) or (s,)
    if not isinstance(first, For) or first.kind not in ("serial", "unroll"):
        return None
    return _Body(tuple(lets), first, tuple(rest))


def _around(lets: Sequence[Let], body: Stmt) -> Stmt:
    for let in reversed(lets):
        body = replace(let, body=body)
    return body


def _is_worth(team: For, loop: For) -> bool:
    """Whether threads load side by side, each of them far from what it loaded before, and do little else."""
    trips = constant_extent(loop)
    if (
        (trips is not None and trips < LONG)
        or exits(loop.body)
        or any(isinstance(n, _REFUSED) for n in walk(loop.body))
    ):
        return False
    across, along = infer_varying(team), infer_varying(loop)
    found = [n for n in walk(loop.body) if isinstance(n, Load)]
    side_by_side = any(_is_near(infer_step(n.buffer, n.indices, team.var.name, across)) for n in found)
    return side_by_side and all(_is_far(infer_step(n.buffer, n.indices, loop.var.name, along)) for n in found)


def _is_near(step: int | None) -> bool:
    return step is not None and 0 < abs(step) <= NEAR


def _is_far(step: int | None) -> bool:
    return step is None or abs(step) > NEAR


def _turned(team: For, loop: For, lets: Sequence[Let], places: Mapping[Var, Buffer]) -> Stmt | None:
    """The loop around the threads: in its last turns there are fewer, where ``t`` runs ``(n - t) // m`` iterations."""
    inside = _in_arrays(loop.body, places, simplify(team.var - team.lo))
    varying = {team.var.name, *(x.var.name for x in lets)}
    hi = _written_out(loop.hi, lets)
    if inside is None or varying & set(free_vars(loop.lo)):
        return None
    if team.var.name not in free_vars(hi):
        return replace(loop, hi=hi, body=replace(team, body=_around(lets, inside)))
    trips = linear_form(hi)
    match [*trips.terms.items()]:
        case [(Binary("//", distance, by), 1)] if linear_form(distance).terms.get(team.var) == -1:
            end = simplify(Binary("+", distance, team.var))
        case _:
            return None
    if {team.var.name, loop.var.name} & {*free_vars(end), *free_vars(by)}:
        return None
    # i < (end - t) // by + c holds for t <= end - (i - c + 1) * by, where by is positive
    last = Binary("-", end, Binary("*", Binary("-", loop.var, idx(trips.constant - 1)), by))
    threads = simplify(Binary("min", team.hi, Binary("+", last, idx(1))))
    longest = simplify(substitute(hi, {team.var: team.lo}))
    turned = replace(loop, hi=longest, body=replace(team, hi=threads, body=_around(lets, inside)))
    least = bounds(by, {}).lo
    if least is not None and least > 0:
        return turned
    one_by_one = replace(team, body=_around(lets, replace(loop, body=inside)))
    return If(Compare(">", by, idx(0)), turned, one_by_one)


def _in_arrays(s: Stmt, places: Mapping[Var, Buffer], at: Expr) -> Stmt | None:
    """``s`` with variables in arrays, each at ``at``; None where one takes an old value of memory."""
    if any(isinstance(n, Atomic) and n.result in places for n in walk(s)):
        return None

    def stored(n: Node) -> Node | None:
        return Store(places[n.var], (at,), n.value, span=n.span) if isinstance(n, Assign) and n.var in places else None

    return substitute(rewrite(s, stored), {var: Load(buffer, (at,)) for var, buffer in places.items()})


def _written_out(e: Expr, lets: Sequence[Let]) -> Expr:
    """``e`` with what ``lets`` name written out."""
    for let in reversed(lets):
        e = substitute(e, {let.var: let.value})
    return simplify(e)
