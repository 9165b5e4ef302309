"""The answer of a legality check: yes, or no with the reason, two iterations that conflict, and what would be legal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: Why something is refused. dependence: two iterations touch one element and would not keep their order. unproved:
#: they may, and nothing shows that they do not. structure: the program does not have the form the rewrite needs, or
#: an argument makes no sense; there is nothing to witness.
Kind: TypeAlias = Literal["dependence", "unproved", "structure"]


@dataclass(frozen=True, slots=True)
class Witness:
    """Two iterations that touch one element: values of the loops around each statement, outermost first.

    ``sizes`` are values of symbolic sizes for which it happens. Where data decide (a gather, a test of loaded
    values) nothing is ``certain``: the two may meet. They are iterations of the program as it is, or as it would be
    ``after`` the rewrite.
    """

    first: Mapping[str, int]
    second: Mapping[str, int]
    element: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    certain: bool = True
    after: bool = False


#: Calls that would be legal, as text, or how to find them: that takes trying, and not everyone who asks wants them.
Offers: TypeAlias = "tuple[str, ...] | Callable[[], tuple[str, ...]]"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a rewrite keeps the result."""

    ok: bool
    reason: str | None = None
    witness: Witness | None = None
    offers: Offers = ()
    kind: Kind = "structure"

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Calls that would be legal, as text."""
        return self.offers() if callable(self.offers) else self.offers

    def __bool__(self) -> bool:
        # `first_no or OK` would throw a refusal away, and no test of acceptance would notice.
        raise TypeError("ask verdict.ok; a refusal is an answer, not a missing one")


OK = Verdict(True)


def refuse(
    reason: str, witness: Witness | None = None, alternatives: Offers = (), *, kind: Kind | None = None
) -> Verdict:
    """A no; with a witness it is about a dependence, without one about structure, unless ``kind`` says otherwise."""
    return Verdict(False, reason, witness, alternatives, kind or ("structure" if witness is None else "dependence"))
