"""`Value`: what the Python functions compute with, an expression that knows how it was meant.

An index expression (index variables, sizes, with integers) subscripts in int64; as a value it counts
as int32, or goes straight to the float it meets. Integer parameters and literals are at home in both.
These are the rules of the whiteboard language, so that both write the same program.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from weft.ir import dtype as dt
from weft.ir.dtype import DType, parse_dtype, promote
from weft.ir.errors import ArgumentError, LanguageError
from weft.ir.expr import Binary, BinaryOp, Call, Cast, Compare, CompareOp, Const, Expr, Select, Unary, Var, const, idx
from weft.ir.expr import cast as cast_expr
from weft.ir.intrinsics import INTRINSICS
from weft.tensor.caller import caller_span

#: literal: at home in subscripts and values. index: subscripts first. value: the rest. real: a Python float.
Kind = Literal["literal", "index", "value", "real"]
Operand: TypeAlias = "Value | int | float | bool"
_Method: TypeAlias = "Callable[[Value, Operand], Value]"


def _operator(op: str) -> tuple[_Method, _Method]:
    """The methods of a class for ``op`` with a value on the left, and on the right."""
    return lambda self, other: arithmetic(op, self, other), lambda self, other: arithmetic(op, other, self)


def _comparison(op: CompareOp) -> _Method:
    return lambda self, other: comparison(op, self, other)


@dataclass(frozen=True, eq=False)
class Value:
    """An expression being written; ``position`` is its int64 form where it can be part of a subscript."""

    expr: Expr
    position: Expr | None = None
    kind: Kind = "value"

    __array_ufunc__ = None  # numpy leaves arithmetic to the operators below, and names us where there is none

    @property
    def dtype(self) -> DType:
        return self.expr.dtype

    __add__, __radd__ = _operator("+")
    __sub__, __rsub__ = _operator("-")
    __mul__, __rmul__ = _operator("*")
    __truediv__, __rtruediv__ = _operator("/")
    __floordiv__, __rfloordiv__ = _operator("//")
    __mod__, __rmod__ = _operator("%")
    __xor__ = _operator("^")[0]
    __lshift__ = _operator("<<")[0]
    __rshift__ = _operator(">>")[0]
    __lt__ = _comparison("<")
    __le__ = _comparison("<=")
    __gt__ = _comparison(">")
    __ge__ = _comparison(">=")

    def __pow__(self, other: Operand) -> Value:
        return self * self if isinstance(other, int) and other == 2 else call("pow", self, other)

    def __rpow__(self, other: Operand) -> Value:
        return call("pow", other, self)

    def __and__(self, other: Operand) -> Value:
        return logical("&&", self, other) if self.dtype.is_bool else arithmetic("&", self, other)

    def __or__(self, other: Operand) -> Value:
        return logical("||", self, other) if self.dtype.is_bool else arithmetic("|", self, other)

    def __invert__(self) -> Value:
        if self.dtype.is_float:
            raise LanguageError(f"`~` takes integers and bools, not {self.dtype}", span=caller_span())
        return Value(Unary("!" if self.dtype.is_bool else "~", self.expr))

    def __neg__(self) -> Value:
        if self.position is not None and self.kind != "value":
            position = Unary("-", self.position)
            return index_value(position) if self.kind == "index" else Value(Unary("-", self.expr), position, self.kind)
        return Value(Unary("-", cast_expr(dt.int32, self.expr) if self.dtype.is_bool else self.expr))

    def __abs__(self) -> Value:
        return call("abs", self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return comparison("==", self, other)  # type: ignore[arg-type]

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return comparison("!=", self, other)  # type: ignore[arg-type]

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise LanguageError(
            "an expression has no truth value while the program is being written",
            span=caller_span(),
            why="`if`, `and`, `or` and `not` decide in Python, before there is any data",
            help="use weft.select(condition, a, b), `&`, `|` and `~`",
        )

    def __iter__(self) -> Any:
        raise LanguageError("an expression cannot be iterated over", span=caller_span())


@dataclass(frozen=True, eq=False)
class ReduceAxis(Value):
    """The variable of a reduction and its range."""

    name: str = ""
    lo: Expr = field(default_factory=lambda: idx(0))
    hi: Expr = field(default_factory=lambda: idx(0))


def index_value(position: Expr) -> Value:
    """An int64 expression of index variables and sizes, which counts as int32 where a value is wanted."""
    return Value(Cast(dt.int32, position), position, "index")


def scalar_value(var: Var) -> Value:
    """A scalar parameter; an integer one may be part of subscripts."""
    if not var.dtype.is_integer:
        return Value(var)
    return Value(var, cast_expr(dt.index, var), "literal")


def lift(x: Operand) -> Value:
    """A Python number as a value; an expression as it is."""
    if isinstance(x, Value):
        return x
    if isinstance(x, bool):
        return Value(Const(x, dt.bool_))
    if isinstance(x, int):
        fits = dt.int32.min_value <= x <= dt.int32.max_value
        if not dt.int64.min_value <= x <= dt.int64.max_value:
            raise LanguageError(f"integer {x} does not fit 64 bits", span=caller_span())
        number = int(x)  # a plain one, of an enumeration too
        return Value(const(number, dt.int32 if fits else dt.int64), idx(number), "literal")
    if isinstance(x, float):
        return Value(Const(float(x), dt.float32), None, "real")  # numpy.float64 is a float
    item = getattr(x, "item", None)
    if callable(item) and getattr(x, "ndim", 1) == 0:
        return lift(item())
    raise LanguageError(
        f"cannot compute with a {type(x).__name__}",
        span=caller_span(),
        why="expressions are made of tensor elements, index variables, scalars and numbers",
        help="index the tensor, as in `A[i, j]`" if hasattr(x, "shape") else None,
    )


def as_position(x: Operand, what: str) -> Expr:
    """``x`` in int64, for a subscript, a size or a bound."""
    v = lift(x)
    if v.position is not None:
        return v.position
    if not v.dtype.is_integer:
        raise LanguageError(
            f"{what} is {v.dtype}, not an integer",
            span=caller_span(),
            why="positions are counted",
            help='convert it: weft.cast("int32", x)',
        )
    return cast_expr(dt.index, v.expr)


def meet(*operands: Operand) -> list[Expr]:
    """The operands as values of the type they promote to; Python floats yield to the floats among them."""
    values = [lift(x) for x in operands]
    firm = [v.dtype for v in values if v.kind != "real"]
    floats = [t for t in firm if t.is_float]
    common = firm[0] if firm else dt.float32
    for t in firm[1:]:
        common = promote(common, t)
    if len(firm) < len(values) and not floats:
        common = dt.float32
    return [convert(v, common) for v in values]


def convert(v: Value, to: DType) -> Expr:
    """As ``to``; an index expression does not wrap at int32 on its way to a wider type."""
    if v.kind == "index" and v.position is not None and (to.is_float or to == dt.index):
        return cast_expr(to, v.position)
    return cast_expr(to, v.expr)


def arithmetic(op: str, a: Operand, b: Operand) -> Value:
    x, y = lift(a), lift(b)
    if x.kind in ("index", "literal") and y.kind in ("index", "literal"):
        real: BinaryOp = "//" if op == "/" else op  # type: ignore[assignment]
        assert x.position is not None
        assert y.position is not None
        if "index" in (x.kind, y.kind):
            return index_value(Binary(real, x.position, y.position))
        left, right = meet(x, y)
        return Value(Binary(real, left, right), Binary(real, x.position, y.position), "literal")
    return _value_arithmetic(op, *meet(x, y))


def _value_arithmetic(op: str, left: Expr, right: Expr) -> Value:
    if left.dtype.is_bool and op not in ("&", "|", "^"):
        left, right = cast_expr(dt.int32, left), cast_expr(dt.int32, right)
    if left.dtype.is_float:
        return _float_arithmetic(op, left, right)
    return Value(Binary("//" if op == "/" else op, left, right))  # type: ignore[arg-type]


def _float_arithmetic(op: str, left: Expr, right: Expr) -> Value:
    if op in ("&", "|", "^", "<<", ">>"):
        raise LanguageError(f"`{op}` takes integers, not {left.dtype}", span=caller_span())
    if op == "//":
        return Value(Call("floor", (Binary("/", left, right),), left.dtype))
    if op == "%":
        # Python's rule: the result has the sign of the divisor.
        whole = Call("floor", (Binary("/", left, right),), left.dtype)
        return Value(Binary("-", left, Binary("*", whole, right)))
    return Value(Binary(op, left, right))  # type: ignore[arg-type]


def _together(a: Operand, b: Operand) -> tuple[Expr, Expr, Callable[[Expr], Value]]:
    """Both as positions where one is an index expression, else as values of one type; and what is made of them."""
    x, y = lift(a), lift(b)
    if "index" in (x.kind, y.kind) and x.position is not None and y.position is not None:
        return x.position, y.position, index_value
    left, right = meet(x, y)
    return left, right, Value


def comparison(op: CompareOp, a: Operand, b: Operand) -> Value:
    left, right, _ = _together(a, b)
    return Value(Compare(op, left, right))


def condition(x: Operand, where: str) -> Expr:
    """``x`` as a bool; a plain Python bool is most likely a comparison that Python already decided."""
    if isinstance(x, bool):
        raise LanguageError(
            f"the condition of {where} is the Python value {x}",
            span=caller_span(),
            why="it was decided before the program runs",
            help="compare tensor elements or index variables",
        )
    v = lift(x)
    return v.expr if v.dtype.is_bool else Compare("!=", v.expr, const(0, v.dtype))


def logical(op: Literal["&&", "||"], a: Operand, b: Operand) -> Value:
    name = "logical_and" if op == "&&" else "logical_or"
    return Value(Binary(op, condition(a, name), condition(b, name)))


def choose(test: Operand, a: Operand, b: Operand) -> Value:
    chosen = condition(test, "select")
    then, otherwise, made = _together(a, b)
    return made(Select(chosen, then, otherwise))


def extreme(op: Literal["min", "max"], a: Operand, b: Operand) -> Value:
    left, right, made = _together(a, b)
    return made(Binary(op, left, right))


def call(name: str, *operands: Operand) -> Value:
    """An intrinsic applied; integers become float32 where it takes floats."""
    intrinsic = INTRINSICS[name]
    if len(operands) != intrinsic.arity:
        plural = "s" * (intrinsic.arity != 1)
        raise ArgumentError(
            f"`{name}` takes {intrinsic.arity} argument{plural}, not {len(operands)}", span=caller_span()
        )
    args = meet(*operands)
    t = args[0].dtype
    if intrinsic.rule == "integer" and not t.is_integer:
        raise LanguageError(f"`{name}` takes integers, not {t}", span=caller_span())
    if intrinsic.rule in ("float", "test") and not t.is_float:
        args = [convert(lift(x), dt.float32) for x in operands]
    elif t.is_bool:
        args = [cast_expr(dt.int32, a) for a in args]
    return Value(Call(name, tuple(args), intrinsic.result(args[0].dtype)))


def parse_type(name: str | DType) -> DType:
    dtype = name if isinstance(name, DType) else parse_dtype(str(name))
    if dtype is None or dtype.lanes != 1:
        raise ArgumentError(
            f"unknown element type `{name}`",
            span=caller_span(),
            why="the types are " + ", ".join(dt.SCALAR_TYPES),
        )
    return dtype
