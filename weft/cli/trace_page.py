"""The page that `weft trace` writes: one self-contained HTML file, a step beside the one before it."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from weft.cli.trace_rows import Row, diff_rows, marked

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


def emit_page(title: str, machine: str, snapshots: Sequence[Snapshot]) -> str:
    """The page for ``snapshots``, in order; steps that change nothing are one line."""
    name = html.escape(title)
    steps, times = len(snapshots), "".join(_times(snapshots))
    snapshots = fold_idle(snapshots)
    entries = "\n".join(_entry(n, s, _changed(snapshots, n)) for n, s in enumerate(snapshots))
    sections = "\n".join(_section(n, snapshots) for n in range(len(snapshots)))
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style></head><body>\n"
        f"<nav><h1>{name}</h1><p>{html.escape(machine)} &middot; {steps} steps<span> &middot; keys j, k</span></p>\n"
        f"<table>{times}</table>\n<details open><summary>steps</summary><ol start=0>{entries}</ol></details></nav>\n"
        f"<main>{sections}</main>\n<script>{_SCRIPT}</script></body></html>\n"
    )


#: What the stages are called where their times are told.
_STAGES = {"front": "to loops", "graph": "graph", "schedule": "schedule", "pass": "passes", "code": "code"}


def _times(snapshots: Sequence[Snapshot]) -> Iterator[str]:
    """A row for each stage: how long it took, and a bar of its share."""
    spent: dict[str, float] = {}
    for s in snapshots:
        if s.seconds is not None:
            spent[s.kind] = spent.get(s.kind, 0.0) + s.seconds
    for kind, seconds in spent.items():
        share = 100 * seconds / (sum(spent.values()) or 1.0)
        bar = f'<div class="{kind}" style="width: {max(share, 1):.0f}%"></div>'
        cells = f"<th>{_STAGES.get(kind, kind)}</th><td>{seconds * 1e3:.1f} ms</td><td>{bar}</td>"
        yield f"<tr>{cells}</tr>"


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
        left, right = marked(r)
        yield f'<tr class="{r.tag}"><td>{left}</td><td>{right}</td></tr>'
    if hidden:
        yield _gap(hidden)


def _gap(lines: int) -> str:
    return f'<tr class="gap"><td colspan=2>{lines} equal line{"s" * (lines != 1)}</td></tr>'


_STYLE = """
:root { --page: #fff; --ink: #1c1c1c; --side: #f6f6f4; --line: #ddd; --faint: #767676; --gone: #fff0ee; --new: #eefaee;
        --gone-word: #ffc4ba; --new-word: #a9e3a9; --front: #e4e4e0; --schedule: #cfe1ff; --pass: #e3d3f8;
        --code: #ffe2b3; --graph: #d5eedb; --kernel: #fbd7e5; }
@media (prefers-color-scheme: dark) {
  :root { --page: #17181a; --ink: #ddd; --side: #1e2023; --line: #333; --faint: #8f8f8f; --gone: #351f1e;
          --new: #1b2e20; --gone-word: #7a3a34; --new-word: #2f6b3a; --front: #3b3b38; --schedule: #25416e;
          --pass: #47305f; --code: #5d4520; --graph: #244b31; --kernel: #5b2a40; } }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; display: flex; font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; flex: 0 0 21rem; padding: 1rem; box-sizing: border-box;
      background: var(--side); border-right: 1px solid var(--line); }
nav h1 { font: 600 14px/1.4 ui-monospace, monospace; overflow-wrap: anywhere; margin: 0; }
nav p, small, summary { color: var(--faint); } nav ol { padding-left: 1.8rem; margin: .4rem 0; }
nav li { margin: .15rem 0; overflow-wrap: anywhere; } summary { cursor: pointer; padding: .2rem 0; }
nav a { color: inherit; text-decoration: none; font-family: ui-monospace, monospace; font-size: 12.5px; }
nav a:hover { text-decoration: underline; } nav li.still a { color: var(--faint); } nav small { margin-left: .4rem; }
nav table { width: 100%; border-collapse: collapse; margin: .6rem 0; font-size: 12px; }
nav th { font-weight: normal; text-align: left; } nav td:nth-child(2) { text-align: right; padding: 0 .5rem; }
nav td:nth-child(3) { width: 45%; } nav td div { height: .7rem; border-radius: 2px; }
nav th, nav td { white-space: nowrap; }
main { flex: 1; min-width: 0; padding: 0 1.5rem 60vh; }
h2 { font: 600 15px/1.4 ui-monospace, monospace; margin: 1.6rem 0 .5rem; overflow-wrap: anywhere; }
h2 small { font-weight: normal; }
h2 span { font: 11px system-ui, sans-serif; padding: .1rem .45rem; border-radius: 1rem; }
span, div { background: var(--front); } p span { background: none; }
.schedule { background: var(--schedule); } .pass { background: var(--pass); } .code { background: var(--code); }
.graph { background: var(--graph); } .kernel { background: var(--kernel); } li { background: none !important; }
main table { width: 100%; border-collapse: collapse; table-layout: fixed; border: 1px solid var(--line); }
main td, pre { font: 12.5px/1.45 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; tab-size: 4; }
main td { width: 50%; padding: 0 .6rem; vertical-align: top; height: 1.45em; }
main td + td { border-left: 1px solid var(--line); }
pre { border: 1px solid var(--line); padding: .6rem; max-height: 80vh; overflow: auto; margin: .3rem 0; }
tr.replace td, tr.delete td:first-child { background: var(--gone); }
tr.replace td + td, tr.insert td + td { background: var(--new); }
tr.gap td { color: var(--faint); text-align: center; background: var(--side); font-size: 11px; }
mark { background: var(--gone-word); color: inherit; border-radius: 2px; } td + td mark { background: var(--new-word); }
@media (max-width: 800px) {
  body { display: block; } main { padding: 0 .7rem 40vh; } h2 { scroll-margin-top: .5rem; }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line); padding: .7rem; }
  nav p span { display: none; }
  nav ol { max-height: 45vh; overflow: auto; } nav a { font-size: 14px; line-height: 1.7; }
  main table, main tbody, main tr, main td { display: block; width: auto; }
  main td { border: 0 !important; height: auto; padding: 0 .5rem; } main td:empty { display: none; }
  tr.equal td + td { display: none; } tr.replace td, tr.delete td, tr.insert td { padding-left: 1.4rem; }
  tr.replace td::before, tr.delete td::before { content: "- "; margin-left: -1rem; color: var(--faint); }
  tr.replace td + td::before, tr.insert td + td::before { content: "+ "; margin-left: -1rem; color: var(--faint); }
}
"""

_SCRIPT = """
if (matchMedia("(max-width: 800px)").matches) document.querySelector("nav details").open = false;
addEventListener("keydown", event => {
  const step = { j: 1, k: -1 }[event.key];
  if (!step) return;
  const sections = [...document.querySelectorAll("section")];
  const here = sections.filter(s => s.getBoundingClientRect().top < 20).length - 1;
  const next = sections[Math.max(0, Math.min(sections.length - 1, here + step))];
  if (next) next.scrollIntoView();
});
"""
