"""The asserts of a kernel, in the order in which code generators number them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from weft.ir.nesting import statements_in
from weft.ir.span import Span
from weft.ir.stmt import Assert, Kernel


@dataclass(frozen=True, slots=True)
class AssertSite:
    """An `Assert` of the kernel; the status of a call is its position from 1."""

    message: str
    span: Span | None


def assert_sites(kernel: Kernel) -> tuple[AssertSite, ...]:
    """The asserts in program order; copies of one (a loop's body and its tail) count once."""
    found = (AssertSite(n.message, n.span) for n in statements_in(kernel, Assert))
    return tuple(dict.fromkeys(found))


def format_message(message: str, values: Sequence[int]) -> str:
    """``message`` of an `Assert` with ``{0}``, ``{1}`` ... replaced, ``{1:u}`` by a number of 64 bits without a sign;
    other braces stay."""

    def put(m: re.Match[str]) -> str:
        place = int(m[1])
        if place >= len(values):
            return m[0]
        return str(values[place] % (1 << 64) if m[2] else values[place])

    return re.sub(r"\{(\d+)(:u)?\}", put, message)
