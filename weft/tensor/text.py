"""Expressions of tensor programs in the notation of the whiteboard, for messages."""

from __future__ import annotations

from collections.abc import Sequence

from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.tensor.boundary import Outside

_LEVEL = {"||": 1, "&&": 2, "+": 4, "-": 4, "*": 5, "/": 5, "//": 5, "%": 5, "tdiv": 5, "tmod": 5}
_SYMBOL = {"//": "/", "tdiv": "/", "tmod": "%"}


def describe_access(name: str, indices: Sequence[Expr]) -> str:
    """``A(i, k+1)``."""
    return f"{name}({', '.join(map(describe, indices))})" if indices else name


def describe(e: Expr) -> str:
    """``e`` as one would write it: casts between integers left out, as few parentheses as can be."""
    return _describe(e, 0)


def _describe(e: Expr, level: int) -> str:
    match e:
        case Const(value=value):
            return str(value).lower() if isinstance(value, bool) else str(value)
        case Var(name=name):
            return name
        case Load(buffer=buffer, indices=indices):
            return describe_access(buffer.name, indices)
        case Outside(load=load):
            return _describe(load, level)
        case Cast(type=to, operand=operand):
            implied = to.is_integer and not operand.dtype.is_float
            return _describe(operand, level) if implied else f"{to}({_describe(operand, 0)})"
        case Unary(op=op, operand=operand):
            return f"{op}{_describe(operand, 6)}"
        case Call(name=name, args=args):
            return f"{name}({', '.join(map(describe, args))})"
        case Binary() | Compare() | Select():
            return _describe_operator(e, level)
    return type(e).__name__.lower()


def _describe_operator(e: Binary | Compare | Select, level: int) -> str:
    if isinstance(e, Select):
        own, text = 0, f"{_describe(e.condition, 1)} ? {_describe(e.then, 0)} : {_describe(e.otherwise, 0)}"
    elif isinstance(e, Compare):
        own, text = 3, f"{_describe(e.left, 4)} {e.op} {_describe(e.right, 4)}"
    elif e.op not in _LEVEL:
        return f"{e.op}({describe(e.left)}, {describe(e.right)})"
    else:
        own = _LEVEL[e.op]
        gap = " " if own < 3 else ""
        text = f"{_describe(e.left, own)}{gap}{_SYMBOL.get(e.op, e.op)}{gap}{_describe(e.right, own + 1)}"
    return f"({text})" if own < level else text
