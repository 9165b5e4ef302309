"""Copies in lowered matrices: the source's figures, and closed forms against the matrix written out."""

from __future__ import annotations

import random
from collections import OrderedDict
from dataclasses import replace

import numpy as np
import pytest

import weft
from weft.analysis.duplication import Duplication
from weft.analysis.enumerated import ids
from weft.analysis.matrix_read import matrix_reads
from weft.ir.errors import ArgumentError

CONV = """def conv(float(N,C,H,W) X, float(F,C,R,S) K, int P, int T, int U, int D) -> (O) {
    O(n,f,h,w) +=! X(n,c,T*h + D*r - P,U*w + D*s - P) * K(f,c,r,s)
        where h in 0:(H + 2*P - D*(R - 1) - 1)/T + 1, w in 0:(W + 2*P - D*(S - 1) - 1)/U + 1, X outside zero
}"""


def conv(image: tuple[int, ...], taps: tuple[int, int], pad: int = 0, step: tuple[int, int] = (1, 1), apart: int = 1):
    op = weft.define(CONV).with_schedule("naive")
    kernel = op.schedule((1, *image), (2, image[0], *taps), pad, *step, apart).kernel
    return Duplication("X", matrix_reads(kernel)["X"])


def duplo_ids(image: tuple[int, ...], taps: tuple[int, int], pad: int, step: tuple[int, int]) -> np.ndarray:
    """As the source computes them, of the image without its padding."""
    (channels, height, width), (r, s) = image, taps
    rows, cols = 1 + (height + 2 * pad - r) // step[0], 1 + (width + 2 * pad - s) // step[1]
    row, col = np.arange(rows * cols)[:, None], np.arange(channels * r * s)[None]
    y = (row // cols) * step[0] + (col // s) % r - pad
    x = (row % cols) * step[1] + col % s - pad
    inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
    return np.where(inside, (col // (r * s) * height + y) * width + x, -1)


@pytest.mark.parametrize(
    ("image", "taps", "pad", "step", "expansion", "copies", "sections"),
    [
        ((3, 227, 227), (11, 11), 0, 4, 7.10, 7.10, [7.10, 5.42, 1.26]),
        ((256, 13, 13), (3, 3), 1, 1, 9.00, 8.10, [8.10, 1.74, 1.00]),
        ((3, 224, 224), (3, 3), 1, 1, 9.00, 8.95, [8.95, 1.75, 1.00]),
        ((3, 224, 224), (7, 7), 3, 2, 12.25, 12.06, [12.06, 6.68, 1.00]),
    ],
)
def test_the_layers_of_the_source(image, taps, pad, step, expansion, copies, sections) -> None:
    d = conv(image, taps, pad, (step, step))
    assert (d.method, round(d.expansion, 2), round(d.copies, 2)) == ("closed form", expansion, copies)
    assert [round(d.by_section[w], 2) for w in (2, 4, 16)] == sections


def random_conv(seed: int) -> tuple[Duplication, tuple]:
    rng = random.Random(seed)
    taps = rng.randint(1, 5), rng.randint(1, 5)
    pad, step = rng.randint(0, 2), (rng.randint(1, 3), rng.randint(1, 3))
    apart = rng.choice((1, 1, 2))
    least = [max(apart * (t - 1) + 1 - 2 * pad, 1) for t in taps]
    image = rng.choice((1, 2, 5, 16, 17)), least[0] + rng.randint(0, 9), least[1] + rng.randint(0, 9)
    return conv(image, taps, pad, step, apart), (image, taps, pad, step, apart)


@pytest.mark.parametrize("seed", range(12))
def test_closed_forms_are_what_the_written_matrix_has(seed: int) -> None:
    d, (image, taps, pad, step, apart) = random_conv(seed)
    listed = Duplication("X", replace(d.read, dimensions=None))
    if apart == 1:
        np.testing.assert_array_equal(ids(d.read), duplo_ids(image, taps, pad, step))
    assert (d.method, listed.method) == ("closed form", "enumeration")
    assert (d.accesses, d.unique) == (listed.accesses, listed.unique)
    assert [d.sections_of(n) for n in (1, 2, 4, 8, 16)] == [listed.sections_of(n) for n in (1, 2, 4, 8, 16)]
    for element in random.Random(seed).sample(range(d.elements), min(d.elements, 12)):
        assert d.inverse(element) == listed.inverse(element)
        assert d.copies_of(element) == listed.copies_of(element) == len(d.inverse(element))


def test_an_access_map_that_is_no_convolution() -> None:
    sizes = "i in 0:6, j in 0:4, k in 0:2"
    op = weft.define("def f(float(N) X) -> (float(6) O) { O(i) +=! X(2*i + 3*j - k + 1) where " + sizes + " }")
    d = weft.analyze(op, (24,)).duplication["X"]
    listed = Duplication("X", replace(d.read, dimensions=None))
    assert d.method == "closed form"
    assert [d.copies_of(n) for n in range(24)] == [listed.copies_of(n) for n in range(24)]
    assert all(d.inverse(n) == listed.inverse(n) for n in range(24))
    assert [d.sections_of(n) for n in (1, 2, 8)] == [listed.sections_of(n) for n in (1, 2, 8)]


def test_a_loop_in_two_subscripts_is_written_out() -> None:
    op = weft.define("def f(float(N,N) X) -> (O) { O(i) +=! X(i, i) + X(i, k) where k in 0:5 }")
    found = weft.analyze(op, (5, 5)).duplication
    assert [(n, d.method) for n, d in found.items()] == [("X", "enumeration"), ("X.2", "closed form")]
    assert (found["X"].places, found["X"].unique) == (5, 5)


def history_by_hand(listed: np.ndarray, entries: int) -> float:
    kept: OrderedDict[int, None] = OrderedDict()
    hits = 0
    loaded = [int(e) for e in listed.reshape(-1) if e >= 0]
    for e in loaded:
        hits += e in kept
        kept[e] = None
        kept.move_to_end(e)
        if len(kept) > entries:
            kept.popitem(last=False)
    return hits / len(loaded)


@pytest.mark.parametrize("entries", [0, 1, 7, 64, 1024])
def test_the_load_history_buffer(entries: int) -> None:
    d = conv((2, 9, 8), (3, 3), 1, (2, 1))
    assert d.history(entries) == pytest.approx(history_by_hand(ids(d.read), entries))


def test_what_is_not_there_is_refused() -> None:
    d = conv((2, 4, 4), (3, 3))
    with pytest.raises(ArgumentError, match="X has no element 32"):
        d.inverse(32)
    with pytest.raises(ArgumentError, match=r"X has no element \(0, 2, 0, 0\)"):
        d.copies_of((0, 2, 0, 0))
    with pytest.raises(ArgumentError, match="rows have no sections of 3 elements"):
        d.sections_of(3)
    with pytest.raises(ArgumentError, match="there is no read of `Y`"):
        weft.analyze(weft.ops.matmul, (4, 4), (4, 4)).duplication["Y"]
    with pytest.raises(ArgumentError, match="no read of the program would have copies"):
        _ = weft.analyze(weft.ops.matmul, (4, 4), (4, 4)).duplication.expansion
