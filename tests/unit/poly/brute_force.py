"""Legality by enumeration: every instance of every statement, in order, with the elements it touches.

Written without `weft.poly`, so that the two can be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from weft.ir.expr import Binary, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.stmt import Alloc, Atomic, Block, For, If, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import children

CONCURRENT = ("parallel", "vector", "block", "thread")


@dataclass(frozen=True)
class Touch:
    cell: tuple
    writes: bool
    update: str | None
    exact: bool
    atomic: bool


@dataclass(frozen=True)
class Instance:
    loops: dict[str, int]
    stmt: Stmt
    touches: tuple[Touch, ...]


def value(e: Expr, env: dict[str, int]) -> int:
    if isinstance(e, Const):
        return int(e.value)
    if isinstance(e, Var):
        return env[e.name]
    if isinstance(e, Unary):
        return -value(e.operand, env) if e.op == "-" else int(not value(e.operand, env))
    if isinstance(e, Select):
        return value(e.then if value(e.condition, env) else e.otherwise, env)
    assert isinstance(e, (Binary, Compare))
    a, b = value(e.left, env), value(e.right, env)
    return OPERATORS[e.op](a, b)


OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "tdiv": lambda a, b: abs(a) // b * (1 if a >= 0 else -1),
    "tmod": lambda a, b: abs(a) % b * (1 if a >= 0 else -1),
    "min": min,
    "max": max,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
}


def enumerate_instances(kernel: Kernel, sizes: dict[str, int]) -> list[Instance]:
    return list(_run(kernel.body, dict(sizes), {}, {}))


def _run(s: Stmt, env: dict[str, int], loops: dict[str, int], owners: dict[str, tuple]) -> Iterator[Instance]:
    if isinstance(s, For):
        for i in range(value(s.lo, env), value(s.hi, env)):
            yield from _run(s.body, {**env, s.var.name: i}, {**loops, s.var.name: i}, owners)
    elif isinstance(s, Seq):
        for inner in s.body:
            yield from _run(inner, env, loops, owners)
    elif isinstance(s, If):
        chosen = s.then if value(s.condition, env) else s.otherwise
        if chosen is not None:
            yield from _run(chosen, env, loops, owners)
    elif isinstance(s, Let):
        yield from _run(s.body, {**env, s.var.name: value(s.value, env)}, loops, owners)
    elif isinstance(s, Alloc):
        yield from _run(s.body, env, loops, {**owners, s.buffer.name: tuple(loops.values())})
    elif isinstance(s, Block):
        inner_env = {**env, **{i.var.name: value(i.binding, env) for i in s.iters}}
        first = all(value(i.binding, env) == value(i.lo, env) for i in s.iters if i.kind == "reduce")
        if s.init is not None and first:
            yield from _run(s.init, inner_env, loops, owners)
        yield from _run(s.body, inner_env, loops, owners)
    else:
        assert isinstance(s, (Store, Atomic))
        yield Instance(loops, s, tuple(_touches(s, env, owners)))


def _cell(buffer, indices, env, owners) -> tuple:
    return buffer.name, owners.get(buffer.name, ()), tuple(value(i, env) for i in indices)


def _touches(s: Store | Atomic, env: dict[str, int], owners: dict[str, tuple]) -> Iterator[Touch]:
    op, rest = None, [s.value]
    if isinstance(s, Atomic):
        op = s.op
    elif isinstance(s.value, Binary) and s.value.op in ("+", "*", "max") and s.value.left == Load(s.buffer, s.indices):
        op, rest = s.value.op, [s.value.right]
    exact = op == "max" or (op is not None and not s.buffer.dtype.is_float)
    yield Touch(_cell(s.buffer, s.indices, env, owners), True, op, exact, isinstance(s, Atomic))
    for e in rest:
        for load in _performed(e, env):
            yield Touch(_cell(load.buffer, load.indices, env, owners), False, None, False, False)


def _performed(e: Expr, env: dict[str, int]) -> Iterator[Load]:
    if isinstance(e, Select):
        yield from _performed(e.then if value(e.condition, env) else e.otherwise, env)
        return
    if isinstance(e, Load):
        yield e
        return
    for child in children(e):
        yield from _performed(child, env)  # type: ignore[arg-type]


def conflict(a: Instance, b: Instance, numerics: str, *, concurrent: bool) -> bool:
    """Whether the two touch one cell in a way that orders them."""
    for x in a.touches:
        for y in b.touches:
            if x.cell == y.cell and (x.writes or y.writes) and not _commute(x, y, numerics, concurrent):
                return True
    return False


def _commute(x: Touch, y: Touch, numerics: str, concurrent: bool) -> bool:
    if x.update is None or x.update != y.update or (concurrent and not (x.atomic and y.atomic)):
        return False
    return numerics == "fast" or (x.exact and y.exact)


def is_parallel(instances: Sequence[Instance], loop: str, outer: Sequence[str], numerics: str) -> bool:
    inside = [i for i in instances if loop in i.loops]
    for n, a in enumerate(inside):
        for b in inside[n + 1 :]:
            together = all(a.loops[o] == b.loops[o] for o in outer) and a.loops[loop] != b.loops[loop]
            if together and conflict(a, b, numerics, concurrent=True):
                return False
    return True


def keeps_order(
    instances: Sequence[Instance],
    old: Sequence[For],
    new: Sequence[For],
    outer: Sequence[str],
    numerics: str,
) -> bool:
    """Whether conflicting instances that are ordered stay so when loops ``old`` run in the order ``new``."""
    inside = [i for i in instances if old[-1].var.name in i.loops]
    for n, a in enumerate(inside):
        for b in inside[n + 1 :]:
            if any(a.loops[o] != b.loops[o] for o in outer):
                continue
            before, after = _first_difference(a, b, old), _first_difference(a, b, new)
            if before is None or after is None or before[1]:
                continue
            changed = after[0] != before[0] or after[1]
            if changed and conflict(a, b, numerics, concurrent=after[1]):
                return False
    return True


def _first_difference(a: Instance, b: Instance, order: Sequence[For]) -> tuple[bool, bool] | None:
    """Whether a is before b in the outermost loop in which they differ, and whether that one is concurrent."""
    for loop in order:
        x, y = a.loops[loop.var.name], b.loops[loop.var.name]
        if x != y:
            return x < y, loop.kind in CONCURRENT
    return None
