"""Code in two copies with one question before them: in one of these all choices are made, the other is as it was.

A choice is what a test, a cut-off position or a select likely comes to, and what must hold for that. The question is
that it holds for all values of the variables made inside. Passes that ask once differ in where they do, in which
choices they look at, and in how much is worth asking for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from weft.ir.buffer import Buffer
from weft.ir.expr import Expr
from weft.ir.stmt import Alloc, If, Stmt
from weft.ir.visit import Node, rebuild
from weft.passes.analysis.conditions import all_of
from weft.passes.analysis.truth import Inner, inner_of


class Choice(NamedTuple):
    """What something is where all that it ``needs`` holds."""

    chosen: Node
    needs: Sequence[Expr]


class Decided(NamedTuple):
    """Code with choices made, and what says that they are right."""

    main: Stmt
    asked: list[Expr]

    def before(self, other: Stmt) -> Stmt:
        """The question, and both copies."""
        return If(all_of(self.asked), self.main, other, span=other.span) if self.asked else self.main


#: The choices there are for something, likely ones first.
Choices = Callable[[Node], Iterable[Choice]]
#: What says that all of some tests hold for all values of inner variables; None where it is not to be asked.
Proof = Callable[[Sequence[Expr], Inner], Sequence[Expr] | None]


def decide(
    s: Stmt, inner: Inner, choices: Choices, proof: Proof, has_choice: Callable[[Stmt], bool] = lambda s: True
) -> Decided:
    """``s`` with choices made, from the inside to the outside."""
    asked: dict[Expr, None] = {}

    def visit(n: Any, inner: Inner) -> Any:
        if isinstance(n, Buffer):
            return n
        if isinstance(n, Stmt):
            if not has_choice(n):
                return n
            if isinstance(n, Alloc):
                return replace(n, body=visit(n.body, inner))
            inner = inner_of(n, inner)
        n = rebuild(n, lambda part: visit(part, inner))
        for chosen, needs in choices(n):
            found = proof(needs, inner)
            if found is not None:
                asked.update(dict.fromkeys(found))
                return chosen
        return n

    return Decided(visit(s, inner), list(asked))
