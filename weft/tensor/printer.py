"""A tensor program as whiteboard text, with every type, shape and range spelled out.

The text reads back to an equal program and is the same for equal programs, so it also names
them: operators made in Python are cached under it. What the language has no words for
(strides) stands in comments.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from weft.ir import dtype as dt
from weft.ir.buffer import Buffer
from weft.ir.dtype import DType
from weft.ir.errors import InternalError
from weft.ir.expr import Binary, Call, Cast, Compare, Const, Expr, Load, Select, Unary, Var
from weft.ir.intrinsics import REINTERPRET
from weft.ir.stmt import Param
from weft.ir.visit import Node, children
from weft.tensor.boundary import Outside
from weft.tensor.program import Statement, TensorProgram
from weft.tensor.recurrences import by_recurrence

#: How tightly each operator of the language binds.
_LEVEL = {"||": 1, "&&": 2, "+": 4, "-": 4, "*": 5, "/": 5, "//": 5, "%": 5}
_COMPARE, _UNARY = 3, 6
_SYMBOL = {"//": "/"}
_FUNCTION = {
    "tdiv": "truncdiv", "tmod": "truncmod", "min": "min", "max": "max", "&": "bit_and", "|": "bit_or", "^": "bit_xor",
    "<<": "shift_left", ">>": "shift_right",
}  # fmt: skip
_Kind = Literal["literal", "index", "value"]


def print_program(program: TensorProgram) -> str:
    """The definition of ``program``, ending in a newline."""
    scalars = frozenset(v.name for v in program.scalars)
    params = ", ".join(_param(p) for p in program.params)
    outputs = ", ".join(_param(p) for p in program.outputs)
    body = [_param(t) for t in program.temporaries]
    body += _lines(program.statements, range(len(program.statements)), 0, scalars)
    lines = [*_comments(program), f"def {program.name}({params}) -> ({outputs}) {{", *(f"    {b}" for b in body), "}"]
    return "\n".join(lines) + "\n"


def _lines(
    statements: Sequence[Statement], positions: Sequence[int], depth: int, scalars: frozenset[str]
) -> Iterator[str]:
    """The statements at ``positions``, each block with its braces and what is inside indented."""
    text = _Text(scalars)
    for recurrence, run in by_recurrence(statements, positions, depth):
        if recurrence is None:
            yield from (print_statement(statements[p], scalars) for p in run)
            continue
        axis = recurrence.axis
        yield f"for {axis.var.name} in {text.index(axis.lo, 1)}:{text.index(axis.hi, 1)} {{"
        yield from (f"    {line}" for line in _lines(statements, run, depth + 1, scalars))
        yield "}"


def _param(p: Param) -> str:
    if isinstance(p, Var) or not p.shape:
        return f"{p.dtype} {p.name}"
    sizes = ",".join(_Text(frozenset()).index(s, 0) for s in p.shape)
    return f"{p.dtype}({sizes}) {p.name}"


def _comments(program: TensorProgram) -> list[str]:
    text = _Text(frozenset(v.name for v in program.scalars))
    buffers = (*program.inputs, *program.outputs, *program.temporaries)
    return [
        f"# {b.name} has strides {', '.join(text.index(s, 0) for s in b.strides)}"
        for b in buffers
        if b.strides is not None
    ]


def print_statement(statement: Statement, scalars: frozenset[str] = frozenset()) -> str:
    """``C(m,n) +=! A(m,k) * B(k,n) where m in 0:M, n in 0:N, k in 0:K``"""
    beyond = _boundaries(statement)
    text = _Text(scalars, frozenset(beyond))
    assign = ("" if statement.op == "=" else statement.op) + "=" + "!" * statement.initialize
    left = text.access(statement.target, statement.indices)
    clauses = [f"{a.var.name} in {text.index(a.lo, 1)}:{text.index(a.hi, 1)}" for a in statement.axes]
    clauses += [f"{name} outside {text.boundary(node)}" for name, node in beyond.items()]
    where = f" where {', '.join(clauses)}" if clauses else ""
    return f"{left} {assign} {text.value(statement.value, 0)}{where}"


def _boundaries(statement: Statement) -> dict[str, Outside]:
    """Tensors that are read in one boundary mode throughout the statement: those a clause can speak for."""
    boundaries: dict[str, Outside] = {}
    mixed: set[str] = set()

    def visit(node: Node) -> None:
        if isinstance(node, Outside):
            first = boundaries.setdefault(node.load.buffer.name, node)
            if (first.mode, first.fill) != (node.mode, node.fill):
                mixed.add(node.load.buffer.name)
            inner: Sequence[Node] = (*node.load.indices, *([] if node.fill is None else [node.fill]))
        else:
            if isinstance(node, Load):
                mixed.add(node.buffer.name)
            inner = list(children(node))
        for child in inner:
            visit(child)

    for e in (*statement.indices, statement.value):
        visit(e)
    return {name: node for name, node in boundaries.items() if name not in mixed}


@dataclass(frozen=True)
class _Text:
    """Writes expressions so that the language reads exactly them back.

    Subscripts and ranges are int64 throughout and need no types; in values every cast is
    written, and a literal has its type beside it unless an operand next to it implies it.
    """

    scalars: frozenset[str]
    clauses: frozenset[str] = frozenset()

    def access(self, buffer: Buffer, indices: Sequence[Expr]) -> str:
        return f"{buffer.name}({','.join(self.index(i, 0) for i in indices)})" if indices else buffer.name

    # -- subscripts and ranges

    def index(self, e: Expr, level: int) -> str:
        match e:
            case Const(value=value):
                return str(value)
            case Cast(type=dt.index, operand=Var() | Load() | Call() as operand):
                return self.value(operand, level)
            case Cast(type=dt.index, operand=operand):
                return f"{operand.dtype}({self.value(operand, 0)})"
            case Unary(op="-", operand=operand):
                return _wrap(f"-{self.index(operand, _UNARY)}", _UNARY, level)
            case Binary(op=op, left=left, right=right) if op in _LEVEL:
                own = _LEVEL[op]
                gap = "" if own == 5 else " "
                text = f"{self.index(left, own)}{gap}{_SYMBOL.get(op, op)}{gap}{self.index(right, own + 1)}"
                return _wrap(text, own, level)
            case Binary(op=op, left=left, right=right):
                return f"{_FUNCTION[op]}({self.index(left, 0)},{self.index(right, 0)})"
            case Select(condition=condition, then=then, otherwise=otherwise):
                sides = f"{self.index(then, 0)} : {self.index(otherwise, 0)}"
                return _wrap(f"{self.value(condition, 1)} ? {sides}", 0, level)
        return e.name if isinstance(e, Var) else self.value(e, level)

    def is_index(self, *parts: Expr) -> bool:
        """Whether the language would take ``parts`` together for arithmetic on index variables and sizes."""
        return self._join(*parts) == "index"

    def _join(self, *parts: Expr) -> _Kind:
        kinds = {self._kind(e) for e in parts}
        return "value" if "value" in kinds else "index" if "index" in kinds else "literal"

    def _kind(self, e: Expr) -> _Kind:
        """As the language decides it: literals and scalars go either way, functions of them alone are values."""
        if e.dtype != dt.index:
            return "value"
        match e:
            case Const() | Cast(operand=Var()):
                return "literal"
            case Var(name=name):
                return "literal" if name in self.scalars else "index"
            case Unary(op="-", operand=operand):
                return self._kind(operand)
            case Binary(op=op, left=left, right=right) if op in _LEVEL:
                return self._join(left, right)
            case Binary(left=left, right=right) | Select(then=left, otherwise=right):
                return "index" if self.is_index(left, right) else "value"
        return "value"

    # -- values

    def value(self, e: Expr, level: int) -> str:
        if self.is_index(e):
            return f"{dt.index}({self.index(e, 0)})"
        match e:
            case Const(value=value, type=dtype):
                return _typed_number(value, dtype)
            case Var(name=name):
                return name
            case Load(buffer=buffer, indices=indices):
                return self.access(buffer, indices)
            case Outside(load=load):
                has_clause = load.buffer.name in self.clauses
                inner = self.access(load.buffer, load.indices)
                return inner if has_clause else f"outside({inner}, {self.boundary(e)})"
            case Cast(type=dtype, operand=operand):
                inner = self.index(operand, 0) if self.is_index(operand) else self.value(operand, 0)
                return f"{dtype}({inner})"
            case Unary(op="~", operand=operand):
                return f"bit_not({self.value(operand, 0)})"
            case Unary(op=op, operand=operand):
                return _wrap(f"{op}{self.value(operand, _UNARY)}", _UNARY, level)
            case Call(name=name, args=args, type=dtype) if name == REINTERPRET:
                return f"as_{dtype}({self.operand(args[0], args, 0)})"
            case Call(name=name, args=args):
                return f"{name}({', '.join(self.operand(a, args, 0) for a in args)})"
            case Select():
                return self._select(e, level)
            case Binary() | Compare():
                return self._operator(e, level)
        raise InternalError(f"a tensor program holds no {type(e).__name__}")

    def operand(self, e: Expr, siblings: Sequence[Expr], level: int) -> str:
        """An operand beside others: a float literal goes without its type where another float has it."""
        implied = any(s.dtype.is_float and not isinstance(s, Const) for s in siblings)
        if isinstance(e, Const) and e.dtype.is_float and implied and not math.isnan(e.value):
            return _wrap(_number(float(e.value)), _UNARY, level)
        return self.value(e, level)

    def _select(self, e: Select, level: int) -> str:
        sides = (e.then, e.otherwise)
        then, otherwise = (self.operand(s, sides, 0) for s in sides)
        return _wrap(f"{self.value(e.condition, 1)} ? {then} : {otherwise}", 0, level)

    def _operator(self, e: Binary | Compare, level: int) -> str:
        pair = (e.left, e.right)
        if isinstance(e, Compare):
            if self.is_index(*pair):
                return _wrap(f"{self.index(e.left, 4)} {e.op} {self.index(e.right, 4)}", _COMPARE, level)
            text = f"{self.operand(e.left, pair, 4)} {e.op} {self.operand(e.right, pair, 4)}"
            return _wrap(text, _COMPARE, level)
        if e.op in _FUNCTION:
            return f"{_FUNCTION[e.op]}({self.operand(e.left, pair, 0)}, {self.operand(e.right, pair, 0)})"
        own = _LEVEL[e.op]
        left, right = self.operand(e.left, pair, own), self.operand(e.right, pair, own + 1)
        return _wrap(f"{left} {_SYMBOL.get(e.op, e.op)} {right}", own, level)

    def boundary(self, node: Outside) -> str:
        if node.mode != "value":
            return node.mode
        assert node.fill is not None
        is_zero = isinstance(node.fill, Const) and repr(node.fill.value) in ("0", "0.0", "False")
        return "zero" if is_zero else self.value(node.fill, 1)


def _wrap(text: str, own: int, level: int) -> str:
    return f"({text})" if own < level else text


def _number(value: float) -> str:
    """A float literal; infinity is written as a number too large for any type."""
    text = repr(abs(value)) if math.isfinite(value) else "1e999"
    return f"-{text}" if math.copysign(1.0, value) < 0 else text


def _typed_number(value: float, dtype: DType) -> str:
    if dtype.is_bool:
        return "true" if value else "false"
    if dtype.is_float:
        # There is no literal for NaN; this says which value is meant.
        return f"{dtype}({_number(value)})" if not math.isnan(value) else f"{dtype}(1e999 - 1e999)"
    if dtype == dt.int32 and value != dtype.min_value:
        return str(value) if value >= 0 else f"({value})"
    return f"{dtype}({value})"
