"""Random loop nests with small bounds: what `enumerate_instances` can run in full."""

from __future__ import annotations

import random

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.expr import Binary, Compare, Const, Expr, Load, Select, Var, cast, idx
from weft.ir.stmt import Alloc, Atomic, Block, For, If, Iter, Kernel, Let, Seq, Stmt, Store

SIZE = Var("N")


class Nests:
    """A stream of random nests; ``symbolic`` lets a size N stand in bounds."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.symbolic = self.chance(0.3)
        kind = self.pick([dt.float32, dt.int32])
        self.buffers = [Buffer(n, kind, tuple(idx(1000) for _ in range(self.pick([1, 1, 2])))) for n in "AB"]
        self.count = 0

    def pick(self, choices):
        return self.random.choice(choices)

    def chance(self, p: float) -> bool:
        return self.random.random() < p

    def fresh(self, base: str) -> Var:
        self.count += 1
        return Var(f"{base}{self.count}")

    # Subscripts

    def affine(self, names: list[Var], constant: bool = True) -> Expr:
        e: Expr | None = None
        for v in self.random.sample(names, self.pick([0, 1, 1, 2, 2, min(3, len(names))]) if len(names) > 1 else 1):
            c = self.pick([1, 1, 1, 2, 3, -1, -2])
            term: Expr = v if c == 1 else v * idx(c)
            e = term if e is None else e + term
        if e is None or (constant and self.chance(0.4)):
            offset = idx(self.random.randint(-2, 3))
            e = offset if e is None else e + offset
        return e

    def subscript(self, names: list[Var]) -> Expr:
        e = self.affine(names)
        kind = self.random.random()
        if kind < 0.08:
            return e // idx(self.pick([2, 3]))
        if kind < 0.16:
            return e % idx(self.pick([2, 3, 4]))
        if kind < 0.2:
            return Binary(self.pick(["min", "max"]), e, self.affine(names))
        if kind < 0.23:
            return Select(self.condition(names), e, self.affine(names))
        if kind < 0.25:
            return Binary(self.pick(["tdiv", "tmod"]), e, idx(self.pick([2, 3])))
        if self.symbolic and kind < 0.4:
            return self.nonlinear(e, names)
        return e

    def nonlinear(self, e: Expr, names: list[Var]) -> Expr:
        """Products with, and divisions by, the size: what linear arithmetic cannot say in full."""
        v = self.pick(names)
        return self.pick([v * SIZE + e, v * SIZE + self.pick(names), e // SIZE, v % SIZE, v // SIZE])

    def indices(self, buffer: Buffer, names: list[Var]) -> tuple[Expr, ...]:
        return tuple(self.subscript(names) for _ in buffer.shape)

    def condition(self, names: list[Var]) -> Expr:
        op = self.pick(["<", "<=", ">", ">=", "==", "!="])
        test: Expr = Compare(op, self.affine(names), self.affine(names))
        if self.chance(0.2):
            test = Binary(self.pick(["&&", "||"]), test, self.condition(names))
        return test

    # Statements

    def load(self, names: list[Var], buffers: list[Buffer]) -> Expr:
        b = self.pick(buffers)
        e: Expr = Load(b, self.indices(b, names))
        if self.chance(0.15):
            e = Select(self.condition(names), e, self.zero(b))
        return e

    def zero(self, b: Buffer) -> Const:
        return Const(0.0, b.dtype) if b.dtype.is_float else Const(0, b.dtype)

    def store(self, names: list[Var], buffers: list[Buffer]) -> Stmt:
        b = self.pick(buffers)
        at = self.indices(b, names)
        value = self.load(names, buffers) if self.chance(0.6) else self.zero(b)
        if self.chance(0.1):
            return Atomic(self.pick(["+", "max"]), b, at, cast(b.dtype, value))
        if self.chance(0.4):
            value = Binary(self.pick(["+", "max", "*"]), Load(b, at), value)
        return Store(b, at, value)

    def statement(self, names: list[Var], buffers: list[Buffer]) -> Stmt:
        s: Stmt = self.store(names, buffers)
        if self.chance(0.2):
            s = Seq((s, self.store(names, buffers)))
        if self.chance(0.2):
            s = If(self.condition(names), s, self.store(names, buffers) if self.chance(0.3) else None)
        if self.chance(0.1):
            v = self.fresh("t")
            s = Let(v, self.affine(names), self.store([*names, v], buffers))
        if self.chance(0.15):
            s = self.block(names, buffers)
        return s

    def block(self, names: list[Var], buffers: list[Buffer]) -> Stmt:
        """A reduction with its own iterators, the last loop the one reduced over."""
        b = self.pick(buffers)
        iters = tuple(
            Iter(self.fresh("v"), idx(0), idx(99), "reduce" if n is names[-1] else "spatial", n) for n in names
        )
        spatial = [i.var for i in iters if i.kind == "spatial"] or [iters[0].var]
        at = self.indices(b, spatial)
        body = Store(b, at, Binary("+", Load(b, at), self.load([i.var for i in iters], buffers)))
        init = Store(b, at, self.zero(b)) if self.chance(0.6) else None
        return Block(self.fresh("block").name, iters, (), (), init, body)

    def bounds(self, names: list[Var]) -> tuple[Expr, Expr]:
        lo: Expr = idx(self.pick([0, 0, 0, 1, -1]))
        hi: Expr = idx(self.pick([2, 3, 4, 5]))
        if self.symbolic and self.chance(0.5):
            hi = self.pick([SIZE, SIZE, SIZE, SIZE + idx(1), SIZE * SIZE])
        if names and self.chance(0.15):
            v = self.pick(names)
            lo, hi = (v, hi) if self.chance(0.5) else (lo, v + idx(self.pick([1, 2])))
        if self.chance(0.1):
            hi = Binary("min", hi, self.affine(names) if names else idx(3))
        return lo, hi

    def nest(self, depth: int, names: list[Var], buffers: list[Buffer], *, perfect: bool) -> Stmt:
        if depth == 0:
            return self.statement(names, buffers)
        var = self.fresh(self.pick("ijk"))
        lo, hi = self.bounds(names)
        inside = [*names, var]
        if not perfect and self.chance(0.2):
            local = Buffer(self.fresh("T").name, buffers[0].dtype, (idx(1000),))
            body: Stmt = Alloc(local, self.nest(depth - 1, inside, [*buffers, local], perfect=False))
        else:
            body = self.nest(depth - 1, inside, buffers, perfect=perfect)
        if not perfect and self.chance(0.3):
            body = Seq((body, self.nest(self.pick([0, depth - 1]), inside, buffers, perfect=False)))
        return For(var, lo, hi, self.pick(["serial"] * 9 + ["parallel"]), body)

    def tiled(self, perfect: bool) -> Stmt:
        """A nest after splits and fusions: subscripts through m_o*3 + m_i or f // 3 and f % 3."""
        loops, values = [], []
        for _ in range(self.pick([1, 2])):
            if self.chance(0.5):
                o, i = self.fresh("o"), self.fresh("i")
                size = self.pick([2, 3])
                loops += [(o, idx(self.pick([2, 3]))), (i, idx(size))]
                values.append(o * idx(size) + i)
            else:
                f, by = self.fresh("f"), self.pick([2, 3])
                loops.append((f, idx(by * self.pick([2, 3]))))
                values += [f // idx(by), f % idx(by)]
        if self.chance(0.5):
            self.random.shuffle(loops)
        names = [self.fresh("m") for _ in values]
        body = self.statement(names, self.buffers)
        if self.chance(0.3):
            body = If(Compare("<", names[0], idx(5)), body)
        for name, value in zip(names, values):
            body = Let(name, value, body)
        for v, n in reversed(loops):
            body = For(v, idx(0), n, "serial", body)
        return body

    def kernel(self, body: Stmt) -> Kernel:
        scalars = (SIZE,) if self.symbolic else ()
        sized = (Buffer("S", dt.float32, (SIZE,)),) if self.symbolic else ()
        return Kernel("random", (*self.buffers, *sized, *scalars), tuple(b.name for b in self.buffers), body)


def random_nest(seed: int, *, perfect: bool) -> Kernel:
    nests = Nests(seed)
    if nests.chance(0.25):
        nests.symbolic = False
        return nests.kernel(nests.tiled(perfect))
    return nests.kernel(nests.nest(nests.pick([1, 2, 2, 3]), [], nests.buffers, perfect=perfect))


def random_neighbours(seed: int) -> Kernel:
    """Two loops of equal length in a row, in a loop now and then."""
    nests = Nests(seed)
    outer = [nests.fresh("o")] if nests.chance(0.4) else []
    size = SIZE if nests.symbolic else idx(nests.pick([2, 3, 4]))
    loops = []
    for name in ("x", "y"):
        start = idx(nests.pick([0, 0, 1]))
        body = nests.nest(nests.pick([0, 0, 1]), [*outer, Var(name)], nests.buffers, perfect=False)
        loops.append(For(Var(name), start, size + start, "serial", body))
    both: Stmt = Seq(tuple(loops))
    for v in outer:
        both = For(v, idx(0), idx(3), "serial", both)
    return nests.kernel(both)
