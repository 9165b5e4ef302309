"""Inline PTX (`asm("...")`) as the C++ that it means: a set of common instructions; others stay as they are and are
refused later, by name.

Registers are operands by number, so that every value's type is known by its constraint; a statement becomes one block,
on the same lines of the source.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from weft.from_cuda.ptx_alternatives import write_out_alternatives
from weft.from_cuda.ptx_instructions import INSTRUCTIONS
from weft.from_cuda.ptx_scope import C_TYPES, LETTERS, Scope, Unknown, local_name

_ASM = re.compile(r"\b(?:asm|__asm__|__asm)\b\s*(?:(?:volatile|__volatile__)\s*)?\(")
_STRING = re.compile(r'\s*"((?:[^"\\\n]|\\.)*)"')
_OPERAND = re.compile(r'^\s*(?:\[\w+\]\s*)?"([=+]?)([rlfdhn])"\s*\((.*)\)\s*$', re.DOTALL)
_REGISTERS = re.compile(r"^\.reg\s*\.(\w+)\s+(.*)$", re.DOTALL)


def translate_ptx(text: str) -> str:
    """``text`` with the PTX that is known as C++; lines keep their numbers."""
    if "asm" not in text:
        return text
    text = write_out_alternatives(text)
    out, at = [], 0
    for found in _ASM.finditer(text):
        if found.start() < at:
            continue
        parsed = _read(text, found.end())
        if parsed is None:
            continue
        end, strings, lists = parsed
        try:
            made = _statement(strings, lists)
        except Unknown:
            continue
        semicolon = re.compile(r"\s*;").match(text, end)
        whole = text[found.start() : semicolon.end() if semicolon else end]
        written = f"{{ {made} }}" if semicolon else f"do {{ {made} }} while (0)"
        out += [text[at : found.start()], written, _line_ends(whole)]
        at = found.start() + len(whole)
    return "".join([*out, text[at:]])


def _line_ends(text: str) -> str:
    """The ends of lines in ``text``, in a macro with the sign that it goes on."""
    return "".join("\\\n" if m.group().startswith("\\") else "\n" for m in re.finditer(r"\\?\n", text))


def _read(text: str, at: int) -> tuple[int, str, list[list[str]]] | None:
    """What is between the brackets of an asm: where it ends, its instructions, and its lists of operands."""
    strings = []
    at = _next_text(text, at)
    while found := _STRING.match(text, at):
        strings.append(found[1])
        at = _next_text(text, found.end())
    lists: list[list[str]] = []
    part, depth, in_string = "", 1, False
    while at < len(text):
        letter = text[at]
        in_string ^= letter == '"' and text[at - 1] != "\\"
        depth += 0 if in_string else (letter in "([{") - (letter in ")]}")
        if depth == 0 or (depth == 1 and not in_string and letter in ":,"):
            if lists:
                lists[-1].append(part)
            elif part.strip("\\ \n\t"):
                return None
            if depth == 0:
                return at + 1, "".join(strings), [[p for p in names if p.strip("\\ \n\t")] for names in lists]
            if letter == ":":
                if text[at + 1 : at + 2] == ":":
                    lists.append([])
                    at += 1
                lists.append([])
            part = ""
        else:
            part += letter
        at += 1
    return None


def _next_text(text: str, at: int) -> int:
    """The first place from ``at`` on that is no end of a line, in a macro with the sign that it goes on."""
    found = re.compile(r"(?:[ \t]*\\?\n)*").match(text, at)
    return found.end() if found else at


def _statement(strings: str, lists: Sequence[Sequence[str]]) -> str:
    operands = []
    for text in [*(lists[0] if lists else ()), *(lists[1] if len(lists) > 1 else ())]:
        found = _OPERAND.match(text.replace("\\\n", " "))
        if found is None:
            raise Unknown
        operands.append((LETTERS[found[2]], f"({' '.join(found[3].split())})"))
    scope = Scope(operands)
    body = strings.replace("\\n", " ").replace("\\t", " ").replace("%%", "%")
    body = re.sub(r"//[^;]*$|/\*.*?\*/", "", body)
    made = [_instruction(part.strip(), scope) for part in body.split(";")]
    return " ".join(m for m in made if m)


def _instruction(text: str, scope: Scope) -> str:
    """One instruction; brackets around several open and close a scope, which is the statement's own."""
    while text and (text[0] in "{}" and not re.match(r"\{[^}]*\}", text)):
        text = text[1:].strip()
    if not text or text == "{}":
        return ""
    if declared := _REGISTERS.match(text):
        return _declare(declared[1], declared[2], scope)
    guard = ""
    if guarded := re.match(r"@(!?)(%?\w+)\s+(.*)$", text, re.DOTALL):
        guard = f"if ({guarded[1]}{scope.value(guarded[2], 'pred')}) "
        text = guarded[3]
    name, _, rest = text.partition(" ")
    operands = [o.strip() for o in re.split(r",(?![^{\[]*[}\]])", rest)] if rest.strip() else []
    parts = name.split(".")
    known = INSTRUCTIONS.get(parts[0])
    if known is None:
        raise Unknown
    try:
        made = known(parts[1:], operands, scope)
    except (IndexError, KeyError, StopIteration, ValueError):
        raise Unknown from None
    return f"{guard}{{ {made} }}" if guard else made


def _declare(kind: str, names: str, scope: Scope) -> str:
    made = []
    for name in (n.strip() for n in names.split(",")):
        if "<" in name or kind not in C_TYPES:
            raise Unknown
        scope.registers[name] = kind
        made.append(f"{C_TYPES[kind]} {local_name(name)};")
    return " ".join(made)
