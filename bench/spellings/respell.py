"""Other spellings of a program, drawn at random: rewrites that keep what it computes, one after another.

Each takes a specialized program and a source of chance and gives another program, or None where there is nothing to
rewrite. They undo what the normal form does, and use nothing of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod

from weft.ir.buffer import Buffer
from weft.ir.expr import Axis, Binary, Call, Compare, Const, Expr, Load, Select, Var, const, identity, idx
from weft.ir.interval import Interval, bounds
from weft.ir.visit import count_nodes, free_vars, loads, rewrite, substitute, walk
from weft.tensor.boundary import Outside, expand_outside
from weft.tensor.program import Statement, TensorProgram

Rewrite = Callable[[TensorProgram, random.Random], "TensorProgram | None"]
#: What is stored by itself has at most so many times the elements of the largest tensor there was.
GROWTH = 2
#: Formulas longer than this are not written out in their readers.
MOST_NODES = 60


def respell(program: TensorProgram, seed: int, steps: int = 3) -> tuple[TensorProgram, list[str]]:
    """``program`` after some rewrites drawn by ``seed``, and their names."""
    chance, names = random.Random(seed), list[str]()
    for _ in range(10 * steps):
        rule = chance.choice(RULES)
        other = rule(program, chance)
        if other is not None:
            program = other
            names.append(rule.__name__)
        if len(names) == steps:
            break
    return program, names


def turned(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``b * a`` for ``a * b``, and so for sums."""

    def step(e: object) -> Expr | None:
        swaps = isinstance(e, Binary) and e.op in ("+", "*") and e.dtype.is_float and chance.random() < 0.5
        return Binary(e.op, e.right, e.left) if swaps else None  # type: ignore[attr-defined]

    return _changed(program, [replace(s, value=rewrite(s.value, step)) for s in program.statements])


def copied(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``D(k,n) = X(n,k)``, and ``D`` read by one statement in the place of ``X``."""
    own = {b.name for b in program.inputs}
    found = [
        (p, b)
        for p, s in enumerate(program.statements)
        for b in dict.fromkeys(x.buffer for x in loads(s.value))
        if b.name in own
    ]
    found = [(p, b) for p, b in found if b.rank]
    if not found:
        return None
    position, buffer = chance.choice(found)
    order = list(range(buffer.rank))
    chance.shuffle(order)
    made = Buffer(_fresh(program, "D"), buffer.dtype, tuple(buffer.shape[d] for d in order))

    def step(e: object) -> Expr | None:
        if isinstance(e, Load) and e.buffer == buffer:
            return Load(made, tuple(e.indices[d] for d in order))
        return None

    places = tuple(Var(f"c{d}") for d in range(buffer.rank))
    axes = tuple(Axis(places[d], idx(0), buffer.shape[d]) for d in order)
    copy = Statement(made, tuple(places[d] for d in order), "=", False, Load(buffer, places), axes)
    statements = list(program.statements)
    statements[position] = replace(statements[position], value=rewrite(statements[position].value, step))
    return _with(program, [*statements[:position], copy, *statements[position:]], made)


def split(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``X(k*4+r)`` for ``X(k)``: an axis as two."""
    found = [
        (p, a, d)
        for p, s in enumerate(program.statements)
        for a in s.axes
        for d in (2, 3, 4, 5, 8, 32)
        if a.lo == idx(0) and isinstance(a.hi, Const) and a.hi.value > d and a.hi.value % d == 0
    ]
    if not found:
        return None
    position, axis, by = chance.choice(found)
    s = program.statements[position]
    taken = {a.var.name for a in s.axes}
    high, low = (Var(_free(f"{axis.var.name}{end}", taken)) for end in ("o", "i"))
    pair = (Axis(high, idx(0), idx(axis.hi.value // by)), Axis(low, idx(0), idx(by)))  # type: ignore[attr-defined]
    made = _put(s, {axis.var: high * by + low}, [b for a in s.axes for b in (pair if a is axis else (a,))])
    return _at(program, position, made)


def shifted(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``X(k-1) where k in 1:K+1`` for ``X(k)``."""
    found = [(p, a) for p, s in enumerate(program.statements) for a in s.axes if isinstance(a.hi, Const)]
    position, axis = chance.choice(found)
    s = program.statements[position]
    axes = [replace(a, lo=a.lo + 1, hi=a.hi + 1) if a is axis else a for a in s.axes]
    axes = [replace(a, lo=idx(_value(a.lo)), hi=idx(_value(a.hi))) for a in axes]
    return _at(program, position, _put(s, {axis.var: axis.var - 1}, axes))


def started_apart(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``T = 0.0``, then ``T += e`` for ``T +=! e``."""
    found = [p for p, s in enumerate(program.statements) if s.initialize and s.reduce_axes and _is_plain(s)]
    if not found:
        return None
    position = chance.choice(found)
    s = program.statements[position]
    start = Statement(s.target, s.indices, "=", False, identity(s.op, s.target.dtype), s.spatial_axes)
    statements = list(program.statements)
    statements[position : position + 1] = [start, replace(s, initialize=False)]
    return replace(program, statements=tuple(statements))


def scaled(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """A power of two inside a sum, and its inverse wherever the sum is read."""
    own = {b.name for b in program.temporaries}
    sums = [p for p, s in enumerate(program.statements) if s.op == "+" and s.target.name in own and s.reduce_axes]
    sums = [p for p in sums if program.statements[p].target.dtype.is_float and program.statements[p].initialize]
    sums = [p for p in sums if sum(s.target == program.statements[p].target for s in program.statements) == 1]
    if not sums:
        return None
    position, factor = chance.choice(sums), chance.choice([0.125, 0.5, 2.0])
    target = program.statements[position].target

    def step(e: object) -> Expr | None:
        return Binary("*", e, const(1 / factor, e.dtype)) if isinstance(e, Load) and e.buffer == target else None

    statements = [replace(s, value=rewrite(s.value, step)) for s in program.statements]
    s = program.statements[position]
    statements[position] = replace(s, value=Binary("*", s.value, const(factor, s.value.dtype)))
    return replace(program, statements=tuple(statements))


def padded(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``D(y) = X(y-1), X outside zero`` by itself, and ``D`` read where it is defined everywhere."""
    found = [(p, n) for p, s in enumerate(program.statements) for n in walk(s.value) if isinstance(n, Outside)]
    found = [(p, n) for p, n in found if n.mode == "value"]
    if not found:
        return None
    position, read = chance.choice(found)
    s = program.statements[position]
    ranges = {a.var.name: Interval(_value(a.lo), _value(a.hi) - 1) for a in s.axes}
    limits = [bounds(i, ranges) for i in read.load.indices]
    if any(x.lo is None or x.hi is None for x in limits):
        return None
    buffer, places = read.load.buffer, tuple(Var(f"y{d}") for d in range(read.load.buffer.rank))
    made = Buffer(_fresh(program, "D"), buffer.dtype, tuple(idx(x.hi - x.lo + 1) for x in limits))  # type: ignore[operator]
    load = Load(buffer, tuple(v + x.lo if x.lo else v for v, x in zip(places, limits)))  # type: ignore[arg-type]
    frame = Statement(
        made,
        places,
        "=",
        False,
        replace(read, load=load),
        tuple(Axis(v, idx(0), n) for v, n in zip(places, made.shape)),
    )
    inner = Load(made, tuple(i - x.lo if x.lo else i for i, x in zip(read.load.indices, limits)))  # type: ignore[arg-type]
    value = rewrite(s.value, lambda n: inner if n == read else None)
    statements = list(program.statements)
    statements[position : position + 1] = [frame, replace(s, value=value)]
    return _with(program, statements, made)


def tested(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``y >= 0 && y < N ? X(y) : 0.0`` for ``X(y), X outside zero``; sometimes denied."""

    def step(e: object) -> Expr | None:
        if not isinstance(e, Outside) or e.mode != "value":
            return None
        plain = expand_outside(e)
        if isinstance(plain, Select) and chance.random() < 0.5:
            return Select(_denied(plain.condition), plain.otherwise, plain.then)
        return plain

    return _changed(program, [replace(s, value=rewrite(s.value, step)) for s in program.statements])


def stored(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """A part of a formula by itself first."""
    most = GROWTH * max(
        prod(_value(n) for n in b.shape) for b in (*program.inputs, *program.outputs, *program.temporaries)
    )
    found: list[tuple[int, Expr]] = []
    for p, s in enumerate(program.statements):
        for e in walk(s.value):
            if isinstance(e, (Binary, Call)) and e.dtype.is_float and loads(e) and e != s.value:
                used = [a for a in s.axes if a.var.name in free_vars(e)]
                if used and prod(_value(a.hi) for a in used) <= most and all(a.lo == idx(0) for a in used):
                    found.append((p, e))
    if not found:
        return None
    position, part = chance.choice(found)
    s = program.statements[position]
    axes = tuple(a for a in s.axes if a.var.name in free_vars(part))
    made = Buffer(_fresh(program, "U"), part.dtype, tuple(a.hi for a in axes))
    places = tuple(a.var for a in axes)
    value = rewrite(s.value, lambda n: Load(made, places) if n == part else None)
    statements = list(program.statements)
    statements[position : position + 1] = [Statement(made, places, "=", False, part, axes), replace(s, value=value)]
    return _with(program, statements, made)


def written_out(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """The formula of a temporary in its readers."""
    own = {b.name for b in program.temporaries}
    found = [s for s in program.statements if s.target.name in own and s.op == "=" and _is_plain(s)]
    found = [s for s in found if not s.reduce_axes and count_nodes(s.value) <= MOST_NODES]
    found = [s for s in found if sum(o.target == s.target for o in program.statements) == 1]
    guarded = {n.load.buffer for s in program.statements for n in walk(s.value) if isinstance(n, Outside)}
    found = [s for s in found if s.target not in guarded]
    if not found:
        return None
    s = chance.choice(found)

    def step(e: object) -> Expr | None:
        if isinstance(e, Load) and e.buffer == s.target:
            return substitute(s.value, dict(zip(s.indices, e.indices)))  # type: ignore[arg-type]
        return None

    statements = [replace(o, value=rewrite(o.value, step)) for o in program.statements if o is not s]
    rest = tuple(b for b in program.temporaries if b != s.target)
    return replace(program, statements=tuple(statements), temporaries=rest)


def inverted(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """``a * (1.0 / b)`` for ``a / b``."""

    def step(e: object) -> Expr | None:
        if isinstance(e, Binary) and e.op == "/" and e.left != const(1.0, e.dtype) and chance.random() < 0.7:
            return Binary("*", e.left, Binary("/", const(1.0, e.dtype), e.right))
        return None

    return _changed(program, [replace(s, value=rewrite(s.value, step)) for s in program.statements])


def swapped(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """Two neighbours that need nothing of each other, the other way round."""
    s = program.statements
    free = [p for p in range(len(s) - 1) if _are_apart(s[p], s[p + 1])]
    if not free:
        return None
    p = chance.choice(free)
    return replace(program, statements=(*s[:p], s[p + 1], s[p], *s[p + 2 :]))


def turned_temporary(program: TensorProgram, chance: random.Random) -> TensorProgram | None:
    """The dimensions of a temporary in another order."""
    wide = [b for b in program.temporaries if b.rank > 1]
    if not wide:
        return None
    old = chance.choice(wide)
    order = list(range(old.rank))
    chance.shuffle(order)
    made = replace(old, shape=tuple(old.shape[d] for d in order))

    def step(e: object) -> Expr | None:
        return Load(made, tuple(e.indices[d] for d in order)) if isinstance(e, Load) and e.buffer == old else None

    statements = []
    for s in program.statements:
        s = replace(s, value=rewrite(s.value, step))
        if s.target == old:
            s = replace(s, target=made, indices=tuple(s.indices[d] for d in order))
        statements.append(s)
    changed = _changed(program, statements)
    own = tuple(made if b == old else b for b in program.temporaries)
    return None if changed is None else replace(changed, temporaries=own)


RULES: tuple[Rewrite, ...] = (
    turned, copied, split, shifted, started_apart, scaled, padded, tested, stored, written_out, inverted, swapped,
    turned_temporary,
)  # fmt: skip


def _value(e: Expr) -> int:
    found = bounds(e, {})
    assert found.lo is not None
    assert found.lo == found.hi
    return found.lo


def _is_plain(s: Statement) -> bool:
    ends = {a.var: a.hi for a in s.axes if a.lo == idx(0)}
    return len({*s.indices}) == len(s.indices) and all(ends.get(i) == n for i, n in zip(s.indices, s.target.shape))  # type: ignore[arg-type]


def _denied(condition: Expr) -> Expr:
    if isinstance(condition, Binary) and condition.op == "&&":
        return Binary("||", _denied(condition.left), _denied(condition.right))
    assert isinstance(condition, Compare)
    flipped = {">=": "<", "<": ">="}
    return Compare(flipped[condition.op], condition.left, condition.right)  # type: ignore[arg-type]


def _are_apart(a: Statement, b: Statement) -> bool:
    names = [{s.target.name, *(x.buffer.name for x in loads(s.value))} for s in (a, b)]
    return a.target.name not in names[1] and b.target.name not in names[0]


def _put(s: Statement, at: dict[Var, Expr], axes: list[Axis]) -> Statement:
    return replace(
        s, indices=tuple(substitute(i, at) for i in s.indices), value=substitute(s.value, at), axes=tuple(axes)
    )


def _at(program: TensorProgram, position: int, made: Statement) -> TensorProgram:
    s = program.statements
    return replace(program, statements=(*s[:position], made, *s[position + 1 :]))


def _changed(program: TensorProgram, statements: list[Statement]) -> TensorProgram | None:
    return None if tuple(statements) == program.statements else replace(program, statements=tuple(statements))


def _with(program: TensorProgram, statements: list[Statement], made: Buffer) -> TensorProgram:
    return replace(program, statements=tuple(statements), temporaries=(*program.temporaries, made))


def _names(program: TensorProgram) -> Iterator[str]:
    yield from (b.name for b in (*program.params, *program.outputs, *program.temporaries))
    yield from (a.var.name for s in program.statements for a in s.axes)


def _fresh(program: TensorProgram, base: str) -> str:
    return _free(base, set(_names(program)))


def _free(base: str, taken: set[str]) -> str:
    return next(n for n in (base, *(f"{base}{k}" for k in range(100))) if n not in taken)
