"""``unfold``: sums over several iterators as sums over one, of matrices that are made for it."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import weft
from weft.ir.errors import ScheduleError
from weft.ir.interpret import interpret
from weft.ir.verify import verify
from weft.operators.schedule import OperatorSchedule
from weft.schedules.find import find_buffer

WINDOW = """def f(float(N,L,C) X, float(F,P,C) V) -> (O) {
    O(n,t,f) +=! X(n,2*t+p-1,c) * V(f,p,c) where t in 0:4, X outside zero
}"""
INSIDE = "def f(float(N,L,C) X, float(F,C,P) V) -> (O) { O(n,t,f) +=! X(n,t+p,c) * V(f,c,p) where t in 0:5 }"
WEIGHTS = """def f(float(N,L,F) E, float(N,L,C) X) -> (O) {
    O(f,p,c) +=! E(n,t,f) * X(n,t+p-1,c) where p in 0:3, X outside zero
}"""
SHAPES = {
    WINDOW: {"X": (2, 8, 3), "V": (5, 3, 3)},
    INSIDE: {"X": (2, 7, 3), "V": (4, 3, 3)},
    WEIGHTS: {"E": (3, 6, 2), "X": (3, 6, 4)},
}


def start(text: str, numerics: str = "fast") -> OperatorSchedule:
    return weft.schedule(weft.define(text), numerics=numerics, **SHAPES[text])


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("multiple", [1, 4])
@pytest.mark.parametrize("inline", [False, True])
def test_results_in_any_order(text: str, multiple: int, inline: bool) -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, shape).astype(np.float32) for shape in SHAPES[text].values()]
    wanted = weft.define(text)(*args)
    summed = ("vp", "vc") if text is not WEIGHTS else ("vn", "vt")
    for order in permutations(summed):
        s = start(text)
        _, made = s.unfold("O", *order, multiple=multiple)
        assert len(made) == 2
        for block, _ in made if inline else ():
            s.compute_inline(block)
        verify(s.kernel)
        got = np.zeros_like(wanted)
        interpret(s.kernel, [*args, got])
        np.testing.assert_array_equal(got, wanted)


def test_what_comes_out() -> None:
    s = start(WINDOW)
    loop, ((image, _), (weights, _)) = s.unfold("O", "vp", "vc", multiple=4)
    assert [str(x) for x in s.loops("O")] == ["n", "t", "f", "p_c"]
    assert (str(loop), str(image), str(weights)) == ("p_c", "O_X", "O_V")
    shapes = [[e.value for e in find_buffer(s.kernel, name).shape] for name in ("O_X", "O_V")]  # type: ignore[attr-defined]
    assert shapes == [[2, 4, 12], [5, 12]]


def test_sums_of_floats_keep_their_order_under_strict_numerics() -> None:
    with pytest.raises(ScheduleError, match="another order"):
        start(WINDOW, "strict").unfold("O", "vp", "vc")


@pytest.mark.parametrize(
    ("text", "iterators", "why"),
    [
        ("def f(float(M,K) X, float(K) V) -> (O) { O(m) +=! X(m,k) + V(k) }", ("vk",), "no product of two elements"),
        (
            "def f(float(M,K) X, float(K) V) -> (O) { O(m) +=! X(m,k) * V(k) * k }",
            ("vk",),
            "no product of two elements",
        ),
        ("def f(float(M,K) X, float(K) V) -> (O) { O(m) +=! X(m,k) * V(k) }", ("vm",), "which are: `vk`"),
        (  # the first of two casts rounds
            "def f(float(M,K) X, float(K) V) -> (O) { O(m) +=! float(k < 3 ? int8(X(m,k)) : int8(0)) * V(k) }",
            ("vk",),
            "no product of two elements",
        ),
    ],
)
def test_refused(text: str, iterators: tuple[str, ...], why: str) -> None:
    s = weft.schedule(weft.define(text), numerics="fast", X=(4, 5), V=(5,))
    with pytest.raises(ScheduleError) as error:
        s.unfold("O", *iterators)
    assert why in str(error.value)


def test_loops_that_were_cut_are_refused() -> None:
    s = start(WINDOW)
    s.split("c", 2)
    with pytest.raises(ScheduleError) as error:
        s.unfold("O", "vp", "vc")
    assert "in a loop of its own from 0 up to a number" in str(error.value)
