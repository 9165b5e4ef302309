"""How texts of ours look in a notebook: as they are, in a fixed width."""

from __future__ import annotations

from html import escape


def as_html(text: str, title: str = "") -> str:
    head = f"<b>{escape(title)}</b>" if title else ""
    return f'{head}<pre style="line-height:1.25">{escape(text)}</pre>'


class Shown(str):
    """A text of several lines that a notebook shows as such, not as one line with marks for its ends."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return as_html(self)
