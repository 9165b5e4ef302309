"""Numbers of C++ in the loop program's types.

C++'s signed integers may not overflow, so index arithmetic is exact int64, which the affine passes see through.
Unsigned indices wrap: they are kept modulo 2**32 and wrapped where the difference could show (comparisons, quotients,
shifts to the right, conversions), unless their range tells that it cannot. What was loaded from memory is *data* and
is computed in its own type, so that vectors have as many lanes as they can.
"""

from __future__ import annotations

from weft.from_cuda.ranges import Ranges
from weft.from_cuda.types import BOOL, Scalar
from weft.from_cuda.values import Number
from weft.ir import dtype as dt
from weft.ir.affine import Linear, linear_form
from weft.ir.expr import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Load,
    Select,
    Unary,
    Var,
    cast,
    const,
    idx,
)
from weft.ir.visit import free_vars, walk
from weft.passes.analysis.conditions import slack


def is_index(n: Number) -> bool:
    """Whether a whole number is computed in int64 although its type may be narrower."""
    return n.type.is_integer and not n.type.dtype.is_bool and n.expr.dtype == dt.index


def is_data(n: Number) -> bool:
    return not is_index(n) and (not isinstance(n.expr, Const) or _is_huge(n.expr))


def _is_huge(e: Expr) -> bool:
    """Whether a constant is beyond int64, so that what meets it is computed unsigned."""
    return isinstance(e, Const) and e.dtype == dt.uint64


def constant(type: Scalar, value: int | float | bool) -> Number:
    """A literal; whole ones are indices that yield to data."""
    if type.dtype.is_bool:
        return Number(type, Const(bool(value), dt.bool_))
    if not type.is_integer:
        return Number(type, const(float(value), type.dtype))
    wrapped = int(const(int(value), type.dtype).value)
    if type.dtype == dt.uint64 and wrapped > dt.int64.max_value:
        return Number(type, const(wrapped, dt.uint64))
    return Number(type, idx(wrapped))


def settle(n: Number, ranges: Ranges) -> Expr:
    """The value of an index as it is, wrapped to its type where it may be outside."""
    if not is_index(n) or n.type.size == 8 or not (n.type.is_unsigned or _mixes(n.expr, ranges)):
        return n.expr
    return wrap(n, ranges)


def wrap(n: Number, ranges: Ranges) -> Expr:
    """An index as its type holds it."""
    dtype = n.type.dtype
    if n.type.size == 8 or ranges.of(n.expr).within(dtype.min_value, dtype.max_value):
        return n.expr
    return Cast(dt.index, Cast(dtype, n.expr))


#: From here on an odd factor is one of a hash or random function, not of an index.
_LARGE_FACTOR = 1 << 14


def _mixes(e: Expr, ranges: Ranges) -> bool:
    """Whether a signed number is made as hash and random functions make theirs: programs count on it that these wrap,
    though C++ does not promise it."""
    return any((isinstance(x, Var) and x.name in ranges.wrapping) or _is_wrapped(x) for x in walk(e))


def _is_wrapped(e: object) -> bool:
    return isinstance(e, Cast) and e.dtype == dt.index and isinstance(e.operand, Cast) and e.operand.dtype == dt.int32


def grows(e: Expr, name: str) -> bool:
    """Whether ``e`` is ``name`` times something that is no power of two: assigned to it again and again, that wraps
    soon."""
    factor = next((f for atom, f in linear_form(e).terms.items() if isinstance(atom, Var) and atom.name == name), 0)
    return not _is_power(factor) or any(_multiplies(x, name) for x in walk(e))


def _multiplies(e: object, name: str) -> bool:
    if not isinstance(e, Binary) or e.op != "*":
        return False
    sides = [(e.left, e.right), (e.right, e.left)]
    return any(name in free_vars(a) and not (isinstance(b, Const) and _is_power(int(b.value))) for a, b in sides)


def _is_power(factor: int) -> bool:
    return abs(factor) & (abs(factor) - 1) == 0


def stored(n: Number) -> Expr:
    """The value in the type of memory."""
    return cast(n.type.dtype, n.expr)


def to_index(n: Number, ranges: Ranges) -> Expr:
    """An int64 subscript. Unsigned sums are taken as they are: no array has 2**32 elements behind what would wrap."""
    if is_index(n) and not _is_large(n.expr):
        return n.expr
    return cast(dt.index, settle(n, ranges))


def _is_large(e: Expr) -> bool:
    """Whether a constant beyond 2**31 is among the terms: a negative number that was made unsigned."""
    if isinstance(e, Const):
        return abs(int(e.value)) >= 1 << 31
    if isinstance(e, Binary) and e.op in ("+", "-", "*"):
        return _is_large(e.left) or _is_large(e.right)
    return False


def convert(n: Number, to: Scalar, ranges: Ranges) -> Number:
    """``n`` converted to the type ``to`` as C++ does."""
    source = n.type
    if to == source:
        return n
    if to.dtype.is_bool:
        return Number(to, truth(n))
    if not to.is_integer:
        return Number(to, _to_float(n, to, ranges))
    if not source.is_integer:
        return Number(to, _float_to_integer(n.expr, to))
    if source.dtype.is_bool:
        return constant(to, n.expr.value) if isinstance(n.expr, Const) else Number(to, cast(to.dtype, n.expr))
    if isinstance(n.expr, Const):
        return constant(to, n.expr.value)
    if not is_index(n):
        return Number(to, cast(to.dtype, n.expr))
    return Number(to, _index_to(n, to, ranges))


def _index_to(n: Number, to: Scalar, ranges: Ranges) -> Expr:
    if to.size < 4:
        return cast(to.dtype, n.expr)
    if to.size == 8:  # a wider type sees what wrapping made of it
        return settle(n, ranges)
    if n.type.size == 8 and not ranges.of(n.expr).within(-(1 << 31), (1 << 32) - 1):
        return Cast(dt.index, Cast(to.dtype, n.expr))
    return n.expr


def _to_float(n: Number, to: Scalar, ranges: Ranges) -> Expr:
    if isinstance(n.expr, Const):
        return const(float(n.expr.value), to.dtype)
    e = settle(n, ranges)
    if is_index(n) and n.type.size <= 4 and not n.type.is_unsigned:
        e = Cast(dt.int32, e)  # half as wide, and many more conversions at once
    return Cast(to.dtype, e) if e.dtype != to.dtype else e


def _float_to_integer(e: Expr, to: Scalar) -> Expr:
    return cast(to.dtype, e) if to.size >= 4 else cast(to.dtype, cast(dt.int32, e))


def truth(n: Number) -> Expr:
    """The number as a condition."""
    e = n.expr
    if e.dtype.is_bool:
        return e
    if isinstance(e, Const):
        return Const(bool(e.value), dt.bool_)
    if isinstance(e, Cast) and e.operand.dtype.is_bool:
        return e.operand
    if is_index(n) and n.type.is_unsigned and n.type.size == 4:
        e = Cast(dt.uint32, e)
    return Compare("!=", e, const(0, e.dtype))


def binary(op: str, a: Number, b: Number, type: Scalar, ranges: Ranges) -> Number:
    """``a op b`` for operands of one type (shifts excepted), of the type ``type``."""
    if op in ("==", "!=", "<", "<=", ">", ">="):
        return Number(BOOL, _compare(op, a, b, ranges))
    if not type.is_integer:
        return Number(type, _float(op, a.expr, b.expr))
    if op in ("<<", ">>"):
        return Number(type, _shift(op, a, b, ranges))
    if not is_data(a) and not is_data(b):
        return Number(type, fold(_index(op, a, b, ranges)))
    if (is_index(a) and not isinstance(a.expr, Const)) or (is_index(b) and not isinstance(b.expr, Const)):
        return _mixed(op, a, b, type, ranges)
    left, right = cast(type.dtype, a.expr), cast(type.dtype, b.expr)
    return Number(type, Binary(_OPERATORS[op], left, right))


def _mixed(op: str, a: Number, b: Number, type: Scalar, ranges: Ranges) -> Number:
    """One operand is an index, the other data: 64-bit unsigned numbers stay what they are, data that meet a number of
    the launch stay data, others become indices."""
    if type.dtype == dt.uint64 or _is_number(a, b, ranges):
        return Number(type, Binary(_OPERATORS[op], cast(type.dtype, a.expr), cast(type.dtype, b.expr)))
    ranges.meet(a, b)
    wide = [Number(n.type, cast(dt.index, n.expr)) for n in (a, b)]
    return Number(type, fold(_index(op, wide[0], wide[1], ranges)))


def _is_number(a: Number, b: Number, ranges: Ranges) -> bool:
    """Whether one of two operands is data of 32 bits, the other made of what a launch gives: no place of a thread."""
    index = a.expr if is_index(a) else b.expr
    return a.type.size == 4 and b.type.size == 4 and ranges.numbers.issuperset(free_vars(index)) and not _reads(index)


def _reads(e: Expr) -> bool:
    return any(isinstance(n, Load) for n in walk(e))


#: Division of C++ rounds to zero.
_OPERATORS: dict[str, BinaryOp] = {
    "+": "+", "-": "-", "*": "*", "/": "tdiv", "%": "tmod", "&": "&", "|": "|", "^": "^", "<<": "<<", ">>": ">>",
}  # fmt: skip


def _float(op: str, a: Expr, b: Expr) -> Expr:
    return Binary("/" if op == "/" else _OPERATORS[op], a, b)


def _index(op: str, a: Number, b: Number, ranges: Ranges) -> Expr:
    if op in ("/", "%"):
        return _quotient(op, settle(a, ranges), settle(b, ranges), a.type, ranges)
    if op in ("&", "|", "^") and a.type.size == 4 and (a.type.is_unsigned or not _is_mask(op, a, b)):
        return Binary(_OPERATORS[op], wrap(a, ranges), wrap(b, ranges))
    made = Binary(_OPERATORS[op], a.expr, b.expr)
    if op == "*" and a.type.dtype == dt.int32 and any(_is_large_factor(n.expr) for n in (a, b)):
        return wrap(Number(a.type, made), ranges)
    return made


def _is_mask(op: str, *numbers: Number) -> bool:
    """Whether bits that a type has not do not show."""
    return op == "&" and any(isinstance(n.expr, Const) and int(n.expr.value) >= 0 for n in numbers)


def _is_large_factor(e: Expr) -> bool:
    return isinstance(e, Const) and abs(int(e.value)) >= _LARGE_FACTOR and int(e.value) % 2 == 1


def _quotient(op: str, a: Expr, b: Expr, type: Scalar, ranges: Ranges) -> Expr:
    low, divisor = ranges.of(a).lo, ranges.of(b).lo
    if low is not None and low >= 0 and divisor is not None and divisor > 0:
        return Binary("//" if op == "/" else "%", a, b)
    if type.dtype == dt.uint64:
        return Cast(dt.index, Binary(_OPERATORS[op], Cast(dt.uint64, a), Cast(dt.uint64, b)))
    return Binary(_OPERATORS[op], a, b)


#: Ints that are shifted up so far are patterns of bits: those that leave the type are lost, and the last is the sign.
_PATTERN = 16


def _shift(op: str, a: Number, b: Number, ranges: Ranges) -> Expr:
    by = b.expr
    if is_data(a):
        return Binary(_OPERATORS[op], a.expr, cast(a.expr.dtype, settle(b, ranges)))
    value = a.expr if op == "<<" else settle(a, ranges)
    if isinstance(by, Const) and 0 <= int(by.value) < 62:
        if a.type.dtype == dt.uint64 and op == ">>":
            return _logical_shift(value, cast(dt.uint64, by), ranges)
        shifted = fold(Binary("*" if op == "<<" else "//", value, idx(1 << int(by.value))))
        is_pattern = isinstance(shifted, Const) or int(by.value) >= _PATTERN
        return wrap(Number(a.type, shifted), ranges) if op == "<<" and is_pattern else shifted
    amount = cast(dt.index, settle(b, ranges))
    if op == "<<" and a.type.size <= 4:  # bits beyond the type are lost
        return Cast(dt.index, Cast(a.type.dtype, Binary("<<", value, amount)))
    if a.type.dtype == dt.uint64 and op == ">>":
        return _logical_shift(value, cast(dt.uint64, amount), ranges)
    return Binary(_OPERATORS[op], value, amount)


def _logical_shift(value: Expr, by: Expr, ranges: Ranges) -> Expr:
    return Cast(dt.index, Binary(">>", cast(dt.uint64, value), by))


def _compare(op: str, a: Number, b: Number, ranges: Ranges) -> Expr:
    left, right = settle(a, ranges), settle(b, ranges)
    if left.dtype != right.dtype:
        if _is_huge(left) or _is_huge(right):
            left, right = cast(dt.uint64, left), cast(dt.uint64, right)
        elif isinstance(left, Const):
            left = cast(right.dtype, left)
        elif isinstance(right, Const):
            right = cast(left.dtype, right)
        elif _is_number(a, b, ranges):
            left, right = cast(a.type.dtype, left), cast(a.type.dtype, right)
        else:
            ranges.meet(a, b)
            wide = dt.uint64 if a.type.dtype == dt.uint64 else dt.index
            left, right = cast(wide, left), cast(wide, right)
    elif left.dtype == dt.index and a.type.dtype == dt.uint64 and op not in ("==", "!="):
        known = [ranges.of(e).lo for e in (left, right)]
        if not all(low is not None and low >= 0 for low in known):
            left, right = cast(dt.uint64, left), cast(dt.uint64, right)
    if isinstance(left, Const) and isinstance(right, Const) and left.dtype.is_integer:
        return Const(bool(_FOLDED[op](left.value, right.value)), dt.bool_)
    return Compare(op, left, right)  # type: ignore[arg-type]


_FOLDED = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def fold(e: Expr) -> Expr:
    """An operation on constants, or with one that changes nothing, computed."""
    if not isinstance(e, Binary) or e.dtype != dt.index:
        return e
    a, b = e.left, e.right
    if isinstance(a, Const) and isinstance(b, Const):
        return _fold_constants(e, int(a.value), int(b.value))
    if isinstance(b, Const) and ((b.value == 0 and e.op in ("+", "-")) or (b.value == 1 and e.op in ("*", "//"))):
        return a
    if isinstance(a, Const) and ((a.value == 0 and e.op == "+") or (a.value == 1 and e.op == "*")):
        return b
    return e


def _fold_constants(e: Binary, a: int, b: int) -> Expr:
    match e.op:
        case "+" | "-" | "*" | "&" | "|" | "^":
            return const({"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[e.op], dt.index)
        case "//" | "%" if b > 0:
            return idx(a // b if e.op == "//" else a % b)
        case "tdiv" | "tmod" if b != 0:
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            return idx(quotient if e.op == "tdiv" else a - quotient * b)
    return e


def negative(n: Number) -> Number:
    if isinstance(n.expr, Const):
        return constant(n.type, -n.expr.value)
    if is_index(n):
        return Number(n.type, fold(Binary("-", idx(0), n.expr)))
    return Number(n.type, Unary("-", n.expr))


def complement(n: Number) -> Number:
    if isinstance(n.expr, Const):
        return constant(n.type, ~int(n.expr.value))
    return Number(n.type, Unary("~", n.expr))


def select(condition: Expr, a: Number, b: Number, ranges: Ranges) -> Number:
    """``condition ? a : b`` for numbers of one type."""
    if isinstance(condition, Const):
        return a if condition.value else b
    left, right = a.expr, b.expr
    if left.dtype != right.dtype:
        index = (is_index(a) and not isinstance(left, Const)) or (is_index(b) and not isinstance(right, Const))
        wide = dt.index if index and a.type.dtype != dt.uint64 and not _is_number(a, b, ranges) else a.type.dtype
        left, right = cast(wide, settle(a, ranges)), cast(wide, settle(b, ranges))
    op = _extreme(condition, left, right)
    return Number(a.type, Select(condition, left, right) if op is None else Binary(op, left, right))


def _extreme(condition: Expr, left: Expr, right: Expr) -> BinaryOp | None:
    """Whether ``condition ? left : right`` is one of the two by their order: of ``x + 1 > n - 1 ? n - 1 : x + 1`` the
    lesser, which passes know more of than of other choices."""
    gap = slack(condition) if left.dtype == right.dtype == dt.index else None
    if gap is None:
        return None
    apart = linear_form(left).add(linear_form(right), -1)
    above, below = Linear().add(apart).add(gap, -1), Linear().add(apart).add(gap)
    if not above.terms and above.constant in (0, 1):
        return "max"
    return "min" if not below.terms and below.constant in (0, -1) else None


def least(name: str, a: Number, b: Number, ranges: Ranges) -> Number:
    """``min`` or ``max`` as CUDA's: of a number and NaN the number."""
    if not a.type.is_integer:
        return Number(a.type, Call("fmin" if name == "min" else "fmax", (a.expr, b.expr), a.type.dtype))
    left, right = settle(a, ranges), settle(b, ranges)
    if left.dtype != right.dtype:
        if _is_huge(left) or _is_huge(right):
            wide = dt.uint64
        elif isinstance(left, Const) or isinstance(right, Const):
            wide = left.dtype if isinstance(right, Const) else right.dtype
        elif _is_number(a, b, ranges):
            wide = a.type.dtype
        else:
            wide = dt.uint64 if a.type.dtype == dt.uint64 else dt.index
        left, right = cast(wide, left), cast(wide, right)
    return Number(a.type, Binary("min" if name == "min" else "max", left, right))
