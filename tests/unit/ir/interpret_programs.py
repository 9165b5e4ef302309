"""What the interpreter's tests write programs with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer, Scope
from weft.ir.dtype import DType
from weft.ir.expr import Const, Expr, Load, Operand, Var, as_expr, const, idx
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import from_numpy
from weft.ir.span import Source, Span
from weft.ir.stmt import For, Kernel, LoopKind, Seq, Stmt, Store
from weft.ir.visit import stores

i, j, k, t, b = (Var(name) for name in "ijktb")


def buffer(name: str, dtype: DType, *shape: int | Expr, scope: Scope = "global", **rest: Any) -> Buffer:
    return Buffer(name, dtype, tuple(idx(s) if isinstance(s, int) else s for s in shape), scope=scope, **rest)


def at(*indices: Operand) -> tuple[Expr, ...]:
    return tuple(as_expr(x, dt.index) for x in indices)


def load(of: Buffer, *indices: Operand, **rest: Any) -> Load:
    return Load(of, at(*indices), **rest)


def store(to: Buffer, indices: Sequence[Operand], value: Operand, **rest: Any) -> Store:
    return Store(to, at(*indices), as_expr(value, to.dtype), **rest)


def loop(var: Var, hi: int | Expr, kind: LoopKind, *body: Stmt) -> For:
    return For(var, idx(0), idx(hi) if isinstance(hi, int) else hi, kind, Seq(body))


def f32(value: float) -> Const:
    return const(value, dt.float32)


SOURCE = Source("k.loops", "\n".join(f"line {n} of the program" for n in range(1, 30)))


def line(number: int) -> Span:
    return Span(SOURCE, number, 1, 5)


def run(*body: Stmt, check: bool = True, uninitialized: Sequence[str] = (), **args: Any) -> None:
    """Runs ``body`` with arrays and int64 numbers by name; whatever is stored to is an output."""
    interpret(kernel(*body, **args), list(args.values()), check=check, uninitialized=uninitialized)


def kernel(*body: Stmt, **args: Any) -> Kernel:
    params: list[Buffer | Var] = []
    for name, value in args.items():
        if isinstance(value, np.ndarray):
            dtype = from_numpy(value.dtype)
            assert dtype is not None
            params.append(buffer(name, dtype, *value.shape))
        else:
            params.append(Var(name))
    whole = Seq(body)
    written = {s.buffer.name for s in stores(whole)}
    return Kernel("k", tuple(params), tuple(p.name for p in params if p.name in written), whole)
