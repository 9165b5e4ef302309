"""The plot of a run: a line for each workload, a dot for each peer, how many times faster Weft is on a log scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from bench.field.conductor import Row

_LINE, _TOP, _LEFT, _WIDTH, _RIGHT = 15, 46, 270, 620, 20
_LOW, _HIGH = 0.25, 32.0
_FONT = 'font-family="sans-serif" font-size="11"'
_TITLE = "times faster than each peer; circles: the best peer, 1 thread (open) and 2 (filled)"
_COLOURS = ("#d1495b", "#edae49", "#00798c", "#30638e", "#7b4b94", "#6a994e", "#8d6a4f", "#888888")


def draw(rows: Sequence[Row]) -> str:
    """An SVG; the best peer of each workload is a ring with one thread, filled with more."""
    names = list(dict.fromkeys(row.workload for row in rows))
    peers = sorted({peer for row in rows for peer in row.ratios})
    colours = {peer: _COLOURS[i % len(_COLOURS)] for i, peer in enumerate(peers)}
    height = _TOP + _LINE * len(names) + 30
    width = _LEFT + _WIDTH + _RIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" {_FONT}>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
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
        yield f'<circle cx="{x + 4}" cy="26" r="3" fill="{colour}"/><text x="{x + 11}" y="30">{escape(peer)}</text>'


def _grid(height: int) -> Iterable[str]:
    for ratio in (0.25, 0.5, 0.75, 1, 2, 4, 8, 16, 32):
        x, colour = position(ratio), "#333" if ratio == 1 else "#ddd"
        yield f'<line x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{height - 26}" stroke="{colour}"/>'
        yield f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{ratio:g}</text>'


def _dots(rows: Sequence[Row], y: int, colours: dict[str, str]) -> Iterable[str]:
    for row in rows:
        for peer, ratio in row.ratios.items():
            at = position(ratio.value)
            yield f'<circle cx="{at:.1f}" cy="{y}" r="2" fill="{colours[peer]}" fill-opacity="0.7"/>'
    for row in rows:
        if row.best is not None:
            fill = "none" if row.threads == 1 else "black"
            at = position(row.ratios[row.best].value)
            yield f'<circle cx="{at:.1f}" cy="{y}" r="4" fill="{fill}" stroke="black" stroke-width="1.3"/>'
