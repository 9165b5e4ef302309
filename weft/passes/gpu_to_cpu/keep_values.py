"""Values of one thread that live from one phase to another: stored, or computed again.

Liveness says which values a later phase uses; to compute one again is rematerialization. Those are stored that depend
on what cannot be computed again: memory that may have changed, a variable that is assigned to, an expensive function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.ir.expr import Binary, Call, Expr
from weft.ir.intrinsics import INTRINSICS
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Let, Seq, Stmt
from weft.ir.visit import bound_names, free_vars, loads, walk
from weft.passes.gpu_to_cpu.plan_phases import EMPTY, Phase, Plan, Vote, steps
from weft.passes.plain.shorten_lets import names_in

#: A function that costs more operations than this is not computed again.
CHEAP = 4


@dataclass(slots=True)
class Use:
    """What a phase or a vote makes, mentions and changes, by name."""

    made: dict[str, Let | Alloc] = field(default_factory=dict)
    mentioned: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Kept:
    """Decisions: ``stored`` variables and ``spread`` private buffers live in arrays with a place for each thread."""

    made: dict[str, Let]
    stored: frozenset[str]
    spread: dict[str, Alloc]
    uses: dict[int, Use]

    def before(self, step: Phase | Vote) -> list[Let]:
        """The variables a step needs from earlier ones, in the order they were made."""
        use = self.uses[id(step)]
        needed: set[str] = set()
        waiting = [n for n in use.mentioned if n in self.made and n not in use.made]
        while waiting:
            name = waiting.pop()
            if name not in needed:
                needed.add(name)
                if name not in self.stored:
                    waiting += [n for n in free_vars(self.made[name].value) if n in self.made and n not in use.made]
        return [let for name, let in self.made.items() if name in needed]


def keep_values(plan: Plan, written: frozenset[str], changing: frozenset[str]) -> Kept:
    """What to store; ``written`` buffers and ``changing`` variables may change between phases."""
    uses = {id(step): _use(step) for step in steps(plan) if isinstance(step, (Phase, Vote))}
    made = {n: m for use in uses.values() for n, m in use.made.items() if isinstance(m, Let)}
    private = {n: m for use in uses.values() for n, m in use.made.items() if isinstance(m, Alloc)}
    elsewhere = {n for use in uses.values() for n in use.mentioned if n not in use.made}
    spread = {n: m for n, m in private.items() if n in elsewhere}
    moving = {n for n in made if n in changing}
    fixed = {n: let for n, let in made.items() if n not in moving}
    unsure = {*written, *private}
    lasting: set[str] = set()
    for n, let in fixed.items():  # in the order they are made: what one depends on comes before it
        if _is_final(let.value, unsure, changing) or not lasting.isdisjoint(free_vars(let.value)):
            lasting.add(n)
    return Kept(made, frozenset((lasting | moving) & elsewhere), spread, uses)


def _is_final(value: Expr, unsure: set[str], changing: frozenset[str]) -> bool:
    """Whether ``value`` cannot, or had better not, be computed again later."""
    if any(load.buffer.name in unsure for load in loads(value)) or any(n in changing for n in free_vars(value)):
        return True
    return any(_is_expensive(n) for n in walk(value))


def _is_expensive(n: object) -> bool:
    if isinstance(n, Call):
        return n.name not in INTRINSICS or INTRINSICS[n.name].flops > CHEAP
    return isinstance(n, Binary) and n.op in ("/", "//", "%", "tdiv", "tmod") and n.dtype.is_float


def _use(step: Phase | Vote) -> Use:
    items: Iterable[Stmt] = step.items if isinstance(step, Phase) else ()
    made = {bound_names(item)[0]: item for item in items if isinstance(item, (Let, Alloc)) and item.body == EMPTY}
    body = Seq(tuple(items))
    names = set(names_in(body))
    if isinstance(step, Vote):
        names |= {*free_vars(step.test), *(load.buffer.name for load in loads(step.test))}
    return Use(made, frozenset(names), assigned_names(body))
