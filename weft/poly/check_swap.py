"""Whether two statements that follow one another may change places."""

from __future__ import annotations

from weft.ir.nesting import find_path
from weft.ir.stmt import For, Kernel, Stmt
from weft.poly.conflicts import Meeting, Surroundings, commute, find_conflict, pairs, written_by
from weft.poly.describe import refuse_conflict
from weft.poly.leaves import leaves, sizes_of
from weft.poly.solve import Form
from weft.poly.verdict import OK, Verdict


def check_swap(kernel: Kernel, first: Stmt, second: Stmt, numerics: str = "strict") -> Verdict:
    """Whether nothing that ``first`` does conflicts with what ``second`` does, within one iteration around them."""
    left, right = leaves(kernel, first), leaves(kernel, second)
    shared = frozenset(s.var.name for s in find_path(kernel.body, first) or [] if isinstance(s, For) and s is not first)
    around = Surroundings(shared, written_by([*left, *right]), sizes_of(kernel))

    def orders(meeting: Meeting) -> list[list[Form]]:
        return [] if commute(meeting.a, meeting.b, numerics, concurrent=False) else [[]]

    conflict = find_conflict(pairs(left, right), around, orders)
    return OK if conflict is None else refuse_conflict(conflict[0], conflict[1].a, conflict[1].b)
