"""The asserts of a kernel, in the order in which code generators number them."""

from __future__ import annotations

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
