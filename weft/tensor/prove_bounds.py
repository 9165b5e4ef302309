from __future__ import annotations
from collections.abc import Sequence
from weft.tensor.program import Requirement, Statement
def check_bounds(statement: Statement, known: Sequence[Requirement] = ()) -> list[Requirement]:
    return []

def is_within(statement, read, k, lo, hi):
    return False
