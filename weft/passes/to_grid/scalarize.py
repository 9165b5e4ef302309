"""Vectors of the program taken apart: a thread computes lane by lane.

Vector *loops* stay; this is about expressions that are vectors themselves (`Ramp`, `Broadcast`, `Shuffle`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from weft.ir.errors import UnsupportedError
from weft.ir.expr import Binary, Broadcast, Expr, Ramp, Shuffle, Var, const
from weft.ir.stmt import Assign, Kernel, Let, Seq, Stmt, Store
from weft.ir.visit import fresh_name, rebuild, used_names, walk


def scalarize(kernel: Kernel) -> Kernel:
    """``kernel`` without expressions of several lanes."""
    return replace(kernel, body=_statement(kernel.body, used_names(kernel), {}))


def _statement(s: Stmt, taken: set[str], lanes: Mapping[str, tuple[Var, ...]]) -> Stmt:
    match s:
        case Store() if (count := max(e.dtype.lanes for e in (s.value, *s.indices))) > 1:
            return _store(s, count, taken, lanes)
        case Let() if s.var.dtype.lanes > 1:
            names = tuple(
                Var(fresh_name(f"{s.var.name}_{n}", taken), s.var.dtype.scalar) for n in range(s.var.dtype.lanes)
            )
            return _with_lanes(names, s, _statement(s.body, taken, {**lanes, s.var.name: names}), lanes)
        case Assign() if s.var.dtype.lanes > 1:
            return _assign(s, taken, lanes)
    return rebuild(s, lambda n: _statement(n, taken, lanes) if isinstance(n, Stmt) else _scalar(n, lanes))


def _scalar(n: Any, lanes: Mapping[str, tuple[Var, ...]]) -> Any:
    if isinstance(n, Expr):
        if n.dtype.lanes > 1:
            raise UnsupportedError("a vector where a thread of a GPU takes one value", span=n.span)
        return _lane(n, 0, lanes)
    return n


def _store(s: Store, count: int, taken: set[str], lanes: Mapping[str, tuple[Var, ...]]) -> Stmt:
    """All lanes are computed before the first is stored."""
    values = [Var(fresh_name("lane", taken), s.buffer.dtype) for _ in range(count)]
    body: Stmt = Seq(
        tuple(
            Store(s.buffer, tuple(_lane(i, n, lanes) for i in s.indices), v, span=s.span) for n, v in enumerate(values)
        )
    )
    return _with_lanes(values, s, body, lanes)


def _assign(s: Assign, taken: set[str], lanes: Mapping[str, tuple[Var, ...]]) -> Stmt:
    targets = lanes[s.var.name]
    values = [Var(fresh_name("lane", taken), v.dtype) for v in targets]
    body: Stmt = Seq(tuple(Assign(target, value, span=s.span) for target, value in zip(targets, values)))
    return _with_lanes(values, s, body, lanes)


def _with_lanes(
    names: Sequence[Var], s: Store | Let | Assign, body: Stmt, lanes: Mapping[str, tuple[Var, ...]]
) -> Stmt:
    """``body`` where ``names`` are the lanes of the value of ``s``."""
    for n, name in reversed(list(enumerate(names))):
        body = Let(name, _lane(s.value, n, lanes), body, span=s.span)
    return body


def _lane(e: Expr, lane: int, lanes: Mapping[str, tuple[Var, ...]]) -> Expr:
    """Lane ``lane`` of ``e``; a scalar is the same in every lane."""
    match e:
        case Ramp():
            return Binary("+", e.base, Binary("*", const(lane, e.base.dtype), e.stride))
        case Broadcast():
            return _lane(e.value, 0, lanes)
        case Shuffle():
            position = e.positions[lane]
            for vector in e.vectors:
                if position < vector.dtype.lanes:
                    return _lane(vector, position, lanes)
                position -= vector.dtype.lanes
        case Var() if e.name in lanes:
            return lanes[e.name][lane]
    if e.dtype.lanes == 1 and not any(isinstance(n, Expr) and n.dtype.lanes > 1 for n in walk(e)):
        return e
    return _rebuilt(e, lane, lanes)


def _rebuilt(e: Any, lane: int, lanes: Mapping[str, tuple[Var, ...]]) -> Expr:
    parts: dict[str, Any] = {}
    for name in e.__dataclass_fields__:
        value = getattr(e, name)
        if isinstance(value, Expr):
            parts[name] = _lane(value, lane, lanes)
        elif isinstance(value, tuple) and value and all(isinstance(v, Expr) for v in value):
            parts[name] = tuple(_lane(v, lane, lanes) for v in value)
        elif name == "type":
            parts[name] = e.dtype.scalar
        else:
            parts[name] = value
    made: Expr = type(e)(**parts)
    return made
