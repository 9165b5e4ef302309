"""Expressions of the loop program: the whole grammar on two screens.

Nodes are immutable and compare by value; ``span`` never takes part in a comparison.
Constructors check operand types, so an ill-typed tree cannot be built; the operators
(``a + b``, ``x < 3``) insert the casts of `promote` and accept Python numbers.

``Select``, ``&&`` and ``||`` evaluate only the operands they need, so a load behind a
bounds test is safe. Integer arithmetic wraps; dividing an integer by zero gives 0; a
float cast to an integer saturates (NaN gives 0). ``min`` and ``max`` propagate NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from weft.ir import dtype as dt
from weft.ir.dtype import OTHER_FLOATS, DType, promote
from weft.ir.errors import InternalError
from weft.ir.quick_init import quick_inits
from weft.ir.span import Span

if TYPE_CHECKING:
    from weft.ir.buffer import Buffer

Number: TypeAlias = "int | float | bool"
Operand: TypeAlias = "Expr | int | float | bool"

UnaryOp = Literal["-", "!", "~"]
#: "/" is for floats; "//" and "%" round to minus infinity; "tdiv" and "tmod" truncate as in C.
BinaryOp = Literal["+", "-", "*", "/", "//", "%", "tdiv", "tmod", "min", "max", "&&", "||", "&", "|", "^", "<<", ">>"]
CompareOp = Literal["==", "!=", "<", "<=", ">", ">="]
ReduceOp = Literal["+", "*", "min", "max"]


def _span() -> Any:
    return field(default=None, compare=False, repr=False, kw_only=True)


def _require(condition: bool, node: str, rule: str, *operands: object) -> None:
    if not condition:
        _refuse(node, rule, *operands)


def _refuse(node: str, rule: str, *operands: object) -> NoReturn:
    seen = ", ".join(str(getattr(o, "dtype", o)) for o in operands)
    raise InternalError(f"cannot build {node}", why=f"{rule}; got {seen}" if operands else rule)


_VALUES: dict[str, type] = {"bool": bool, "int": int, "uint": int, "float": float} | dict.fromkeys(OTHER_FLOATS, float)
_INDEX_LIMIT = 1 << 63
_COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def _build(kind: type[Expr], values: dict[str, Any]) -> Expr:
    return kind(**values)


def _operators(op: BinaryOp) -> tuple[Callable[[Expr, Operand], Expr], Callable[[Expr, Operand], Expr]]:
    """``a op b`` as a method of ``a`` and, where ``a`` is a Python number, of ``b``; ``/`` rounds down for integers."""
    if op == "/":
        return lambda a, b: divide(a, b), lambda b, a: divide(a, b)
    return lambda a, b: arithmetic(op, a, b), lambda b, a: arithmetic(op, a, b)


def _comparison(op: CompareOp) -> Callable[[Expr, Operand], Expr]:
    return lambda a, b: compare(op, a, b)


class Expr:
    """Base of all expressions; ``dtype`` is the type of the value, kept by the constructor or when first asked for."""

    __slots__ = ("_below", "_dtype", "_hash")
    _below: tuple[Any, ...]
    _dtype: DType
    _hash: int
    span: Span | None

    @property
    def dtype(self) -> DType:
        """The type of the value; kept, because trees are deep and everything asks for it."""
        try:
            return self._dtype
        except AttributeError:
            computed = self._infer_dtype()
            object.__setattr__(self, "_dtype", computed)
            return computed

    def _infer_dtype(self) -> DType:
        raise InternalError(f"{type(self).__name__} has no type")

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are built anew: what is kept beside the fields is found again."""
        return _build, (type(self), {f.name: getattr(self, f.name) for f in fields(self)})  # type: ignore[arg-type]

    __add__, __radd__ = _operators("+")
    __sub__, __rsub__ = _operators("-")
    __mul__, __rmul__ = _operators("*")
    __truediv__, __rtruediv__ = _operators("/")
    __floordiv__, __rfloordiv__ = _operators("//")
    __mod__, __rmod__ = _operators("%")

    def __neg__(self) -> Expr:
        return Unary("-", self)

    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")

    def __bool__(self) -> bool:
        raise TypeError("a Weft expression has no truth value while the program is being written; use weft.select")


@dataclass(frozen=True, slots=True)
class Const(Expr):
    """A number: int for integer types, bool for bool, float for floats."""

    value: int | float | bool
    type: DType
    span: Span | None = _span()

    def __post_init__(self) -> None:
        t, value = self.type, self.value
        if t is dt.index and type(value) is int and -_INDEX_LIMIT <= value < _INDEX_LIMIT:  # most are
            return
        if type(value) is not _VALUES[t.kind]:
            _refuse("a constant", f"{value!r} is not a {t}")
        if t.is_integer and not t.min_value <= value <= t.max_value:
            _refuse("a constant", f"{value} does not fit {t}")

    @property
    def dtype(self) -> DType:
        return self.type

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Const) or self.type != other.type:
            return False
        # repr keeps -0.0 apart from 0.0 and makes NaN equal to itself: equal programs print equally.
        return repr(self.value) == repr(other.value) if self.type.is_float else self.value == other.value

    def __hash__(self) -> int:
        return hash(repr(self.value) if self.type.is_float else self.value)


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A named scalar: a loop variable, a size, a scalar parameter, a ``Let``."""

    name: str
    type: DType = dt.index
    span: Span | None = _span()

    @property
    def dtype(self) -> DType:
        return self.type

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Var) and self.name == other.name and self.type == other.type)

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """``buffer[indices]``; an index is an int64 expression (or a vector of them)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None = _span()

    def __post_init__(self) -> None:
        check_indices("a load", self.buffer, self.indices)

    def _infer_dtype(self) -> DType:
        return self.buffer.dtype.with_lanes(max((i.dtype.lanes for i in self.indices), default=1))


@dataclass(frozen=True, slots=True)
class AddressOf(Expr):
    """``&buffer[indices]``: where an element is, for a call that reaches memory on its own."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    span: Span | None = _span()

    def __post_init__(self) -> None:
        check_indices("an address", self.buffer, self.indices)
        scalar = all(i.dtype.lanes == 1 for i in self.indices)
        _require(scalar, f"an address in {self.buffer.name}", "indices are scalars", *self.indices)

    @property
    def dtype(self) -> DType:
        return dt.index


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    op: UnaryOp
    operand: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        t, op = self.operand.dtype, self.op
        if not ((t.is_float or t.is_integer) if op == "-" else t.is_bool if op == "!" else t.is_integer and op == "~"):
            _refuse(f"unary {op}", "the operand has the wrong type", self.operand)
        object.__setattr__(self, "_dtype", t)


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    op: BinaryOp
    left: Expr
    right: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        t, other = self.left.dtype, self.right.dtype
        if t is not other and t != other:
            _refuse(f"`{self.op}`", "operand types differ", self.left, self.right)
        if not _binary_takes(self.op, t):
            _refuse(f"`{self.op}`", "operands of a type it takes", self.left, self.right)
        object.__setattr__(self, "_dtype", t)


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    op: CompareOp
    left: Expr
    right: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if self.op not in _COMPARISONS:
            _refuse("a comparison", f"unknown operator {self.op}")
        if self.left.dtype != self.right.dtype:
            _refuse(f"`{self.op}`", "operand types differ", self.left, self.right)

    def _infer_dtype(self) -> DType:
        return dt.bool_.with_lanes(self.left.dtype.lanes)


@dataclass(frozen=True, slots=True)
class Select(Expr):
    """``condition ? then : otherwise``; only the chosen side is evaluated."""

    condition: Expr
    then: Expr
    otherwise: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if not self.condition.dtype.is_bool:
            _refuse("a select", "the condition must be bool", self.condition)
        if self.then.dtype != self.otherwise.dtype:
            _refuse("a select", "the two sides differ in type", self.then, self.otherwise)
        object.__setattr__(self, "_dtype", self.then.dtype)


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """The value converted to ``type``: wraps between integers, saturates from float to integer."""

    type: DType
    operand: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.type.lanes == self.operand.dtype.lanes, "a cast", "lanes differ", self.type, self.operand)

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An intrinsic of `weft.ir.intrinsics`, such as ``exp(x)``, applied to its arguments."""

    name: str
    args: tuple[Expr, ...]
    type: DType
    span: Span | None = _span()

    @property
    def dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, slots=True)
class Axis:
    """An index variable and the half-open range it runs over."""

    var: Var
    lo: Expr
    hi: Expr

    def __post_init__(self) -> None:
        for e in (self.var, self.lo, self.hi):
            if e.dtype != dt.index:
                _refuse("an axis", "an axis runs over int64", e)


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """The combination by ``op`` of ``value`` over all points of ``axes``, outermost axis first."""

    op: ReduceOp
    axes: tuple[Axis, ...]
    value: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.op in get_args(ReduceOp), "a reduction", f"unknown operator {self.op}")

    def _infer_dtype(self) -> DType:
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Ramp(Expr):
    """The vector ``base, base + stride, ...`` of ``lanes`` integers."""

    base: Expr
    stride: Expr
    lanes: int
    span: Span | None = _span()

    def __post_init__(self) -> None:
        t = self.base.dtype
        _require(t.is_integer and t.lanes == 1 and t == self.stride.dtype, "a ramp", "scalar integers", self.base)
        _require(self.lanes > 1, "a ramp", "at least 2 lanes", self.lanes)

    def _infer_dtype(self) -> DType:
        return self.base.dtype.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class Broadcast(Expr):
    """The vector that repeats a scalar ``lanes`` times."""

    value: Expr
    lanes: int
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(self.value.dtype.lanes == 1 and self.lanes > 1, "a broadcast", "a scalar and 2 lanes", self.value)

    def _infer_dtype(self) -> DType:
        return self.value.dtype.with_lanes(self.lanes)


@dataclass(frozen=True, slots=True)
class Shuffle(Expr):
    """Lanes picked by constant position from the concatenation of ``vectors``; one position gives a scalar."""

    vectors: tuple[Expr, ...]
    positions: tuple[int, ...]
    span: Span | None = _span()

    def __post_init__(self) -> None:
        _require(bool(self.vectors) and bool(self.positions), "a shuffle", "vectors and positions")
        elements = {v.dtype.scalar for v in self.vectors}
        total = sum(v.dtype.lanes for v in self.vectors)
        _require(len(elements) == 1, "a shuffle", "one element type", *self.vectors)
        _require(all(0 <= p < total for p in self.positions), "a shuffle", f"positions below {total}", self.positions)

    def _infer_dtype(self) -> DType:
        return self.vectors[0].dtype.with_lanes(len(self.positions))


def _keep_hash(cls: type[Expr]) -> None:
    """Trees are deep and share parts: what hashing one finds is kept with it."""
    compute: Callable[[Expr], int] = cls.__hash__

    def hash_once(self: Expr) -> int:
        try:
            return self._hash
        except AttributeError:
            computed = compute(self)
            object.__setattr__(self, "_hash", computed)
            return computed

    cls.__hash__ = hash_once  # type: ignore[method-assign, assignment]


# Asked for most of all: where it is a field, or always kept, without a call.
for _typed in (Const, Var, Cast, Call):
    _typed.dtype = _typed.__dict__["type"]  # type: ignore[method-assign]
for _keeping in (Unary, Binary, Select):
    _keeping.dtype = Expr.__dict__["_dtype"]  # type: ignore[method-assign]
for _node in (Load, Unary, Binary, Compare, Select, Cast, Call, Reduce, Ramp, Broadcast, Shuffle):
    _keep_hash(_node)
#: The kinds of expression that loop programs have.
NODES = quick_inits(globals())


def _binary_takes(op: str, t: DType) -> bool:
    if op in ("+", "-", "*", "min", "max"):
        return t.is_float or t.is_integer or (t.is_bool and op in ("min", "max"))
    if op == "/":
        return t.is_float
    if op in ("&&", "||"):
        return t.is_bool
    if op in ("&", "|", "^"):
        return t.is_integer or t.is_bool
    return op in ("//", "%", "tdiv", "tmod", "<<", ">>") and t.is_integer


def check_indices(what: str, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
    rank = len(buffer.shape)
    if len(indices) != rank:
        _refuse(f"{what} of {buffer.name}", f"it has {rank} dimensions", len(indices))
    for i in indices:
        t = i.dtype
        if t is not dt.index and t.scalar != dt.index:
            _refuse(f"{what} of {buffer.name}", "indices are int64", i)


def const(value: Number, dtype: DType) -> Const:
    """``value`` as a constant of ``dtype``; integers wrap to the type's range."""
    if dtype.is_float:
        return Const(float(value), dtype)
    if dtype.is_bool:
        return Const(bool(value), dtype)
    if dtype is dt.index and value in _INDICES:
        return idx(int(value))
    low, span = dtype.min_value, 1 << dtype.bits
    return Const((int(value) - low) % span + low, dtype)


def identity(op: str, dtype: DType) -> Const:
    """The value that ``op`` leaves every other one unchanged with: what an empty reduction gives."""
    if op in ("+", "*", "|", "^", "||", "&&"):
        return const(op in ("*", "&&"), dtype)
    if op == "&":
        return const(-1, dtype)
    if dtype.is_float:
        most = math.inf if dtype.shape.has_infinity else dtype.shape.largest
        return Const(most if op == "min" else -most, dtype)
    return const(dtype.max_value if op == "min" else dtype.min_value, dtype)


def idx(value: int) -> Const:
    """An int64 constant; the same object each time for a small one."""
    kept = _INDICES.get(value)
    if kept is None or type(value) is not int:
        return Const(value, dt.index)
    return kept


_INDICES = {value: Const(value, dt.index) for value in range(-64, 1025)}


def as_expr(value: Operand, like: DType | None = None) -> Expr:
    """``value`` as an expression; a Python number takes the type ``like`` where it fits that kind."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool):
        return Const(value, dt.bool_)
    if isinstance(value, int):
        return const(value, like if like is not None and not like.is_bool else dt.int32)
    return const(float(value), like if like is not None and like.is_float else dt.float32)


def cast(dtype: DType, value: Expr) -> Expr:
    """``value`` converted, with nothing inserted where it has the type already; constants fold."""
    if value.dtype == dtype:
        return value
    if isinstance(value, Const) and (dtype.is_float or not value.dtype.is_float):
        return const(value.value, dtype)
    return Cast(dtype, value, span=value.span)


def unify(a: Operand, b: Operand) -> tuple[Expr, Expr]:
    """Both operands cast to the type they promote to."""
    if isinstance(a, Expr):
        b = as_expr(b, a.dtype)
    elif isinstance(b, Expr):
        a = as_expr(a, b.dtype)
    a, b = as_expr(a), as_expr(b)
    common = promote(a.dtype, b.dtype)
    return cast(common, a), cast(common, b)


def arithmetic(op: BinaryOp, a: Operand, b: Operand) -> Expr:
    """``a op b`` after promotion; bools count as int32 in arithmetic."""
    left, right = unify(a, b)
    if left.dtype.is_bool and op not in ("&&", "||", "&", "|", "^"):
        left, right = cast(dt.int32, left), cast(dt.int32, right)
    return Binary(op, left, right)


def divide(a: Operand, b: Operand) -> Expr:
    """True division for floats; for integers the quotient rounded down."""
    left, right = unify(a, b)
    return arithmetic("/" if left.dtype.is_float else "//", left, right)


def compare(op: CompareOp, a: Operand, b: Operand) -> Expr:
    left, right = unify(a, b)
    return Compare(op, left, right)
