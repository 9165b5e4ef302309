"""``fission``: a loop over several statements becomes two loops, one for those up to a point and one for the rest: loop
distribution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.ir.expr import Var, idx
from weft.ir.nesting import path_to, sequence, statements_in_turn
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, For, If, Iter, Kernel, Seq, Stmt
from weft.ir.visit import free_vars, fresh_name, mentions, rewrite, substitute
from weft.poly.check_neighbours import check_fission as check_separable
from weft.poly.verdict import OK, Verdict, refuse
from weft.schedules.find import all_allocs, blocks_inside, find_loop, node_of
from weft.schedules.loop_facts import check_no_barrier, check_runs_through, first_no, is_guard
from weft.schedules.rewrite import Rewrite, primitive, replace_stmt, taken_names
from weft.schedules.trace import Numerics


def check_fission(kernel: Kernel, loop: str, after: str, *, numerics: Numerics) -> Verdict:
    """No statement of the second half may feed one of the first in a later iteration."""
    old = find_loop(kernel, loop)
    parts = body_parts(old.body)
    if parts is None:
        return refuse(f"the body of `{loop}` is not a sequence of statements")
    position = _position(kernel, parts, after)
    if position is None:
        return refuse(f"`{after}` is not in `{loop}`", alternatives=_elsewhere(loop, parts, None))
    if position == len(parts) - 1:
        return refuse(f"nothing in `{loop}` comes after `{after}`", alternatives=_elsewhere(loop, parts, position))
    guards = _guards(old.body)
    changed = assigned_names(old.body) & {v for g in guards for v in free_vars(g.condition)}
    if changed:
        return refuse(f"a guard tests `{sorted(changed)[0]}`, which the loop changes")
    kept = _check_storage(old.body, parts[: position + 1], parts[position + 1 :])
    if not kept.ok:
        return kept
    sound = first_no([check_runs_through(old), check_no_barrier(old, "running it in two parts")])
    verdict = check_separable(kernel, old, parts, position, numerics) if sound.ok else sound
    return verdict if verdict.ok else replace(verdict, offers=_elsewhere(loop, parts, position))


def _elsewhere(loop: str, parts: tuple[Stmt, ...], position: int | None) -> tuple[str, ...]:
    """The other places in ``loop`` where it could be split; which of them are legal is found by trying."""
    last = [blocks_inside(stmt)[-1:] for stmt in parts[:-1]]
    return tuple(
        f's.fission("{loop}", "{b.name}")' for place, found in enumerate(last) if place != position for b in found
    )


@primitive(check_fission, "cannot split the body of loop `{0}`")
def fission(kernel: Kernel, loop: str, after: str) -> Rewrite:
    """``m`` keeps the statements up to ``after`` (a block or loop in it); a new loop takes the rest."""
    old = find_loop(kernel, loop)
    parts = body_parts(old.body)
    assert parts is not None, "check_fission answers this first"
    position = _position(kernel, parts, after)
    assert position is not None, "check_fission answers this first"
    rest = Var(fresh_name(loop, taken_names(kernel)), span=old.var.span)
    first = _guarded(old.body, _with_storage(old.body, parts[: position + 1]))
    second = substitute(_guarded(old.body, _with_storage(old.body, parts[position + 1 :])), {old.var: rest})
    halves = [_alone(replace(old, body=first)), _alone(replace(old, var=rest, body=second))]
    return Rewrite(replace_stmt(kernel, old, sequence(halves)), (rest.name,))


def _alone(loop: For) -> For:
    """Where one block is left in a loop over steps, the loop is its iterator's and not one that gives it a value."""
    blocks = blocks_inside(loop)
    if len(blocks) > 1:
        return loop
    step = (loop.var, loop.var + idx(1), loop.var)

    def widen(n: object) -> Iter | None:
        if isinstance(n, Iter) and (n.lo, n.hi, n.binding) == step:
            return replace(n, lo=loop.lo, hi=loop.hi)
        return None

    return rewrite(loop, widen)


def body_parts(body: Stmt) -> tuple[Stmt, ...] | None:
    """The statements a loop runs in sequence, guards around all of them and storage aside."""
    parts = tuple(statements_in_turn(_unguarded(body)))
    return parts if len(parts) > 1 or (parts and isinstance(_unguarded(body), Seq)) else None


def _unguarded(body: Stmt) -> Stmt:
    while isinstance(body, If) and is_guard(body):
        body = body.then
    return body


def _storage(body: Stmt) -> list[Alloc]:
    """What is made in an iteration around several of its statements, outermost first."""
    inside = {id(a) for part in body_parts(body) or () for a in all_allocs(part)}
    return [a for a in all_allocs(body) if id(a) not in inside]


def _with_storage(body: Stmt, parts: tuple[Stmt, ...]) -> Stmt:
    """``parts`` of ``body`` in the storage that they use."""
    made = sequence(parts)
    for alloc in reversed(_storage(body)):
        if alloc.buffer.name in _used(parts):
            made = replace(alloc, body=made)
    return made


def _check_storage(body: Stmt, early: Sequence[Stmt], late: Sequence[Stmt]) -> Verdict:
    """What an iteration makes for itself must not be used in both parts."""
    used = _used(early) & _used(late)
    both = [a.buffer.name for a in _storage(body) if a.buffer.name in used]
    if not both:
        return OK
    reason = f"`{both[0]}`, which each iteration makes for itself, is used before and after the split"
    return refuse(reason, alternatives=(f's.expand_storage("{both[0]}")',))


def _used(parts: Sequence[Stmt]) -> set[str]:
    return {name for s in parts for m in (mentions(s),) for name in m.loaded | m.stored | m.reached}


def _guards(body: Stmt) -> list[If]:
    tests = []
    while isinstance(body, If) and is_guard(body):
        tests.append(body)
        body = body.then
    return tests


def _guarded(body: Stmt, inside: Stmt) -> Stmt:
    """``inside`` in the guards that ``body`` starts with."""
    for guard in reversed(_guards(body)):
        inside = replace(guard, then=inside)
    return inside


def _position(kernel: Kernel, parts: tuple[Stmt, ...], after: str) -> int | None:
    path = path_to(kernel, node_of(kernel, after))
    return next((i for i, part in enumerate(parts) if any(s is part for s in path)), None)
