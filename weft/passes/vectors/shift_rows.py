"""Rows that begin anywhere in memory, taken apart as memory lies: at multiples of the lanes of an access.

    thread t { unroll c { vector v in 0:8 { e = c * 1280 + t * 8 + v ; if e < 4093 { x[c * 8 + v] = X[m, e] } } } }

Row ``m`` begins ``m * 4093 % 8`` elements after a multiple of 8. So that lanes begin at such multiples, element
``e - m * 4093 % 8`` takes the place of ``e`` everywhere: in tests and in subscripts of memory. Each thread keeps its
elements in registers under the same numbers as before. All nests of a launch are shifted, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Var, idx
from weft.ir.interval import Ranges, bounds
from weft.ir.nesting import inner_statements
from weft.ir.offsets import linear_offset
from weft.ir.stmt import For, If, Kernel, Stmt, Store
from weft.ir.visit import children, map_statements, rebuild, replace_buffers, walk
from weft.passes.analysis.conditions import all_of, conjuncts
from weft.passes.analysis.loop_ranges import constant_extent, ranges_inside


def shift_rows(kernel: Kernel) -> Kernel:
    """``kernel``, in grid form, with the rows of launches shifted where they do not begin at multiples of the lanes."""

    def visit(s: Stmt) -> Stmt:
        if isinstance(s, For) and s.kind == "block":
            return _shifted(s)
        return map_statements(s, visit)

    return replace(kernel, body=visit(kernel.body))


class _DoesNotFit(Exception):
    """A statement of a launch uses elements of rows in another way."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of ``length`` elements in pieces of ``lanes``; ``offset`` elements of the first piece come before."""

    length: int
    lanes: int
    offset: Expr

    def test(self, e: Expr) -> list[Expr]:
        """That ``e``, counted from a multiple of the lanes, is in the row."""
        number = Binary("-", e, self.offset)
        return [Compare(">=", number, idx(0)), Compare("<", number, idx(self.length))]


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is around a statement: loops by name, and the element that a test let through."""

    loops: dict[str, For] = field(default_factory=dict)
    element: Linear | None = None

    def entered(self, loop: For) -> _Scope:
        return replace(self, loops={**self.loops, loop.var.name: loop})

    def moves(self, name: str) -> bool:
        """Whether it is a loop that a thread runs."""
        return name in self.loops and self.loops[name].kind not in ("block", "thread")

    def lanes_of(self, element: Linear) -> int | None:
        """The lanes of the innermost loop through ``element``, where all else in it goes by multiples of these."""
        single = [a for a, c in element.terms.items() if c == 1 and isinstance(a, Var) and self.moves(a.name)]
        lanes = constant_extent(self.loops[single[0].name]) if len(single) == 1 else None
        if not lanes or lanes == 1 or element.constant % lanes:
            return None
        return lanes if all(c % lanes == 0 for a, c in element.terms.items() if a is not single[0]) else None


def _shifted(launch: For) -> Stmt:
    rows = _find_rows(launch)
    if rows is None:
        return launch
    try:
        return _with_room(_shift(launch, _Scope(), rows))
    except _DoesNotFit:
        return launch


def _with_room(launch: Stmt) -> Stmt:
    """``launch`` with storage of threads that has a place for every element of every piece."""
    sizes: dict[Buffer, list[int]] = {}
    for access, ranges in _own_accesses(launch, {}):
        for n, index in enumerate(access.indices):
            most = bounds(index, ranges).hi
            if most is None:
                raise _DoesNotFit
            room = sizes.setdefault(access.buffer, [0] * access.buffer.rank)
            room[n] = max(room[n], most + 1)
    larger = {b: replace(b, shape=tuple(map(idx, sizes[b]))) for b in sizes if _is_smaller(b, sizes[b])}
    return replace_buffers(launch, larger) if larger else launch


def _is_smaller(buffer: Buffer, sizes: list[int]) -> bool:
    return any(isinstance(e, Const) and e.value < size for e, size in zip(buffer.shape, sizes))


def _own_accesses(s: Stmt, ranges: Ranges) -> Iterator[tuple[Load | Store, Ranges]]:
    """Accesses to what only one thread sees, and what loop variables are there, tests aside."""
    ranges = ranges_inside(s, ranges)
    own = [s] if isinstance(s, Store) else []
    for n in (*own, *(n for e in children(s) if isinstance(e, Expr) for n in walk(e))):
        if isinstance(n, (Load, Store)) and n.buffer.scope in ("local", "register"):
            yield n, ranges
    for inner in inner_statements(s):
        yield from _own_accesses(inner, ranges)


def _find_rows(launch: For) -> _Rows | None:
    """What accesses behind tests of the kind ``e < length`` say; those that write first."""
    found: list[tuple[bool, _Rows]] = []
    for s, scope in _tested(launch, _Scope()):
        for length, element in (t for c in conjuncts(s.condition) if (t := _read_test(c)) is not None):
            lanes = scope.lanes_of(element) or 1
            for access in _accesses(s.then) if lanes > 1 else ():
                start = _row_start(access, element)
                if start is not None and _is_cut(start, lanes, scope):
                    offset = Binary("%", start.expr(dt.index), idx(lanes))
                    found.append((isinstance(access, Load), _Rows(length, lanes, offset)))
    return min(found, key=lambda f: f[0])[1] if found else None


def _is_cut(start: Linear, lanes: int, scope: _Scope) -> bool:
    """Whether rows that begin there begin anywhere, each thread's at one place."""
    if any(_moves(a, scope) or any(isinstance(n, Load) for n in walk(a)) for a in start.terms):
        return False
    return any(c % lanes for c in (*start.terms.values(), start.constant))


def _tested(s: Stmt, scope: _Scope) -> Iterator[tuple[If, _Scope]]:
    if isinstance(s, For):
        scope = scope.entered(s)
    if isinstance(s, If) and s.otherwise is None:
        yield s, scope
    for inner in inner_statements(s):
        yield from _tested(inner, scope)


def _read_test(condition: Expr) -> tuple[int, Linear] | None:
    """``length`` and ``e`` of a test ``e < length``."""
    if not isinstance(condition, Compare) or condition.op != "<" or condition.left.dtype != dt.index:
        return None
    if not isinstance(condition.right, Const):
        return None
    return int(condition.right.value), linear_form(condition.left)


def _accesses(s: Stmt) -> Iterator[Load | Store]:
    for n in walk(s):
        if isinstance(n, (Load, Store)) and _is_memory(n.buffer):
            yield n


def _is_memory(buffer: Buffer) -> bool:
    return buffer.scope in ("global", "constant")


def _row_start(access: Load | Store, element: Linear) -> Linear | None:
    """Where in memory the row of ``access`` begins, if it goes along with ``element``."""
    whole = linear_offset(access.buffer, access.indices)
    if whole is None:
        return None
    start = Linear(dict(whole.terms), whole.constant).add(element, -1)
    return None if any(a in element.terms for a in start.terms) else start


def _shift(s: Stmt, scope: _Scope, rows: _Rows) -> Stmt:
    if isinstance(s, For):
        if _moves(s.lo, scope) or _moves(s.hi, scope):
            raise _DoesNotFit
        return replace(s, body=_shift(s.body, scope.entered(s), rows))
    if isinstance(s, If) and s.otherwise is None:
        return _shift_test(s, scope, rows)
    if isinstance(s, Store):
        return replace(s, indices=_shift_indices(s, scope, rows), value=_shift_expr(s.value, scope, rows))

    def visit(n: Any) -> Any:
        if isinstance(n, Stmt):
            return _shift(n, scope, rows)
        return _shift_expr(n, scope, rows) if isinstance(n, Expr) else n

    return rebuild(s, visit)


def _shift_test(s: If, scope: _Scope, rows: _Rows) -> Stmt:
    """A test for elements of a row, or for pieces of one, becomes that of shifted ones; others stay."""
    tests: list[Expr] = []
    for condition in conjuncts(s.condition):
        read = _read_test(condition)
        if read is not None and read[0] == rows.length and scope.lanes_of(read[1]) == rows.lanes:
            _check_room(read[1], scope, rows)
            tests += rows.test(condition.left)  # type: ignore[attr-defined]
            scope = replace(scope, element=read[1])
        elif read is not None and read[0] == -(-rows.length // rows.lanes) and _counts_pieces(read[1], s.then, rows):
            first = Binary("*", condition.left, idx(rows.lanes))  # type: ignore[attr-defined]
            tests.append(rows.test(first)[1])
        elif any(v in element.terms for element in _elements(s.then, rows) for v in walk(condition)):
            raise _DoesNotFit
        else:
            tests.append(_shift_expr(condition, scope, rows))
    return If(all_of(tests), _shift(s.then, scope, rows), span=s.span)


def _counts_pieces(piece: Linear, s: Stmt, rows: _Rows) -> bool:
    """Whether ``piece`` is the number of the piece whose elements ``s`` tests."""
    first = Linear().add(piece, rows.lanes)
    lanes = [Linear(dict(e.terms), e.constant).add(first, -1) for e in _elements(s, rows)]
    return bool(lanes) and all(list(lane.terms.values()) == [1] and lane.constant == 0 for lane in lanes)


def _elements(s: Stmt, rows: _Rows) -> Iterator[Linear]:
    """What tests in ``s`` say is in a row."""
    for test, _ in _tested(s, _Scope()):
        for length, element in (t for c in conjuncts(test.condition) if (t := _read_test(c)) is not None):
            if length == rows.length:
                yield element


def _check_room(element: Linear, scope: _Scope, rows: _Rows) -> None:
    """The loops must go through all numbers once, for as long as a row may be shifted."""
    reached = 1
    for atom, step in sorted(element.terms.items(), key=lambda term: term[1]):
        loop = scope.loops.get(atom.name) if isinstance(atom, Var) else None
        count = None if loop is None or loop.lo != idx(0) else constant_extent(loop)
        if count is None or step != reached:
            raise _DoesNotFit
        reached *= count
    if element.constant or reached < rows.length + rows.lanes - 1:
        raise _DoesNotFit


def _moves(e: Expr, scope: _Scope) -> bool:
    return any(isinstance(n, Var) and scope.moves(n.name) for n in walk(e))


def _shift_expr(e: Expr, scope: _Scope, rows: _Rows) -> Expr:
    """``e`` with the subscripts of memory shifted; elements of a row may not be used otherwise."""
    if isinstance(e, Load):
        return replace(e, indices=_shift_indices(e, scope, rows))
    if isinstance(e, Var) and scope.moves(e.name):
        raise _DoesNotFit
    return rebuild(e, lambda n: _shift_expr(n, scope, rows) if isinstance(n, Expr) else n)


def _shift_indices(access: Load | Store, scope: _Scope, rows: _Rows) -> tuple[Expr, ...]:
    if not _is_memory(access.buffer):
        return access.indices
    return tuple(_shift_index(i, scope, rows) for i in access.indices)


def _shift_index(index: Expr, scope: _Scope, rows: _Rows) -> Expr:
    if not _moves(index, scope):
        return _shift_expr(index, scope, rows)
    if scope.element is None or linear_form(Binary("-", index, scope.element.expr(dt.index))) != Linear():
        raise _DoesNotFit
    return Binary("-", index, rows.offset)
