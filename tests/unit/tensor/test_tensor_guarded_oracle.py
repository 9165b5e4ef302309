"""Guarded reads by brute force: what range inference makes of small formulas, held against points tried one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import pytest

from weft.ir.errors import Error
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate
from weft.tensor.program import TensorProgram
from weft.tensor.recurrences import constant_of
from weft.tensor.remark_sizes import remarks_at
from weft.tensor.specialize import specialize

#: Sizes of the tensors X and Z that are read.
SIZES = ((6, 4), (4, 6), (7, 3), (5, 5))
#: As many points as are tried before a formula counts as defined everywhere.
ALWAYS = 64
# fmt: off
TESTS = (
    "d < D-1", "d > 0", "d >= 1", "d <= D-2", "d != 0", "d == 0", "d == D-1", "d < D/2", "d >= D/2", "d < M", "d >= M",
    "d < D", "d+1 < D", "d-1 >= 0", "!(d < D-1)", "d > 0 && d < D-1", "d == 0 || d == D-1", "d > 1", "d < D-2",
    "D-1 > d", "d >= 0 && d < D", "d+M < D", "2*d < D", "2*d+1 < D",
)
READS = (
    "X(d)", "X(d+1)", "X(d-1)", "X(d+D/2)", "X(d-D/2)", "X(0)", "Z(d)", "Z(d-D)", "X(D-1-d)", "X(2*d)", "X(d/2)",
    "X(D-1)", "1.5", "X(d+M)", "X(d-M)", "Z(d+1)", "X(2*d+1)", "X(D-2-d)",
)
# fmt: on


@dataclass(frozen=True)
class Choice:
    """``test ? then : otherwise``, and ``plus`` that is added at every point."""

    test: str
    then: Choice | str
    otherwise: Choice | str
    plus: str = "0.0"

    def __str__(self) -> str:
        return f"{self.plus} + ({self.test} ? {self.then} : {self.otherwise})"


def draw(rng: random.Random, depth: int = 0) -> Choice | str:
    if depth and rng.random() < 0.7:
        return rng.choice(READS)
    plus = rng.choice(READS) if not depth and rng.random() < 0.3 else "0.0"
    return Choice(rng.choice(TESTS), draw(rng, 2 - (depth == 0)), draw(rng, 2 - (depth == 0)), plus)


def in_python(text: str, point: dict[str, int]) -> int:
    python = text.replace("&&", " and ").replace("||", " or ").replace("!(", "not (").replace("/", "//")
    value: int = eval(python, {}, point)
    return value


def reads_made(formula: Choice | str, point: dict[str, int]) -> list[tuple[str, int]]:
    if isinstance(formula, Choice):
        chosen = formula.then if in_python(formula.test, point) else formula.otherwise
        return reads_made(formula.plus, point) + reads_made(chosen, point)
    return [] if formula[0] not in "XZ" else [(formula[0], in_python(formula[2:-1], point))]


def first_undefined(formula: Choice | str, sizes: dict[str, int]) -> int:
    """The first point at which a read that is made goes outside its tensor."""
    for d in range(ALWAYS):
        reads = reads_made(formula, {"d": d, **sizes})
        if any(not 0 <= place < sizes["D" if name == "X" else "M"] for name, place in reads):
            return d
    return ALWAYS


def points_run(program: TensorProgram, sizes: dict[str, int]) -> int | None:
    """As many points as the statement runs over; None where the call is refused."""
    try:
        special = specialize(program, {v.name: sizes[v.name] for v in program.sizes})
        evaluate(program, [np.ones(sizes["D"], np.float32), np.ones(sizes["M"], np.float32)])
    except Error:
        return None
    return constant_of(special.statements[-1].axes[0].hi)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("declared", [False, True], ids=["inferred", "declared"])
def test_points_are_those_that_the_formula_defines(seed: int, declared: bool) -> None:
    rng = random.Random(seed)
    accepted = 0
    for _ in range(40):
        formula = draw(rng)
        output = "float(D) Y" if declared else "Y"
        try:
            text = f"def f(float(D) X, float(M) Z) -> ({output}) {{ Y(d) = {formula} }}"
            program = next(iter(parse_programs(text).values()))
        except Error:
            continue
        for d, m in SIZES:
            sizes = {"D": d, "M": m}
            run, defined = points_run(program, sizes), first_undefined(formula, sizes)
            accepted += run is not None
            wanted = {min(defined, d)} if declared else {defined, *(n for n in (d, m, d + m) if n < defined)}
            assert run is None or run in wanted, (str(formula), sizes, run, defined)
    assert accepted


WINDOW_TESTS = (
    "t+k-1 >= 0 && t+k-1 < T", "t-k >= 0", "t+k < T", "2*t+k < T", "t >= k", "k <= t", "t+k >= 1", "t+k-1 < T",
    "!(t+k >= T)", "t-k >= 0 && t-k < T", "0 <= t+k-2 && t+k-2 < T",
)  # fmt: skip
WINDOWS = ("t+k-1", "t-k", "t+k", "2*t+k", "t+k-2", "t", "T-1-t-k")


def window_sum(test: str, place: str, t: int, taps: int, size: int) -> int | None:
    """What ``X(place) * W(k)`` sums up to where the test holds; None where a read that is made goes outside."""
    total = 0
    for k in range(taps):
        point = {"t": t, "k": k, "T": size}
        if in_python(test, point):
            found = in_python(place, point)
            if not 0 <= found < size:
                return None
            total += (found + 1) * (k + 1) * 10
    return total


@pytest.mark.parametrize("stated", ["inferred", "declared", "where"])
@pytest.mark.parametrize("test", WINDOW_TESTS)
def test_windows_lose_no_tap_in_silence(test: str, stated: str) -> None:
    output, clause = ("float(T) Y" if stated == "declared" else "Y"), (" where t in 0:T" if stated == "where" else "")
    for place in WINDOWS:
        text = f"def f(float(T) X, float(K) W) -> ({output}) {{ Y(t) +=! ({test} ? X({place}) : 0.0) * W(k){clause} }}"
        try:
            program = next(iter(parse_programs(text).values()))
        except Error:
            continue
        for size, taps in ((7, 3), (3, 3), (5, 1), (4, 5)):
            arguments = [np.arange(1, n + 1, dtype=np.float32) for n in (size, taps)]
            arguments[1] *= 10
            try:
                result = evaluate(program, arguments)[0]
            except Error:
                continue
            right = [window_sum(test, place, t, taps, size) for t in range(len(result))]
            is_told = program.remarks or remarks_at(program, {"T": size, "K": taps})
            assert is_told or result.tolist() == [r or 0 for r in right], (text, size, taps)
