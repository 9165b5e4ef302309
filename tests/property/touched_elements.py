"""Brute force: every access a program makes, by running its loops and index arithmetic in plain Python."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.ir.expr import Binary, Cast, Compare, Const, Expr, Load, Reduce, Select, Unary, Var
from weft.ir.interpret_scalar import cast_op
from weft.ir.stmt import Alloc, Assert, Block, For, If, Kernel, Seq, Stmt, Store
from weft.ir.visit import children


@dataclass(frozen=True)
class Touched:
    """One access: the loops around it, the element, and whether it is written."""

    loops: tuple[tuple[str, int], ...]
    element: str
    writes: bool

    def is_at(self, iteration: Mapping[str, int]) -> bool:
        loops = dict(self.loops)
        return all(loops.get(name, value) == value for name, value in iteration.items())


class Unpredictable(Exception):
    """The program decides by values that it computes itself."""


class Enumerator:
    """Runs the loops; arrays are the inputs, whose values subscripts and guards may use."""

    def __init__(self, kernel: Kernel, arrays: Mapping[str, Any], limit: int = 200_000) -> None:
        self.arrays = {name: a for name, a in arrays.items() if name not in kernel.outputs}
        self.env: dict[str, Any] = {}
        self.loops: list[str] = []
        self.left = limit

    def run(self, s: Stmt) -> Iterator[Touched]:
        match s:
            case Seq():
                for part in s.body:
                    yield from self.run(part)
            case For():
                yield from self.loop(s)
            case If():
                yield from self.reads(s.condition)
                taken = s.then if self.value(s.condition) else s.otherwise
                if taken is not None:
                    yield from self.run(taken)
            case Alloc():
                yield from self.run(s.body)
            case Block():
                yield from self.block(s)
            case Store():
                for e in (*s.indices, s.value):
                    yield from self.reads(e)
                yield self.touch(s.buffer.name, s.indices, True)
            case Assert():
                yield from self.reads(s.condition)
            case _:
                raise Unpredictable(type(s).__name__)

    def loop(self, s: For) -> Iterator[Touched]:
        self.loops.append(s.var.name)
        for value in range(self.value(s.lo), self.value(s.hi)):
            self.env[s.var.name] = value
            yield from self.run(s.body)
        self.loops.pop()

    def block(self, s: Block) -> Iterator[Touched]:
        values = {i.var.name: self.value(i.binding) for i in s.iters}
        first = all(values[i.var.name] == self.value(i.lo) for i in s.iters if i.kind == "reduce")
        self.env.update(values)
        if s.init is not None and first:
            yield from self.run(s.init)
        yield from self.run(s.body)

    def touch(self, name: str, indices: tuple[Expr, ...], writes: bool) -> Touched:
        self.left -= 1
        if self.left < 0:
            raise Unpredictable("too many accesses")
        where = ", ".join(str(self.value(i)) for i in indices)
        element = f"{name}[{where}]" if indices else name
        return Touched(tuple((v, self.env[v]) for v in self.loops), element, writes)

    def reads(self, e: Any) -> Iterator[Touched]:
        if isinstance(e, Select):
            yield from self.reads(e.condition)
            yield from self.reads(e.then if self.value(e.condition) else e.otherwise)
            return
        if isinstance(e, Reduce):
            raise Unpredictable("a reduction inside an expression")
        if isinstance(e, Binary) and e.op in ("&&", "||"):
            yield from self.reads(e.left)
            if bool(self.value(e.left)) == (e.op == "&&"):
                yield from self.reads(e.right)
            return
        for child in children(e):
            yield from self.reads(child)
        if isinstance(e, Load):
            yield self.touch(e.buffer.name, e.indices, False)

    def value(self, e: Expr) -> Any:
        match e:
            case Const():
                return e.value
            case Var():
                if e.name not in self.env:
                    raise Unpredictable(e.name)
                return self.env[e.name]
            case Cast() if not e.type.is_float:
                return cast_op(e.operand.dtype, e.type)(self.value(e.operand))
            case Load():
                if e.buffer.name not in self.arrays:
                    raise Unpredictable(e.buffer.name)
                return np.asarray(self.arrays[e.buffer.name])[tuple(self.value(i) for i in e.indices)].item()
            case Unary():
                operand = self.value(e.operand)
                return (not operand) if e.op == "!" else -operand if e.op == "-" else ~operand
            case Select():
                return self.value(e.then if self.value(e.condition) else e.otherwise)
            case Compare() | Binary():
                return self.binary(e)
        raise Unpredictable(type(e).__name__)

    def binary(self, e: Binary | Compare) -> Any:
        if e.op in ("&&", "||"):
            left = bool(self.value(e.left))
            return bool(self.value(e.right)) if left == (e.op == "&&") else left
        a, b = self.value(e.left), self.value(e.right)
        if e.op in ("//", "%") and b == 0:
            return 0
        operations: dict[str, Any] = {
            "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b, "%": lambda: a % b,
            "min": lambda: min(a, b), "max": lambda: max(a, b), "==": lambda: a == b, "!=": lambda: a != b,
            "<": lambda: a < b, "<=": lambda: a <= b, ">": lambda: a > b, ">=": lambda: a >= b,
        }  # fmt: skip
        if e.op not in operations:
            raise Unpredictable(e.op)
        return operations[e.op]()


def touched_elements(kernel: Kernel, arrays: Mapping[str, Any], scalars: Mapping[str, Any]) -> list[Touched] | None:
    """Every access ``kernel`` makes, in order; None where that depends on values it computes."""
    enumerator = Enumerator(kernel, arrays)
    enumerator.env.update(scalars)
    try:
        return list(enumerator.run(kernel.body))
    except Unpredictable:
        return None


def really_conflict(touched: list[Touched], first: Mapping[str, int], second: Mapping[str, int], element: str) -> bool:
    """Whether both iterations touch ``element`` and one of them writes it."""
    ones = [t for t in touched if t.element == element and t.is_at(first)]
    others = [t for t in touched if t.element == element and t.is_at(second)]
    return any(a.writes or b.writes for a in ones for b in others)
