"""Barriers taken out of a program: thread loops split around them.

This is loop fission at barriers, as CPU versions of OpenCL and CUDA do it.

``thread t { A; barrier; B }`` becomes ``thread t { A }; thread t { B }``: all iterations of a loop end before the next
statement starts. Loops and branches around a barrier come to stand around the thread loops (the method of Polygeist).
What one thread computes before a barrier and uses after it is stored in an array with a place for each thread, or
computed again (`weft.passes.gpu_to_cpu.keep_values`); what all threads agree on is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.errors import UnsupportedError
from weft.ir.expr import AddressOf, Binary, Const, Expr, Load, idx
from weft.ir.interval import bounds
from weft.ir.nesting import has_loop, perfect_nest
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assign, Atomic, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import free_vars, fresh_name, map_statements, mentions, rewrite, substitute, used_names
from weft.passes.analysis.loop_ranges import loop_range
from weft.passes.analysis.name_apart import name_apart
from weft.passes.analysis.thread_teams import Team, barriers_in, check_shared, holds, refuse, sink_lets, split_warps
from weft.passes.analysis.uniform_values import ANY, FIRST, infer_varying_values, votes_in
from weft.passes.gpu_to_cpu.keep_values import Kept, keep_values
from weft.passes.gpu_to_cpu.mask_jumps import agree_on_loops, lower_votes, mask_jumps
from weft.passes.gpu_to_cpu.plan_phases import (
    EMPTY,
    Around,
    Bind,
    Branch,
    Do,
    Phase,
    Plan,
    Vote,
    alone_in_loops,
    plan_phases,
)
from weft.passes.plain.inline_indices import inline_indices
from weft.passes.plain.shorten_lets import shorten_lets


def split_threads(kernel: Kernel) -> Kernel:
    """``kernel`` without barriers, and without early returns of threads."""
    check_shared(kernel.body)
    return inline_indices(split_once(inline_indices(kernel))) if has_loop(kernel.body, "thread") else kernel


def split_once(kernel: Kernel) -> Kernel:
    """``kernel``, whose positions are written out, without barriers."""
    return replace(kernel, body=_visit(lower_votes(kernel.body), used_names(kernel)))


def _visit(s: Stmt, taken: set[str]) -> Stmt:
    if isinstance(s, For) and s.kind == "thread":
        loops, body = perfect_nest(sink_lets(s) if barriers_in(s) else s, "thread")
        if not barriers_in(body):
            return Team(loops).around(_without_jumps(Team(loops), body, taken))
        if holds(body, "block"):
            return split_team(Team(loops), body, taken)
        return _split_in_warps(Team(loops), body, taken)
    return map_statements(s, lambda n: _visit(n, taken))


def _without_jumps(team: Team, body: Stmt, taken: set[str]) -> Stmt:
    return mask_jumps(body, infer_varying_values(team.names, body, team.scope), taken)


def split_team(team: Team, body: Stmt, taken: set[str]) -> Stmt:
    """What the whole team does when each thread (or block) does ``body``."""
    body = simplify(body, {loop.var.name: loop_range(loop, {}) for loop in team.loops})
    body = name_apart(body, {loop.var.name for loop in team.loops}, taken)
    body = shorten_lets(body if team.is_blocks else _without_jumps(team, body, taken))
    body = agree_on_loops(body, team.scope, infer_varying_values(team.names, body, team.scope), taken)
    if team.scope == "grid":
        _check_agreement(body)
    varying = infer_varying_values(team.names, body, team.scope)
    while alone := alone_in_loops(team, body, varying):
        varying = infer_varying_values({*varying, *alone}, body, team.scope)
    plan = plan_phases(team, body, varying)
    changing = assigned_names(body)
    kept = keep_values(plan, mentions(body).stored, changing)
    return _Writer(team, kept, _places_for(team, kept, taken), taken).write_all(plan)


def _split_in_warps(team: Team, body: Stmt, taken: set[str]) -> Stmt:
    warps, lanes, inside = split_warps(team, body, taken)
    return warps.around(split_team(lanes, inside, taken))


def _check_agreement(body: Stmt) -> None:
    """Whether blocks go on around a grid barrier is not found out by asking all of them."""
    if not votes_in(body).isdisjoint((ANY["grid"], FIRST["grid"])):
        raise refuse(
            "a grid barrier in a loop that blocks or threads leave each on its own",
            "they would have to agree on how often it runs before it does",
            next(b for b in barriers_in(body) if b.scope == "grid"),
            "give the loop bounds that are the same for all of them",
        )


@dataclass(frozen=True, slots=True)
class _Places:
    """The arrays that hold variables and private buffers for all threads."""

    values: Mapping[str, Buffer]
    buffers: Mapping[str, Buffer]

    def all(self) -> list[Buffer]:
        return [*self.values.values(), *self.buffers.values()]


def _places_for(team: Team, kept: Kept, taken: set[str]) -> _Places:
    shape = tuple(_extent(size, team) for size in team.shape()) if kept.stored or kept.spread else ()
    values = {
        name: Buffer(fresh_name(f"{name}_kept", taken), kept.made[name].var.dtype, shape, scope="local")
        for name in kept.made
        if name in kept.stored
    }
    buffers = {name: _spread(alloc, shape, taken) for name, alloc in kept.spread.items()}
    return _Places(values, buffers)


def _extent(size: Expr, team: Team) -> Expr:
    if isinstance(size, Const):
        return size
    most = bounds(size, {}).hi
    if most is not None:
        return idx(most)
    if team.names & set(free_vars(size)):
        raise refuse("barriers in thread loops whose extents depend on each other", "threads cannot be counted")
    return size


def _spread(alloc: Alloc, shape: tuple[Expr, ...], taken: set[str]) -> Buffer:
    old = alloc.buffer
    if not all(isinstance(size, Const) for size in old.shape):
        raise refuse(
            f"`{old.name}` is used before and after a barrier, and its size is not a number",
            "each thread would need an array of its own that outlives the barrier",
            alloc,
            "make its size a constant",
        )
    return Buffer(fresh_name(f"{old.name}_kept", taken), old.dtype, (*old.shape, *shape), scope="local")


class _Writer:
    """Writes a plan down as statements."""

    def __init__(self, team: Team, kept: Kept, places: _Places, taken: set[str]) -> None:
        self.team = team
        self.kept = kept
        self.places = places
        self.taken = taken

    def write_all(self, plan: Plan) -> Stmt:
        body = self.write(plan)
        for buffer in self.places.all():
            body = Alloc(buffer, body)
        return body

    def write(self, plan: Plan) -> Stmt:
        done: list[Stmt] = []
        for n, step in enumerate(plan):
            match step:
                case Bind(let):
                    done.append(replace(let, body=self.write(plan[n + 1 :])))
                    break
                case Vote():
                    rest = self.write(plan[n + 1 :])
                    done.append(Let(step.var, Const(False, dt.bool_), Seq((self.vote(step), rest))))
                    break
                case Phase():
                    done.append(self.phase(step))
                case Do(stmt):
                    done.append(stmt)
                case Around(loop, body):
                    done.append(replace(loop, body=self.write(body)))
                case Branch(test, then, otherwise):
                    other = self.write(otherwise) if otherwise else None
                    done.append(If(test.condition, self.write(then), other, span=test.span))
        return done[0] if len(done) == 1 else Seq(tuple(done))

    def vote(self, step: Vote) -> Stmt:
        test = Binary("||", step.var, step.test) if step.of_all else step.test
        body: Stmt = self.spread(self.nested([*self.needed(step), Assign(step.var, test)]))
        if not step.of_all:
            for loop in reversed(self.team.loops):
                body = substitute(body, {loop.var: loop.lo})
            return body
        return Team(tuple(replace(loop, kind="serial") for loop in self.team.loops)).around(body)

    def phase(self, phase: Phase) -> Stmt:
        use = self.kept.uses[id(phase)]
        items: list[Stmt] = list(self.needed(phase))
        for item in phase.items:
            if isinstance(item, Alloc) and item.buffer.name in self.places.buffers:
                continue
            items.append(item)
            if isinstance(item, Let) and item.body == EMPTY and item.var.name not in use.changed:
                items += self.stores([item.var.name])
        items += self.stores([n for n in self.kept.made if n in use.changed])
        body = self.spread(self.nested(items))
        if barriers_in(body) and self.team.scope == "block":
            return _split_in_warps(self.team, body, self.taken)
        return self.team.around(body)

    def needed(self, step: Phase | Vote) -> list[Stmt]:
        statements: list[Stmt] = []
        for let in self.kept.before(step):
            place = self.places.values.get(let.var.name)
            statements.append(let if place is None else replace(let, value=Load(place, self.team.place())))
        return statements

    def stores(self, names: list[str]) -> list[Stmt]:
        made = self.kept.made
        return [Store(self.places.values[n], self.team.place(), made[n].var) for n in names if n in self.places.values]

    def nested(self, items: list[Stmt]) -> Stmt:
        """Each variable and buffer around the items after it."""
        for n, item in enumerate(items):
            if isinstance(item, (Let, Alloc)) and item.body == EMPTY:
                return Seq((*items[:n], replace(item, body=self.nested(items[n + 1 :]))))
        return Seq(tuple(items))

    def spread(self, body: Stmt) -> Stmt:
        """``body`` with private buffers that outlive a phase in memory with room for all threads."""
        return _redirect(body, self.places.buffers, self.team.place()) if self.places.buffers else body


def _redirect(body: Stmt, buffers: Mapping[str, Buffer], place: tuple[Expr, ...]) -> Stmt:
    def redirected(n: Any) -> Any:
        if not isinstance(n, (Load, Store, Atomic, AddressOf)) or n.buffer.name not in buffers:
            return None
        if isinstance(n, AddressOf):
            raise UnsupportedError(
                f"the address of `{n.buffer.name}` is taken, and it is used before and after a barrier",
                span=n.span,
                why="its elements are kept for each thread, not one after another",
            )
        return replace(n, buffer=buffers[n.buffer.name], indices=(*n.indices, *place))

    return rewrite(body, redirected)
