"""Lanes for which a condition is known to hold while code is emitted: in written-out tiles and last tiles of rows."""

from __future__ import annotations

from weft.ir.expr import Compare, Expr, Var
from weft.ir.visit import walk
from weft.passes.analysis.conditions import slack
from weft.target.cpu.emit_context import Function, literal_of
from weft.target.cpu.llvm_values import Value, vector


def known_lanes(f: Function, condition: Expr) -> list[bool] | None:
    """For each lane whether ``condition``, a comparison of subscripts, holds; None where that is not known yet."""
    if f.lane is None or not isinstance(condition, Compare):
        return None
    numbers = {n.name: _numbers(f, n.name) for n in walk(condition) if isinstance(n, Var)}
    gap = slack(condition) if all(numbers.values()) else None
    if gap is None:
        return None
    totals = [gap.constant] * f.lanes
    for atom, factor in gap.terms.items():
        kept = numbers.get(atom.name) if isinstance(atom, Var) else None
        if kept is None:
            return None
        totals = [total + factor * number for total, number in zip(totals, kept)]
    return [total >= 0 for total in totals]


def _numbers(f: Function, name: str) -> list[int] | None:
    """The values of a variable in the lanes, where they are numbers."""
    if name == f.lane:
        return list(range(f.lanes))
    value = f.names.get(name)
    number = literal_of(value) if isinstance(value, Value) else None
    return None if number is None else [number] * f.lanes


def lanes_mask(held: list[bool]) -> Value:
    """The constant mask of those lanes."""
    bits = ", ".join(f"i1 {'true' if holds else 'false'}" for holds in held)
    return Value(f"<{bits}>", vector("i1", len(held)))


def first_lanes(mask: Value) -> int | None:
    """How many lanes are active, where ``mask`` is a constant of `lanes_mask` and these are the first."""
    if not mask.text.startswith("<"):
        return None
    held = [bit.endswith("true") for bit in mask.text[1:-1].split(", ")]
    count = sum(held)
    return count if all(held[:count]) else None
