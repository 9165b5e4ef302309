"""Inline PTX of which the preprocessor chooses parts: ``asm("..." #if A "ld.x" #else "ld.y" #endif "...")``.

Each choice is written out as a statement of its own between the same lines of the preprocessor, so that what reads
statements meets none inside.
"""

from __future__ import annotations

import itertools
import re

_OPENS = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\s*)?\(")
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def write_out_alternatives(text: str) -> str:
    """``text`` in which no directive stands within an asm; lines keep their numbers."""
    out, at = [], 0
    for found in _OPENS.finditer(text):
        end = _end(text, found.end())
        if found.start() < at or end is None or not _DIRECTIVE.search(text, found.end(), end):
            continue
        made = _written_out(text[found.start() : end])
        if made is not None:
            out += [text[at : found.start()], made]
            at = end
    return "".join([*out, text[at:]])


def _end(text: str, at: int) -> int | None:
    """Behind the semicolon of a statement whose bracket opened before ``at``."""
    depth = 1
    while at < len(text) and depth:
        if string := _STRING.match(text, at):
            at = string.end()
            continue
        depth += (text[at] == "(") - (text[at] == ")")
        at += 1
    semicolon = re.compile(r"\s*;").match(text, at)
    return semicolon.end() if semicolon else None


def _written_out(statement: str) -> str | None:
    directives = list(_DIRECTIVE.finditer(statement))
    kinds = [d[1] for d in directives]
    if not kinds[0].startswith("if") or kinds[-1] != "endif" or any(k not in ("elif", "else") for k in kinds[1:-1]):
        return None  # several choices, or one within another
    before, after = statement[: directives[0].start()], statement[directives[-1].end() :]
    choices = [(d[0], statement[d.end() : e.start()]) for d, e in itertools.pairwise(directives)]
    if "else" not in kinds:
        choices.append(("#else", ""))
    lines = [line for told, part in choices for line in (told, " ".join(f"{before}{part}{after}".split()))]
    made = "\n".join(["", *lines, directives[-1][0], ""])
    left = statement.count("\n") - made.count("\n")
    return made + "\n" * left if left >= 0 else None
