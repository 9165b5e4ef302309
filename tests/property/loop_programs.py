"""Random loop programs that the verifier accepts, with every kind of statement and expression.

`random_kernel(seed)` is any valid program. With ``runnable=True`` it also terminates, stays in bounds and needs
no partner threads, so that it can be interpreted before and after a rewrite.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.expr import (
    Axis,
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Ramp,
    Reduce,
    Select,
    Shuffle,
    Unary,
    Var,
    const,
    idx,
)
from weft.ir.intrinsics import INTRINSICS
from weft.ir.stmt import (
    Alloc,
    Assert,
    Assign,
    Atomic,
    Barrier,
    Block,
    Break,
    Continue,
    Evaluate,
    For,
    If,
    Iter,
    Kernel,
    Let,
    Region,
    Return,
    Seq,
    Stmt,
    Store,
    While,
)

TYPES = list(dt.SCALAR_TYPES.values())
ODD_NAMES = ["for", "out", "x y", "inf", "nan_f16", "true", "float32", "a.b", "`tick`", 'q"q', "né", "\\", "\n", "x4"]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.1, 2.5, math.inf, -math.inf, math.nan, 1e-45, 5e-324, 1e300, 65504.0, 3.0e38, 1e16]
FLOAT_CALLS = [i for i in INTRINSICS.values() if i.rule == "float"]


@dataclass
class Scope:
    """Names a statement sees."""

    vars: list[Var] = field(default_factory=list)
    lets: list[Var] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    writable: list[Buffer] = field(default_factory=list)
    loops: tuple[str, ...] = ()

    def plus(self, **changes: list) -> Scope:
        merged = {name: [*getattr(self, name), *new] for name, new in changes.items()}
        return Scope(**{**self.__dict__, **merged})

    def inside(self, kind: str, var: Var) -> Scope:
        concurrent = kind not in ("serial", "unroll")
        return Scope(
            [*self.vars, var], [] if concurrent else self.lets, self.buffers, self.writable, (*self.loops, kind)
        )


class Programs:
    """A stream of random programs."""

    def __init__(self, seed: int, runnable: bool = False) -> None:
        self.random = random.Random(seed)
        self.runnable = runnable
        self.count = 0

    def name(self, base: str) -> str:
        self.count += 1
        if self.chance(0.05) and not self.runnable:
            # The middle dot keeps odd names unique; without it only the first of each would be.
            return self.pick(ODD_NAMES) + (f"·{self.count}" if self.count > 1 else "")
        return f"{base}{self.count}"

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    # Expressions

    def number(self, t: DType) -> Const:
        if t.is_bool:
            return Const(self.chance(0.5), t)
        if t.is_float:
            return Const(self.pick(FLOATS), t)
        if t == dt.index:
            return idx(self.random.randint(-16, 16))
        return const(self.pick([0, 1, 2, 3, 7, -1, t.min_value, t.max_value, self.random.randint(-100, 100)]), t)

    def leaf(self, scope: Scope, t: DType, depth: int) -> Expr:
        variables = [v for v in scope.vars if v.type == t]
        if variables and self.chance(0.6):
            return self.pick(variables)
        buffers = [b for b in scope.buffers if b.dtype == t and b.scope != "register"]
        if buffers and depth > 0 and self.chance(0.5):
            buffer = self.pick(buffers)
            return Load(buffer, self.indices(scope, buffer, depth - 1))
        return self.number(t)

    def indices(self, scope: Scope, buffer: Buffer, depth: int) -> tuple[Expr, ...]:
        return tuple(Binary("%", self.expr(scope, dt.index, depth), size) for size in buffer.shape)

    def expr(self, scope: Scope, t: DType, depth: int) -> Expr:
        if depth <= 0 or self.chance(0.15):
            return self.leaf(scope, t, depth)
        makers = [self.leaf_again, self.select, self.binary, self.binary, self.unary, self.cast, self.lanes]
        makers += [self.call] if t.is_float else [self.logic] if t.is_bool else [self.bits]
        makers += [self.reduce] if self.chance(0.2) else []
        made = self.pick(makers)(scope, t, depth - 1)
        assert made.dtype == t
        return made

    def leaf_again(self, scope: Scope, t: DType, depth: int) -> Expr:
        return self.leaf(scope, t, depth)

    def select(self, scope: Scope, t: DType, depth: int) -> Expr:
        return Select(self.expr(scope, dt.bool_, depth), self.expr(scope, t, depth), self.expr(scope, t, depth))

    def binary(self, scope: Scope, t: DType, depth: int) -> Expr:
        if t.is_bool:
            return self.logic(scope, t, depth)
        ops = ["+", "-", "*", "min", "max"] + (["/"] if t.is_float else ["//", "%", "tdiv", "tmod"])
        op, left, right = self.pick(ops), self.expr(scope, t, depth), self.expr(scope, t, depth)
        if op in ("//", "%") and self.chance(0.7):
            right = const(self.random.randint(1, 9), t)
        return Binary(op, left, right)

    def bits(self, scope: Scope, t: DType, depth: int) -> Expr:
        # Bit operations on indices would leave the small numbers that keep index arithmetic from overflowing.
        op = self.pick(["&", "|", "^"] if t == dt.index else ["&", "|", "^", "<<", ">>"])
        return Binary(op, self.expr(scope, t, depth), self.expr(scope, t, depth))

    def logic(self, scope: Scope, t: DType, depth: int) -> Expr:
        if self.chance(0.5):
            other = self.pick([dt.index, dt.index, *TYPES])
            op = self.pick(["==", "!=", "<", "<=", ">", ">="])
            return Compare(op, self.expr(scope, other, depth), self.expr(scope, other, depth))
        op = self.pick(["&&", "||", "&", "|", "^", "min", "max"])
        return Binary(op, self.expr(scope, t, depth), self.expr(scope, t, depth))

    def unary(self, scope: Scope, t: DType, depth: int) -> Expr:
        op = "!" if t.is_bool else "-" if t.is_float or t == dt.index else self.pick(["-", "~"])
        return Unary(op, self.expr(scope, t, depth))

    def cast(self, scope: Scope, t: DType, depth: int) -> Expr:
        if t == dt.index:
            return Cast(t, self.expr(scope, self.pick([dt.int8, dt.bool_]), depth))
        return Cast(t, self.expr(scope, self.pick(TYPES), depth))

    def call(self, scope: Scope, t: DType, depth: int) -> Expr:
        known = self.pick([*FLOAT_CALLS, INTRINSICS["abs"]])
        return Call(known.name, tuple(self.expr(scope, t, depth) for _ in range(known.arity)), t)

    def lanes(self, scope: Scope, t: DType, depth: int) -> Expr:
        """One lane out of a vector."""
        vector = self.vector(scope, t, self.random.randint(2, 4), depth)
        return Shuffle((vector,), (self.random.randrange(vector.dtype.lanes),))

    def vector(self, scope: Scope, t: DType, lanes: int, depth: int) -> Expr:
        if depth <= 0:
            return Const(self.number(t).value, t.with_lanes(lanes))
        kinds = ["broadcast", "broadcast", "shuffle", "binary", "select"] + (["ramp", "ramp"] if t.is_integer else [])
        match self.pick(kinds):
            case "broadcast":
                return Broadcast(self.expr(scope, t, depth - 1), lanes)
            case "ramp":
                return Ramp(self.expr(scope, t, depth - 1), self.expr(scope, t, depth - 1), lanes)
            case "shuffle":
                parts = tuple(self.vector(scope, t, self.random.randint(2, 3), depth - 1) for _ in range(2))
                total = sum(p.dtype.lanes for p in parts)
                return Shuffle(parts, tuple(self.random.randrange(total) for _ in range(lanes)))
            case "binary":
                op = "&&" if t.is_bool else self.pick(["+", "-", "*", "min"])
                return Binary(op, self.vector(scope, t, lanes, depth - 1), self.vector(scope, t, lanes, depth - 1))
        condition = self.vector(scope, dt.bool_, lanes, depth - 1)
        return Select(condition, self.vector(scope, t, lanes, depth - 1), self.vector(scope, t, lanes, depth - 1))

    def reduce(self, scope: Scope, t: DType, depth: int) -> Expr:
        axes, inner = [], scope
        for _ in range(self.random.randint(1, 2)):
            var = Var(self.name("r"))
            lo = self.random.randint(-2, 2)
            axes.append(Axis(var, idx(lo), idx(lo + self.random.randint(0, 2))))
            inner = inner.plus(vars=[var])
        ops = ["min", "max"] if t.is_bool or t == dt.index else ["+", "*", "min", "max"]
        # The least and greatest over nothing would be as large as an index gets.
        if t == dt.index:
            axes = [Axis(a.var, a.lo, Binary("+", a.lo, idx(2))) for a in axes]
        return Reduce(self.pick(ops), tuple(axes), self.expr(inner, t, depth))

    # Statements

    def stmt(self, scope: Scope, depth: int) -> Stmt:
        if depth <= 0:
            return self.store(scope)
        makers = [self.store, self.deep(self.loop, depth), self.deep(self.loop, depth), self.deep(self.seq, depth)]
        makers += [self.deep(m, depth) for m in (self.seq, self.if_, self.let, self.alloc, self.block)]
        makers += [self.assign] if scope.lets else []
        makers += [self.atomic, self.assert_]
        makers += [self.leave] if scope.loops and scope.loops[-1] in ("serial", "unroll", "while") else []
        if not self.runnable:
            makers += [self.deep(self.while_, depth), self.barrier, self.evaluate]
        return self.pick(makers)(scope)

    def deep(self, maker, depth):
        return lambda scope: maker(scope, depth - 1)

    def store(self, scope: Scope) -> Stmt:
        buffer = self.pick(scope.writable)
        indices = self.indices(scope, buffer, 2)
        if len(indices) == 1 and self.chance(0.2) and not self.runnable:
            lanes = self.random.randint(2, 4)
            at = Ramp(indices[0], idx(1), lanes)
            return Store(buffer, (at,), self.vector(scope, buffer.dtype, lanes, 2))
        return Store(buffer, indices, self.expr(scope, buffer.dtype, 3))

    def loop(self, scope: Scope, depth: int) -> Stmt:
        kinds = ["serial", "serial", "unroll", "parallel", "vector", "block", "thread"]
        if any(k in ("parallel", "vector") for k in scope.loops):
            kinds = ["serial", "unroll", "vector"]
        elif "thread" in scope.loops:
            kinds = ["serial", "unroll", "vector", "thread"]
        kind = self.pick(kinds)
        var = Var(self.name("i"))
        lo: Expr = idx(self.random.randint(-1, 2))
        hi: Expr = Binary("+", lo, idx(self.random.randint(0, 3)))
        if self.chance(0.3):
            hi = Binary("min", self.expr(scope, dt.index, 1), idx(3))
        ends = [v for v in scope.vars if v.type == dt.index and v.name[0] in "pi"]
        if ends and self.chance(0.4):
            # Only sizes and loop variables: a let may hold a number that would make the loop endless.
            lo, hi = self.pick([idx(0), self.pick(ends)]), Binary("+", self.pick(ends), idx(self.random.randint(-1, 1)))
        turns = kind in ("serial", "unroll") and not self.runnable and self.chance(0.1)
        backward = self.expr(scope, dt.bool_, 1) if turns else None
        return For(var, lo, hi, kind, self.stmt(scope.inside(kind, var), depth), backward=backward)

    def while_(self, scope: Scope, depth: int) -> Stmt:
        inner = Scope(**{**scope.__dict__, "loops": (*scope.loops, "while")})
        return While(self.expr(scope, dt.bool_, 2), self.stmt(inner, depth))

    def if_(self, scope: Scope, depth: int) -> Stmt:
        otherwise = self.stmt(scope, depth) if self.chance(0.5) else None
        return If(self.expr(scope, dt.bool_, 3), self.stmt(scope, depth), otherwise)

    def seq(self, scope: Scope, depth: int) -> Stmt:
        return Seq(tuple(self.stmt(scope, depth) for _ in range(self.random.randint(0, 3))))

    def let(self, scope: Scope, depth: int) -> Stmt:
        t = self.pick([dt.index, *TYPES])
        var = Var(self.name("x"), t)
        inner = scope.plus(vars=[var], lets=[var])
        return Let(var, self.expr(scope, t, 2), self.stmt(inner, depth))

    def assign(self, scope: Scope) -> Stmt:
        var = self.pick(scope.lets)
        # Through a narrow type, so that repeated updates of an index do not overflow it.
        value = Cast(var.type, self.expr(scope, dt.int8, 2)) if var.type == dt.index else self.expr(scope, var.type, 2)
        return Assign(var, value)

    def alloc(self, scope: Scope, depth: int) -> Stmt:
        shape = tuple(idx(self.random.randint(1, 3)) for _ in range(self.random.randint(0, 2)))
        kind = self.pick(["global", "shared", "register", "local"])
        strides = (
            tuple(idx(self.random.randint(-3, 9)) for _ in shape) if self.chance(0.2) and not self.runnable else None
        )
        buffer = Buffer(self.name("T"), self.pick(TYPES), shape, strides, kind)
        return Alloc(buffer, self.stmt(scope.plus(buffers=[buffer], writable=[buffer]), depth))

    def atomic(self, scope: Scope) -> Stmt:
        buffer = self.pick(scope.writable)
        t = buffer.dtype
        ops = ["min", "max", "exchange", "cas"] + ([] if t.is_bool else ["+"]) + ([] if t.is_float else ["&", "|", "^"])
        op = self.pick(ops)
        results = [v for v in scope.lets if v.type == t]
        result = self.pick(results) if results and self.chance(0.5) and t != dt.index else None
        expected = self.expr(scope, t, 1) if op == "cas" else None
        return Atomic(op, buffer, self.indices(scope, buffer, 1), self.expr(scope, t, 2), expected, result)

    def assert_(self, scope: Scope) -> Stmt:
        values = tuple(self.expr(scope, dt.index, 1) for _ in range(self.random.randint(0, 2)))
        condition = self.expr(scope, dt.bool_, 2)
        if self.runnable:
            condition = Binary("||", condition, Compare("<", idx(0), idx(1)))
        message = self.pick(["no", 'quoted "text"\n', "é {0}" if values else "é"])
        return Assert(condition, message, values)

    def leave(self, scope: Scope) -> Stmt:
        if self.chance(0.2) and "parallel" not in scope.loops and "vector" not in scope.loops:
            return Return()
        return self.pick([Break(), Continue()])

    def barrier(self, scope: Scope) -> Stmt:
        if "thread" not in scope.loops or "vector" in scope.loops:
            return Seq(())
        return Barrier(self.pick(["warp", "block", "grid"]))

    def evaluate(self, scope: Scope) -> Stmt:
        return Evaluate(Call("exp", (self.expr(scope, dt.float32, 1),), dt.float32))

    def block(self, scope: Scope, depth: int) -> Stmt:
        iters = []
        for _ in range(self.random.randint(0, 2)):
            binding = Binary("%", self.expr(scope, dt.index, 1), idx(4))
            iters.append(Iter(Var(self.name("v")), idx(0), idx(4), self.pick(["spatial", "reduce"]), binding))
        kept = tuple(k for k in scope.loops if k not in ("serial", "unroll", "while"))
        scalars = [v for v in scope.vars if v.name.startswith("p")]
        inner = Scope([*scalars, *(i.var for i in iters)], [], scope.buffers, scope.writable, kept)
        reads = tuple(self.region(b) for b in scope.buffers)
        writes = tuple(self.region(b) for b in scope.writable)
        init = self.stmt(inner, depth - 1) if self.chance(0.4) else None
        return Block(self.name("B"), tuple(iters), reads, writes, init, self.stmt(inner, depth))

    def region(self, buffer: Buffer) -> Region:
        zeros = tuple(idx(0) for _ in buffer.shape)
        return Region(buffer, zeros, buffer.shape)

    def kernel(self) -> Kernel:
        scalars = [Var(self.name("p"), t) for t in self.random.sample(TYPES, 3)]
        size = Var(self.name("p"))
        params: list = [*scalars, size]
        for at in range(self.random.randint(2, 5)):
            shape = tuple(self.pick([size, idx(self.random.randint(1, 4))]) for _ in range(self.random.randint(0, 2)))
            strides = None
            if self.chance(0.2) and not self.runnable:
                strides = tuple(self.pick([idx(-1), idx(0), size, Unary("-", size)]) for _ in shape)
            scope = "constant" if at and self.chance(0.1) else "global"
            params.append(Buffer(self.name("A"), self.pick(TYPES), shape, strides, scope))
        self.random.shuffle(params)
        buffers = [p for p in params if isinstance(p, Buffer)]
        outputs = [b for b in buffers if b.scope == "global" and self.chance(0.6)]
        outputs = outputs or [b for b in buffers if b.scope == "global"][:1]
        scope = Scope([*scalars, size], [], buffers, outputs)
        body = Seq(tuple(self.stmt(scope, 4) for _ in range(self.random.randint(0, 4))))
        return Kernel(self.name("k"), tuple(params), tuple(b.name for b in outputs), body)


def random_kernel(seed: int, runnable: bool = False) -> Kernel:
    return Programs(seed, runnable).kernel()
