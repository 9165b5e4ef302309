"""Full tiles without tests: an iteration asks once whether its whole tile is inside; only if not, each point is tested.

::

    for i_o in 0:13 { unroll i_i in 0:8 { if i_o * 8 + i_i < 100 { ... } } }
    ->  for i_o in 0:13 { if i_o * 8 < 93 { unroll i_i in 0:8 { ... } } else { ... as before ... } }

Each nest is written out twice at most: in the innermost loop that a test of its unrolled and vector loops depends on,
for all such tests together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.expr import Binary, Compare, Const, Expr, Load, idx
from weft.ir.interval import Interval
from weft.ir.simplify import inner_statements, simplify
from weft.ir.stmt import Alloc, For, If, Kernel, Let, Stmt, Store
from weft.ir.visit import count_nodes, free_vars, rebuild, walk
from weft.passes.conditions import (
    LONGEST,
    changing_variables,
    conjuncts,
    is_pure,
    least_over,
    mentions,
    slack,
    without_tests,
)
from weft.passes.loop_ranges import constant_extent, loop_range

NEVER = Const(False, dt.bool_)


def separate_tiles(kernel: Kernel) -> Kernel:
    """``kernel`` with tests in unrolled and vector loops asked once for a whole tile."""
    if not any(isinstance(n, If) for n in walk(kernel)):
        return kernel
    changing = changing_variables(kernel)
    body, separated = _Separator(changing).visit(kernel.body)
    return simplify(replace(kernel, body=body)) if separated else kernel  # in a full tile more is known


class _Separator:
    def __init__(self, changing: frozenset[str]) -> None:
        self.changing = changing

    def visit(self, s: Stmt) -> tuple[Stmt, bool]:
        """``s``, and whether a nest in it is written out twice already."""
        done = False

        def inside(n: Stmt) -> Stmt:
            nonlocal done
            if not isinstance(n, Stmt):
                return n
            made, separated = self.visit(n)
            done |= separated
            return made

        if isinstance(s, For) and s.kind in ("unroll", "vector"):
            return s, False
        s = rebuild(s, inside)
        if done or not isinstance(s, For) or _shares_registers(s.body) or count_nodes(s.body) > LONGEST:
            return s, done
        found = list(self._tests(s.body, {}))
        ranges = {s.var.name: loop_range(s, {})}
        staying = {part for part, worst in found if worst is None or simplify(worst, ranges) == NEVER}
        tests = [(part, worst) for part, worst in found if worst is not None and part not in staying]
        asked = list(dict.fromkeys(worst for _, worst in tests))
        if not any(mentions(worst, s.var.name) for worst in asked):
            return s, False
        full = without_tests(s.body, [part for part, _ in tests])
        return replace(s, body=If(_all(asked), full, s.body, span=s.body.span)), True

    def _tests(self, s: Stmt, inner: Mapping[str, Interval | None]) -> Iterator[tuple[Expr, Expr | None]]:
        """All tests, each with what must hold for it to hold in all iterations of ``inner`` unrolled and vector loops.

        ``inner`` has None for other variables that are made inside.
        """
        if isinstance(s, For):
            is_tile = s.kind in ("unroll", "vector") and constant_extent(s)
            inner = {**inner, s.var.name: loop_range(s, {}) if is_tile else None}
        elif isinstance(s, Let):
            inner = {**inner, s.var.name: None}
        elif isinstance(s, If) and s.otherwise is None:
            for part in conjuncts(s.condition):
                yield part, _worst(part, inner) if is_pure(part, self.changing) else None
        for child in inner_statements(s):
            yield from self._tests(child, inner)


def _worst(part: Expr, inner: Mapping[str, Interval | None]) -> Expr | None:
    """What says that ``part`` holds whatever the ``inner`` variables are, where some of them are in it."""
    gap = slack(part)
    if gap is None or not any(name in inner for name in free_vars(part)):
        return None
    least = least_over(gap, inner)
    return None if least is None else simplify(Compare(">=", least.expr(dt.index), idx(0)))


def _all(conditions: list[Expr]) -> Expr:
    first, *others = conditions
    for condition in others:
        first = Binary("&&", first, condition)
    return first


def _shares_registers(body: Stmt) -> bool:
    """Whether registers live on from one iteration to the next: a branch between would part them."""
    own = {n.buffer.name for n in walk(body) if isinstance(n, Alloc)}
    accesses = (n for n in walk(body) if isinstance(n, (Load, Store)))
    return any(a.buffer.scope == "register" and a.buffer.name not in own for a in accesses)
