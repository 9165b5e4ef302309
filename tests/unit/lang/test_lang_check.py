"""Listing every error of a text, and getting through any text at all."""

from __future__ import annotations

import random
import re

import pytest

from weft.ir.errors import Error, InternalError
from weft.lang.check import MAX_ERRORS, check_text
from weft.lang.parse import parse_programs
from weft.ops import library


def found(text: str) -> list[tuple[int, str]]:
    return [(e.span.line if e.span else 0, e.what) for e in check_text(text, "f.weft")]


def test_a_program_has_no_errors() -> None:
    for name in library.names():
        assert check_text(library.source(name)[0]) == []


def test_every_wrong_line_is_listed_once() -> None:
    text = """def f(float(N) A) -> (B) {
  B(i) -= A(i)
  B(i) = [3
  B(i) = A(i)
}
def g(float(N) A, float(M) C) -> (B, D, E) {
  B(i) = A(i) + C(j)
  D(i) = foo(A(i))
  E(i) = B(i) + D(i)
}
def h(float(N) A -> (B) { B(i) = A(i) }
def k(floot(N) A) -> (B) { B(i) = A(i) }
def ok(float(N) A) -> (B) { B(i) = A(i) }
"""
    assert found(text) == [
        (2, "unexpected `-`"),
        (3, "unexpected `[`"),
        (7, "`=` with reduction variable `j`"),
        (8, "unknown tensor or function `foo`"),
        (11, "unexpected `->`"),
        (12, "unknown type `floot`"),
    ]


def test_what_depends_on_an_error_is_not_reported() -> None:
    text = "def f(float(N) A) -> (B) {\n T(i) = nope(A(i))\n B(i) = T(i)\n}"
    assert found(text) == [(2, "unknown tensor or function `nope`")]


def test_carets_are_in_the_whole_text() -> None:
    (first, second) = check_text("def f(float(N) A) -> (B) {\n  B(i) = [\n  B(i) = ]\n}")
    assert first.span is not None
    assert second.span is not None
    assert "B(i) = ]" in second.span.source.line(second.span.line)


def test_definitions_of_the_same_name() -> None:
    text = "def f(float(N) A) -> (B) { B(i) = A(i) }\ndef f(float(N) A) -> (B) { B(i) = A(i) }"
    assert found(text) == [(2, "`f` is defined twice")]


GARBAGE = {
    "nothing": "",
    "zeros": "\0" * 1000,
    "latin": "\xff\xfe" * 500,
    "braces": "{" * 20_000,
    "defs": "def " * 10_000,
    "open": "def f(float(N) A) -> (B) { B(i) = A(i) " + "(" * 20_000,
    "ternaries": "def f(float(N) A) -> (B) { B(i) = " + "A(i) ? " * 3000 + "1" + ": 2" * 3000 + " }",
    "digits": "def f(float(N) A) -> (B) { B(i) = " + "9" * 50_000 + " }",
    "hex": "def f(float(N) A) -> (B) { B(i) = 0x" + "f" * 50_000 + " }",
    "exponent": "def f(float(N) A) -> (B) { B(i) = 1e" + "9" * 5000 + " }",
    "subscripts": "def f(float(N) A) -> (B) { B(i) = A(" + "i," * 5000 + "i) }",
    "overflow": "def f(float(N) A) -> (B) { B(i) = A(i + 9223372036854775807 + 5) }",
    "size": "def f(float(9223372036854775808) A) -> (B) { B(i) = A(i) }",
    "doubling": "def f(float(N) A) -> (B) { B(i) = A(i) * a0 where "
    + ", ".join(f"a{k} = a{k + 1} + a{k + 1}" for k in range(60))
    + ", a60 = 1 }",
    "separators": "\u2028def f(float(N) A) -> (B) {\u2028 B(i) = A(i) + C }",
    "tuple": "def f(float(N) A) -> (B) { (" + "a," * 10_000 + "b) = f(A) }",
    "lines": "def f(float(N) A) -> (B) {\n" + "]\n" * 500 + "}",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_a_short_error(name: str) -> None:
    errors = check_text(GARBAGE[name])
    assert 0 < len(errors) <= MAX_ERRORS
    with pytest.raises(Error) as caught:
        parse_programs(GARBAGE[name])
    assert not isinstance(caught.value, InternalError)
    assert len(str(caught.value)) < 1000


def mutations(count: int) -> list[str]:
    """Library texts with tokens changed, dropped, doubled and swapped."""
    rng = random.Random(5)
    texts = [re.findall(r"\w+|\s+|[^\w\s]", library.source(name)[0]) for name in library.names()]
    pool = sorted({token for tokens in texts for token in tokens})
    pool += ["argmin=!", "-1", "3.5", "1e999", "true", "outside", "exists", "bool", "uint64", "//", "?", "\0", "A.9"]
    made = []
    for _ in range(count):
        tokens = list(rng.choice(texts))
        for _ in range(rng.randint(1, 4)):
            i, j = rng.randrange(len(tokens)), rng.randrange(len(tokens))
            tokens[i] = rng.choice([rng.choice(pool), "", tokens[j], tokens[i] * 2])
        made.append("".join(tokens))
    return made


def test_damaged_programs_parse_or_give_an_error_with_a_place() -> None:
    for text in mutations(250):
        for error in check_text(text):
            assert not isinstance(error, InternalError), text
            assert error.span is not None, (text, str(error))
