"""LLVM text in short, as the runtime's own machine code is written.

LLVM's own text, with ``$names`` filled in and two things said in one line that take LLVM two:

    %x = load i64, %base + 8                    ; the address in bytes; also of a store
    %x = load i64, %base[%i]                    ; or in elements
    br i64 %n sle 0, label %none, label %some   ; a branch on a comparison
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from string import Template

_ACCESS = re.compile(
    r"^  (?:(?P<name>%\S+) = load (?P<type>\w+)|store (?P<stored>\w+) (?P<value>\S+)), "
    r"(?P<base>[%@][\w.]+)(?: \+ (?P<bytes>\S+)|\[(?P<index>\S+)\])$",
    re.MULTILINE,
)
_BRANCH = re.compile(
    r"^  br (?P<type>\w+) (?P<left>[^\s,]+) (?P<how>[a-z]+) (?P<right>[^\s,]+), (?P<labels>label .*)$", re.MULTILINE
)


def expand(text: str, values: Mapping[str, object]) -> str:
    """``text`` as LLVM reads it."""
    numbers = itertools.count()

    def access(m: re.Match[str]) -> str:
        kind, at = m["type"] or m["stored"], f"%at.{next(numbers)}"
        step, offset = ("i8", m["bytes"]) if m["bytes"] else (kind, m["index"])
        what = f"{m['name']} = load {kind}," if m["name"] else f"store {kind} {m['value']},"
        return f"  {at} = getelementptr {step}, ptr {m['base']}, i64 {offset}\n  {what} ptr {at}"

    def branch(m: re.Match[str]) -> str:
        test = f"%test.{next(numbers)}"
        return f"  {test} = icmp {m['how']} {m['type']} {m['left']}, {m['right']}\n  br i1 {test}, {m['labels']}"

    filled = Template(text).substitute({name: str(value) for name, value in values.items()})
    return _BRANCH.sub(branch, _ACCESS.sub(access, filled))
