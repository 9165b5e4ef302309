"""The page that `weft trace` writes: one self-contained HTML file, a step beside the one before it."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

#: Unchanged lines shown around a change; the rest can be unfolded.
CONTEXT = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The program after a step; ``kind`` groups steps, ``fresh`` ones are not compared with what came before."""

    kind: str
    title: str
    text: str
    seconds: float | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """A line on the left, one on the right, or both; ``tag`` is that of `difflib`."""

    tag: str
    left: str
    right: str


def fold_idle(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """``snapshots`` with neighbours of one kind that change nothing as one."""
    folded: list[Snapshot] = []
    idle: list[Snapshot] = []
    for before, s in zip((None, *snapshots), snapshots):
        is_idle = before is not None and not s.fresh and s.text == before.text
        if idle and not (is_idle and s.kind == idle[0].kind):
            folded.append(_together(idle))
            idle = []
        (idle if is_idle else folded).append(s)
    return [*folded, _together(idle)] if idle else folded


def _together(idle: Sequence[Snapshot]) -> Snapshot:
    seconds = sum(s.seconds or 0.0 for s in idle)
    return replace(idle[0], title=", ".join(s.title for s in idle), seconds=seconds)


def diff_rows(before: str, after: str) -> list[Row]:
    """Two texts side by side, changed stretches line against line."""
    old, new = before.splitlines(), after.splitlines()
    rows: list[Row] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left, right = old[a:b], new[c:d]
        for n in range(max(len(left), len(right))):
            rows.append(Row(tag, left[n] if n < len(left) else "", right[n] if n < len(right) else ""))
    return rows


def emit_page(title: str, machine: str, snapshots: Sequence[Snapshot]) -> str:
    """The page for ``snapshots``, in order; steps that change nothing are one line."""
    name = html.escape(title)
    steps = len(snapshots)
    snapshots = fold_idle(snapshots)
    entries = "\n".join(_entry(n, s, _changed(snapshots, n)) for n, s in enumerate(snapshots))
    sections = "\n".join(_section(n, snapshots) for n in range(len(snapshots)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
        f"<style>{_STYLE}</style></head><body>\n"
        f"<nav><h1>{name}</h1><p>{html.escape(machine)} &middot; {steps} steps &middot; keys j, k</p>\n"
        f"<ol start=0>{entries}</ol></nav>\n<main>{sections}</main>\n<script>{_SCRIPT}</script></body></html>\n"
    )


def _changed(snapshots: Sequence[Snapshot], n: int) -> int | None:
    """How many lines differ from the step before; None where that says nothing."""
    if n == 0 or snapshots[n].fresh:
        return None
    rows = diff_rows(snapshots[n - 1].text, snapshots[n].text)
    return sum(r.tag != "equal" for r in rows)


def _entry(n: int, s: Snapshot, changed: int | None) -> str:
    note = "" if changed is None else " same" if changed == 0 else f" &plusmn;{changed}"
    still = " still" if changed == 0 else ""
    return f'<li class="{s.kind}{still}"><a href="#s{n}">{html.escape(s.title)}</a><small>{note}</small></li>'


def _section(n: int, snapshots: Sequence[Snapshot]) -> str:
    s = snapshots[n]
    took = "" if s.seconds is None else f" <small>{s.seconds * 1e3:.2f} ms</small>"
    head = f'<section id="s{n}"><h2><span class="{s.kind}">{s.kind}</span> {html.escape(s.title)}{took}</h2>'
    if n == 0 or s.fresh:
        return f"{head}<pre>{html.escape(s.text)}</pre></section>"
    before = snapshots[n - 1].text
    if before == s.text:
        return f"{head}<p>changes nothing here</p></section>"
    table = "".join(_emit_rows(diff_rows(before, s.text)))
    whole = f"<details><summary>the whole program</summary><pre>{html.escape(s.text)}</pre></details>"
    return f"{head}<table>{table}</table>{whole}</section>"


def _emit_rows(rows: list[Row]) -> Iterator[str]:
    """Changed rows with some lines around them; longer stretches in between become one line."""
    changed = [n for n, r in enumerate(rows) if r.tag != "equal"]
    near = {m for n in changed for m in range(n - CONTEXT, n + CONTEXT + 1)}
    hidden = 0
    for n, r in enumerate(rows):
        if n not in near:
            hidden += 1
            continue
        if hidden:
            yield _gap(hidden)
            hidden = 0
        left, right = _marked(r)
        yield f'<tr class="{r.tag}"><td>{left}</td><td>{right}</td></tr>'
    if hidden:
        yield _gap(hidden)


def _gap(lines: int) -> str:
    return f'<tr class="gap"><td colspan=2>{lines} equal line{"s" * (lines != 1)}</td></tr>'


def _marked(r: Row) -> tuple[str, str]:
    """Both sides with what differs within a changed line marked."""
    if r.tag != "replace" or not (r.left and r.right):
        return html.escape(r.left), html.escape(r.right)
    matcher = difflib.SequenceMatcher(None, r.left, r.right, autojunk=False)
    left: list[str] = []
    right: list[str] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        for parts, text in ((left, r.left[a:b]), (right, r.right[c:d])):
            shown = html.escape(text)
            parts.append(shown if tag == "equal" or not text else f"<mark>{shown}</mark>")
    return "".join(left), "".join(right)


_STYLE = """
body { margin: 0; display: flex; font: 14px/1.45 system-ui, sans-serif; color: #1c1c1c; background: #fff; }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 21rem; padding: 1rem; box-sizing: border-box;
      background: #f6f6f4; border-right: 1px solid #ddd; }
nav h1 { font: 600 14px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; margin: 0; }
nav p, small { color: #777; } nav ol { padding-left: 1.8rem; } nav li { margin: .15rem 0; overflow-wrap: anywhere; }
nav a { color: inherit; text-decoration: none; font-family: ui-monospace, monospace; font-size: 12.5px; }
nav a:hover { text-decoration: underline; } nav li.still a { color: #aaa; } nav small { margin-left: .4rem; }
main { flex: 1; min-width: 0; padding: 0 1.5rem 60vh; }
h2 { font-size: 15px; margin: 1.6rem 0 .5rem; font-family: ui-monospace, monospace; }
h2 span { font: 11px system-ui, sans-serif; padding: .1rem .45rem; border-radius: 1rem; background: #e4e4e0; }
h2 .schedule { background: #dbe9ff; } h2 .pass { background: #e8dcf8; } h2 .code { background: #ffe9c9; }
table { width: 100%; border-collapse: collapse; table-layout: fixed; border: 1px solid #ddd; }
td, pre { font: 12.5px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; }
td { width: 50%; padding: 0 .6rem; vertical-align: top; height: 1.45em; } td + td { border-left: 1px solid #ddd; }
pre { border: 1px solid #ddd; padding: .6rem; max-height: 80vh; overflow: auto; margin: .3rem 0; }
tr.replace td, tr.delete td:first-child { background: #fff0ee; }
tr.replace td + td, tr.insert td + td { background: #eefaee; }
tr.gap td { color: #999; text-align: center; background: #fafafa; font-size: 11px; }
mark { background: #ffd2cb; } td + td mark { background: #b9e8b9; } summary { color: #777; cursor: pointer; }
@media (prefers-color-scheme: dark) {
  body { background: #17181a; color: #ddd; } nav { background: #1e2023; border-color: #333; }
  table, pre, td + td { border-color: #333; } tr.replace td, tr.delete td:first-child { background: #3a2322; }
  tr.replace td + td, tr.insert td + td { background: #1e3323; } tr.gap td { background: #1b1c1f; }
  mark { background: #7a3a34; color: inherit; } td + td mark { background: #2f6b3a; } h2 span { color: #222; }
}
"""

_SCRIPT = """
addEventListener("keydown", event => {
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const sections = [...document.querySelectorAll("section")];
  const here = sections.filter(s => s.getBoundingClientRect().top < 20).length - 1;
  const next = sections[Math.max(0, Math.min(sections.length - 1, here + step))];
  if (next) next.scrollIntoView();
});
"""
