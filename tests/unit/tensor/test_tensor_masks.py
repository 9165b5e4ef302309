"""Random masks over a matrix: they run over all of it, but where a test is what keeps the read inside."""

from __future__ import annotations

import itertools
import random

import pytest

from weft.ir.errors import LanguageError
from weft.lang.parse import parse_programs
from weft.tensor.text import describe

# fmt: off
TERMS = (
    "s", "t", "0", "1", "2", "S", "T", "S-1", "T-1", "s+1", "t-1", "t+2", "W", "s-t", "t-s", "S-s", "T-S", "2*s",
    "t+T-S",
)
# fmt: on
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
READ, NOTHING = "P(s,t) * 0.5", "-1e30"
#: Sizes S and T and a width W at which masks are tried point by point.
SIZES = ((5, 5, 2), (4, 7, 3), (7, 4, 1))


def draw_test(rng: random.Random, depth: int = 0) -> str:
    chance = rng.random()
    if depth < 2 and chance < 0.45:
        return f"({draw_test(rng, depth + 1)} {rng.choice(('&&', '||'))} {draw_test(rng, depth + 1)})"
    if depth < 3 and chance < 0.6:
        return f"!({draw_test(rng, depth + 1)})"
    return f"{rng.choice(TERMS)} {rng.choice(COMPARISONS)} {rng.choice(TERMS)}"


def draw_mask(rng: random.Random, depth: int = 0) -> str:
    inner = draw_mask(rng, depth + 1) if depth < 2 and rng.random() < 0.3 else READ
    then, otherwise = (inner, NOTHING) if rng.random() < 0.5 else (NOTHING, inner)
    return f"({draw_test(rng)} ? {then} : {otherwise})"


def reads(mask: str, point: dict[str, int]) -> bool:
    """Whether the matrix is read at ``point``."""
    if not mask.startswith("("):
        return mask == READ
    depth, marks = 0, list[int]()
    for n, letter in enumerate(mask):
        depth += (letter == "(") - (letter == ")")
        if depth == 1 and letter in "?:":
            marks.append(n)
    test, then, otherwise = mask[1 : marks[0]], mask[marks[0] + 1 : marks[1]], mask[marks[1] + 1 : -1]
    python = test.replace("&&", " and ").replace("||", " or ").replace("!(", "not (")
    return reads((then if eval(python, {}, point) else otherwise).strip(), point)


def keeps_inside(mask: str, name: str) -> bool:
    """Whether at some sizes, ``name`` may go on at once beyond the matrix without a read there."""
    for s_size, t_size, width in SIZES:
        known = {"S": s_size, "T": t_size, "W": width}
        ends = {"s": range(s_size), "t": range(t_size)}
        size = len(ends[name])
        other = "t" if name == "s" else "s"
        beyond = itertools.product(range(size, size + 1), ends[other])
        if not any(reads(mask, {**known, name: a, other: b}) for a, b in beyond):
            return True
    return False


@pytest.mark.parametrize(
    "mask",
    [
        "(s < 1 && t < 1 && s != t ? -1e30 : P(s,t) * 0.5)",
        "(2*s != 1 ? P(s,t) * 0.5 : -1e30)",
        "(s-t <= S-1 ? P(s,t) * 0.5 : -1e30)",
        "(!(t >= T && s < S) && t < T+1 ? P(s,t) * 0.5 : -1e30)",
    ],
)
def test_ends_are_compared_by_meaning(mask: str) -> None:
    program = next(iter(parse_programs(f"def f(float(S,T) P) -> (Y) {{ Y(s,t) = {mask} }}").values()))
    assert [(describe(a.lo), describe(a.hi)) for a in program.statements[0].axes] == [("0", "S"), ("0", "T")]


@pytest.mark.parametrize("seed", range(6))
def test_masks_run_over_all_of_a_matrix_unless_a_test_keeps_the_read_inside(seed: int) -> None:
    rng = random.Random(seed)
    refused: list[tuple[str, str, list[str]]] = []
    for _ in range(60):
        mask = draw_mask(rng)
        text = f"def f(float(S,T) P, int W) -> (Y) {{ Y(s,t) = {mask} }}"
        try:
            program = next(iter(parse_programs(text).values()))
        except LanguageError as error:
            refused.append((text, mask, [n for n in ("s", "t") if f"`{n}`" in error.what]))
            continue
        assert [(describe(a.lo), describe(a.hi)) for a in program.statements[0].axes] == [("0", "S"), ("0", "T")], text
    for text, mask, names in refused:
        assert names, text
        assert all(keeps_inside(mask, n) for n in names), text
    assert len(refused) < 10
