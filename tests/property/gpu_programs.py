"""Random GPU programs: blocks of threads with shared memory, barriers, and all kinds of control flow around them.

`random_gpu_kernel(seed)` rarely races or diverges: in each stretch between two barriers a shared array is either
written, each thread its own element, or read anywhere. What does race or diverge the interpreter finds, and it is
dropped.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import Binary, Call, Compare, Expr, Load, Select, Unary, Var, cast, const, idx
from weft.ir.stmt import (
    Alloc,
    Assign,
    Atomic,
    Barrier,
    Break,
    Continue,
    For,
    If,
    Kernel,
    Let,
    Return,
    Seq,
    Stmt,
    Store,
    While,
)

TEAMS = [(8,), (5,), (16,), (32,), (33,), (64,), (4, 8), (3, 16), (2, 2, 4), (2, 32), (6, 16)]
#: Of arrays; the first are those of variables too.
TYPES = [dt.float32, dt.int32, dt.int32, dt.int64, dt.float16, dt.bfloat16, dt.uint32, dt.float64, dt.int16, dt.bool_]
VARIABLES = 7
#: What rounds in one known way, so that every machine must give the same bits.
ANY = ("+", "-", "*", "min", "max")
FLOATS = (*ANY, "/")
INTEGERS = (*ANY, "//", "%", "tdiv", "tmod", "&", "|", "^", "<<", ">>")
WARP = 32


@dataclass
class Program:
    """What all of a random program shares."""

    rng: random.Random
    team: tuple[int, ...]
    blocks: int
    shared: list[Buffer] = field(default_factory=list)
    inputs: list[Buffer] = field(default_factory=list)
    outputs: list[Buffer] = field(default_factory=list)
    count: int = 0

    @property
    def threads(self) -> int:
        return math.prod(self.team)

    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def number(self) -> Expr:
        """The thread's number in its block."""
        total: Expr = idx(0)
        for axis, size in enumerate(self.team):
            total = total * size + Var(f"t{axis}")
        return total

    def own(self) -> Expr:
        """The thread's number in the grid."""
        return Var("b") * self.threads + self.number()


@dataclass
class Scope:
    """What a statement sees: variables, which of them all threads agree on, what may be read or written now."""

    lets: list[Var] = field(default_factory=list)
    uniform: list[Var] = field(default_factory=list)
    mutable: list[Var] = field(default_factory=list)
    private: list[Buffer] = field(default_factory=list)
    readable: list[Buffer] = field(default_factory=list)  # by anyone, anywhere
    owned: list[Buffer] = field(default_factory=list)  # each thread its own element
    in_warp: list[Buffer] = field(default_factory=list)  # by the threads of a warp
    loop: str = ""  # "barrier" or "plain": what kind of loop is around
    together: bool = True  # all threads get here
    may_return: bool = True

    def plus(self, **changes: object) -> Scope:
        return Scope(**{**self.__dict__, **changes})  # type: ignore[arg-type]


def random_gpu_kernel(seed: int) -> Kernel:
    """A program; the same seed gives the same one."""
    rng = random.Random(seed)
    p = Program(rng, rng.choice(TEAMS), rng.randint(1, 3))
    total = p.threads * p.blocks
    p.inputs = [Buffer(f"A{n}", rng.choice(TYPES[:8]), (idx(total),)) for n in range(rng.randint(1, 2))]
    p.outputs = [Buffer(f"B{n}", rng.choice(TYPES), (idx(total),)) for n in range(rng.randint(1, 2))]
    p.shared = [Buffer(f"S{n}", rng.choice(TYPES), (idx(p.threads),), scope="shared") for n in range(rng.randint(1, 3))]
    body: Stmt = Seq((*first_values(p), statements(p, Scope(owned=list(p.shared)), 2), *last_values(p)))
    for axis in reversed(range(len(p.team))):
        body = For(Var(f"t{axis}"), idx(0), idx(p.team[axis]), "thread", body)
    for buffer in p.shared:
        body = Alloc(buffer, body)
    body = For(Var("b"), idx(0), idx(p.blocks), "block", body)
    scalars = (Var("n"), Var("m", dt.int32))
    return Kernel(f"random{seed}", (*scalars, *p.inputs, *p.outputs), tuple(b.name for b in p.outputs), body)


def first_values(p: Program) -> list[Stmt]:
    """Nothing is read before it is written."""
    scope = Scope()
    return [Store(s, (p.number(),), value(p, scope, s.dtype, 1)) for s in p.shared]


def last_values(p: Program) -> list[Stmt]:
    """Shared memory is seen from outside."""
    scope = Scope(owned=list(p.shared))
    return [Store(b, (p.own(),), value(p, scope, b.dtype, 1)) for b in p.outputs]


def statements(p: Program, scope: Scope, depth: int) -> Stmt:
    """A few statements, one after another; a variable made on the way is seen by the rest."""
    made: list[Stmt] = []
    for _ in range(p.rng.randint(2, 4)):
        kind = p.rng.random()
        if kind < 0.28 and p.count < 12:
            return Seq((*made, declare(p, scope, depth)))
        if kind < 0.5 and scope.together:
            barrier, scope = next_phase(p, scope)
            made.append(barrier)
        elif kind < 0.7 and depth > 0:
            made.append(nested(p, scope, depth - 1))
        else:
            made.append(simple(p, scope))
    return Seq(tuple(made))


def declare(p: Program, scope: Scope, depth: int) -> Stmt:
    """A variable or a private buffer, and what follows."""
    if p.rng.random() < 0.2:
        r = Buffer(p.name("r"), p.rng.choice(TYPES[:VARIABLES]), (idx(2),), scope="local")
        fill = [Store(r, (idx(i),), value(p, scope, r.dtype, 1)) for i in range(2)]
        rest = statements(p, scope.plus(private=[*scope.private, r]), max(0, depth - 1))
        return Alloc(r, Seq((*fill, rest)))
    agreed = p.rng.random() < 0.4
    var = Var(p.name("u" if agreed else "x"), p.rng.choice(TYPES[:VARIABLES]))
    start = uniform_value(p, scope, var.type, 1) if agreed else value(p, scope, var.type, 2)
    inner = scope.plus(lets=[*scope.lets, var])
    if agreed and scope.together:
        inner = inner.plus(uniform=[*scope.uniform, var])
    elif p.rng.random() < 0.5:
        inner = inner.plus(mutable=[*scope.mutable, var])
    return Let(var, start, statements(p, inner, max(0, depth - 1)))


def next_phase(p: Program, scope: Scope) -> tuple[Stmt, Scope]:
    """A barrier, after which other arrays are written and read."""
    if p.threads % WARP == 0 and p.rng.random() < 0.2 and scope.owned:
        ready = scope.owned
        return Barrier("warp"), scope.plus(owned=[], in_warp=[*scope.in_warp, *ready])
    owned = [s for s in p.shared if p.rng.random() < 0.5]
    readable = [s for s in p.shared if s not in owned]
    return Barrier("block"), scope.plus(owned=owned, readable=readable, in_warp=[])


def nested(p: Program, scope: Scope, depth: int) -> Stmt:
    """A loop or a branch."""
    kind = p.rng.random()
    with_barriers = scope.together and p.rng.random() < 0.7
    if kind < 0.3:
        return loop(p, scope, depth, with_barriers)
    if kind < 0.5:
        return while_loop(p, scope, depth, with_barriers)
    inner = in_phase(scope) if with_barriers else scope.plus(together=False)
    test = uniform_test(p, scope) if with_barriers else thread_test(p, scope)
    then = statements(p, inner, depth)
    other = statements(p, inner, depth) if p.rng.random() < 0.4 else None
    made: Stmt = If(test, then, other)
    return Seq((Barrier("block"), made, Barrier("block"))) if with_barriers else made


def in_phase(scope: Scope) -> Scope:
    """Inside something that stands between two barriers."""
    return scope.plus(owned=[*scope.owned, *scope.in_warp], in_warp=[])


def between(p: Program, scope: Scope, body: Stmt) -> Stmt:
    """The body of a loop, whose last stretch does not meet its first one."""
    return Seq((body, Barrier("block")))


def loop(p: Program, scope: Scope, depth: int, with_barriers: bool) -> Stmt:
    var = Var(p.name("i"))
    lo, hi = idx(0), idx(p.rng.randint(1, 4))
    if not with_barriers:
        end: Expr = Binary("min", hi, p.number()) if p.rng.random() < 0.4 else hi
        inner = scope.plus(lets=[*scope.lets, var], loop="plain", together=False)
        return For(var, lo, end, p.rng.choice(["serial", "unroll"]), statements(p, inner, depth))
    inner = in_phase(scope).plus(lets=[*scope.lets, var], uniform=[*scope.uniform, var], loop="barrier")
    first: Expr = lo
    if p.rng.random() < 0.25:  # other numbers, but as many of them
        first, end = p.number(), p.number() + hi
        inner = inner.plus(uniform=scope.uniform)
    else:
        end = hi if p.rng.random() < 0.7 else Binary("min", hi, Binary("max", Var("n"), idx(1)))
    body = between(p, scope, statements(p, inner, depth))
    return Seq((Barrier("block"), For(var, first, end, "serial", body)))


def while_loop(p: Program, scope: Scope, depth: int, with_barriers: bool) -> Stmt:
    """Counted by a variable that all threads agree on, or by each thread for itself."""
    var = Var(p.name("w"), dt.int32)
    alone = p.rng.random() < 0.5
    start: Expr = cast(dt.int32, p.number()) if alone else const(0, dt.int32)
    limit = const(p.rng.randint(1, 3), dt.int32)
    bound: Expr = Binary("+", start, limit) if alone else limit
    if not with_barriers:
        inner = scope.plus(lets=[*scope.lets, var], loop="plain", together=False)
        body: Stmt = statements(p, inner, depth)
        bound = limit
    else:
        agreed = [] if alone else [var]
        inner = in_phase(scope).plus(lets=[*scope.lets, var], uniform=[*scope.uniform, *agreed], loop="barrier")
        body = between(p, scope, statements(p, inner, depth))
    step = Assign(var, Binary("+", var, const(1, dt.int32)))
    made = Let(var, start, While(Compare("<", var, bound), Seq((step, body))))
    return Seq((Barrier("block"), made)) if with_barriers else made


def simple(p: Program, scope: Scope) -> Stmt:
    kind = p.rng.random()
    if kind < 0.08 and scope.may_return:
        jump = early_exit(p, scope)
        if jump is not None:
            return jump
    if kind < 0.3 and scope.mutable:
        var = p.rng.choice(scope.mutable)
        change: Stmt = Assign(var, value(p, scope, var.type, 2))
        return change if p.rng.random() < 0.6 else If(thread_test(p, scope), change)
    if kind < 0.4 and scope.private:
        r = p.rng.choice(scope.private)
        return Store(r, (idx(p.rng.randint(0, 1)),), value(p, scope, r.dtype, 2))
    if kind < 0.75 and scope.owned:
        s = p.rng.choice(scope.owned)
        store = Store(s, (p.number(),), value(p, scope, s.dtype, 2))
        return store if p.rng.random() < 0.7 else If(thread_test(p, scope), store)
    if kind < 0.8 and (counted := [b for b in p.outputs if b.dtype in (dt.int32, dt.int64)]):
        b = p.rng.choice(counted)
        return Atomic(p.rng.choice(["+", "min", "max"]), b, (p.own(),), cast(b.dtype, Var("m", dt.int32)))
    b = p.rng.choice(p.outputs)
    return Store(b, (p.own(),), value(p, scope, b.dtype, 2))


def early_exit(p: Program, scope: Scope) -> Stmt | None:
    kind = p.rng.random()
    if kind < 0.4:
        return If(thread_test(p, scope), Return())
    if scope.loop == "plain" or (scope.loop == "barrier" and kind < 0.7):
        test = thread_test(p, scope) if scope.loop == "plain" else uniform_test(p, scope)
        return If(test, p.rng.choice([Break(), Continue()]))
    if scope.loop == "barrier":
        return If(thread_test(p, scope), Continue())
    return None


def thread_test(p: Program, scope: Scope) -> Expr:
    if p.rng.random() < 0.6:
        op = p.rng.choice(["<", ">=", "==", "!="])
        return Compare(op, p.number() if p.rng.random() < 0.7 else p.own(), idx(p.rng.randint(0, p.threads)))
    t = p.rng.choice([dt.int32, dt.float32])
    return Compare(p.rng.choice(["<", ">="]), value(p, scope, t, 1), value(p, scope, t, 1))


def uniform_test(p: Program, scope: Scope) -> Expr:
    t = p.rng.choice([dt.int32, dt.int64])
    return Compare(p.rng.choice(["<", "!=", ">="]), uniform_value(p, scope, t, 1), uniform_value(p, scope, t, 1))


def uniform_value(p: Program, scope: Scope, t: DType, depth: int) -> Expr:
    """Of the same value in all threads, where all get there."""
    if depth and p.rng.random() < 0.5 and not t.is_bool:
        op = p.rng.choice(["+", "-", "max"])
        return Binary(op, uniform_value(p, scope, t, depth - 1), uniform_value(p, scope, t, depth - 1))
    choices: list[Expr] = [const(p.rng.randint(0, 3), t), cast(t, Var("m", dt.int32)), cast(t, Var("b"))]
    choices += [cast(t, v) for v in scope.uniform]
    if scope.readable and scope.together:
        choices.append(cast(t, Load(p.rng.choice(scope.readable), (idx(p.rng.randrange(p.threads)),))))
    return p.rng.choice(choices)


def value(p: Program, scope: Scope, t: DType, depth: int) -> Expr:
    kind = p.rng.random()
    if depth and kind < 0.55 and not t.is_bool:
        op = p.rng.choice(FLOATS if t.is_float else INTEGERS if p.rng.random() < 0.4 else ANY)
        left, right = value(p, scope, t, depth - 1), value(p, scope, t, depth - 1)
        if op == "/":  # of two zeros a minimum may be either: their sign must not matter
            right = Binary("+", right, const(1, t))
        return Binary(op, left, right)
    if depth and kind < 0.58 and t.is_float:
        return Call(p.rng.choice(["sqrt", "floor", "abs", "rint"]), (value(p, scope, t, depth - 1),), t)
    if depth and kind < 0.65:
        return Select(thread_test(p, scope), value(p, scope, t, depth - 1), value(p, scope, t, depth - 1))
    if depth and t.is_bool and kind < 0.8:
        return Unary("!", value(p, scope, t, depth - 1))
    return leaf(p, scope, t)


def leaf(p: Program, scope: Scope, t: DType) -> Expr:
    choices: list[Expr] = [const(p.rng.randint(0, 3), t), cast(t, cast(dt.int32, p.number()))]
    choices += [cast(t, v) for v in scope.lets[-4:] for _ in range(2)]
    choices += [cast(t, Load(r, (idx(p.rng.randint(0, 1)),))) for r in scope.private]
    choices += [cast(t, Load(s, (p.number(),))) for s in scope.owned]
    choices += [cast(t, Load(s, (somewhere(p),))) for s in scope.readable for _ in range(3)]
    choices += [cast(t, Load(s, (in_the_warp(p),))) for s in scope.in_warp for _ in range(3)]
    a = p.rng.choice(p.inputs)
    choices.append(cast(t, Load(a, (p.own(),))))
    return p.rng.choice(choices)


def somewhere(p: Program) -> Expr:
    kind = p.rng.random()
    if kind < 0.3:
        return idx(p.rng.randrange(p.threads))
    if kind < 0.5:
        return Binary("-", idx(p.threads - 1), p.number())
    return Binary("%", p.number() + p.rng.randint(1, 9), idx(p.threads))


def in_the_warp(p: Program) -> Expr:
    first = Binary("*", Binary("//", p.number(), idx(WARP)), idx(WARP))
    return Binary("+", first, Binary("%", p.number() + p.rng.randint(1, 9), idx(WARP)))
