"""Pairs of formulas in text files: ``## name`` and two definitions."""

from __future__ import annotations

import re
from pathlib import Path


def read_pairs(file: str) -> dict[str, tuple[str, str]]:
    pairs = {}
    for part in re.split(r"^## ", (Path(__file__).parent / file).read_text(), flags=re.M)[1:]:
        name, _, text = part.partition("\n")
        first, second = re.findall(r"^def.*?(?=^def|\Z)", text, flags=re.M | re.S)
        pairs[name] = first, second
    return pairs
