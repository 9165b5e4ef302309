"""Everything wrong with a text, not only the first thing."""

from __future__ import annotations

import re

from weft.ir.errors import Error, LanguageError
from weft.ir.span import Source, Span
from weft.lang import ast
from weft.lang.elaborate import Elaborator
from weft.lang.syntax import parse_text

#: A text with more errors than this is not one a reader wants listed.
MAX_ERRORS = 50


def check_text(text: str, name: str = "<define>") -> list[Error]:
    """The errors of a text in the order of its lines; an empty list where it is a program.

    After a syntax error the line it is on is left out and reading goes on; definitions with syntax
    errors are not checked further, and statements that use what a wrong one should have made are not either.
    """
    source = Source(name, text)
    errors, definitions = _syntax(source)
    damaged = {_definition_at(text, e.span.line) for e in errors if e.span is not None}
    named: dict[str, ast.Definition] = {}
    for d in definitions:
        if d.name.text in named:
            errors.append(LanguageError(f"`{d.name.text}` is defined twice", span=d.name.span))
        named.setdefault(d.name.text, d)
    for d in named.values():
        if _definition_at(text, d.name.span.line) not in damaged:
            errors += _check_definition(named, source, d)
    unique = {str(e): e for e in errors}
    return sorted(unique.values(), key=lambda e: e.span.line if e.span else 0)[:MAX_ERRORS]


def _check_definition(named: dict[str, ast.Definition], source: Source, definition: ast.Definition) -> list[Error]:
    errors: list[Error] = []
    try:
        Elaborator(named, source, errors=errors).program(definition)
    except Error as e:
        # What the statements that were left out should have made is missing: no news.
        if not errors:
            errors.append(e)
    return errors


def _syntax(source: Source) -> tuple[list[Error], list[ast.Definition]]:
    errors: list[Error] = []
    text = source.text
    while len(errors) < MAX_ERRORS:
        try:
            return errors, parse_text(Source(source.name, text))
        except LanguageError as e:
            if errors and not re.search(r"\bdef\b", text):
                break
            errors.append(_relocated(e, source))
            shorter = _without_line(text, e)
            if shorter == text:
                break
            text = shorter
    return errors, []


def _relocated(error: LanguageError, source: Source) -> LanguageError:
    """The error with its caret in the whole text, lines that were left out included."""
    if error.span is None:
        return error
    span = Span(source, error.span.line, error.span.column, error.span.end)
    return LanguageError(error.what, span=span, why=error.why, help=error.help, notes=error.notes)


def _without_line(text: str, error: LanguageError) -> str:
    """The text with the wrong line blanked, or the whole definition where the line holds its frame."""
    if error.span is None:
        return text
    lines = text.splitlines(keepends=True)
    at = min(error.span.line, len(lines)) - 1
    if at < 0:
        return text
    if not re.search(r"[{}]|\bdef\b", lines[at]):
        return "".join([*lines[:at], _blank(lines[at]), *lines[at + 1 :]])
    first = next((i for i in range(at, -1, -1) if re.match(r"\s*def\b", lines[i])), 0)
    last = next((i for i in range(at + 1, len(lines)) if re.match(r"\s*def\b", lines[i])), len(lines))
    return "".join([*lines[:first], *map(_blank, lines[first:last]), *lines[last:]])


def _blank(line: str) -> str:
    return "\n" if line.endswith(("\n", "\r")) else ""


def _definition_at(text: str, line: int) -> int:
    """How many definitions start up to ``line``: which one it belongs to."""
    return len(re.findall(r"^\s*def\b", "\n".join(text.splitlines()[:line]), re.MULTILINE))
