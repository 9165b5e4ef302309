"""Made by `weft.operators.typing_stubs`."""

from weft.tensor.value import Operand, Value

def abs(x: Operand, /) -> Value:
    """Size without sign."""

def acos(x: Operand, /) -> Value:
    """Arc cosine."""

def acosh(x: Operand, /) -> Value:
    """Inverse of cosh."""

def asin(x: Operand, /) -> Value:
    """Arc sine."""

def asinh(x: Operand, /) -> Value:
    """Inverse of sinh."""

def atan(x: Operand, /) -> Value:
    """Arc tangent."""

def atan2(x: Operand, y: Operand, /) -> Value:
    """Angle of the point at height x and width y."""

def atanh(x: Operand, /) -> Value:
    """Inverse of tanh."""

def cbrt(x: Operand, /) -> Value:
    """Cube root."""

def ceil(x: Operand, /) -> Value:
    """Rounded up."""

def copysign(x: Operand, y: Operand, /) -> Value:
    """The size of x with the sign of y."""

def cos(x: Operand, /) -> Value:
    """Cosine of x in radians."""

def cosh(x: Operand, /) -> Value:
    """Hyperbolic cosine."""

def erf(x: Operand, /) -> Value:
    """Error function."""

def erfc(x: Operand, /) -> Value:
    """1 - erf(x), exact for large x."""

def exp(x: Operand, /) -> Value:
    """E to the power of x."""

def exp2(x: Operand, /) -> Value:
    """2 to the power of x."""

def expm1(x: Operand, /) -> Value:
    """Exp(x) - 1, exact near 0."""

def fdim(x: Operand, y: Operand, /) -> Value:
    """X - y where that is positive, else 0."""

def floor(x: Operand, /) -> Value:
    """Rounded down."""

def fma(x: Operand, y: Operand, z: Operand, /) -> Value:
    """X y + z, rounded once."""

def fmax(x: Operand, y: Operand, /) -> Value:
    """The greatest that is not NaN."""

def fmin(x: Operand, y: Operand, /) -> Value:
    """The least that is not NaN."""

def fmod(x: Operand, y: Operand, /) -> Value:
    """What is left of x after whole y, with the sign of x."""

def hypot(x: Operand, y: Operand, /) -> Value:
    """Sqrt(x² + y²) without overflow."""

def isfinite(x: Operand, /) -> Value:
    """Whether x is neither."""

def isinf(x: Operand, /) -> Value:
    """Whether x is infinite."""

def isnan(x: Operand, /) -> Value:
    """Whether x is NaN."""

def lgamma(x: Operand, /) -> Value:
    """Logarithm of the size of the gamma function."""

def log(x: Operand, /) -> Value:
    """Natural logarithm."""

def log10(x: Operand, /) -> Value:
    """Logarithm to base 10."""

def log1p(x: Operand, /) -> Value:
    """Log(1 + x), exact near 0."""

def log2(x: Operand, /) -> Value:
    """Logarithm to base 2."""

def popcount(x: Operand, /) -> Value:
    """How many bits are set."""

def pow(x: Operand, y: Operand, /) -> Value:
    """X to the power of y."""

def rint(x: Operand, /) -> Value:
    """Rounded to the nearest, halves to even."""

def round(x: Operand, /) -> Value:
    """Rounded to the nearest, halves away from 0."""

def rsqrt(x: Operand, /) -> Value:
    """1 / sqrt(x)."""

def sigmoid(x: Operand, /) -> Value:
    """1 / (1 + exp(-x))."""

def sin(x: Operand, /) -> Value:
    """Sine of x in radians."""

def sinh(x: Operand, /) -> Value:
    """Hyperbolic sine."""

def sqrt(x: Operand, /) -> Value:
    """Square root."""

def tan(x: Operand, /) -> Value:
    """Tangent of x in radians."""

def tanh(x: Operand, /) -> Value:
    """Hyperbolic tangent."""

def tgamma(x: Operand, /) -> Value:
    """The gamma function."""

def trunc(x: Operand, /) -> Value:
    """Rounded towards 0."""

__all__ = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "copysign",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "popcount",
    "pow",
    "rint",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "tgamma",
    "trunc",
]
