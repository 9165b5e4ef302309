"""Thread loops that run only the threads that do something.

``thread t in 0:256 { if t == 0 { A }; B }`` becomes ``thread t in 0:1 { A }; thread t in 0:256 { B }``. A thread loop
may be cut in two between any of its statements, as by a barrier; tests of equality and of multiples are written as
bounds.
"""

from __future__ import annotations

from dataclasses import replace

from weft.ir import dtype as dt
from weft.ir.affine import linear_form
from weft.ir.expr import Binary, Compare, Const, Expr, Unary, Var, idx
from weft.ir.nesting import around, grouped, perfect_nest, sequence, strip
from weft.ir.simplify import assigned_names, simplify
from weft.ir.stmt import For, If, Kernel, Let, Seq, Stmt
from weft.ir.visit import free_vars, loads, map_statements, mentions, names_in, substitute
from weft.passes.analysis.conditions import conjuncts, guarded, is_pure, peel_guards, slack
from weft.passes.plain.inline_indices import inline_indices


def narrow_threads(kernel: Kernel) -> Kernel:
    """``kernel`` with statements that few threads run in thread loops of their own."""
    kernel = inline_indices(kernel)
    changing = assigned_names(kernel.body)
    return replace(kernel, body=_visit(kernel.body, changing))


def _visit(s: Stmt, changing: frozenset[str]) -> Stmt:
    if not isinstance(s, For) or s.kind != "thread":
        return map_statements(s, lambda n: _visit(n, changing))
    loops, body = perfect_nest(s, "thread")
    threads = [loop.var for loop in loops]
    parts = _cut(_sunk(body, changing), threads, changing)
    return sequence([_bounded(loops, stmt, changing) for stmt in parts])


def _sunk(s: Stmt, changing: frozenset[str]) -> Stmt:
    """Variables around a test that does not need them made inside it, and one test where there were two."""
    if isinstance(s, Seq):
        return sequence(_joined([_sunk(stmt, changing) for stmt in s.body], changing))
    if not isinstance(s, Let):
        return s
    body = strip(_sunk(s.body, changing))
    if isinstance(body, If) and body.otherwise is None and s.var.name not in free_vars(body.condition):
        return replace(body, then=replace(s, body=body.then))
    return replace(s, body=body)


def _joined(parts: list[Stmt], changing: frozenset[str]) -> list[Stmt]:
    """Neighbours under the same test as one statement under it."""
    made: list[Stmt] = []
    for part in parts:
        last = made[-1] if made else None
        if isinstance(last, If) and isinstance(part, If) and _same_test(last, part, changing):
            made[-1] = replace(last, then=sequence((last.then, part.then)))
        else:
            made.append(part)
    return made


def _same_test(a: If, b: If, changing: frozenset[str]) -> bool:
    alone = a.otherwise is None and b.otherwise is None
    return alone and a.condition == b.condition and is_pure(a.condition, changing)


def _cut(s: Stmt, threads: list[Var], changing: frozenset[str]) -> list[Stmt]:
    """``s`` in parts for thread loops of their own: those that few threads run apart from the others."""
    if isinstance(s, Seq):
        parts: list[Stmt] = []
        for stmt in s.body:
            parts += _cut(stmt, threads, changing)
        return grouped(parts, lambda n: _is_alone(n, threads, changing))
    if isinstance(s, Let) and s.var.name not in changing:
        inner = _cut(s.body, threads, changing)
        stored = mentions(s.body).stored
        if len(inner) > 1 and not any(load.buffer.name in stored for load in loads(s.value)):
            return [replace(s, body=stmt) if s.var.name in names_in(stmt) else stmt for stmt in inner]
    if isinstance(s, If) and s.otherwise is not None and _narrows(s.condition, threads, changing):
        other = simplify(Unary("!", s.condition))
        if _narrows(other, threads, changing):
            return [replace(s, otherwise=None), If(other, s.otherwise, span=s.span)]
    return [s]


def _is_alone(s: Stmt, threads: list[Var], changing: frozenset[str]) -> bool:
    """Whether few threads run ``s``; parts that all run stay together."""
    return isinstance(s, If) and s.otherwise is None and _narrows(s.condition, threads, changing)


def _narrows(condition: Expr, threads: list[Var], changing: frozenset[str]) -> bool:
    """Whether some part of ``condition`` is a bound of one thread variable."""
    return any(_bounds_thread(conjunct, threads) for conjunct in conjuncts(condition) if is_pure(conjunct, changing))


def _bounds_thread(conjunct: Expr, threads: list[Var]) -> bool:
    if not isinstance(conjunct, Compare) or conjunct.left.dtype != dt.index:
        return False
    if conjunct.op == "==":
        return _equal_to(conjunct, threads) is not None or _multiple_of(conjunct, threads) is not None
    gap = slack(conjunct)
    return gap is not None and sum(gap.terms.get(t, 0) in (1, -1) for t in threads) == 1


def _equal_to(conjunct: Compare, threads: list[Var]) -> Var | None:
    """The thread variable that ``conjunct`` says what it is."""
    gap = slack(replace(conjunct, op="<="))
    equal = [] if gap is None else [t for t in threads if gap.terms.get(t, 0) in (1, -1)]
    return equal[0] if len(equal) == 1 else None


def _multiple_of(conjunct: Compare, threads: list[Var]) -> tuple[Var, int, int] | None:
    """``t % 4 == 1``, or ``(t + 1) % 4 == 2``, as thread variable, divisor and rest."""
    match conjunct:
        case Compare("==", Binary("%", position, Const() as by), Const() as rest):
            shifted = linear_form(position)
            is_thread = [*shifted.terms.values()] == [1] and 0 <= int(rest.value) < int(by.value)
            for var in threads if is_thread else ():
                if var in shifted.terms:
                    return var, int(by.value), (int(rest.value) - shifted.constant) % int(by.value)
    return None


def _bounded(loops: tuple[For, ...], s: Stmt, changing: frozenset[str]) -> Stmt:
    """The loops around ``s`` with its tests as bounds where `hoist_guards` alone would not see them."""
    parts, body = peel_guards(s)
    threads = [loop.var for loop in loops]
    tests: list[Expr] = []
    for n, part in enumerate(parts):
        if not is_pure(part, changing):
            tests += parts[n:]
            break
        multiple = _multiple_of(part, threads) if isinstance(part, Compare) else None
        strided = None if multiple is None else _strided(loops, multiple)
        if strided is not None:
            loops, value = strided
            assert multiple is not None
            body = substitute(body, {multiple[0]: value})
            tests = [substitute(test, {multiple[0]: value}) for test in tests]
            parts[n + 1 :] = [substitute(later, {multiple[0]: value}) for later in parts[n + 1 :]]
        elif isinstance(part, Compare) and part.op == "==" and _equal_to(part, threads) is not None:
            tests += [replace(part, op="<="), replace(part, op=">=")]
        else:
            tests.append(part)
    return around(loops, guarded(tests, body))


def _strided(loops: tuple[For, ...], multiple: tuple[Var, int, int]) -> tuple[tuple[For, ...], Expr] | None:
    """The loops with one that counts the multiples only, and what the thread variable is in terms of it."""
    var, by, rest = multiple
    loop = next(loop for loop in loops if loop.var == var)
    if not (isinstance(loop.lo, Const) and loop.lo.value == 0 and isinstance(loop.hi, Const)):
        return None
    count = max(0, -(-(int(loop.hi.value) - rest) // by))
    value = simplify(Binary("+", Binary("*", var, idx(by)), idx(rest)))
    return tuple(replace(one, hi=idx(count)) if one is loop else one for one in loops), value
