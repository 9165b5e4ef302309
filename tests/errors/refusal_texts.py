"""The reasons that schedules give for a refusal, read from the source: each as a pattern of its text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import weft

PACKAGES = ("schedules", "poly")
#: Reasons that no program we know of brings about: the beginnings of their texts, and why they are there.
UNSEEN = {
    "it could not be proved that": "questions that neither the solver nor isl answers in time",
    "block `.*?` may write elements of": "likewise",
    "in the concurrent loop": "a second look at the rewritten program",
    "block `.*?` may read what block": "guards of which the first look finds no way beyond the edge",
    "its subscripts use": "blocks cannot use variables that change",
    "a while loop decides which elements": "the statement is in the while loop, which is said first",
    "block `.*?` initializes only some": "what starts less than it updates is found by the question before",
    "the range of `.*?`, .*?, has no known": "which elements are updated is not known then either",
    "the range of `.*?` is read from `.*?`, which": "a range that changes is not one to run through",
    "a test around the statements reads": "a test of data is no guard to split below",
    "isl gave no schedule": "a matter of time",
    "there is a while loop in it": "said by the polyhedral scheduler",
    "a statement outside of blocks has": "said by the polyhedral scheduler",
}
#: Functions whose first argument, or argument of that name, is a reason.
_REFUSING = {"refuse", "refuse_meeting", "check_precedes", "ScheduleError", "NotProjectable", "_wrong", "refuse_change"}
_NAMES = {"reason", "why", "problem"}
#: Shorter ones say too little to be looked for.
_SHORTEST = 8


def is_unseen(pattern: str) -> bool:
    plain = pattern.replace("\\", "")
    return any(plain.startswith(start) for start in UNSEEN)


def reasons() -> Iterator[tuple[str, str]]:
    """Where each is (file and line), and its pattern."""
    root = Path(weft.__file__).parent
    for package in PACKAGES:
        for path in sorted((root / package).glob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for node in {id(n): n for n in _texts(tree)}.values():
                pattern = as_pattern(node)
                if len(re.sub(r"\.\*\?|\\", "", pattern)) >= _SHORTEST:
                    yield f"{package}/{path.name}:{node.lineno}", pattern


def _texts(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in _REFUSING:
            given = [*node.args[:2], *(k.value for k in node.keywords if k.arg in _NAMES)]
            yield from (e for a in given for e in _branches(a))
        elif isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in _NAMES for t in node.targets):
            yield from _branches(node.value)
        elif isinstance(node, ast.FunctionDef) and _may_return_text(node):
            returned = (n.value for n in ast.walk(node) if isinstance(n, ast.Return) and n.value is not None)
            yield from (e for value in returned for e in _branches(value))


def _may_return_text(function: ast.FunctionDef) -> bool:
    """Whether it returns a reason or something else: ``str | None``, ``Stages | str``."""
    declared = "" if function.returns is None else ast.unparse(function.returns)
    return "str" in declared.split(" | ") and " | " in declared


def _branches(e: ast.expr) -> Iterator[ast.expr]:
    """The texts that ``e`` may be."""
    if isinstance(e, ast.IfExp):
        yield from (*_branches(e.body), *_branches(e.orelse))
    elif isinstance(e, ast.BoolOp):
        yield from (x for value in e.values for x in _branches(value))
    elif isinstance(e, ast.JoinedStr) or (isinstance(e, ast.Constant) and isinstance(e.value, str) and " " in e.value):
        yield e


def _name(e: ast.expr) -> str:
    return e.id if isinstance(e, ast.Name) else e.attr if isinstance(e, ast.Attribute) else ""


def as_pattern(e: ast.expr) -> str:
    """A regular expression for what the text may become."""
    if isinstance(e, ast.Constant):
        return re.escape(str(e.value))
    assert isinstance(e, ast.JoinedStr)
    return "".join(re.escape(str(p.value)) if isinstance(p, ast.Constant) else ".*?" for p in e.values)
