"""``fission``: a loop over several statements becomes two loops, one for those up to a point and one for the rest: loop
distribution."""

from __future__ import annotations

from dataclasses import replace

from weft.ir.expr import Var
from weft.ir.nesting import sequence
from weft.ir.simplify import assigned_names
from weft.ir.stmt import If, Kernel, Seq, Stmt
from weft.ir.visit import free_vars, fresh_name, substitute
from weft.poly.check_neighbours import check_fission as check_separable
from weft.poly.verdict import Verdict, refuse
from weft.schedules.find import blocks_inside, find_loop, node_of, path_to
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
    first = _guarded(old.body, sequence(parts[: position + 1]))
    second = substitute(_guarded(old.body, sequence(parts[position + 1 :])), {old.var: rest})
    both = sequence([replace(old, body=first), replace(old, var=rest, body=second)])
    return Rewrite(replace_stmt(kernel, old, both), (rest.name,))


def body_parts(body: Stmt) -> tuple[Stmt, ...] | None:
    """The statements a loop runs in sequence, guards around all of them aside."""
    while isinstance(body, If) and is_guard(body):
        body = body.then
    return body.body if isinstance(body, Seq) and body.body else None


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
