"""Whether iterations of a loop may run at once: no two of them touch one element, unless both only read it.

Or in another order, one after another: then updates of one element may change places where numerics allow it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from weft.ir.nesting import find_path, inner_statements, statement_kinds, statements
from weft.ir.numerics import is_fast
from weft.ir.solve import Form
from weft.ir.stmt import Assign, Atomic, Barrier, Break, Continue, For, Kernel, Let, Return, Stmt, While
from weft.poly.conflicts import Meeting, Surroundings, after, before, commute, find_conflict, pairs, written_by
from weft.poly.describe import refuse_conflict
from weft.poly.leaves import Access, Leaf, leaves, loop_named, loops_inside, sizes_of
from weft.poly.verdict import OK, Verdict, refuse

_CALLS = {"parallel": 's.parallel("{}")', "vector": 's.vectorize("{}")', "unroll": 's.unroll("{}")'}
_MOST_ALTERNATIVES = 4
#: Statements that may tie iterations to one another other than through memory.
_TIED = (Barrier, Return, Assign, Atomic, Break, Continue)


class _Nest(NamedTuple):
    """A loop, and those in it of which iterations that touch one element surely have equal values."""

    outermost: For
    apart: frozenset[str]


def check_all_parallel(kernel: Kernel, loops: Sequence[For], kind: str, numerics: str) -> Verdict:
    """Whether ``loops``, all inside the first of them, may each become of ``kind``: mostly one look at memory tells."""
    nest = _Nest(loops[0], _told_apart(kernel, loops[0]))
    verdicts = (check_parallel(kernel, loop.var.name, kind, numerics, nest) for loop in loops)
    return next((verdict for verdict in verdicts if not verdict.ok), OK)


def _told_apart(kernel: Kernel, outermost: For) -> frozenset[str]:
    inside = leaves(kernel, outermost)
    names = frozenset(name for leaf in inside for name in leaf.loop_names)
    shared = frozenset(inside[0].loop_names[: inside[0].loop_names.index(outermost.var.name)]) if inside else names
    around = Surroundings(shared, written_by(inside), sizes_of(kernel))
    apart = names - shared
    for first, a, second, b in pairs(inside):
        meeting = Meeting(first, a, second, b, around)
        both = apart.intersection(first.loop_names, second.loop_names)
        apart -= {n for n in both if not meeting.quickly_agree(n) and not (n in a.owners and n in b.owners)}
    return apart


def check_any_order(kernel: Kernel, loop: For, numerics: str = "strict") -> Verdict:
    """Whether the iterations of ``loop`` may run one after another in any order."""
    structure = _check_structure(loop, "parallel")
    if structure is not None:
        return refuse(structure)
    inside = [leaf for leaf in leaves(kernel, loop) if loop.var.name in leaf.loop_names]
    return _check_memory(kernel, loop, inside, numerics, concurrent=False)[0]


def check_parallel(
    kernel: Kernel, loop: str, kind: str = "parallel", numerics: str = "strict", nest: _Nest | None = None
) -> Verdict:
    """Whether ``loop`` may become of ``kind`` (parallel, vector, block or thread)."""
    loop_node = loop_named(kernel, loop)
    if loop_node is None:
        return refuse(f"there is no loop `{loop}`")
    verdict, update = _check(kernel, loop_node, kind, numerics, nest)
    if verdict.ok:
        return OK

    def others() -> tuple[str, ...]:
        calls = _other_loops(kernel, loop_node, kind, numerics)
        return (*calls, *(() if update is None else (_split_reduction(loop, update, numerics),)))

    return replace(verdict, offers=others)


def _check(
    kernel: Kernel, loop: For, kind: str, numerics: str, nest: _Nest | None = None
) -> tuple[Verdict, Access | None]:
    """The verdict without alternatives, and the update that conflicts with itself, if that is the reason."""
    structure = _check_structure(loop, kind)
    if structure is not None:
        return refuse(structure), None
    inside = [leaf for leaf in leaves(kernel, nest.outermost if nest else loop) if loop.var.name in leaf.loop_names]
    owned = _thread_storage(inside, loop, kind)
    if owned is not None:
        return refuse(owned), None
    if nest is not None and loop.var.name in nest.apart:
        return OK, None
    return _check_memory(kernel, loop, inside, numerics)


def _check_memory(
    kernel: Kernel, loop: For, inside: list[Leaf], numerics: str, *, concurrent: bool = True
) -> tuple[Verdict, Access | None]:
    if not inside:
        return OK, None
    name = loop.var.name
    shared = frozenset(inside[0].loop_names[: inside[0].loop_names.index(name)])
    around = Surroundings(shared, written_by(inside), sizes_of(kernel))

    def orders(meeting: Meeting) -> list[list[Form]]:
        if commute(meeting.a, meeting.b, numerics, concurrent=concurrent) or not meeting.distance(name):
            return []
        return [[after(name)]] if meeting.is_of_one else [[after(name)], [before(name)]]

    # Of storage that each iteration makes for itself, no two touch the same.
    common = [pair for pair in pairs(inside) if name not in pair[1].owners or name not in pair[3].owners]
    conflict = find_conflict(common, around, orders)
    if conflict is None:
        return OK, None
    found, meeting = conflict
    a, b = meeting.a, meeting.b
    return refuse_conflict(found, a, b), a if a.update is not None and a.update == b.update else None


def _check_structure(loop: For, kind: str) -> str | None:
    """What concurrent iterations cannot contain, or None."""
    if statement_kinds(loop.body).isdisjoint(_TIED):
        return None
    local = set()
    for n in statements(loop.body):
        if isinstance(n, Let):
            local.add(n.var.name)
        elif isinstance(n, Barrier):
            return "its body waits at a barrier"
        elif isinstance(n, Return) and kind in ("parallel", "vector"):
            return "its body may return from the kernel"
        elif isinstance(n, (Assign, Atomic)):
            target = n.var if isinstance(n, Assign) else n.result
            if target is not None and target.name not in local:
                return f"every iteration assigns `{target.name}`, which lives longer than an iteration"
    leaving = _leaving(loop.body)
    if leaving is None:
        return None
    return f"an iteration may {'end the loop early' if isinstance(leaving, Break) else 'skip its rest'}"


def _leaving(s: Stmt) -> Stmt | None:
    """A break or continue in ``s`` that acts on the loop around ``s``: only serial loops can be left so."""
    if isinstance(s, (Break, Continue)):
        return s
    if isinstance(s, (For, While)):
        return None
    return next((leaving for inner in inner_statements(s) if (leaving := _leaving(inner)) is not None), None)


def _thread_storage(inside: list[Leaf], loop: For, kind: str) -> str | None:
    """Storage of one thread that several would use."""
    if kind not in ("parallel", "block", "thread"):
        return None
    for leaf in inside:
        for access in leaf.accesses:
            private = access.buffer.scope in ("register", "local") and loop.var.name not in access.owners
            if private:
                return f"`{access.buffer.name}` is {access.buffer.scope} storage of one thread, made outside the loop"
    return None


def _other_loops(kernel: Kernel, loop: For, kind: str, numerics: str) -> list[str]:
    """Calls for the loops around and directly inside ``loop`` that are legal."""
    path = find_path(kernel.body, loop) or []
    nest = [s for s in path if isinstance(s, For)] + loops_inside(loop)
    names: list[str] = []
    for other in nest:
        legal = other is not loop and other.kind == "serial" and _check(kernel, other, kind, numerics)[0].ok
        if legal and len(names) < _MOST_ALTERNATIVES:
            template = _CALLS.get(kind, f's.bind("{{}}", "{kind}")')
            names.append(template.format(other.var.name))
    return names


def _split_reduction(loop: str, update: Access, numerics: str) -> str:
    call = f's.rfactor("{loop}", 8) first'
    return call if is_fast(numerics) or update.is_exact else f'{call} with numerics="fast"'
