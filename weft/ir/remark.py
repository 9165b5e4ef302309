"""What a program says that is allowed and often not meant: told as a warning where the program is defined, or called
with sizes at which it shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from weft.ir.span import Span

#: Every kind of remark by name: ``# allow NAME`` on a line of a text silences it there, on the line of the ``def``
#: in all of a definition.
REMARKS = {
    "uncovered-output": "statements leave elements of an output whose size is declared at zero",
    "cut-range": "a variable ends where the shorter of two tensors does whose sizes have different names",
    "narrow-arithmetic": "sums and products of integers of 8 or 16 bits wrap before they go into something wider",
    "integer-division": "the quotient of two integers, which is rounded down, goes into a float",
}


class Remark(NamedTuple):
    """``name`` is one of `REMARKS`; the rest is as in an error."""

    name: str
    what: str
    span: Span | None
    why: str
    help: str


def told(remarks: Iterable[Remark], definition: Span | None) -> tuple[Remark, ...]:
    """Those that nothing in the text allows, each once; ``definition`` is where the definition is named."""
    kept: dict[tuple[object, ...], Remark] = {}
    for r in remarks:
        if not is_allowed(r.name, r.span, definition):
            kept.setdefault((r.name, r.what, r.span), r)
    return tuple(kept.values())


def is_allowed(name: str, span: Span | None, definition: Span | None) -> bool:
    """Whether the text allows remarks called ``name`` at ``span``."""
    return any(_allows(p, name) for p in (span, definition) if p is not None)


def _allows(span: Span, name: str) -> bool:
    _, _, comment = span.source.line(span.line).partition("#")
    words = comment.replace(",", " ").split()
    return "allow" in words and name in words[words.index("allow") :]
