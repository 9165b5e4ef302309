"""Names of a program as C++ identifiers: the same where possible, and never two alike."""

from __future__ import annotations

import re

#: Words that mean something in CUDA C++, and what the prelude and generated code define at the top level.
_TAKEN = frozenset((
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch", "char",
    "class", "compl", "concept", "const", "constexpr", "const_cast", "continue", "decltype", "default", "delete",
    "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for", "friend",
    "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr",
    "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "return",
    "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this",
    "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union", "unsigned", "using", "virtual",
    "void", "volatile", "wchar_t", "while", "xor", "xor_eq", "char8_t", "char16_t", "char32_t", "threadIdx",
    "blockIdx", "blockDim", "gridDim", "warpSize", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "main",
))  # fmt: skip
#: Functions that CUDA C++ declares for us, for float64; those for float32 end in f.
_FUNCTIONS = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh",
    "erf", "erfc", "exp", "exp2", "expm1", "fabs", "fdim", "floor", "fma", "fmax", "fmin", "fmod", "frexp", "hypot",
    "ldexp", "lgamma", "log", "log10", "log1p", "log2", "logb", "max", "min", "modf", "nearbyint", "pow", "remainder",
    "rint", "round", "rsqrt", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc", "memcpy", "memset",
    "clock", "printf", "malloc", "free", "assert",
)  # fmt: skip
_PLAIN = re.compile(r"[^A-Za-z0-9_]")


class Names:
    """Identifiers given out so far; asking for the same name again gives the same identifier."""

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self._by_name: dict[str, str] = {}
        self._given = {*_TAKEN, *reserved, *_FUNCTIONS, *(f"{name}f" for name in _FUNCTIONS)}

    def of(self, name: str) -> str:
        """The identifier of what the program calls ``name``."""
        if name not in self._by_name:
            self._by_name[name] = self.fresh(name)
        return self._by_name[name]

    def fresh(self, hint: str) -> str:
        """An identifier that nothing else has, like ``hint``."""
        plain = plain_identifier(hint)
        found, n = plain, 1
        while found in self._given:
            n += 1
            found = f"{plain}_{n}"
        self._given.add(found)
        self._by_name.setdefault(found, found)
        return found


def plain_identifier(name: str) -> str:
    """``name`` with what C++ does not allow in one replaced; names that start with two underscores are not ours."""
    plain = _PLAIN.sub("_", name)
    if not plain or plain[0].isdigit() or plain.startswith("__"):
        plain = f"x{plain}"
    return plain
