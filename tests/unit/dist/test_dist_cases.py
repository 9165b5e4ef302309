"""How operators split that DTensor replicates or refuses, from their formulas alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from weft.dist.layout import REPLICATED, Split
from weft.dist.local import SplitStatement
from weft.dist.mesh import Mesh
from weft.dist.ranks import evaluate_on_ranks
from weft.dist.rules import Choice, LookUp, Own, Share, Whole, choices
from weft.lang.parse import parse_programs
from weft.tensor.evaluate import evaluate

MESH = Mesh((4,), ("t",))
CONV = "def f(float(N,C,18,10) X, float(O,C,3,3) K) -> (Y) { Y(n,o,h,w) +=! X(n,c,h+r,w+s) * K(o,c,r,s) }"
CONV_SIZES: list[tuple[int, ...]] = [(4, 8, 18, 10), (8, 8, 3, 3)]

#: name: formula, shapes, the tensor and the dimension that is split to begin with
CASES: dict[str, tuple[str, list[tuple[int, ...]], str, int]] = {
    "convolution by image": (CONV, CONV_SIZES, "X", 0),
    "convolution by height": (CONV, CONV_SIZES, "X", 2),
    "convolution by input channel": (CONV, CONV_SIZES, "X", 1),
    "convolution by output channel": (CONV, CONV_SIZES, "K", 0),
    "product over the split": (
        "def f(float(I,K) A, float(K,J) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",
        [(8, 8), (8, 6)],
        "A",
        1,
    ),
    "maximum pool": (
        "def f(float(N,16) X) -> (Y) { Y(n,i) max=! X(n,2*i+r) where r in 0:2, i in 0:8 }",
        [(8, 16)],
        "X",
        1,
    ),
    "attention by heads": (
        "def f(float(H,S,D) Q, float(H,S,D) K, float(H,S,D) V) -> (O) { P(h,s,t) +=! Q(h,s,d) * K(h,t,d)\n"
        " M(h,s) max=! P(h,s,t)\n E(h,s,t) = exp(P(h,s,t) - M(h,s))\n T(h,s) +=! E(h,s,t)\n"
        " O(h,s,d) +=! E(h,s,t) * V(h,t,d) / T(h,s) }",
        [(4, 6, 5)] * 3,
        "Q",
        0,
    ),
    "layer norm along the split": (
        "def f(float(N,C) X) -> (Y) { M(n) +=! X(n,c) / 8.0\n V(n) +=! (X(n,c) - M(n)) * (X(n,c) - M(n))\n"
        " Y(n,c) = (X(n,c) - M(n)) / sqrt(V(n) + 0.001) }",
        [(6, 8)],
        "X",
        1,
    ),
    "distances": (
        "def f(float(I,D) A, float(J,D) B) -> (C) { C(i,j) +=! (A(i,d) - B(j,d)) * (A(i,d) - B(j,d)) }",
        [(8, 5), (6, 5)],
        "A",
        0,
    ),
    "logsumexp along the split": (
        "def f(float(N,C) X) -> (Y) { M(n) max=! X(n,c)\n S(n) +=! exp(X(n,c) - M(n))\n Y(n) = log(S(n)) + M(n) }",
        [(6, 8)],
        "X",
        1,
    ),
    "argmax along the split": (
        "def f(float(N,C) X) -> (Y) { M(n) max=! X(n,c)\n Y(n) min=! X(n,c) == M(n) ? c : 1000 }",
        [(6, 8)],
        "X",
        1,
    ),
    "cumulative sum along the split": (
        "def f(float(N,C) X) -> (Y) { Y(i,c) +=! X(j,c) where i in 0:8, j in 0:i+1 }",
        [(8, 3)],
        "X",
        0,
    ),
    "twice as large by interpolation": (
        "def f(float(N,8) X) -> (Y) { Y(n,i) = 0.25 * X(n,max(i//2-1,0)) + 0.75 * X(n,min(i//2+1,7)) where i in 0:16 }",
        [(3, 8)],
        "X",
        1,
    ),
    "discrete Fourier transform by row": (
        "def f(float(N,K) X, float(J,K) F) -> (Y) { Y(n,j) +=! X(n,k) * F(j,k) }",
        [(8, 6), (4, 6)],
        "X",
        0,
    ),
    "shift along the split": ("def f(float(N,C) X) -> (Y) { Y(i,c) = X(i+1,c) where i in 0:7 }", [(8, 3)], "X", 0),
    "table by rows": (
        "def f(float(V,H) E, int32(B) T) -> (Y) { Y(b,h) = E(T(b),h) where b in 0:6 }",
        [(8, 5), (6,)],
        "E",
        0,
    ),
}


def follow(name: str, dim: int) -> Any:
    """Chooses for each statement what splits the tensor ``name``, or what came of it, where that can be."""

    def choose(program: Any) -> list[tuple[Choice, ...]]:
        split: dict[str, Any] = {name: Split(dim)}
        made = []
        for statement in program.statements:
            best: Choice = Whole()
            for option in choices(statement):
                s = SplitStatement(statement, (option,), MESH, {})
                reads = zip(s.reads, s.needs)
                agree = [n.axes[0] == split[x.buffer.name] for x, n in reads if x.buffer.name in split]
                follows = all(agree) if agree else isinstance(option, Own)
                if follows and isinstance(best, Whole):
                    best = option
            made.append((best,))
            if isinstance(best, Own):
                split[statement.target.name] = Split(best.dim)
            elif isinstance(best, (Share, LookUp)):
                split.pop(statement.target.name, None)
        return made

    return choose


@pytest.mark.parametrize("name", CASES)
def test_formula_splits_as_it_reads(name: str) -> None:
    text, shapes, tensor, dim = CASES[name]
    program = next(iter(parse_programs(text).values()))
    rng = np.random.default_rng(1)
    arrays = [
        rng.integers(0, 8, s).astype(np.int32) if p.dtype.is_integer else rng.standard_normal(s).astype(np.float32)
        for p, s in zip(program.params, shapes)
    ]
    made: list[Any] = []

    def choose(p: Any) -> list[tuple[Choice, ...]]:
        made.extend(follow(tensor, dim)(p))
        return made

    actual, _ = evaluate_on_ranks(program, arrays, MESH, choose, wide=True)
    for split, whole in zip(actual, evaluate(program, arrays, wide=True)):
        np.testing.assert_allclose(split, whole, rtol=1e-12, atol=1e-12)
    assert not any(isinstance(c, Whole) for (c,) in made), made


def test_halo_of_a_convolution() -> None:
    program = next(iter(parse_programs("def f(float(18) X, float(3) K) -> (Y) { Y(h) +=! X(h+r) * K(r) }").values()))
    statement = SplitStatement(program.statements[0], (Own(0),), MESH, {})
    x, k = statement.needs
    assert x.axes == (Split(0),)
    assert k.axes == (REPLICATED,)
    # 16 rows of the result in fours; 18 of the input in fives, the last of which has three
    assert x.halo == ((0, 3, 1),)
