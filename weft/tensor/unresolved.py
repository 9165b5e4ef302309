"""The error for index variables of which nothing says how far they go, and the range that was probably meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.ir.errors import LanguageError
from weft.ir.expr import Binary, Var
from weft.tensor.polynomial import Polynomial, atom, constant
from weft.tensor.ranges import Ranges, mentions
from weft.tensor.subscripts import Access, Subscript, by_variable, subscripts_of
from weft.tensor.text import describe, describe_access


def all_tested(unknown: Mapping[str, Var], accesses: Sequence[Access]) -> dict[str, list[Subscript]]:
    """The variables of which every read is made only where a test of them holds, with these reads."""
    groups = by_variable(subscripts_of(unknown, accesses))
    return {n: s for n, s in groups.items() if all(x.is_tested for x in s)}


def unresolved(
    unknown: Mapping[str, Var], accesses: Sequence[Access], ranges: Ranges, allowed: Mapping[str, Polynomial | None]
) -> LanguageError:
    """Each variable, the accesses that mention it, and what to add; ``allowed`` is where tests would let it end."""
    first = next(iter(unknown.values()))
    plural = "s" if len(unknown) > 1 else ""
    names = ", ".join(f"`{n}`" for n in unknown)
    tested = all_tested(unknown, accesses)
    ends = {n: tested[n][0].size if n in tested else _likely_end(n, unknown, accesses, ranges) for n in unknown}
    reasons = [_tested_reason(tested[n]) if n in tested else _reason(n, unknown, accesses) for n in unknown]
    clauses = ", ".join(f"{n} in 0:{'...' if e is None else describe(e.expr())}" for n, e in ends.items())
    others = [
        f"`{n}` in 0:{describe(e.expr())}" for n, e in allowed.items() if e is not None and e != tested[n][0].size
    ]
    would = f"; the tests would allow {', '.join(others)}" if others else ""
    return LanguageError(
        f"unknown range of index variable{plural} {names}",
        span=first.span,
        why="; ".join(reasons),
        help=f"add `where {clauses}` with the range you mean{would}",
    )


def _likely_end(name: str, unknown: Mapping[str, Var], accesses: Sequence[Access], ranges: Ranges) -> Polynomial | None:
    """The size of an axis that a variable goes round, or that another runs over whose range ends by it."""
    followers = {n for n, r in ranges.known.items() if (r.hi - atom(unknown[name])).as_int in (0, 1)}
    for access in accesses:
        for index, size in zip(access.indices, access.buffer.shape):
            goes_round = isinstance(index, Binary) and index.op in ("%", "tmod") and index.right == size
            if goes_round and mentions(index, name):
                return Polynomial.of(size)
            if isinstance(index, Var) and index.name in followers:
                wide = (ranges.known[index.name].hi - atom(unknown[name])).constant
                return Polynomial.of(size) + constant(1 - wide)
    return None


def _tested_reason(subscripts: Sequence[Subscript]) -> str:
    name = subscripts[0].var.name
    texts = list(dict.fromkeys(f"`{_text(s.access)}`" for s in subscripts))
    are = "is read only where a test" if len(texts) == 1 else "are read only where tests"
    hold = "holds" if len(texts) == 1 else "hold"
    return f"{' and '.join(texts)} {are} of `{name}` {hold}, so nothing says where `{name}` ends"


def _reason(name: str, unknown: Mapping[str, Var], accesses: Sequence[Access]) -> str:
    seen = [a for a in accesses if any(mentions(i, name) for i in a.indices)]
    if not seen:
        return f"no access to a tensor of known size mentions `{name}`"
    texts = list(dict.fromkeys(f"`{_text(a)}`" for a in seen))
    others = [n for n in unknown if n != name and any(mentions(i, n) for a in seen for i in a.indices)]
    if others:
        return f"`{name}` is tied to {', '.join(f'`{o}`' for o in others)} in {', '.join(texts)}"
    return f"`{name}` cannot be solved from {', '.join(texts)}: the subscript is not affine in it"


def _text(access: Access) -> str:
    return describe_access(access.buffer.name, access.indices)
