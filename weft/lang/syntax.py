"""Text to syntax, by lark, which is loaded on first use."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from weft.ir.errors import LanguageError
from weft.ir.parse_tables import Grammar
from weft.ir.span import Source
from weft.lang import ast
from weft.lang.reader import Lines, Reader
from weft.lang.syntax_errors import syntax_error
from weft.locks import new_lock

GRAMMAR = Grammar(Path(__file__).with_name("whiteboard.lark"))
_busy = new_lock()


def parse_text(source: Source) -> list[ast.Definition]:
    """The definitions of a text, in order; a `LanguageError` where it is not one."""
    lines = Lines(source)
    definitions = _parse(lines)
    if not definitions:
        raise LanguageError(
            "there is no definition in the text",
            span=lines.span(0, 1) if source.text.strip() else None,
            why="a program is one `def` or several",
            help="write `def name(float(N) A) -> (B) { B(i) = A(i) }`",
        )
    return definitions


def _parse(lines: Lines) -> list[ast.Definition]:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    text = lines.source.text
    try:
        with _busy:
            parser, reader = _parser()
            reader.lines = lines
            definitions: list[ast.Definition] = parser.parse(text)
            return definitions
    except UnexpectedToken as e:
        token = "" if e.token.type == "$END" else str(e.token)
        start = e.token.start_pos if token else len(text.rstrip())
        raise _error(lines, start, token, e.accepts or e.expected) from None
    except UnexpectedCharacters as e:
        raise _error(lines, e.pos_in_stream, text[e.pos_in_stream], e.allowed or ()) from None


def _error(lines: Lines, start: int, token: str, expected: Any) -> LanguageError:
    text = lines.source.text
    span = lines.span(start, start + max(1, len(token)))
    return syntax_error(span, token, expected, text[max(0, start - 200) : start], text[start : start + 80])


@cache
def _parser() -> tuple[Any, Reader]:
    reader = Reader()
    return GRAMMAR.parser(reader), reader
