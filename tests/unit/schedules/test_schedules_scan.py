"""``scan``: recurrences of first order in chunks, of any length, again in chunks; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.numpy_dtypes import to_numpy
from weft.lang.parse import parse_programs
from weft.schedules.schedule import Schedule
from weft.tensor.lower import lower
from weft.tensor.normalize import normalize
from weft.tensor.specialize import specialize

SUMS = "def f(float(M,N) X) -> (float(M,N) S) { S(m,0) = X(m,0)\n S(m,t) = S(m,t-1) + X(m,t) where t in 1:N }"
TEXTS = {
    "sums": SUMS,
    "from zero": "def f(float(M,N) X) -> (float(M,N) S) { S(m,t) = (t > 0 ? S(m,t-1) : 0.0) + X(m,t) where t in 0:N }",
    "products": SUMS.replace(" + ", " * "),
    "maxima": SUMS.replace("S(m,t-1) + X(m,t)", "max(X(m,t) * 2, S(m,t-1))"),
    "whole numbers": SUMS.replace("float", "int"),
    "linear": SUMS.replace("+ X(m,t)", "* X(m,t) + X(m,t-1)"),
    "linear, the other way round": SUMS.replace("S(m,t-1) + X(m,t)", "1.5 + X(m,t) * S(m,t-1)"),
}


def make(text: str, numerics: Any = "fast", **sizes: int) -> Schedule:
    program = next(iter(parse_programs(text).values()))
    return Schedule(lower(normalize(specialize(program, sizes))), numerics=numerics, sizes=sizes)


def results(s: Schedule) -> Any:
    x, out = s.kernel.buffers
    shape = [int(e.value) for e in x.shape]  # type: ignore[attr-defined]
    given = (np.random.default_rng(1).uniform(-2, 2, shape)).astype(to_numpy(x.dtype))
    found = np.full(shape, 7, to_numpy(out.dtype))
    interpret(s.kernel, [given, found])
    return found


def block_of(s: Schedule) -> str:
    return [str(b) for b in s.blocks()][-1]


@pytest.mark.parametrize("steps", [12, 23, 40])
@pytest.mark.parametrize("name", TEXTS)
def test_right_results(name: str, steps: int) -> None:
    """With chunks that come out even or not, a single one, and chunks of chunks."""
    wanted = results(make(TEXTS[name], M=2, N=steps))
    for length in (1, 4, 100):
        s = make(TEXTS[name], M=2, N=steps)
        made = s.scan(s.loops(block_of(s))[-1], length)
        np.testing.assert_allclose(results(s), wanted, rtol=1e-5, atol=1e-5)
        if length == 4:
            again = s.scan(made.carries, 2)
            for loop in (made.totals, made.results, again.totals, again.results):
                s.parallel(loop)
            np.testing.assert_allclose(results(s), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "is_exact"), [("sums", False), ("linear", False), ("maxima", True), ("whole numbers", True)]
)
def test_strict_numerics_keep_the_order_of_rounding(name: str, is_exact: bool) -> None:
    s = make(TEXTS[name], "strict", M=2, N=20)
    loop = s.loops(block_of(s))[-1]
    if is_exact:
        wanted = results(s)
        s.scan(loop, 4)
        np.testing.assert_array_equal(results(s), wanted)
    else:
        with pytest.raises(ScheduleError, match="change the order in which float32 `S` is rounded"):
            s.scan(loop, 4)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("S(m,t) = S(m,t-1) - X(m,t)", "associative operator"),
        ("S(m,t) = S(m,t-1) * S(m,t-1)", "one step before alone"),
        ("S(m,t) = exp(S(m,t-1)) + X(m,t)", "associative operator"),
        ("S(m,t) = S(m,t-1) + X(m,t) * S(m,t-1)", "one step before alone"),
        ("S(m,t) = (t % 5 > 0 ? S(m,t-1) : 0.0) + X(m,t)", "starts again at other steps"),
        ("S(m,t) = X(m,t-1) + X(m,t)", "one step before alone"),
    ],
)
def test_what_is_no_recurrence_of_first_order(step: str, why: str) -> None:
    s = make(SUMS.replace("S(m,t) = S(m,t-1) + X(m,t)", step), M=2, N=20)
    with pytest.raises(ScheduleError, match=why):
        s.scan(s.loops(block_of(s))[-1], 4)
