"""A program with arguments: one of ``formulas.weft`` at sizes and types that are drawn, or a random one."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import random_programs
from check_gpu_schedule import with_draw
from hypothesis import strategies as st

from weft.ir.dtype import SCALAR_TYPES
from weft.ir.numpy_dtypes import to_numpy

FLOATS = ("float", "float", "float", "double", "float16", "bfloat16")
INTEGERS = ("int32", "int32", "int64", "int8", "uint8", "int16")
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 100, 128, 129)
LONG = (200, 257, 300, 511, 1000, 1024, 2049, 4099)
#: Words of names of programs that read windows of an axis, and of those that go through it in order.
WINDOWS = ("conv", "pool", "depth", "stencil", "strided", "shift", "jacobi", "blur", "grad_w")
STEPS = ("rnn", "decay", "solve", "scan_then", "jacobi", "cummax", "cumsum")
#: How C names what is called otherwise here.
_NAMES = {"float": "float32", "double": "float64", "half": "float16"}


class Drawn(NamedTuple):
    """``is_exact``: arguments are whole numbers, and no result is rounded."""

    name: str
    text: str
    arguments: list[Any]
    is_exact: bool


@cache
def formulas() -> dict[str, tuple[str, bool]]:
    """Text of each program by name, and whether whole numbers give exact results."""
    whole, rounded = (Path(__file__).parent / "formulas.weft").read_text(encoding="utf-8").split("# Numbers:")
    found = {}
    for part, exact in ((whole, True), (rounded, False)):
        texts = re.split(
            r"^(?=def )", re.sub(r"^#.*\n|^ results.*\n", "", part, flags=re.MULTILINE), flags=re.MULTILINE
        )
        found |= {text[4 : text.index("(")]: (text.strip(), exact) for text in texts[1:]}
    return found


def draw_program(rng: random.Random, points: int) -> Drawn:
    """A program whose statements have not more than about ``points`` iterations."""
    return draw_random(rng) if rng.random() < 0.2 else draw_formula(rng, points, rng.choice(sorted(formulas())))


def draw_random(rng: random.Random) -> Drawn:
    """A program of `random_programs` at other sizes, in any layout."""
    sizes = st.sampled_from([0, 1, 1, 2, 3, 5, 8, 16, 17, 31, 33, 64])
    found: list[Any] = []
    with mock.patch.object(random_programs, "SIZES", sizes):
        with_draw(rng.getrandbits(32), lambda draw: found.append(draw(random_programs.programs())) or "drawn")
    if not found:
        return draw_formula(rng, 10_000, rng.choice(sorted(formulas())))
    return Drawn("random", found[0].text, list(found[0].arguments.values()), found[0].exact)


def draw_formula(rng: random.Random, points: int, name: str) -> Drawn:
    text, exact = formulas()[name]
    kind = rng.choice(INTEGERS if exact and rng.random() < 0.2 else FLOATS)
    half = rng.choice(("float16", "bfloat16"))
    text = re.sub(r"\bT(?=\()", kind, re.sub(r"\bH(?=\()", half, text)).replace("S2", str(rng.choice((1, 2, 3))))
    params = re.findall(r"(\w+)\(([\w,]+)\) (\w+)", text.split("->")[0].partition("(")[2])
    sizes = draw_sizes(
        rng, name, sorted({letter for _, dims, _ in params for letter in re.findall("[A-Z]", dims)}), points
    )
    whole = exact and (rng.random() < 0.75 or kind in INTEGERS)
    values = np.random.default_rng(rng.getrandbits(32))
    shapes = [tuple(int(d) if d.isdigit() else sizes[d] for d in dims.split(",")) for _, dims, _ in params]
    arrays = [make_array(values, t, shape, whole or "arg" in name) for (t, _, _), shape in zip(params, shapes)]
    return Drawn(name, text, arrays, whole)


def draw_sizes(rng: random.Random, name: str, letters: list[str], points: int) -> dict[str, int]:
    least = 8 if any(word in name for word in WINDOWS) else 1
    longest = 300 if any(word in name for word in STEPS) else 10**9
    while True:
        sizes = {letter: rng.choice(SIZES) for letter in letters}
        if letters and rng.random() < 0.45:
            sizes[rng.choice(letters)] = rng.choice(LONG)
        sizes = {x: max(n, least) if x in "HWNXY" else n for x, n in sizes.items()}
        if np.prod(sorted(sizes.values())[-3:]) <= points and sizes.get("N", 1) <= longest:
            return sizes


def make_array(rng: np.random.Generator, name: str, shape: tuple[int, ...], whole: bool) -> Any:
    kind = to_numpy(SCALAR_TYPES[_NAMES.get(name, name)])
    if name == "bool":
        return rng.integers(0, 2, shape).astype(kind)
    if name == "int32":  # a subscript, maybe, which formulas bring into range
        return rng.integers(0, 1000, shape).astype(kind)
    if name.startswith("uint"):
        return rng.integers(0, 4 if rng.random() < 0.5 else 200, shape).astype(kind)
    if "int" in name:
        return rng.integers(-3, 4, shape).astype(kind)
    return (rng.integers(-2, 3, shape) if whole else rng.standard_normal(shape)).astype(kind)
