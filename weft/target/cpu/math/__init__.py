"""Vector math of our own, emitted inline: no C library is called, for scalars and any vector width.

`MATH[name](builder, arguments, dtype)` emits an intrinsic for float32 and float64 values (``abs`` and
``popcount`` for integers); narrow floats are widened by the caller. What the machine lacks (FMA, rounding
instructions) comes from ``builder.features``. Some functions add basic blocks: phis after a call must use
the builder's current label.
"""

from __future__ import annotations

from collections.abc import Callable

from weft.ir.dtype import DType
from weft.target.cpu.builder import Builder
from weft.target.cpu.llvm_values import Value
from weft.target.cpu.math import exp_log, powers, quick, rounding, special, trig
from weft.target.cpu.math.formula import Term

Emitter = Callable[[Builder, list[Value], DType], Value]


def _formula(function: Callable[..., Term]) -> Emitter:
    def emit(builder: Builder, arguments: list[Value], dtype: DType) -> Value:
        return function(*(Term(builder, a) for a in arguments)).v

    return emit


_FORMULAS: dict[str, Callable[..., Term]] = {
    **{f.__name__: f for f in (exp_log.exp, exp_log.exp2, exp_log.expm1, exp_log.log, exp_log.log2)},
    **{f.__name__: f for f in (exp_log.log10, exp_log.log1p, exp_log.sigmoid, exp_log.tanh)},
    **{f.__name__: f for f in (trig.sin, trig.cos, trig.tan, trig.asin, trig.acos, trig.atan, trig.atan2)},
    **{f.__name__: f for f in (exp_log.sinh, exp_log.cosh)},
    **{f.__name__: f for f in (exp_log.asinh, exp_log.acosh, exp_log.atanh)},
    **{f.__name__: f for f in (powers.pow, powers.cbrt, powers.hypot, powers.fmod)},
    **{f.__name__: f for f in (special.erf, special.erfc, special.tgamma, special.lgamma)},
    **{f.__name__: f for f in (rounding.sqrt, rounding.rsqrt, rounding.floor, rounding.ceil, rounding.trunc)},
    **{f.__name__: f for f in (rounding.rint, rounding.fmin, rounding.fmax, rounding.copysign, rounding.fdim)},
    "round": rounding.round_away,
    "isnan": rounding.is_nan,
    "isinf": rounding.is_inf,
    "isfinite": rounding.is_finite,
    "fma": rounding.fma_exact,
}

#: Those that fast numerics have instead.
FAST_MATH: dict[str, Emitter] = {name: _formula(function) for name, function in quick.QUICK.items()}
#: Every intrinsic of the loop program, by name.
MATH: dict[str, Emitter] = {
    **{name: _formula(function) for name, function in _FORMULAS.items()},
    "abs": rounding.emit_abs,
    "popcount": rounding.emit_popcount,
}
