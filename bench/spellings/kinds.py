"""What is computed: kinds of work, each with its sizes and some spellings by hand (kinds.txt); `respell` draws more.

``t`` stands for the element type, ``c(..)`` for a conversion to float32 and ``o(..)`` for the one back: with float32
there are none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import weft
from bench.spellings.respell import respell
from weft.tensor.printer import print_program
from weft.tensor.program import TensorProgram
from weft.tensor.specialize import solve_sizes, specialize

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Kind:
    """Shapes for a GPU, for a CPU and for tests; the first spelling is the plain one."""

    gpu: Shapes
    cpu: Shapes
    small: Shapes
    spellings: dict[str, str]
    #: spellings drawn beside those by hand
    drawn: int = 4


@dataclass(frozen=True)
class Spelling:
    name: str
    text: str


def spelled(text: str, dtype: str) -> str:
    """``text`` with types and conversions put in."""
    wide = dtype == "float32"
    text = re.sub(r"\bt\(", f"{dtype}(", text)
    text = re.sub(r"\bc\(", "(" if wide else "float32(", text)
    return re.sub(r"\bo\(", "(" if wide else f"{dtype}(", text)


def specialized(text: str, shapes: Shapes) -> TensorProgram:
    program = weft.define(text).program
    return specialize(program, solve_sizes(program, dict(zip((b.name for b in program.inputs), shapes))))


def spellings(kind: Kind, shapes: Shapes, dtype: str, drawn: int | None = None) -> list[Spelling]:
    """Those by hand, then those drawn from the plain one and from others."""
    found = [Spelling(name, spelled(text, dtype)) for name, text in kind.spellings.items()]
    by_hand = [specialized(s.text, shapes) for s in found]
    seen = {print_program(p) for p in by_hand}
    seed = 0
    while len(found) < len(by_hand) + (kind.drawn if drawn is None else drawn) and seed < 50:
        program, names = respell(by_hand[0 if seed % 2 else seed // 2 % len(by_hand)], seed)
        seed += 1
        text = print_program(program)
        if names and text not in seen:
            seen.add(text)
            found.append(Spelling(f"{seed - 1}: {', '.join(n.replace('_', ' ') for n in names)}", text))
    return found


def arguments(kind: Kind, shapes: Shapes, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(s, dtype=np.float32) for s in shapes]


def _read(block: str) -> tuple[str, Kind]:
    """A kind as `kinds.txt` has it."""
    head, *parts = block.split("\n-- ")
    name, *settings, interface = head.strip().split("\n")
    values = dict(line.split(" ", 1) for line in settings)
    shapes = [_shapes(values[where]) for where in ("gpu", "cpu", "small")]
    texts = {}
    for part in parts:
        title, *lines = part.rstrip().split("\n")
        texts[title] = "\n".join([f"{interface} {{", *lines, "}"])
    return name, Kind(*shapes, texts, int(values["drawn"]))


def _shapes(text: str) -> Shapes:
    return tuple(tuple(map(int, shape.split("x"))) for shape in text.split(", "))


_TEXT = Path(__file__).with_name("kinds.txt").read_text()
KINDS: dict[str, Kind] = dict(_read(block) for block in _TEXT.split("== ")[1:])
