"""Values of one thread that live from one phase to another: stored, or computed again.

Liveness says which values a later phase uses; to compute one again is rematerialization. Some cannot be: memory that
may have changed, a variable that is assigned to, an expensive function. Between these and what later phases use, a
minimum cut through what depends on what says which values to store (as in Polygeist): of ``x = A[i]; y = x + 1; z =
x * 2``, where ``y`` and ``z`` are used later, ``x`` is stored; of ``x = A[i]; y = A[j]; z = x + y`` the sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weft.ir.expr import Binary, Call, Const, Expr, Var
from weft.ir.intrinsics import INTRINSICS
from weft.ir.simplify import assigned_names
from weft.ir.stmt import Alloc, Let, Seq, Stmt
from weft.ir.visit import bound_names, free_vars, loads, names_in, walk
from weft.passes.analysis.minimum_cut import NEVER, minimum_cut
from weft.passes.gpu_to_cpu.plan_phases import EMPTY, Phase, Plan, Vote, steps

#: A function that costs more operations than this is not computed again.
CHEAP = 4
#: The price of a byte that is stored and loaded, where that of an operation is 1.
STORED = 2
#: Where values come from, and where they go: no variables.
_MADE, _NEEDED = "made by threads", "needed later"


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
    final = {n for n, let in fixed.items() if _is_final(let.value, unsure, changing)}
    return Kept(made, _cheapest(fixed, final, elsewhere) | (moving & elsewhere), spread, uses)


def _cheapest(made: Mapping[str, Let], final: set[str], needed: set[str]) -> frozenset[str]:
    """The values to store, so that all that are ``needed`` can be computed from them.

    A value is a pair of nodes: computed again, it is beyond the cut with both, stored with the second one only.
    """
    edges: dict[tuple[str, str], int] = {}
    lasting: set[str] = set()
    for name, let in made.items():  # in the order they are made: what one depends on comes before it
        operands = [n for n in free_vars(let.value) if n in lasting]
        if name not in final and not operands:
            continue  # of nothing but positions
        lasting.add(name)
        again = NEVER if name in final else sum(not isinstance(n, (Var, Const)) for n in walk(let.value))
        edges[_MADE, f"{name} again"] = again
        edges[f"{name} again", name] = STORED * let.var.dtype.itemsize
        if name in needed:
            edges[name, _NEEDED] = NEVER
        if name not in final:
            edges |= {(n, f"{name} again"): NEVER for n in operands}
    beyond = minimum_cut(edges, _MADE, _NEEDED)
    return frozenset(n for n in lasting if n in beyond and f"{n} again" not in beyond)


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
