"""Says in words what a syntax error is: what was found, what could have stood there, and the usual slip."""

from __future__ import annotations

import re
from collections.abc import Iterable

from weft.ir.errors import LanguageError
from weft.ir.span import Span
from weft.lang.other_notations import CHOICE, read_other_notation

_WORDS = {
    "NAME": "a name",
    "INT": "an integer",
    "DEF": "`def`",
    "WHERE": "`where`",
    "IN": "`in`",
    "OUTSIDE": "`outside`",
    "EXISTS": "`exists`",
    "LPAR": "`(`",
    "CLOSE": "`)`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "COLON": "`:`",
    "EQUAL": "`=`",
    "ASSIGN": "an assignment such as `+=!`",
    "__ANON_0": "`->`",
}
_OPERATORS = {"ADD", "MINUS", "MULTIPLY", "COMPARE", "QMARK", "EQUIVALENT", "__ANON_1", "__ANON_2"}
_STARTS_OPERAND = {"NAME", "INT", "FLOAT", "MINUS", "NOT", "LPAR"}
_WORDS_ELSEWHERE = {
    "and": "write `&&` for a logical and",
    "or": "write `||` for a logical or",
    "not": "write `!` for a logical not",
    "if": CHOICE,
    "else": CHOICE,
}
#: What a text has at an error, and what its author most likely meant.
_SLIPS: tuple[tuple[str, str], ...] = (
    (r"-=", "there is no `-=`: write `+=` and negate the right side"),
    (r"/=", "there is no `/=`: write `*=` and divide on the right side"),
    (r"\[", "subscripts are written with parentheses: `A(i,j)`"),
    (r"&(?!&)", "write `&&` for a logical and"),
    (r"\|(?!\|)", "write `||` for a logical or"),
    (r"=(?!=)", "write `==` to compare"),
    (r"<-|:=", "write `=` to assign"),
    (r"[\"']", "there are no strings in the language"),
    (r"/\*|//", "a comment starts with `#`"),
    (r"%=|&=|\|=|\^=|<<=|>>=", "the assignments are = += *= min= max= and, with an initial value, +=! *=! min=! max=!"),
)


def syntax_error(span: Span, token: str, expected: Iterable[str], before: str, rest: str) -> LanguageError:
    """The error for ``token`` at ``span``, where only ``expected`` may stand between ``before`` and ``rest``."""
    terminals = set(expected)
    words = describe_expected(terminals)
    what = f"unexpected {describe_found(token)}" if token else "unexpected end of the text"
    advice = read_other_notation(before, rest)
    if advice is not None and advice.what:
        return LanguageError(advice.what, span=span, why=advice.why, help=advice.help)
    help = advice.help if advice else _foreign(before, token, rest) or _missing(token, terminals) or _slip(before, rest)
    return LanguageError(what, span=span, why=f"expected {words} here" if words else None, help=help)


def _foreign(before: str, token: str, rest: str) -> str | None:
    """The way to write what other languages write with a word: it reads as the name of the next statement."""
    word = re.search(r"\b(and|or|not|if|else)\s+\w*$", before) or re.match(r"(and|or|not|if|else)\b", rest)
    if word:
        return _WORDS_ELSEWHERE[word[1]]
    if re.match(r"//|/\*", token + rest[len(token) :]):
        return "a comment starts with `#`"
    range_ = re.search(r"\bwhere\b[^}]*?\b(\w+)\s*=\s*[^=,}]*$", before) if token == ":" else None
    return f"a range is written with `in`: `{range_[1]} in 0:N`" if range_ else None


def _missing(token: str, expected: set[str]) -> str | None:
    """What was left out, where that is plain."""
    if "CLOSE" in expected and token in ("", "}"):
        return "a `)` is missing"
    if "__ANON_0" in expected:
        return "a definition reads `def f(float(N) A) -> (B) { ... }`"
    if "RBRACE" in expected and token in ("", "def"):
        return "the definition is not closed: a `}` is missing"
    if expected <= {"NAME", "TUPLE", "FOR", "SEMICOLON", "RBRACE"} and "TUPLE" in expected and token:
        return "to assign, write `=` or `+=!` between the left side and the value"
    return None


def _slip(before: str, rest: str) -> str | None:
    line = before.splitlines()[-1] if before.strip() else ""
    if re.match(r"\s*for\b", line + rest):
        return "an index variable on the left is a loop; a block of steps reads `for t in 1:T { ... }`"
    if re.match(r"\s*(if|else|return|while)\b", line + rest):
        return "there are no control statements: an index variable on the left is a loop"
    return next((help for pattern, help in _SLIPS if re.match(pattern, rest)), None)


def describe_found(text: str) -> str:
    if text.isprintable() and text.isascii():
        return f"`{text if len(text) <= 40 else text[:37] + '...'}`"
    code = f"character U+{ord(text[0]):04X}"
    return f"{code} `{text[0]}`" if text[0].isprintable() else code


def describe_expected(terminals: set[str]) -> str:
    """The terminals in words; the many that may start or continue an expression count as one."""
    words = []
    rest = set(terminals)
    if {"CLOSE", "WHERE"} <= rest:
        # The lexer's guess before a stray character: it does not know what is open.
        rest = set(_OPERATORS)
    if {"INT", "FLOAT", "NOT"} <= rest:
        words.append("an expression")
        rest -= _STARTS_OPERAND
    elif rest >= _OPERATORS:
        words.append("an operator")
        rest -= _OPERATORS
        if "TUPLE" in rest and "NAME" in rest:
            words.append("the next statement")
            rest -= {"NAME"}
    rest -= {"TUPLE", "FOR", "SEMICOLON", "DOT", "FLOAT", "$END"} | _OPERATORS
    words += sorted((_WORDS.get(t, f"`{t.lower()}`") for t in rest), key=lambda w: (w == "`}`", w))
    return " or ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
