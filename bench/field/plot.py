"""The plot of a run: a line for each workload, a dot for each peer, how many times faster Weft is on a log scale.

Where a peer is faster, its mark is a cross, on a ground of its own. Colours follow the reader's, light or dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from bench.field.conductor import Row

_LINE, _TOP, _LEFT, _WIDTH, _RIGHT = 18, 50, 270, 620, 20
_LOW, _HIGH = 0.25, 32.0
_FONT = 'font-family="sans-serif" font-size="11"'
_TITLE = "times faster than each peer (crosses: slower); rings: the best peer, 1 thread (open) and 2 (filled)"
_COLOURS = ("#d1495b", "#d99a26", "#1a93a6", "#4a86c5", "#a06cc0", "#6a994e", "#a87f5f", "#888888")
_STYLE = """<style>
:root { --page: #fff; --ink: #222; --faint: #ddd; --slower: #fdecea; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --ink: #ddd; --faint: #34373b; --slower: #33201f; } }
text { fill: var(--ink); } .page { fill: var(--page); } .slower { fill: var(--slower); }
.grid { stroke: var(--faint); } .even { stroke: var(--ink); }
.best { stroke: var(--ink); stroke-width: 1.5; fill: none; }
.more { fill: var(--ink); } .best.lost { stroke: #e03131; } .more.lost { fill: #e03131; }
</style>"""


def draw(rows: Sequence[Row]) -> str:
    """An SVG; the best peer of each workload is a ring with one thread, filled with more."""
    names = list(dict.fromkeys(row.workload for row in rows))
    peers = sorted({peer for row in rows for peer in row.ratios})
    colours = {peer: _COLOURS[i % len(_COLOURS)] for i, peer in enumerate(peers)}
    height = _TOP + _LINE * len(names) + 30
    even, grid = position(1) - _LEFT, height - 26 - _TOP
    width = _LEFT + _WIDTH + _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {_FONT}>',
        _STYLE,
        f'<rect class="page" width="{width}" height="{height}"/>',
        f'<rect class="slower" x="{_LEFT}" y="{_TOP}" width="{even:.1f}" height="{grid}"/>',
        *_legend(colours),
        *_grid(height),
    ]
    for i, name in enumerate(names):
        y = _TOP + _LINE * i + _LINE // 2
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{escape(name)}</text>')
        parts += _dots([row for row in rows if row.workload == name], y, colours)
    return "\n".join([*parts, "</svg>"]) + "\n"


def position(ratio: float) -> float:
    """Where a ratio stands across the plot; what is beyond its ends stands at the end."""
    share = math.log(min(max(ratio, _LOW), _HIGH) / _LOW) / math.log(_HIGH / _LOW)
    return _LEFT + share * _WIDTH


def _legend(colours: dict[str, str]) -> Iterable[str]:
    yield f'<text x="{_LEFT}" y="14">{_TITLE}</text>'
    for i, (peer, colour) in enumerate(colours.items()):
        x = _LEFT + 78 * i
        yield f'<circle cx="{x + 4}" cy="30" r="4" fill="{colour}"/><text x="{x + 11}" y="34">{escape(peer)}</text>'


def _grid(height: int) -> Iterable[str]:
    for ratio in (0.25, 0.5, 0.75, 1, 2, 4, 8, 16, 32):
        x, kind = position(ratio), "even" if ratio == 1 else "grid"
        yield f'<line class="{kind}" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 26}"/>'
        yield f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{ratio:g}</text>'


def _dots(rows: Sequence[Row], y: int, colours: dict[str, str]) -> Iterable[str]:
    for row in rows:
        for peer, ratio in row.ratios.items():
            yield _mark(position(ratio.value), y, colours[peer], is_lost=ratio.value < 1)
    for row in rows:
        if row.best is not None:
            kinds = "best" + " more" * (row.threads > 1) + " lost" * (row.ratios[row.best].value < 1)
            at = position(row.ratios[row.best].value)
            yield f'<circle class="{kinds}" cx="{at:.1f}" cy="{y}" r="5"/>'


def _mark(x: float, y: int, colour: str, *, is_lost: bool) -> str:
    if not is_lost:
        return f'<circle cx="{x:.1f}" cy="{y}" r="3.2" fill="{colour}" fill-opacity="0.75"/>'
    cross = f"M{x - 3:.1f} {y - 3}l6 6m0 -6l-6 6"
    return f'<path d="{cross}" stroke="{colour}" stroke-width="1.8" stroke-opacity="0.9"/>'
