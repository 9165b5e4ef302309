"""Conditions as sets of facts that hold together, for passes that move tests around."""

from __future__ import annotations

from collections.abc import Container, Iterable

from weft.ir.affine import Linear, linear_form
from weft.ir.dtype import index
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Var, idx
from weft.ir.inequality import all_of as all_of
from weft.ir.inequality import conjuncts as conjuncts
from weft.ir.inequality import slack as slack
from weft.ir.stmt import For, If, Stmt
from weft.ir.visit import map_statements, substitute, walk

#: Nodes of a loop's body that may be written out twice, with a test and without: code stays short, compiling quick.
LONGEST = 2000
#: Comparisons, and whether a greater left side makes them false (1) or true (-1).
_ORDER = {"<": 1, "<=": 1, ">": -1, ">=": -1}


def strictest(conditions: Iterable[Expr]) -> list[Expr]:
    """Conditions from which all of ``conditions`` follow: of those that bound the same sum the strictest.

    Of two, one of which must hold, it may be one alone, where others bound the same sum.
    """
    least: dict[frozenset[tuple[Expr, int]], Linear] = {}
    choices: dict[Expr, None] = {}
    for condition in conditions:
        if not _tighten(least, condition, is_new=True):
            choices[condition] = None
    others = []
    for choice in choices:
        sides = (choice.left, choice.right) if isinstance(choice, Binary) and choice.op == "||" else ()
        if not any(_tighten(least, side, is_new=False) for side in sides):
            others.append(choice)
    return [*(Compare(">=", gap.expr(index), idx(0)) for gap in least.values()), *others]


def _tighten(least: dict[frozenset[tuple[Expr, int]], Linear], condition: Expr, *, is_new: bool) -> bool:
    """Whether ``condition`` bounds a sum, one of ``least`` unless it may be new; it is among them then."""
    gap = slack(condition)
    if gap is None:
        return False
    key = frozenset(gap.terms.items())
    if key not in least and not is_new:
        return False
    if key not in least or gap.constant < least[key].constant:
        least[key] = gap
    return True


def guarded(parts: list[Expr], body: Stmt) -> Stmt:
    """``body`` under all of ``parts``, the first tested first."""
    for stmt in reversed(parts):
        body = If(stmt, body, span=stmt.span or body.span)
    return body


def guarded_again(old: Stmt, parts: list[Expr], body: Stmt) -> Stmt:
    """`guarded`, or ``old`` where that is the same: what is known of it is kept."""
    made = one = guarded(parts, body)
    other = old
    while isinstance(one, If) and isinstance(other, If) and not other.otherwise and one.condition == other.condition:
        one, other = one.then, other.then
    return old if one is other else made


def peel_guards(s: Stmt) -> tuple[list[Expr], Stmt]:
    """The conditions of the ifs (without else) that stand directly around a statement, and that statement."""
    parts: list[Expr] = []
    while isinstance(s, If) and s.otherwise is None:
        parts += conjuncts(s.condition)
        s = s.then
    return parts, s


def without_tests(s: Stmt, parts: list[Expr]) -> Stmt:
    """``s`` without the tests ``parts``."""
    s = map_statements(s, lambda n: without_tests(n, parts))
    if isinstance(s, If) and s.otherwise is None:
        return guarded([p for p in conjuncts(s.condition) if p not in parts], s.then)
    return s


def is_pure(e: Expr, changing: Container[str] = ()) -> bool:
    """Whether ``e`` reads neither memory nor variables that are assigned to: it may be evaluated anywhere in scope."""
    return is_fixed(e, changing)


def is_fixed(e: Expr, changing: Container[str] = (), stored: Container[str] | None = None) -> bool:
    """Whether ``e`` reads no variable that is assigned to, and no memory, or at least none that is ``stored``."""
    for n in walk(e):
        if isinstance(n, Load) and (stored is None or n.buffer.name in stored):
            return False
        if isinstance(n, Var) and n.name in changing:
            return False
    return True


def mentions(e: Expr, name: str) -> bool:
    return any(isinstance(n, Var) and n.name == name for n in walk(e))


def for_all(condition: Expr, loop: For) -> Expr | None:
    """What says that ``condition`` holds in all iterations of ``loop``, where the last or the first of them decides.

    Tests are of the kind ``base + v < n`` and ``n <= base + v``.
    """
    return _decided(condition, loop, for_all=True)


def for_any(condition: Expr, loop: For) -> Expr | None:
    """What holds at least where ``condition`` holds in some iteration of ``loop``: as `for_all`, of the other end."""
    return _decided(condition, loop, for_all=False)


def _decided(condition: Expr, loop: For, *, for_all: bool) -> Expr | None:
    parts = [_at_end(conjunct, loop, for_all=for_all) for conjunct in conjuncts(condition)]
    return None if None in parts else all_of([p for p in parts if p is not None])


def _at_end(test: Expr, loop: For, *, for_all: bool) -> Expr | None:
    """``test`` in the first or last iteration, where it holds last of all, or if not ``for_all`` first of all."""
    if not mentions(test, loop.var.name):
        return None if any(isinstance(n, Load) for n in walk(test)) else test
    if not (isinstance(test, Compare) and test.left.dtype == loop.var.dtype):
        return None
    difference = linear_form(Binary("-", test.left, test.right))
    if test.op not in _ORDER or [a for a in difference.terms if mentions(a, loop.var.name)] != [loop.var]:
        return None
    grows = difference.terms[loop.var] * _ORDER[test.op] > 0
    last = idx(int(loop.hi.value) - 1) if isinstance(loop.hi, Const) else Binary("-", loop.hi, idx(1))
    return substitute(test, {loop.var: last if grows == for_all else loop.lo})
