"""The answer of a legality check: yes, or no with the reason, two iterations that conflict, and what would be legal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Witness:
    """Two iterations that touch one element: values of the loops around each statement, outermost first.

    ``sizes`` are values of symbolic sizes for which it happens. Where data decide (a gather, a test of loaded
    values) nothing is ``certain``: the two may meet.
    """

    first: Mapping[str, int]
    second: Mapping[str, int]
    element: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rewrite keeps the result; ``alternatives`` are calls that would be legal, as text."""

    ok: bool
    reason: str | None = None
    witness: Witness | None = None
    alternatives: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        # `first_no or OK` would throw a refusal away, and no test of acceptance would notice.
        raise TypeError("ask verdict.ok; a refusal is an answer, not a missing one")


OK = Verdict(True)


def refuse(reason: str, witness: Witness | None = None, alternatives: tuple[str, ...] = ()) -> Verdict:
    return Verdict(False, reason, witness, alternatives)
