"""What the threads of a team do between barriers, and what is done once for all of them.

A plan is a list of steps at the level of the block. A `Phase` is run by every thread and holds no barrier; variables
that all threads agree on are bound outside (`Bind`), loops and branches around barriers stand around phases.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from weft.ir.affine import linear_form
from weft.ir.dtype import index
from weft.ir.expr import Binary, Call, Compare, Const, Expr, Var
from weft.ir.nesting import inner_statements
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import Alloc, Assign, Barrier, Break, Continue, For, If, Let, Seq, Stmt, Tensorized, While
from weft.ir.visit import free_vars, loads, mentions, substitute
from weft.passes.analysis.thread_teams import Team, holds, jumps_out, refuse
from weft.passes.analysis.uniform_values import ANY, FIRST, differs, is_vote, votes_in
from weft.passes.to_grid.check_divergence import divergent, outcomes

EMPTY = Seq(())


@dataclass(slots=True)
class Phase:
    """Run by every thread. A `Let` or `Alloc` with an empty body holds for what follows, in later phases too."""

    items: list[Stmt] = field(default_factory=list)
    is_closed: bool = False


@dataclass(slots=True)
class Bind:
    """A variable that all threads agree on, for all steps that follow."""

    let: Let


@dataclass(slots=True)
class Vote:
    """``var`` tells all steps that follow whether ``test`` holds in some thread, or in the first one."""

    var: Var
    test: Expr
    of_all: bool


@dataclass(slots=True)
class Do:
    """Done once for all threads."""

    stmt: Stmt


@dataclass(slots=True)
class Around:
    loop: For | While
    body: Plan


@dataclass(slots=True)
class Branch:
    test: If
    then: Plan
    otherwise: Plan


Step: TypeAlias = "Phase | Bind | Vote | Do | Around | Branch"
Plan: TypeAlias = "list[Step]"


def steps(plan: Plan) -> Iterator[Step]:
    """All steps, those inside others too, in program order."""
    for step in plan:
        yield step
        if isinstance(step, Around):
            yield from steps(step.body)
        elif isinstance(step, Branch):
            yield from steps(step.then)
            yield from steps(step.otherwise)


def plan_phases(team: Team, body: Stmt, varying: frozenset[str]) -> Plan:
    """The plan for ``body``, what one thread of ``team`` does; names in it are all different."""
    planner = _Planner(team, varying)
    plan: Plan = []
    planner.add(body, plan)
    return plan


def alone_in_loops(team: Team, body: Stmt, varying: frozenset[str]) -> frozenset[str]:
    """Variables all threads agree on, but which change in loops that are better run by each thread on its own."""
    planner = _Planner(team, varying)
    return frozenset(planner.changed_in_loops(body))


class _Planner:
    def __init__(self, team: Team, varying: frozenset[str]) -> None:
        self.team = team
        self.varying = varying

    def is_outer(self, s: Stmt) -> bool:
        """Whether ``s`` has to be taken apart."""
        if holds(s, self.team.scope) or jumps_out(s) or any(n not in self.varying for n in self.changes(s)):
            return True
        return not votes_in(s).isdisjoint((ANY[self.team.scope], FIRST[self.team.scope]))

    def changes(self, s: Stmt) -> set[str]:
        """Variables made outside ``s`` that it changes."""
        made = mentions(s).bound
        return {name for name in assigned_names(s) if name not in made}

    def add(self, s: Stmt, plan: Plan) -> None:
        match s:
            case Seq():
                for stmt in s.body:
                    self.add(stmt, plan)
            case Tensorized() if holds(s, self.team.scope):
                self.add(s.body, plan)
            case Barrier() if s.scope == self.team.scope:
                _close(plan)
                if s.scope == "grid" and not self.team.is_blocks:
                    plan.append(Do(s))  # the blocks around these threads are split here next
            case Let() if self.is_outer(s.body) or (is_vote(s.value) and self.is_outer(s)):
                self.declare(s, plan)
                self.add(s.body, plan)
            case Alloc() if self.is_outer(s.body):
                _open(plan).items.append(replace(s, body=EMPTY))
                self.add(s.body, plan)
            case _ if not self.is_outer(s):
                _open(plan).items.append(s)
            case _:
                self.take_apart(s, plan)

    def take_apart(self, s: Stmt, plan: Plan) -> None:
        match s:
            case Assign() | Break() | Continue():
                plan.append(Do(s))
            case _ if not holds(s, self.team.scope) and not jumps_out(s) and self.is_common(s):
                plan.append(Do(s))
            case For(kind="serial" | "unroll") | While():
                plan.append(Around(s, self.inner(s.body)))
            case If():
                self.add_branch(s, plan)
            case _:
                raise self.refusal(s)

    def inner(self, s: Stmt | None) -> Plan:
        plan: Plan = []
        if s is not None:
            self.add(s, plan)
        return plan

    def add_branch(self, s: If, plan: Plan) -> None:
        if not differs(s.condition, self.varying):
            plan.append(Branch(s, self.inner(s.then), self.inner(s.otherwise)))
            return
        common = self.common_test(s.condition)
        if common is not None:
            plan.append(Branch(replace(s, condition=common), self.inner(s.then), self.inner(s.otherwise)))
            return
        agreed = self.agreed(s.condition)
        if agreed is None:
            raise divergent(s, self.team.scope, "threads may decide differently")
        chosen = s.then if agreed else s.otherwise
        if chosen is not None:
            self.add(chosen, plan)

    def common_test(self, condition: Expr) -> Expr | None:
        """``condition`` as one that the threads of a warp agree on: ``32 * w + lane < 64`` is ``32 * w < 64``."""
        (loop, *others) = self.team.loops
        if others or self.team.scope != "warp" or not isinstance(condition, Compare) or condition.op not in ("<", ">="):
            return None
        if not isinstance(loop.lo, Const) or not isinstance(loop.hi, Const) or condition.left.dtype != index:
            return None
        distance = linear_form(Binary("-", condition.left, condition.right))
        factor = distance.terms.pop(loop.var, 0)
        size, alone = int(loop.hi.value), all(loop.var.name not in free_vars(atom) for atom in distance.terms)
        whole = all(n % size == 0 for n in (distance.constant, *distance.terms.values()))
        if int(loop.lo.value) != 0 or factor != 1 or not (alone and whole):
            return None
        common = simplify(substitute(condition, {loop.var: loop.lo}))
        return None if differs(common, self.varying) else common

    def agreed(self, condition: Expr) -> bool | None:
        """What ``condition`` is in every thread, where trying them all shows it."""
        outcome = outcomes(self.team, condition)
        return outcome.pop() if outcome is not None and len(outcome) == 1 else None

    def declare(self, s: Let, plan: Plan) -> None:
        if is_vote(s.value):
            assert isinstance(s.value, Call)
            of_all = s.value.name not in FIRST.values() or self.team.size is None
            plan.append(Vote(s.var, s.value.args[0], of_all))
        elif s.var.name in self.varying:
            _open(plan).items.append(replace(s, body=EMPTY))
        else:
            _bind(replace(s, body=EMPTY), plan)

    def is_common(self, s: Stmt) -> bool:
        """Whether ``s`` does nothing but compute variables that all threads agree on."""
        match s:
            case Assign():
                return s.var.name not in self.varying
            case Let():
                fine = s.var.name not in self.varying
            case If() | While():
                fine = not differs(s.condition, self.varying)
            case For():
                fine = s.kind in ("serial", "unroll") and not any(differs(e, self.varying) for e in (s.lo, s.hi))
            case _:
                fine = isinstance(s, (Seq, Break, Continue))
        return fine and all(map(self.is_common, inner_statements(s)))

    def changed_in_loops(self, s: Stmt) -> Iterator[str]:
        """Common variables that a loop without barriers changes beside other things."""
        outer = holds(s, self.team.scope) or jumps_out(s)
        if isinstance(s, (For, While)) and not outer:
            if not self.is_common(s):
                yield from (n for n in self.changes(s) if n not in self.varying)
            return
        for inner in inner_statements(s):
            yield from self.changed_in_loops(inner)

    def refusal(self, s: Stmt) -> Exception:
        if isinstance(s, For) and s.kind == "thread":
            return refuse(
                f"a {self.team.scope} barrier in thread loops that are not perfectly nested",
                f"statements stand between the thread loops around it, before `{s.var.name}`",
                s,
                "move them into the innermost thread loop",
            )
        kind = f"a {s.kind} loop" if isinstance(s, For) else f"a {type(s).__name__.lower()} statement"
        return refuse(f"a {self.team.scope} barrier inside {kind}", "threads are not split around it", s)


def _open(plan: Plan) -> Phase:
    """The phase at the end, a new one where it has ended."""
    last = plan[-1] if plan else None
    if isinstance(last, Phase) and not last.is_closed:
        return last
    phase = Phase()
    plan.append(phase)
    return phase


def _close(plan: Plan) -> None:
    if plan and isinstance(plan[-1], Phase):
        plan[-1].is_closed = True


def _bind(let: Let, plan: Plan) -> None:
    """Bound before the open phase, so as not to cut it in two, where that does not change what is read."""
    last = plan[-1] if plan else None
    read = {load.buffer.name for load in loads(let.value)}
    movable = isinstance(last, Phase) and not any(read & mentions(item).stored for item in last.items)
    plan.insert(len(plan) - 1 if movable else len(plan), Bind(let))
