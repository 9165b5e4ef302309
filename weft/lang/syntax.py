"""Text to syntax: the one module that knows lark, which it loads on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from weft.ir.errors import LanguageError
from weft.ir.span import Source
from weft.lang import ast
from weft.lang.reader import Lines, Reader
from weft.lang.syntax_errors import syntax_error

GRAMMAR = Path(__file__).with_name("whiteboard.lark")


@cache
def _parser() -> tuple[Any, Reader]:
    from lark import Lark

    reader = Reader()
    return Lark(GRAMMAR.read_text(encoding="utf-8"), parser="lalr", transformer=reader), reader


def parse_text(source: Source) -> list[ast.Definition]:
    """The definitions of a text, in order; a `LanguageError` where it is not one."""
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    parser, reader = _parser()
    reader.lines = lines = Lines(source)
    try:
        definitions: list[ast.Definition] = parser.parse(source.text)
    except UnexpectedToken as e:
        found = "" if e.token.type == "$END" else str(e.token)
        start = len(source.text.rstrip()) if not found else e.token.start_pos
        raise _error(lines, start, found, e.accepts or e.expected) from None
    except UnexpectedCharacters as e:
        raise _error(lines, e.pos_in_stream, source.text[e.pos_in_stream], e.allowed or ()) from None
    if not definitions:
        raise LanguageError(
            "there is no definition in the text",
            span=lines.span(0, 1) if source.text.strip() else None,
            why="a program is one `def` or several",
            help="write `def name(float(N) A) -> (B) { B(i) = A(i) }`",
        )
    return definitions


def _error(lines: Lines, start: int, found: str, expected: Any) -> LanguageError:
    text = lines.source.text
    return syntax_error(lines.span(start, start + max(1, len(found))), found, expected, text[start : start + 80])
