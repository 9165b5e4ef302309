"""Makes weft/target/cpu/math/coefficients.txt: minimax polynomials by Remez exchange in 60-digit arithmetic.

Run `python bench/fit_polynomials.py > weft/target/cpu/math/coefficients.txt` after changing the list below
(needs mpmath). Each line is a function, the interval, the degree, and a weight: the error that is made
level is weight(x) * (polynomial(x) - function(x)), so a weight of power/result makes the final relative error level.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

from mpmath import mp, mpf

mp.dps = 60
Function = Callable[[Any], Any]


def remez(function: Function, lo: Any, hi: Any, degree: int, weight: Function) -> tuple[list[Any], Any]:
    """Coefficients from the constant up, and the greatest weighted error."""
    lo, hi = mpf(lo), mpf(hi)
    middle, half, size = (lo + hi) / 2, (hi - lo) / 2, degree + 2
    nodes = [middle - half * mp.cos(mp.pi * k / (size - 1)) for k in range(size)]
    # Ends are approached, not touched: the functions below have removable singularities there.
    grid = [middle - half * mp.cos(mp.pi * (k + mpf(1) / 2) / (16 * size)) for k in range(16 * size)]
    exact, scale = [function(x) for x in grid], [weight(x) for x in grid]
    inset = half * mpf(10) ** -12
    nodes[0], nodes[-1] = lo + inset, hi - inset
    coefficients: list[Any] = []
    for _ in range(12):
        coefficients = solve_levelled(function, weight, nodes, degree)
        errors = [s * (mp.polyval(coefficients[::-1], x) - y) for x, y, s in zip(grid, exact, scale)]
        extremes = alternate(grid, errors, size)
        if len(extremes) < size:
            break
        nodes = extremes
    return coefficients, max(abs(e) for e in errors)


def solve_levelled(function: Function, weight: Function, nodes: list[Any], degree: int) -> list[Any]:
    rows = [[x**k for k in range(degree + 1)] + [(-1) ** i / weight(x)] for i, x in enumerate(nodes)]
    solution = mp.lu_solve(mp.matrix(rows), mp.matrix([function(x) for x in nodes]))
    return [solution[k] for k in range(degree + 1)]


def alternate(grid: list[Any], errors: list[Any], size: int) -> list[Any]:
    """The largest error of each run of one sign; the smallest ends dropped when there are too many runs."""
    runs: list[tuple[Any, Any]] = []
    for x, e in zip(grid, errors):
        if runs and (runs[-1][1] > 0) == (e > 0):
            if abs(e) > abs(runs[-1][1]):
                runs[-1] = (x, e)
        else:
            runs.append((x, e))
    while len(runs) > size:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    return [x for x, _ in runs]


def one(x: Any) -> Any:
    return mpf(1)


def odd_tail(function: Function) -> Function:
    """(f(r) - r) / r^3 as a function of u = r^2."""
    return lambda u: (function(mp.sqrt(u)) - mp.sqrt(u)) / (u * mp.sqrt(u))


def odd_weight(function: Function) -> Function:
    return lambda u: u * mp.sqrt(u) / function(mp.sqrt(u))


ROOT = mp.sqrt(mpf(1) / 2)
QUARTER = (mp.pi / 4 + mpf("0.01")) ** 2
HALF = (mp.pi / 2 + mpf("0.02")) ** 2


def log_tail(f: Any) -> Any:
    return (mp.log1p(f) - f + f * f / 2) / f**3


def log_remainder(u: Any) -> Any:
    s = mp.sqrt(u)
    return (mp.log((1 + s) / (1 - s)) - 2 * s) / (s * u)


def log_remainder_second(u: Any) -> Any:
    """log((1+s)/(1-s)) = 2s + 2/3 s^3 + s^5 * this."""
    return (log_remainder(u) - mpf(2) / 3) / u


def erf_exponent(a: Any) -> Any:
    """1 - erf(a) = e^-(a + a * this)."""
    return -mp.log(mp.erfc(a)) / a - 1


def erf_slope(u: Any) -> Any:
    return mp.erf(mp.sqrt(u)) / mp.sqrt(u) - 1


#: Width of the pieces of erf: multiples up to 15 are exact in float32, and erf of them nearly so.
ERF_PIECE = mpf(271338) / 2**20


def erf_piece(n: int) -> tuple[list[Any], Any]:
    """erf(n * width + t) - t for t within half a width of 0: coefficients of degree 5, and the relative error."""
    if n == 0:
        slope, error = remez(erf_slope, 0, (ERF_PIECE / 2) ** 2, 2, one)
        return [mpf(0), slope[0], mpf(0), slope[1], mpf(0), slope[2]], error
    middle = n * ERF_PIECE
    half = ERF_PIECE / 2
    return remez(lambda t: mp.erf(middle + t) - t, -half, half, 5, lambda t: 1 / mp.erf(middle + t))


def erfcx_mapped(k: Any) -> Function:
    """erfcx(x) * (1 + 2x) as a function of w = (x - k) / (x + k)."""

    def function(w: Any) -> Any:
        x = k * (1 + w) / (1 - w)
        return mp.exp(x * x) * mp.erfc(x) * (1 + 2 * x)

    return function


def mapped(x: Any, k: Any) -> Any:
    return (mpf(x) - k) / (mpf(x) + k)


def stirling(u: Any) -> Any:
    """(lgamma(x) - (x - 1/2) log x + x - log(2 pi)/2) * x as a function of u = 1/x^2."""
    x = 1 / mp.sqrt(u)
    return (mp.loggamma(x) - (x - mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def lgamma_core(t: Any) -> Any:
    """lgamma(2 + t) / (t (1 + t)): the zeros at 1 and 2 divided out."""
    return mp.loggamma(2 + t) / (t * (1 + t))


def gamma_core(t: Any) -> Any:
    return mp.gamma(mpf(3) / 2 + t)


def exp_tail(r: Any) -> Any:
    return (mp.exp(r) - 1 - r) / r**2


FITS: list[tuple[str, Function, Any, Any, int, Function]] = [
    # name, function, from, to, degree, weight
    ("EXP_F32", exp_tail, "-0.36", "0.3613", 4, lambda r: r**2),
    ("EXP_F64", exp_tail, "-0.36", "0.3613", 9, lambda r: r**2),
    ("EXP2_MEDIUM", lambda r: mpf(2) ** r, "-0.51", "0.51", 6, lambda r: mpf(2) ** -r),
    ("LOG_F32", log_tail, ROOT - 1, 2 * ROOT - 1, 8, lambda f: f**3 / mp.log1p(f)),
    ("LOG_F64", log_remainder, 0, "0.0297", 6, lambda u: u),
    ("LOG_PAIR_F64", log_remainder_second, 0, "0.0297", 7, lambda u: u * u),
    ("LOG2_MEDIUM", lambda f: mp.log1p(f) / f / mp.log(2), ROOT - 1, 2 * ROOT - 1, 11, lambda f: f / mp.log1p(f)),
    ("SIN_HALF_F32", odd_tail(mp.sin), 0, HALF, 4, odd_weight(mp.sin)),
    ("SIN_HALF_F64", odd_tail(mp.sin), 0, HALF, 7, odd_weight(mp.sin)),
    ("SIN_F32", odd_tail(mp.sin), 0, QUARTER, 2, odd_weight(mp.sin)),
    ("SIN_F64", odd_tail(mp.sin), 0, QUARTER, 5, odd_weight(mp.sin)),
    ("COS_F32", lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2, 0, QUARTER, 2, lambda u: u**2),
    ("COS_F64", lambda u: (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2, 0, QUARTER, 5, lambda u: u**2),
    ("ATAN_F32", odd_tail(mp.atan), 0, 1, 8, odd_weight(mp.atan)),
    ("ATAN_F64", odd_tail(mp.atan), 0, 1, 19, odd_weight(mp.atan)),
    ("ASIN_F32", odd_tail(mp.asin), 0, "0.2501", 4, odd_weight(mp.asin)),
    ("ASIN_F64", odd_tail(mp.asin), 0, "0.2501", 12, odd_weight(mp.asin)),
    ("SINH_F32", odd_tail(mp.sinh), 0, 1, 3, odd_weight(mp.sinh)),
    ("SINH_F64", odd_tail(mp.sinh), 0, 1, 6, odd_weight(mp.sinh)),
    ("ERF_EXPONENT_F32", erf_exponent, 0, "4.05", 10, lambda a: a / mp.expm1(a + a * erf_exponent(a))),
    ("ERF_SLOPE_F64", erf_slope, 0, 1, 11, lambda u: 1 / (1 + erf_slope(u))),
    ("ERF_SLOPE_F32", erf_slope, 0, 1, 6, lambda u: 1 / (1 + erf_slope(u))),
    ("ERFCX_F32", erfcx_mapped(2), mapped("0.6", 2), mapped(11, 2), 9, one),
    ("ERFCX_F64", erfcx_mapped(mpf(5) / 2), mapped("0.6", mpf(5) / 2), mapped(28, mpf(5) / 2), 22, one),
    ("STIRLING", stirling, 0, mpf(1) / 64, 6, one),
    ("LGAMMA_CORE", lgamma_core, "-1.26", "0.503", 30, one),
    ("GAMMA_CORE", gamma_core, "-0.5", "0.5", 22, one),
]  # fmt: skip

HEAD = """\
# Polynomial coefficients, constant term first. Written by bench/fit_polynomials.py; do not edit.
# Minimax by Remez exchange in 60-digit arithmetic; beside a name is log2 of the weighted error.
# ERF_PIECE is the width of the pieces of erf; ERF_PIECES_F32_n has, for each of them, the coefficient of the n-th power
# of the distance from its middle."""


def print_numbers(name: str, numbers: Iterable[Any], error: Any = None) -> None:
    print(name if error is None else f"{name} {float(mp.log(error, 2)):.1f}")
    text = " ".join(repr(float(n)) for n in numbers)
    print(textwrap.indent(textwrap.fill(text, 112, break_on_hyphens=False), "    "), flush=True)


def print_erf_pieces() -> None:
    pieces = [erf_piece(n) for n in range(16)]
    error = max(e for _, e in pieces)
    print_numbers("ERF_PIECE", [ERF_PIECE])
    for power in range(6):
        print_numbers(f"ERF_PIECES_F32_{power}", (c[power] for c, _ in pieces), error)


def main() -> None:
    print(HEAD)
    print_erf_pieces()
    for name, function, lo, hi, degree, weight in FITS:
        coefficients, error = remez(function, lo, hi, degree, weight)
        print_numbers(name, coefficients, error)
        print(name, degree, f"{float(mp.log(error, 2)):.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
