"""What people write who know Python, numpy, C or a textbook, and how the language writes it."""

from __future__ import annotations

import re
from typing import NamedTuple

from weft.ir.errors import did_you_mean
from weft.lang.builtins import builtin_names, find_builtin

CHOICE = "write `condition ? a : b`"
#: What numpy has functions for and a statement's assignment does here.
REDUCTIONS = {
    name: f"the assignment reduces: `S(i) {op} A(i,j)`, over the variables that are only on the right"
    for name, op in {"sum": "+=!", "prod": "*=!", "mean": "+=!", "argmin": "argmin=!", "argmax": "argmax=!"}.items()
}
#: Names that stand for something elsewhere, and nothing here.
FOREIGN_NAMES = {
    **REDUCTIONS,
    "not": "write `!` for a logical not",
    "ln": "write `log(x)`, the natural logarithm",
    "range": "a range is written with `where`: `where i in 0:N`",
    "dot": "a product of matrices is a sum: `C(i,j) +=! A(i,k) * B(k,j)`",
    "matmul": "a product of matrices is a sum: `C(i,j) +=! A(i,k) * B(k,j)`",
    **dict.fromkeys(("select", "if_then_else", "Select", "cond", "ifelse"), CHOICE),
    **dict.fromkeys(("clip", "clamp"), "write `min(max(x, low), high)`"),
    "True": "write `true`",
    "False": "write `false`",
    "None": "leave it out: every element has a value",
}
_MODULES = r"(np|numpy|math|cmath|torch|nn|F|tf|jnp|jax|cp|cupy|scipy|keras|mx|tl|T|te|hl)"
_OPERAND = r"[A-Za-z_]\w*\s*\([^()]*\)"


class Advice(NamedTuple):
    """What to say of a slip; without ``what`` and ``why`` these are the parser's."""

    help: str
    what: str | None = None
    why: str | None = None


#: What stands before and at the place where the parser stopped, and what to write.
_SLIPS: tuple[tuple[str, str, str], ...] = (
    (r"\*\s*$", r"\*", "there is no `**`: write `pow(x, y)`"),
    (r"!=\s*$", r"=", "write `!=` to compare"),
    (r"=$", r"=", "write one `=` to assign; `==` compares two values"),
    (r"<$", r">", "write `!=` to compare"),
    (r"", r"\^", "write `pow(x, y)` for a power, `bit_xor(x, y)` for bits"),
    (r"", r"@", "a product of matrices is a sum: `C(i,j) +=! A(i,k) * B(k,j)`"),
    (r"", r"where\s*\(", CHOICE + "; `where` gives ranges, after the value"),
    (r"=\s*if\b[^\n]*$", r"", CHOICE),
    (r"\blambda\b[^\n]*$", r"", "there are no functions of your own inside a statement: write the value itself"),
    (r"[(,]\s*[\w+*-]*$", r":", "there are no slices: an index variable takes all, as `i` in `B(i) = A(i)`"),
    (r"[=+\-*/(,?:]\s*$", r"\|(?!\|)", "write `abs(x)`"),
    (rf"(\d){_OPERAND}\s*$", r"", "a product is written with `*`"),
    (r"", r"[²³]", "write `x * x`, or `pow(x, y)`"),
    (r"", r"[×·⋅∗]", "write `*`"),
    (r"", r"[−–]", "write `-`"),
    (r"", r"[÷∕]", "write `/`"),
    (r"", r"[≤≥≠]", "write `<=`, `>=` or `!=`"),
    (r"", r"[∑Σ∏]", REDUCTIONS["sum"]),
    (r"", r"√", "write `sqrt(x)`"),
)


def read_other_notation(before: str, rest: str) -> Advice | None:
    """What the author of ``before`` and ``rest`` meant, where the parser stopped between them."""
    return _attribute(before, rest) or _bare_argument(before) or _slip(before, rest)


def _slip(before: str, rest: str) -> Advice | None:
    return next(
        (Advice(help) for left, right, help in _SLIPS if re.search(left, before) and re.match(right, rest)), None
    )


def _attribute(before: str, rest: str) -> Advice | None:
    """A function of a module, or of an array as Python has them."""
    owner = re.search(r"(\w+|\))\s*\.$", before) if re.match(r"[A-Za-z_]", rest) else re.search(r"(\))$", before)
    named = re.match(r"\.?\s*((?:\w+\.)*)([A-Za-z_]\w*)", rest)
    if owner is None or named is None or (owner[1] == ")" and not before.endswith(".") and not rest.startswith(".")):
        return None
    name = named[2]
    if re.fullmatch(_MODULES, owner[1]) and name != "T":
        return Advice(
            f"write `{find_builtin(name)}(x)`" if find_builtin(name) else _instead_of(name),
            f"there is no module `{'.'.join([owner[1], named[1]]).rstrip('.')}`",
            "functions are the language's own and written bare",
        )
    if name in ("T", "transpose", "mT", "H", "t"):
        return Advice("write its subscripts in the other order: `A(j,i)`", "an array has no attributes", None)
    help = f"write `{name}(x)`" if find_builtin(name) else _instead_of(name)
    return Advice(help, f"an array has no method `{name}`", "functions are written before their argument")


def _instead_of(name: str) -> str:
    hint = FOREIGN_NAMES.get(name) or did_you_mean(name, builtin_names())
    return hint or "write the formula itself, element by element"


def _bare_argument(before: str) -> Advice | None:
    """A function without parentheses reads as the value, and its argument as the next statement."""
    call = re.search(rf"=\s*([a-z]\w*)[ \t]+({_OPERAND})\s*$", before)
    if call is None or find_builtin(call[1]) is None:
        return None
    return Advice(f"write `{call[1]}({call[2]})`")
