"""The page that `weft cuda check --html` writes: one self-contained file, each finding with the lines around it."""

from __future__ import annotations

import html
from collections import Counter

from weft.from_cuda.check_program import ProgramReport
from weft.ir.span import Span
from weft.sanitizer.findings import Finding, Party

#: Lines of the source shown before and after the one that is meant.
CONTEXT = 3

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
section { border: 1px solid #8884; border-left: 4px solid #c33; margin: 1rem 0; padding: .2rem 1rem 1rem; }
h2 { font-size: 1rem; } h2 span { background: #c33; color: #fff; border-radius: 3px; padding: 0 .4rem; }
pre { background: #8881; overflow-x: auto; padding: .5rem; margin: .2rem 0; }
mark { background: #fc36; color: inherit; display: block; } .who { margin: .6rem 0 0; } .help { color: #284; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; } .help { color: #7c9; } }
"""


def findings_page(report: ProgramReport) -> str:
    """``report`` as HTML."""
    title = html.escape(f"weft cuda check: {report.name}")
    counts = Counter(f.kind for f in report.findings)
    summary = ", ".join(f"{n} {kind}" for kind, n in counts.items()) or "nothing found"
    sections = "\n".join(_section(n, f) for n, f in enumerate(report.findings, 1))
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title>\n<style>{_STYLE}</style>\n'
        f"<h1>{title}</h1>\n<p>exit code of the program: {report.code}; {html.escape(summary)}</p>\n"
        f"{sections}\n</html>\n"
    )


def _section(number: int, finding: Finding) -> str:
    parties = "\n".join(map(_party, finding.parties))
    more = f"<p>and {finding.count - 1:,} more like it</p>" if finding.count > 1 else ""
    help = f'<p class="help">{html.escape(finding.help)}</p>' if finding.help else ""
    head = f"<h2><span>{finding.kind}</span> {number}. {html.escape(finding.what)}</h2>"
    return f"<section>{head}\n{parties}\n{more}{help}</section>"


def _party(party: Party) -> str:
    who = html.escape(f"{party.iteration} {party.action}" + (f", {party.span}" if party.span else ""))
    return f'<p class="who">{who}</p>' + (_lines(party.span) if party.span else "")


def _lines(span: Span) -> str:
    rows = []
    for number in range(max(1, span.line - CONTEXT), span.line + CONTEXT + 1):
        text = span.source.line(number)
        row = html.escape(f"{number:5}  {text}")
        rows.append(f"<mark>{row}</mark>" if number == span.line else f"{row}\n")
    return f"<pre>{''.join(rows)}</pre>"
