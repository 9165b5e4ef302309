"""Conflicts in words."""

from __future__ import annotations

from collections.abc import Mapping

from weft.ir.solve import Unknown
from weft.poly.leaves import Access
from weft.poly.verdict import Verdict, Witness, refuse


def iteration(values: Mapping[str, int]) -> str:
    return "(" + ", ".join(f"{name}={value}" for name, value in values.items()) + ")"


def describe(witness: Witness, a: Access, b: Access) -> str:
    """Who does what to which element: the reason of a refusal."""
    first, second = iteration(witness.first), iteration(witness.second)
    may = "" if witness.certain else "may "
    if a.writes and b.writes:
        verb = "update" if a.update is not None and b.update is not None else "write"
        text = f"iterations {first} and {second} {may}both {verb} {witness.element}"
    elif a.writes:
        verb = "writes" if witness.certain else "may write"
        text = f"iteration {first} {verb} {witness.element}, which iteration {second} reads"
    else:
        verb = "reads" if witness.certain else "may read"
        text = f"iteration {first} {verb} {witness.element}, which iteration {second} writes"
    if witness.sizes:
        text += " (with " + ", ".join(f"{name}={value}" for name, value in witness.sizes.items()) + ")"
    return text


def refuse_conflict(conflict: Witness | Unknown, a: Access, b: Access) -> Verdict:
    """The refusal that a conflict, or the lack of an answer, means."""
    if isinstance(conflict, Unknown):
        return refuse(f"it could not be proved that iterations never meet in `{a.buffer.name}`", kind="unproved")
    return refuse(describe(conflict, a, b), conflict)
