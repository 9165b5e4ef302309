"""Text to syntax: the one module that knows lark, which it loads on first use.

Working out parse tables from the grammar takes lark longer than loading them, so they are kept in
``whiteboard.json``; where that file was made by another lark or from another grammar, it is not used.
After a change of the grammar: ``python -m weft.lang.syntax``.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from weft.ir.errors import LanguageError
from weft.ir.span import Source
from weft.lang import ast
from weft.lang.reader import Lines, Reader
from weft.lang.syntax_errors import syntax_error

GRAMMAR = Path(__file__).with_name("whiteboard.lark")
TABLES = Path(__file__).with_name("whiteboard.json")
_busy = Lock()


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
    from lark import Lark

    reader = Reader()
    grammar = GRAMMAR.read_text(encoding="utf-8")
    tables = _load_tables(grammar)
    if tables is not None:
        return Lark._load_from_dict(*tables, transformer=reader), reader
    return Lark(grammar, parser="lalr", transformer=reader), reader


def _stamp(grammar: str) -> str:
    """What the tables depend on."""
    import lark

    return f"lark {lark.__version__} {hashlib.sha256(grammar.encode()).hexdigest()}"


def _load_tables(grammar: str) -> tuple[Any, Any] | None:
    try:
        stored = json.loads(TABLES.read_text(encoding="utf-8"))
        if stored["stamp"] != _stamp(grammar):
            return None
        data, memo = stored["data"], stored["memo"]
        parser = data["parser"]["parser"]
        # JSON knows only strings as keys; lark counts its states and its memo.
        parser["states"] = {int(state): actions for state, actions in parser["states"].items()}
        for actions in parser["states"].values():
            for token in list(actions):
                actions[int(token)] = actions.pop(token)
        parser["tokens"] = {int(number): token for number, token in parser["tokens"].items()}
        return data, {int(key): value for key, value in memo.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def make_tables() -> str:
    """The text of ``whiteboard.json`` for this grammar and this lark."""
    from lark import Lark
    from lark.grammar import Rule
    from lark.lexer import TerminalDef

    grammar = GRAMMAR.read_text(encoding="utf-8")
    data, memo = Lark(grammar, parser="lalr").memo_serialize([TerminalDef, Rule])
    data["options"]["transformer"] = None
    stored = {"stamp": _stamp(grammar), "data": data, "memo": memo}
    return json.dumps(stored, separators=(",", ":"), sort_keys=True) + "\n"


if __name__ == "__main__":
    TABLES.write_text(make_tables(), encoding="utf-8")
