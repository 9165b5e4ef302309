"""The functions of CUDA itself: a table of names, one small function for each kind."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from weft.from_cuda import arithmetic as ar
from weft.from_cuda import atomics, bytes_moved, prints, shared_addresses, textures, warps
from weft.from_cuda.context import Context
from weft.from_cuda.expressions import expression, number
from weft.from_cuda.memory import reinterpret
from weft.from_cuda.types import FLOAT, INT, Scalar
from weft.from_cuda.unit import Node
from weft.from_cuda.values import Nothing, Number, Value
from weft.ir import dtype as dt
from weft.ir.expr import Binary, Call, Compare, Select, Unary, cast, const
from weft.ir.stmt import Assert, Barrier

Function: TypeAlias = "Callable[[Context, Node, list[Node]], Value]"


def _result(c: Context, n: Node) -> Scalar:
    type = c.type_of(n)
    assert isinstance(type, Scalar)
    return type


def _math(name: str) -> Function:
    """A function of `weft.ir.intrinsics` on floats of the type of its result."""

    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = _result(c, n)
        given = [ar.convert(number(c, a), type, c.ranges).expr for a in arguments]
        return Number(type, Call(name, tuple(given), type.dtype))

    return go


def _test(name: str) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        found = Call(name, (number(c, arguments[0]).expr,), dt.bool_)
        return ar.convert(Number(Scalar("bool", dt.bool_), found), _result(c, n), c.ranges)

    return go


def _operator(op: str) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        a, b = (number(c, x) for x in arguments)
        return ar.binary(op, a, b, _result(c, n), c.ranges)

    return go


def _absolute(c: Context, n: Node, arguments: list[Node]) -> Value:
    value = number(c, arguments[0])
    return Number(value.type, Call("abs", (value.expr,), value.expr.dtype))


def _least(name: str) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        a, b = (ar.convert(number(c, x), _result(c, n), c.ranges) for x in arguments)
        return ar.least(name, a, b, c.ranges)

    return go


def _rounded(name: str) -> Function:
    """A conversion to a whole number, rounded by the intrinsic ``name`` first."""

    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        value, type = number(c, arguments[0]), _result(c, n)
        return Number(type, cast(type.dtype, Call(name, (value.expr,), value.expr.dtype)))

    return go


def _convert(c: Context, n: Node, arguments: list[Node]) -> Value:
    return ar.convert(number(c, arguments[0]), _result(c, n), c.ranges)


def _bits(c: Context, n: Node, arguments: list[Node]) -> Value:
    value, type = number(c, arguments[0]), _result(c, n)
    return Number(type, reinterpret(ar.stored(value), type.dtype))


def _reciprocal(of: str | None) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = _result(c, n)
        value = number(c, arguments[0]).expr
        inner = Call(of, (value,), type.dtype) if of else value
        return Number(type, Binary("/", const(1.0, type.dtype), inner))

    return go


def _scaled(name: str, factor: float) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = _result(c, n)
        value = Binary("*", number(c, arguments[0]).expr, const(factor, type.dtype))
        return Number(type, Call(name, (value,), type.dtype))

    return go


def _special(value: float) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        type = _result(c, n)
        return Number(type, const(value, type.dtype))

    return go


def _saturate(c: Context, n: Node, arguments: list[Node]) -> Value:
    value = number(c, arguments[0]).expr
    above = Call("fmax", (value, const(0.0, dt.float32)), dt.float32)
    return Number(FLOAT, Call("fmin", (above, const(1.0, dt.float32)), dt.float32))


def _popcount(c: Context, n: Node, arguments: list[Node]) -> Value:
    value = ar.stored(number(c, arguments[0]))
    return Number(INT, cast(dt.int32, Call("popcount", (value,), value.dtype)))


def _leading_zeros(c: Context, n: Node, arguments: list[Node]) -> Value:
    """Zeros above the highest bit: the ones that smearing the highest bit down leaves out."""
    value = ar.stored(number(c, arguments[0]))
    wide = dt.uint64 if value.dtype.bits == 64 else dt.uint32
    x = c.keep("x", cast(wide, value))
    for by in (1, 2, 4, 8, 16, 32)[: 6 if wide.bits == 64 else 5]:
        x = c.keep("x", Binary("|", x, Binary(">>", x, const(by, wide))))
    return Number(INT, cast(dt.int32, Call("popcount", (Unary("~", x),), wide)))


def _first_set(c: Context, n: Node, arguments: list[Node]) -> Value:
    """One more than the place of the lowest bit that is set, 0 where none is."""
    value = ar.stored(number(c, arguments[0]))
    wide = dt.uint64 if value.dtype.bits == 64 else dt.uint32
    x = c.keep("x", cast(wide, value))
    below = Call("popcount", (Binary("^", x, Binary("-", x, const(1, wide))),), wide)
    found = Select(Compare("==", x, const(0, wide)), const(0, dt.int32), cast(dt.int32, below))
    return Number(INT, found)


def _high_product(c: Context, n: Node, arguments: list[Node]) -> Value:
    a, b = (number(c, x) for x in arguments)
    type = _result(c, n)
    if type.size == 8:
        c.refuse(n, "the upper half of a product of 64 bits")
    wide = dt.uint64 if type.is_unsigned else dt.int64
    product = Binary("*", cast(wide, ar.stored(a)), cast(wide, ar.stored(b)))
    return Number(type, cast(type.dtype, Binary(">>", product, const(32, wide))))


def _product24(c: Context, n: Node, arguments: list[Node]) -> Value:
    a, b = (number(c, x) for x in arguments)
    return ar.binary("*", a, b, _result(c, n), c.ranges)


# ---- barriers, votes


def _barrier(c: Context, n: Node, arguments: list[Node]) -> Value:
    c.emit(Barrier("block", span=c.span))
    return Nothing()


def _warp_barrier(c: Context, n: Node, arguments: list[Node]) -> Value:
    c.emit(Barrier("warp", span=c.span))
    return Nothing()


def _grid_barrier(c: Context, n: Node, arguments: list[Node]) -> Value:
    c.emit(Barrier("grid", span=c.span))
    return Nothing()


def _nothing(c: Context, n: Node, arguments: list[Node]) -> Value:
    for a in arguments:
        expression(c, a)
    return Nothing()


def _failed(c: Context, n: Node, arguments: list[Node]) -> Value:
    """What `assert` calls where its condition does not hold: the first argument is its text."""
    text = next(a.raw["value"] for a in arguments[0].walk() if a.kind == "StringLiteral")
    said = str(json.loads(text)).replace("{", "(").replace("}", ")")  # a message's brackets stand for values
    c.emit(Assert(const(False, dt.bool_), f"assertion `{said}` failed", span=c.unit.span(n)))
    return Nothing()


def _trap(c: Context, n: Node, arguments: list[Node]) -> Value:
    c.emit(Assert(const(False, dt.bool_), "the kernel ended itself by __trap", span=c.unit.span(n)))
    return Nothing()


def _clock(c: Context, n: Node, arguments: list[Node]) -> Value:
    return ar.constant(_result(c, n), 0)


def _refused(why: str) -> Function:
    def go(c: Context, n: Node, arguments: list[Node]) -> Value:
        return c.refuse(n, why)

    return go


def _told(tell: Callable[..., Value], how: str, c: Context, n: Node, arguments: list[Node]) -> Value:
    return tell(c, n, how, arguments)


_MATH = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
    "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt", "erf", "erfc", "tgamma", "lgamma", "sqrt", "rsqrt", "floor",
    "ceil", "trunc", "rint", "round", "pow", "atan2", "fmod", "hypot", "fmin", "fmax", "copysign", "fdim", "fma",
)  # fmt: skip


def _table() -> dict[str, Function]:
    table: dict[str, Function] = {}
    for name in _MATH:
        table[name] = table[f"{name}f"] = table[f"__builtin_{name}f"] = _math(name)
    for fast in ("exp", "log", "log2", "log10", "sin", "cos", "tan", "pow"):
        table[f"__{fast}f"] = _math(fast)
    for name in ("nearbyint", "nearbyintf"):
        table[name] = _math("rint")
    for name in ("fabs", "fabsf", "__builtin_fabsf", "abs", "labs", "llabs"):
        table[name] = _absolute
    for name in ("isnan", "isinf", "isfinite"):
        table[name] = _test(name)
    table["__builtin_assume_aligned"] = lambda c, n, arguments: expression(c, arguments[0])
    for name, op in (("__fadd_rn", "+"), ("__fsub_rn", "-"), ("__fmul_rn", "*"), ("__fdiv_rn", "/"),
                     ("__fdividef", "/"), ("__dadd_rn", "+"), ("__dmul_rn", "*"), ("__ddiv_rn", "/")):  # fmt: skip
        table[name] = _operator(op)
    table |= {
        "min": _least("min"), "max": _least("max"), "__fmaf_rn": _math("fma"), "__fma_rn": _math("fma"),
        "__fsqrt_rn": _math("sqrt"), "__dsqrt_rn": _math("sqrt"), "__frsqrt_rn": _math("rsqrt"),
        "__frcp_rn": _reciprocal(None), "rcbrt": _reciprocal("cbrt"), "rcbrtf": _reciprocal("cbrt"),
        "exp10": _scaled("exp2", 3.321928094887362), "exp10f": _scaled("exp2", 3.321928094887362),
        "__exp10f": _scaled("exp2", 3.321928094887362), "sinpi": _scaled("sin", 3.141592653589793),
        "sinpif": _scaled("sin", 3.141592653589793), "cospi": _scaled("cos", 3.141592653589793),
        "cospif": _scaled("cos", 3.141592653589793), "__saturatef": _saturate,
        "__popc": _popcount, "__popcll": _popcount, "__clz": _leading_zeros, "__clzll": _leading_zeros,
        "__ffs": _first_set, "__ffsll": _first_set, "__mulhi": _high_product, "__umulhi": _high_product,
        "__mul24": _product24, "__umul24": _product24,
        "__syncthreads": _barrier, "__syncwarp": _warp_barrier, "__threadfence": _nothing,
        "__threadfence_block": _nothing, "__threadfence_system": _nothing, "__nanosleep": _nothing,
        "clock": _clock, "clock64": _clock, "printf": prints.print_text, "weft_sync_grid": _grid_barrier,
        "__cvta_generic_to_shared": shared_addresses.number_of, "weft_ptx_shared_at": shared_addresses.pointer_to,
        "weft_yield": _refused("threads that wait for a count (cuda::barrier)"),
        "__trap": _trap, "__assertfail": _failed, **textures.FUNCTIONS,
        **atomics.FUNCTIONS,
    }  # fmt: skip
    for name in ("inf", "inff", "huge_val", "huge_valf"):
        table[f"__builtin_{name}"] = _special(math.inf)
    for name in ("nan", "nanf"):
        table[f"__builtin_{name}"] = _special(math.nan)
    for name in ("__float2int", "__float2uint", "__double2int", "__double2ll", "__float2ll"):
        for suffix, how in (("rn", "rint"), ("rz", "trunc"), ("rd", "floor"), ("ru", "ceil")):
            table[f"{name}_{suffix}"] = _rounded(how)
    for name, how in (("lrint", "rint"), ("lround", "round"), ("llrint", "rint"), ("llround", "round")):
        table[name] = table[f"{name}f"] = _rounded(how)
    for name in ("__double2float_rn", "__int2float_rn", "__uint2float_rn", "__int2double_rn"):
        table[name] = _convert
    for name in ("__float_as_int", "__float_as_uint", "__int_as_float", "__uint_as_float", "__double_as_longlong",
                 "__longlong_as_double"):  # fmt: skip
        table[name] = _bits
    for how in ("", "_up", "_down", "_xor"):
        table[f"__shfl{how}_sync"] = partial(_told, warps.shuffle, how.removeprefix("_"))
    for how in ("ballot", "any", "all"):
        table[f"__{how}_sync"] = partial(_told, warps.vote, how)
    for how in ("count", "and", "or"):
        table[f"__syncthreads_{how}"] = partial(_told, warps.block_vote, how)
    table["__activemask"] = warps.active
    table |= {"memcpy": bytes_moved.copy, "memmove": bytes_moved.copy, "memset": bytes_moved.fill}
    return table


FUNCTIONS: dict[str, Function] = _table()
