"""Whether a loop may be run in two parts: first all iterations of its first statements, then all of the others."""

from __future__ import annotations

from weft.ir.nesting import find_path, statements
from weft.ir.stmt import Block, For, If, Kernel, Seq, Stmt
from weft.poly.conflicts import Meeting, Surroundings, after, before, commute, find_conflict, pairs, written_by
from weft.poly.describe import refuse_conflict
from weft.poly.leaves import CONCURRENT, Leaf, leaves, loop_named, sizes_of
from weft.poly.refuse_meeting import refuse_meeting, touches
from weft.poly.solve import Form
from weft.poly.verdict import OK, Verdict, refuse


def check_fission(kernel: Kernel, loop: str, after: str, numerics: str = "strict") -> Verdict:
    """Whether ``loop`` may be split behind the statement that is, or holds, the loop or block ``after``."""
    loop_node = loop_named(kernel, loop)
    if loop_node is None:
        return refuse(f"there is no loop `{loop}`")
    body: Stmt = loop_node.body
    while isinstance(body, If) and body.otherwise is None:
        body = body.then
    parts = body.body if isinstance(body, Seq) else (body,)
    place = next((i for i, stmt in enumerate(parts) if _holds(stmt, after)), None)
    if place is None:
        return refuse(f"`{after}` is not a statement of loop `{loop}`")
    early = [leaf for stmt in parts[: place + 1] for leaf in leaves(kernel, stmt)]
    late = [leaf for stmt in parts[place + 1 :] for leaf in leaves(kernel, stmt)]
    guards = _changed_guard(kernel, loop_node, parts)
    return _check_memory(kernel, loop_node, early, late, numerics) if guards is None else guards


def _holds(s: Stmt, name: str) -> bool:
    every = statements(s)
    return any(n.var.name == name if isinstance(n, For) else isinstance(n, Block) and n.name == name for n in every)


def _changed_guard(kernel: Kernel, loop: For, parts: tuple[Stmt, ...]) -> Verdict | None:
    """Tests around both parts are made twice: what they read must not change."""
    every = leaves(kernel, loop)
    written = written_by(every)
    orders = [[], [after(loop.var.name)], [before(loop.var.name)]]
    for leaf in every:
        outside = isinstance(leaf.stmt, If) and not any(find_path(s, leaf.stmt) for s in parts)
        for access in leaf.accesses if outside else ():
            if access.buffer.name in written:
                name = access.buffer.name
                reason = f"a test around the statements reads `{name}`, which the loop writes"
                return refuse_meeting(reason, kernel, [(leaf, access)], touches(every, name, reads=False), orders)
    return None


def _check_memory(kernel: Kernel, loop: For, early: list[Leaf], late: list[Leaf], numerics: str) -> Verdict:
    """A late statement that ran in an earlier iteration than an early one will run behind it."""
    if loop.kind in CONCURRENT or not early or not late:
        return OK
    name = loop.var.name
    names = early[0].loop_names
    around = Surroundings(frozenset(names[: names.index(name)]), written_by([*early, *late]), sizes_of(kernel))

    def orders(meeting: Meeting) -> list[list[Form]]:
        keeps = commute(meeting.a, meeting.b, numerics, concurrent=False) or not meeting.distance(name)
        return [] if keeps else [[before(name)]]

    conflict = find_conflict(pairs(early, late), around, orders)
    return OK if conflict is None else refuse_conflict(conflict[0], conflict[1].a, conflict[1].b)
