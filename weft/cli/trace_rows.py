"""Two texts side by side: lines that belong together in one row, and the words that differ in them."""

from __future__ import annotations

import difflib
import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: Lines of a changed stretch on both sides, multiplied, beyond which they are paired in order.
_MOST = 10_000
#: The share of words that two lines have in common from which on they are one line that changed.
_ALIKE = 0.5
_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Row:
    """A line on the left, one on the right, or both; ``tag`` is that of `difflib`."""

    tag: str
    left: str
    right: str


def diff_rows(before: str, after: str) -> list[Row]:
    """Two texts side by side, changed lines against what they were."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[Row] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "replace":
            rows += _replaced(old[a:b], new[c:d])
        else:
            rows += [Row(tag, line, line if tag == "equal" else "") for line in old[a:b]]
            rows += [Row(tag, "", line) for line in new[c:d] if tag == "insert"]
    return rows


def _replaced(old: Sequence[str], new: Sequence[str]) -> Iterator[Row]:
    """The rows of a changed stretch: lines that are alike together, the others by themselves."""
    pairs = _pairs(old, new)
    at_old = at_new = 0
    for i, j in [*pairs, (len(old), len(new))]:
        yield from (Row("delete", line, "") for line in old[at_old:i])
        yield from (Row("insert", "", line) for line in new[at_new:j])
        if i < len(old):
            yield Row("replace", old[i], new[j])
        at_old, at_new = i + 1, j + 1


def _pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Which lines belong together: in order, and as alike as can be in all."""
    if len(old) * len(new) > _MOST:
        return [(n, n) for n in range(min(len(old), len(new)))]
    words = [[Counter(w for w in _WORDS.findall(line) if not w.isspace()) for line in lines] for lines in (old, new)]
    gains = [[_gain(a, b) for b in words[1]] for a in words[0]]
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], gains[i][j] + best[i + 1][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(old) and j < len(new):
        if gains[i][j] > 0 and best[i][j] == gains[i][j] + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def _gain(old: Counter[str], new: Counter[str]) -> float:
    share = 2 * (old & new).total() / max(1, old.total() + new.total())
    return share if share >= _ALIKE else 0.0


def marked(row: Row) -> tuple[str, str]:
    """Both sides as HTML, with the words that differ within a changed line marked."""
    if row.tag != "replace":
        return html.escape(row.left), html.escape(row.right)
    old, new = _WORDS.findall(row.left), _WORDS.findall(row.right)
    left: list[str] = []
    right: list[str] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for parts, text in ((left, "".join(old[a:b])), (right, "".join(new[c:d]))):
            shown = html.escape(text)
            space = len(shown) - len(shown.lstrip())
            is_same = tag == "equal" or not text.strip()
            parts.append(shown if is_same else f"{shown[:space]}<mark>{shown[space:]}</mark>")
    return "".join(left), "".join(right)
